#!/usr/bin/env python3
"""Faults in a running cluster, and whether `kintsugi diagnose` names the culprit.

    scripts/lab/diagnosis/campaign.py record --injections 300 --journal campaign.journal [--seed 1] [--bin build/release/bin] [--dir DIRECTORY]
    scripts/lab/diagnosis/campaign.py report --journal campaign.journal
    scripts/lab/diagnosis/campaign.py compare --journal campaign.journal --snapshots KEPT
    scripts/lab/diagnosis/campaign.py healthy --minutes 240

`record` makes a cluster of ten chunkservers with its monitor below DIRECTORY, has four clients use it, and injects one fault after the other
(faults.py): drawn by seed and number, begun at a random pass of a random place, watched until five seconds after the first verdict, at most 25 s, ended,
and the cluster is left alone until it is healthy. Every injection is a line of the journal, also one that nothing passed by (a redraw), and a later
run goes on after the last. Root is needed for control groups. Seeds 1 to 100 are for development; figures are quoted from others.

`report` reads journals only. `compare` runs other methods, the texts' own among them, over the snapshots that were kept meanwhile (`record --keep`). `healthy` makes no
faults but restarts servers, and counts alarms. The program that records does not know what is right, and the one that judges does not see the cluster.
"""

import argparse
import collections
import json
import math
import os
import pathlib
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from compare import Cluster  # noqa: E402
from faults import Fault  # noqa: E402
from load import Load  # noqa: E402

METHODS = ["waits", "waits-only", "targets-hidden", "prodometer", "automaded", "automaded-semi", "oldest-span", "silence"]
WATCH, AFTER, REACH, HEALTHY, PATIENCE = 25.0, 5.0, 20.0, 3.0, 90.0


class Watched(Cluster):
    def __init__(self, binaries, directory):
        super().__init__(binaries, directory)
        config = self.directory / "etc" / "monitor.toml"
        # Every second is kept: other methods are judged on the same snapshots.
        config.write_text(config.read_text() + 'snapshot_interval = "1s"\nsnapshot_bytes = "4GiB"\n')
        os.kill(self.pid("monitor"), signal.SIGTERM)
        time.sleep(2)
        subprocess.run([self.kintsugi, "cluster", "start", "--dir", self.directory], check=True, stdout=subprocess.DEVNULL)
        lines = (self.directory / "env").read_text().splitlines()
        for line in lines:
            words = line.removeprefix("export ").split("=", 1)
            if words[0] == "KINTSUGI_MONITOR":
                self.environment["KINTSUGI_MONITOR"] = words[1].strip("'\"")

    def pid(self, name):
        return int((self.directory / "run" / f"{name}.pid").read_text().split()[0])

    def output(self, *words):
        return subprocess.run([self.kintsugi, *map(str, words)], env=self.environment, check=True, capture_output=True, text=True, timeout=8).stdout

    def verdicts(self):
        """None: nobody answered in time."""
        try:
            out = subprocess.run([self.kintsugi, "diagnose", "--json"], env=self.environment, capture_output=True, text=True, timeout=4).stdout
            answer = json.loads(out)
        except (subprocess.SubprocessError, ValueError):
            return None
        return None if answer["reduced"] else answer["verdicts"]


def kept(verdict):
    names = ("id", "kind", "server", "process_kind", "peer", "device", "region", "file", "line", "function", "confidence", "probability", "masked", "waiters",
             "line_of_text")
    return {name: verdict[name] for name in names}


def wait_until_healthy(cluster):
    since, began = None, time.time()
    while time.time() - began < PATIENCE:
        found = cluster.verdicts()
        if found == []:
            since = since or time.time()
            if time.time() - since >= HEALTHY:
                return True
        else:
            since = None
        time.sleep(0.3)
    return False


def inject(cluster, fault):
    result = {"healthy_before": wait_until_healthy(cluster)}
    fault.begin()
    began = time.time()
    reached, reports, first = None, {}, None
    while True:
        now = time.time() - began
        if reached is None:
            happened = fault.happened() if now < REACH else False
            if happened or (happened is None and fault.kind == "cpu-loop"):
                reached = time.time() - began
            elif now >= REACH:
                break
        for verdict in cluster.verdicts() or []:
            identity = f"{verdict['kind']} {verdict['server']} {verdict['region']} {verdict['masked']}"
            if identity not in reports:
                reports[identity] = {**kept(verdict), "after": time.time() - began}
                if first is None:
                    first = time.time() - began
            reports[identity]["confidence"] = verdict["confidence"]
        now = time.time() - began
        if reached is not None and (now - reached > WATCH or (first is not None and now > max(first, reached) + AFTER)):
            break
        time.sleep(0.25)
    fault.end()
    return {**result, "reached": reached, "verdicts": sorted(reports.values(), key=lambda one: one["after"])}


def record(arguments):
    done = -1
    if arguments.journal.exists():
        done = max((json.loads(line)["number"] for line in arguments.journal.read_text().splitlines()), default=-1)
    work = pathlib.Path(tempfile.mkdtemp(prefix="diagnosis-", dir=arguments.dir)).resolve()
    cluster = Watched(arguments.bin.resolve(), work / "cluster")
    load = Load(cluster, work, arguments.seed)
    load.start()
    time.sleep(10)
    try:
        for number in range(done + 1, arguments.injections):
            fault = Fault(random.Random(f"{arguments.seed} {number}"), cluster)
            began = time.time()
            result = inject(cluster, fault)
            line = json.dumps({"seed": arguments.seed, "number": number, "unix": began, "took": round(time.time() - began, 1), **fault.describe(), **result,
                               "load": [load.done, load.failed, load.wrong]})
            with open(arguments.journal, "a", encoding="utf-8") as journal:
                journal.write(line + "\n")
            says = "; ".join(v["line_of_text"] for v in result["verdicts"][:2]) or "nothing"
            print(f"{number}: {fault.kind} {fault.point} {fault.detail} at {fault.server}: {says}", flush=True)
    finally:
        load.stop()
        if arguments.keep:
            shutil.copytree(work / "cluster" / "data" / "monitor", arguments.keep, dirs_exist_ok=True)
        cluster.stop()
        shutil.rmtree(work, ignore_errors=True)


# ---- judging

def wilson(hits, count):
    if count == 0:
        return 0.0, 1.0
    z, p = 1.96, hits / count
    middle, half = p + z * z / (2 * count), z * math.sqrt(p * (1 - p) / count + z * z / (4 * count * count))
    return (middle - half) / (1 + z * z / count), (middle + half) / (1 + z * z / count)


def is_right(injection, verdict):
    return injection["server"] in (verdict["server"], verdict["peer"])


def has_region(injection, verdict):
    return any(part.lower() in verdict["region"].lower() for part in injection["regions"])


def share(hits, count):
    low, high = wilson(hits, count)
    return f"{hits} of {count} ({100 * hits / max(1, count):.1f} %, {100 * low:.1f} to {100 * high:.1f})"


def report(arguments):
    injections = [json.loads(line) for path in arguments.journal for line in path.read_text().splitlines()]
    redraws = [one for one in injections if one["reached"] is None]
    judged = [one for one in injections if one["reached"] is not None]
    verdicts = [(one, verdict) for one in judged for verdict in one["verdicts"]]
    named = [one for one in judged if any(is_right(one, v) for v in one["verdicts"])]
    certain = [(one, v) for one, v in verdicts if v["confidence"] == "certain"]
    with_region = [one for one in judged if one["regions"]]
    first_right = [one for one in with_region if one["verdicts"] and is_right(one, one["verdicts"][0]) and has_region(one, one["verdicts"][0])]
    delays = sorted(max(0.0, min(v["after"] for v in one["verdicts"] if is_right(one, v)) - one["reached"]) for one in named)
    outside = sum(one["class"] == "outside" for one in judged)
    print(f"{len(judged)} injections, {outside} of them without a fault point; {len(redraws)} redraws\n")
    print("| | |\n| --- | --- |")
    print(f"| faulty server among those named | {share(len(named), len(judged))} |")
    print(f"| right of all verdicts | {share(sum(is_right(*pair) for pair in verdicts), len(verdicts))} |")
    print(f"| right of those called certain | {share(sum(is_right(*pair) for pair in certain), len(certain))} |")
    print(f"| region right at first place | {share(len(first_right), len(with_region))} |")
    if delays:
        print(f"| from the fault to the right line, s | median {statistics.median(delays):.1f}, p95 {delays[int(0.95 * (len(delays) - 1))]:.1f} |")
    print("\n| fault | named | right verdicts |\n| --- | --- | --- |")
    kinds = collections.defaultdict(list)
    for one in judged:
        kinds[" ".join(filter(None, [one["kind"], one["point"], one["detail"]]))].append(one)
    for kind, ones in sorted(kinds.items()):
        all_of = [(one, v) for one in ones for v in one["verdicts"]]
        print(f"| {kind} | {sum(one in named for one in ones)} of {len(ones)} | {sum(is_right(*pair) for pair in all_of)} of {len(all_of)} |")
    print("\nMisses and wrong verdicts:")
    for one in judged:
        wrong = [v for v in one["verdicts"] if not is_right(one, v)]
        if one in named and not wrong:
            continue
        said = "; ".join(v["line_of_text"] for v in wrong) or "nothing"
        print(f"- {one['seed']}/{one['number']}: {one['kind']} {one['point']} {one['detail']} at {one['server']}: {'named, and ' if one in named else ''}{said}")


def mcnemar(only_first, only_second):
    """The exact two-sided probability of so uneven a split of the pairs that differ."""
    count = only_first + only_second
    if count == 0:
        return 1.0
    tail = sum(math.comb(count, i) for i in range(min(only_first, only_second) + 1)) / 2 ** count
    return min(1.0, 2 * tail)


def compare(arguments):
    judged = [one for line in arguments.journal.read_text().splitlines() if (one := json.loads(line))["reached"] is not None]
    outcomes = {}
    print("| method | faulty server named | right of all it named | McNemar p against ours |\n| --- | --- | --- | --- |")
    for method in METHODS:
        out = subprocess.run([arguments.bin / "kintsugi-monitor", "analyse", "--method", method, arguments.snapshots], check=True, capture_output=True,
                             text=True).stdout
        rounds = [json.loads(line) for line in out.splitlines()]
        outcomes[method], right, reported = [], 0, 0
        for one in judged:
            begin = one["unix"] + one["reached"]
            servers = {verdict["server"] for each in rounds if begin <= each["unix_s"] <= begin + WATCH and each["unix_s"] <= one["unix"] + one["took"]
                       for verdict in each["verdicts"]}
            outcomes[method].append(one["server"] in servers)
            right += one["server"] in servers
            reported += len(servers)
        ours = outcomes[METHODS[0]]
        first = sum(a and not b for a, b in zip(ours, outcomes[method]))
        second = sum(b and not a for a, b in zip(ours, outcomes[method]))
        print(f"| {method} | {share(sum(outcomes[method]), len(judged))} | {share(right, reported)} | {mcnemar(first, second):.2g} |")


def healthy(arguments):
    work = pathlib.Path(tempfile.mkdtemp(prefix="healthy-", dir=arguments.dir)).resolve()
    cluster = Watched(arguments.bin.resolve(), work / "cluster")
    load = Load(cluster, work, arguments.seed)
    load.start()
    began, alarms, rng = time.time(), {}, random.Random(f"healthy {arguments.seed}")
    restart = began + 60
    try:
        while time.time() - began < 60 * arguments.minutes:
            for verdict in cluster.verdicts() or []:
                if not verdict["masked"] and verdict["id"] not in alarms:
                    alarms[verdict["id"]] = verdict["line_of_text"]
                    print(f"{time.time() - began:.0f} s: {verdict['line_of_text']}", flush=True)
            if time.time() > restart:  # a restart is no fault
                name = f"chunkserver-{rng.randrange(1, 11)}"
                os.kill(cluster.pid(name), signal.SIGTERM)
                time.sleep(1)
                subprocess.run([cluster.kintsugi, "cluster", "start", "--dir", cluster.directory], check=True, stdout=subprocess.DEVNULL)
                restart = time.time() + 60
            time.sleep(1)
    finally:
        load.stop()
        cluster.stop()
        shutil.rmtree(work, ignore_errors=True)
    print(f"{(time.time() - began) / 60:.0f} minutes, {load.done} operations ({load.failed} failed, {load.wrong} wrong), {len(alarms)} alarms")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    recording = commands.add_parser("record")
    recording.add_argument("--injections", type=int, default=300)
    recording.add_argument("--seed", type=int, default=1)
    recording.add_argument("--journal", type=pathlib.Path, default=pathlib.Path("campaign.journal"))
    recording.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("build/release/bin"))
    recording.add_argument("--dir", type=pathlib.Path, default=pathlib.Path("."))
    recording.add_argument("--keep", type=pathlib.Path, help="copy the monitor's directory here, for `kintsugi-monitor analyse`")
    recording.set_defaults(run=record)
    judging = commands.add_parser("report")
    judging.add_argument("--journal", type=pathlib.Path, nargs="+", default=[pathlib.Path("campaign.journal")])
    judging.set_defaults(run=report)
    comparing = commands.add_parser("compare")
    comparing.add_argument("--journal", type=pathlib.Path, default=pathlib.Path("campaign.journal"))
    comparing.add_argument("--snapshots", type=pathlib.Path, required=True, help="what `record --keep` kept")
    comparing.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("build/release/bin"))
    comparing.set_defaults(run=compare)
    quiet = commands.add_parser("healthy")
    quiet.add_argument("--minutes", type=float, default=240)
    quiet.add_argument("--seed", type=int, default=1)
    quiet.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("build/release/bin"))
    quiet.add_argument("--dir", type=pathlib.Path, default=pathlib.Path("."))
    quiet.set_defaults(run=healthy)
    arguments = parser.parse_args()
    arguments.run(arguments)


if __name__ == "__main__":
    main()
