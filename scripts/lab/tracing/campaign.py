#!/usr/bin/env python3
"""Bugs in one of twelve servers, and whether `kintsugi trace explain` names the server and the function.

    scripts/lab/tracing/campaign.py record --seeds 1 --runs 40 --clean 10 --massive 2 --journal tracing.journal --traces traces [--bin build/test/bin]
    scripts/lab/tracing/campaign.py explain --journal tracing.journal --traces traces [--bin build/test/bin]
    scripts/lab/tracing/campaign.py report --journal tracing.journal
    scripts/lab/tracing/campaign.py at-once [--bin build/test/bin]

`record` makes a cluster (recorded.py), and for each run has all its servers record themselves while eight clients at a time use it (load.py). One bug is planted
a run (bugs.py), drawn by the seed of the run, which is --seeds plus its number: the four classes in turn, each half of the time without a fault point.
What a right answer would be is written to the journal before the bug begins, and what happened after it; a later `record` goes on after the last run.
A run without a bug comes first and is not judged: `explain` gives it to the analysis as one that was well. Needs root (control groups, a
network of its own, memory of processes). Seeds 1 to 100 are for development; figures are quoted from others.

`explain` asks the analysis, with the run that was well (and with --alone also without it), and writes what it says to the journal; `report` (scores.py) judges that, and reads
nothing but journals. `at-once` (at_once.py) measures in how far the requests of concurrent commands are told apart.
"""

import argparse
import collections
import concurrent.futures
import json
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from recorded import RecordedCluster, Recording

import at_once
import patched_code
import scores
from bugs import CLASSES, Bug
from load import Load
from watched import enter_own_network

NORMAL, LOADED = 1, 6.5  # runs that are known to be well; seconds of load a run at least
NO_CACHE = "cache.memory = 0\n"  # so that reads come to disks


def lines_of(journal):
    return [json.loads(line) for line in journal.read_text().splitlines()] if journal.exists() else []


def write_line(journal, **fields):
    with open(journal, "a", encoding="utf-8") as file:
        file.write(json.dumps(fields) + "\n")


def plan(arguments):
    """(number, what, without a fault point), in the order of the runs."""
    runs = [("normal", True)] * NORMAL
    judged = [(CLASSES[number % 4], number // 4 % 2 == 0) for number in range(arguments.runs)]
    others = [("clean", True)] * arguments.clean + [("massive", number % 2 == 0) for number in range(arguments.massive)]
    # Clean runs stand among the others, so that they have the same machine.
    random.Random(arguments.seeds).shuffle(judged)
    every = max(1, len(judged) // max(1, len(others)))
    for number, one in enumerate(others):
        judged.insert(min(len(judged), (number + 1) * every + number), one)
    return [(number, *one) for number, one in enumerate(runs + judged)]


def make_cluster(arguments, work):
    cluster = RecordedCluster(arguments.bin.resolve(), work / "cluster")
    for name in cluster.names:
        settings = cluster.settings_of(name)
        settings.write_text(NO_CACHE + settings.read_text())
    subprocess.run([cluster.kintsugi, "cluster", "stop", "--dir", cluster.directory], check=True, stdout=subprocess.DEVNULL)
    cluster.start_again()
    return cluster


def functions_met(arguments, file):
    """Functions of a chunkserver that the load reaches about once a second or more often, and whose code can be changed."""
    shown = subprocess.run([arguments.bin / "kintsugi", "trace", "show", file, "--json"], check=True, capture_output=True, text=True).stdout
    counts = collections.Counter(record["function"] for thread in json.loads(shown)["threads"] for record in thread["records"] if record["event"] == "enter")
    known = patched_code.functions_of(arguments.bin / "kintsugi-chunkserver")
    return {name for name, count in counts.items() if count >= LOADED and name in known and name.startswith("chunkserver::")}


def run_one(arguments, cluster, load, number, bug, journal):
    """Records one run. The truth stands in the journal before the bug begins."""
    seed = arguments.seeds + number
    directory = arguments.traces / f"run-{number}"
    shutil.rmtree(directory, ignore_errors=True)
    known = bug.prepare()
    write_line(journal, line="truth", seed=seed, number=number, unix=time.time(), **{**bug.describe(), **known})
    recording = Recording(cluster, directory)
    try:
        recording.begin()
        load.start(seed)
        began = time.time()
        time.sleep(bug.after)
        at = time.time()
        bug.begin()
        met = bug.watch()
        bug.end()
        ended = time.time()
        time.sleep(max(1.5, LOADED - (time.time() - began)))
    finally:
        load.stop()
        files = recording.end()
        bug.end()
        bug.undo()
    write_line(journal, line="done", seed=seed, number=number, met=met, bug_seconds=round(ended - at, 2), seconds=round(time.time() - began, 1), files=len(files),
               bytes=sum(pathlib.Path(file).stat().st_size for file in files), load=[load.done, load.failed, load.wrong])
    print(f"{number}: {bug.what} {bug.kind} at {bug.server or 'all'}: {'met' if met else 'NOT MET'}; {load.done} operations, {load.failed} failed, "
          f"{len(files)} traces", flush=True)


def record(arguments):
    done = {line["number"] for line in lines_of(arguments.journal) if line["line"] == "done"}
    enter_own_network()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    arguments.traces.mkdir(parents=True, exist_ok=True)
    work = pathlib.Path(tempfile.mkdtemp(prefix="tracing-", dir=arguments.dir)).resolve()
    cluster = make_cluster(arguments, work)
    try:
        load = Load(cluster, work, arguments.seeds)
        load.prepare()
        met_functions = set()
        for number, what, outside in plan(arguments):
            # A cluster of its own has runs of its own that are known to be well.
            if number in done and what != "normal":
                continue
            if arguments.only and what not in (*arguments.only, "normal"):
                continue
            rng = random.Random(f"bug {arguments.seeds + number}")
            bug = Bug(rng, cluster, load, what, outside, met_functions)
            run_one(arguments, cluster, load, number, bug, arguments.journal)
            if what == "normal" and not met_functions:
                met_functions = functions_met(arguments, arguments.traces / f"run-{number}" / "chunkserver-1")
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        cluster.stop()
        shutil.rmtree(work, ignore_errors=True)


def traces_of(arguments, number):
    return sorted((arguments.traces / f"run-{number}").iterdir())


def ask(arguments, files, normal):
    command = [arguments.bin / "kintsugi", "trace", "explain", *files, "--json", "--binary", arguments.bin]
    command += ["--normal", *normal, "--least", arguments.least] if normal else []
    began = time.time()
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    answers = json.loads(done.stdout)["answers"] if done.returncode == 0 else []
    return answers, {"seconds": round(time.time() - began, 2), "failure": done.stderr.strip() if done.returncode != 0 else ""}


def explain(arguments):
    lines = lines_of(arguments.journal)
    kinds = {line["number"]: line["kind"] for line in lines if line["line"] == "truth"}
    answered = {(line["number"], line["known_normal"]) for line in lines if line["line"] == "answers"}
    normal = [file for number in arguments.normal for file in traces_of(arguments, number)]
    open_ones = [(line["number"], known) for line in lines if line["line"] == "done" for known in ((True, False) if arguments.alone else (True,))
                 if line["number"] not in arguments.normal and (line["number"], known) not in answered]
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as threads:
        for (number, known), (answers, how) in zip(open_ones, threads.map(lambda one: ask(arguments, traces_of(arguments, one[0]), normal if one[1] else []), open_ones)):
            write_line(arguments.journal, line="answers", number=number, known_normal=known, normal=arguments.normal, **how, answers=answers)
            said = next((answer for answer in answers if answer["finding"] in scores.ACCUSES), None)
            print(f"{number} {kinds[number]}: {how['seconds']} s; {said['text'].splitlines()[0] if said else 'nobody is accused'} {how['failure']}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--journal", type=pathlib.Path, default=pathlib.Path("tracing.journal"))
    common.add_argument("--traces", type=pathlib.Path, default=pathlib.Path("traces"), help="directory of the recordings")
    common.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("build/test/bin"))
    common.add_argument("--dir", type=pathlib.Path, default=pathlib.Path("."), help="where the cluster is made, on a disk that control groups can throttle")
    recording = commands.add_parser("record", parents=[common])
    recording.add_argument("--seeds", type=int, default=1, help="seed of the first run")
    recording.add_argument("--runs", type=int, default=40, help="runs with a bug")
    recording.add_argument("--clean", type=int, default=10)
    recording.add_argument("--massive", type=int, default=2)
    recording.add_argument("--only", nargs="+", default=[], help="leave out all other classes, for development")
    recording.set_defaults(run=record)
    asking = commands.add_parser("explain", parents=[common])
    asking.add_argument("--normal", type=int, nargs="+", default=list(range(NORMAL)), help="numbers of the runs that are given as runs that were well")
    asking.add_argument("--least", type=float, default=1.0, help="seconds that a request has to lose: bugs take three of them")
    asking.add_argument("--jobs", type=int, default=1)
    asking.add_argument("--alone", action="store_true", help="ask also without the run that was well")
    asking.set_defaults(run=explain)
    judging = commands.add_parser("report")
    judging.add_argument("--journal", type=pathlib.Path, nargs="+", required=True)
    judging.set_defaults(run=scores.report)
    concurrent = commands.add_parser("at-once", parents=[common])
    concurrent.set_defaults(run=at_once.measure)
    arguments = parser.parse_args()
    arguments.run(arguments)


if __name__ == "__main__":
    main()
