#!/usr/bin/env python3
"""Faults in a running cluster, and whether `kintsugi diagnose` names the culprit.

    scripts/lab/diagnosis/campaign.py record --injections 300 --journal campaign.journal [--faults interference|phases|gray] [--seed 1] [--bin build/test/bin]
                                             [--dir DIRECTORY]
    scripts/lab/diagnosis/campaign.py report --journal campaign.journal
    scripts/lab/diagnosis/campaign.py rates --journal campaign.journal... [--write]
    scripts/lab/diagnosis/campaign.py compare --journal campaign.journal --snapshots KEPT
    scripts/lab/diagnosis/campaign.py phases --journal phases.journal --snapshots KEPT
    scripts/lab/diagnosis/campaign.py healthy --minutes 240

`record` makes a cluster of ten chunkservers with its monitor below DIRECTORY, has four clients use it, and injects one fault after the other
(faults.py): drawn by seed and number, begun at a random pass of a random place, watched until five seconds after the first verdict, at most 25 s, ended,
and the cluster is left alone until it is healthy. What only makes things slow (`--faults interference`) is watched until 25 s after the first verdict, at
most 100 s. Those of `--faults phases` last 15 s each, after 25 s without one, and are judged by
`phases` (phases.py). Every injection is a line of the journal, also one that nothing passed by (a redraw), and a later run goes on after the last. It needs root
(control groups, a network of its own), nft, and tc for slow links. What it did is undone at the end, also after a signal.
Seeds 1 to 100 are for development; figures are quoted from others.

`report` and `compare` (judge.py) read journals and snapshots only. `healthy` makes no faults but what happens every day (restarts, a
server that is drained and comes back, storms of repairs, a reader that stops), and counts alarms. The program that
records does not know what is right, and the one that judges does not see the cluster.
"""

import argparse
import collections
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import judge
import phases
from faults import SERVERS, Fault, places_of
from load import Load
from watched import Watched, enter_own_network

AFTER, AFTER_SLOW, AFTER_GRAY, REACH, HEALTHY, PATIENCE = 5.0, 25.0, 60.0, 20.0, 3.0, 45.0
PROFILE = 40.0  # seconds for which the places that the load reaches are counted
PHASE, REST = 15.0, 25.0  # seconds that a fault of a phase is let do its work, and before each without one
WARM_UP = {"hangs": 10, "gray": 60, "interference": 200, "phases": 120}  # seconds: what is slow is known from what was usual


def kept(verdict):
    names = ("id", "kind", "server", "process_kind", "peer", "device", "region", "file", "line", "function", "confidence", "probability", "masked", "waiters",
             "line_of_text")
    return {**{name: verdict[name] for name in names}, "slice": [{name: place[name] for name in ("file", "line", "function")} for place in verdict["slice"]]}


class Seen:
    """The different verdicts of some time, each as it was first, with its latest confidence; without those of an earlier time."""

    def __init__(self, earlier=()):
        self.began = time.time()
        self.first = None
        self.reports = {}
        self.known = {identity for seen in earlier for identity in [*seen.known, *seen.reports]}

    def elapsed(self):
        return time.time() - self.began

    def add(self, verdicts):
        for verdict in verdicts or []:
            identity = f"{verdict['kind']} {verdict['server']} {verdict['peer']} {verdict['region']} {verdict['masked']}"
            if identity in self.known:
                continue
            if identity not in self.reports:
                self.reports[identity] = {**kept(verdict), "after": self.elapsed()}
                if verdict["kind"] != "client":  # which accuses no server: the fault is watched for longer
                    self.first = self.first or self.elapsed()
            self.reports[identity]["confidence"] = verdict["confidence"]

    def all(self):
        return sorted(self.reports.values(), key=lambda one: one["after"])


def wait_until_healthy(cluster, seen):
    since, began = None, time.time()
    while time.time() - began < PATIENCE:
        found = cluster.verdicts()
        seen.add(found)
        if found == []:
            since = since or time.time()
            if time.time() - since >= HEALTHY:
                return True
        else:
            since = None
        time.sleep(0.2)
    return False


def watch(fault, cluster, seen):
    """Seconds until the fault met something; None: nothing passed by in time."""
    reached = None
    while True:
        now = seen.elapsed()
        if reached is None:
            happened = fault.happened() if now < REACH else False
            if happened or (happened is None and fault.kind == "cpu-loop"):
                reached = now
            elif now >= REACH:
                return None
        seen.add(cluster.verdicts())
        if fault.avoidable and fault.avoided is None and cluster.avoids(fault.server):
            fault.avoided = seen.elapsed()
        now = seen.elapsed()
        if reached is not None and fault.set == "phases":
            if now - reached > PHASE:
                return reached
        elif fault.avoidable and fault.avoided is None and reached is not None and now - reached <= judge.AVOIDED_WITHIN:
            pass  # that it is gone around may come long after it is named
        elif reached is not None:
            if now - reached > (judge.WATCH_HARMLESS if fault.harmless else judge.WATCH_SLOW if fault.slow else judge.WATCH):
                return reached
            if seen.first is not None and now > max(seen.first, reached) + (AFTER_GRAY if fault.set == "gray" else AFTER_SLOW if fault.slow else AFTER):
                return reached
        time.sleep(0.2)


def passed_places(cluster):
    """All places of the code that the load reaches in some time: daemons count them only while a fault is set, here one that never happens."""
    daemons = {"metaserver": ["metaserver"], "chunkserver": [f"chunkserver-{number}" for number in range(1, SERVERS + 1)],
               "repair manager": [cluster.repair_manager.split()[-1]]}
    for name in [name for names in daemons.values() for name in names]:
        cluster.output("fault", "set", name, "heartbeat", "delay", "--skip", 10 ** 12)
    time.sleep(PROFILE)
    found = []
    for role, names in daemons.items():
        passed = [one for name in names for one in json.loads(cluster.output("fault", "list", name, "--json"))["points"]]
        found += places_of(role, len(names), passed, PROFILE)
    for name in [name for names in daemons.values() for name in names]:
        cluster.output("fault", "clear", name)
    return found


def inject(cluster, fault):
    before = Seen()
    before.add(cluster.verdicts())
    seen = Seen(earlier=[before])
    try:
        fault.begin()
        reached = watch(fault, cluster, seen)
    finally:
        fault.end()
    ended, aftermath = seen.elapsed(), Seen(earlier=[seen])
    healthy = wait_until_healthy(cluster, aftermath)
    return {"before": before.all(), "reached": reached, "verdicts": seen.all(), "ended": ended, "aftermath": aftermath.all(), "healthy_after": healthy}


def record(arguments):
    done = -1
    if arguments.journal.exists():
        done = max((json.loads(line)["number"] for line in arguments.journal.read_text().splitlines()), default=-1)
    enter_own_network()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    arguments.dir.mkdir(parents=True, exist_ok=True)
    work = pathlib.Path(tempfile.mkdtemp(prefix="diagnosis-", dir=arguments.dir)).resolve()
    cluster = Watched(arguments.bin.resolve(), work / "cluster", "behaviour = true\n" if arguments.behaviour else "")
    cluster.load = load = Load(cluster, work, arguments.seed, arguments.pace)
    try:
        load.start()
        time.sleep(WARM_UP[arguments.faults])
        wait_until_healthy(cluster, Seen())
        cluster.places = passed_places(cluster)
        for number in range(done + 1, arguments.injections):
            fault = Fault(random.Random(f"{arguments.seed} {number}"), cluster, arguments.faults, number)
            if arguments.only and fault.kind not in arguments.only:
                continue
            if fault.set == "phases":
                time.sleep(REST)
            began = time.time()
            result = inject(cluster, fault)  # what the fault describes afterwards holds where it happened
            line = json.dumps({"seed": arguments.seed, "number": number, "unix": began, "took": round(time.time() - began, 1), **fault.describe(), **result,
                               "pace": arguments.pace,
                               "load": [load.done, load.failed, load.wrong]})
            with open(arguments.journal, "a", encoding="utf-8") as journal:
                journal.write(line + "\n")
            says = "; ".join(v["line_of_text"] for v in result["verdicts"][:2]) or "nothing"
            print(f"{number}: {fault.kind} {fault.point} {fault.detail} at {fault.server} {fault.peer}: {says}", flush=True)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        load.stop()
        if arguments.keep:
            shutil.copytree(work / "cluster" / "data" / "monitor", arguments.keep, dirs_exist_ok=True)
        cluster.stop()
        shutil.rmtree(work, ignore_errors=True)


class Everyday:
    """What happens in a cluster without anything being wrong: one of these each minute, in turns, at servers drawn by seed."""

    def __init__(self, cluster, load, rng):
        self.cluster, self.load, self.rng = cluster, load, rng
        self.events = [self.restart_server, self.drain, self.reader_that_stops, self.undrain, self.storm, self.restart_metaserver]
        self.drained, self.running = None, []

    def next(self, number):
        event = self.events[number % len(self.events)]
        try:
            event()
        except subprocess.SubprocessError as error:  # an operation that a restart met
            print(f"{event.__name__}: {error}", flush=True)
        self.running = [one for one in self.running if one.poll() is None]

    def server(self):
        return f"chunkserver-{self.rng.randrange(1, 11)}"

    def restart_server(self):
        self.cluster.restart(self.server())

    def restart_metaserver(self):
        self.cluster.restart("metaserver")

    def drain(self):
        self.drained = self.server()
        self.load.run("server", "drain", self.drained)

    def undrain(self):  # the others have its chunks: now they are balanced anew
        self.load.run("server", "undrain", self.drained)

    def storm(self):
        stripe = json.loads(self.load.run("stat", "/kept", "--json"))["extents"][0]["stripe_id"]
        self.begin([f'"{self.cluster.kintsugi}" repair run --chunk {stripe}:{chunk} >/dev/null 2>&1' for chunk in range(9) for _ in range(2)])

    def reader_that_stops(self):
        self.begin([f'"{self.cluster.kintsugi}" cat /kept | (head -c 1000 >/dev/null; sleep 40; cat >/dev/null)'])

    def begin(self, commands):
        self.running += [subprocess.Popen(["sh", "-c", command], env=self.cluster.environment) for command in commands]

    def stop(self):
        for one in self.running:
            one.wait()


def healthy(arguments):
    enter_own_network()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    arguments.dir.mkdir(parents=True, exist_ok=True)
    work = pathlib.Path(tempfile.mkdtemp(prefix="healthy-", dir=arguments.dir)).resolve()
    cluster = Watched(arguments.bin.resolve(), work / "cluster", "behaviour = true\n")
    load = Load(cluster, work, arguments.seed, arguments.pace)
    everyday = Everyday(cluster, load, random.Random(f"healthy {arguments.seed}"))
    load.start()
    began, alarms, masked, minutes = time.time(), {}, {}, 0
    try:
        while time.time() - began < 60 * arguments.minutes:
            for verdict in cluster.verdicts() or []:
                kind = masked if verdict["masked"] else alarms
                if verdict["id"] not in kind:
                    kind[verdict["id"]] = verdict["kind"]
                    print(f"{time.time() - began:.0f} s: {verdict['line_of_text']}", flush=True)
            if time.time() - began > 60 * (minutes + 1):
                everyday.next(minutes)
                minutes += 1
            time.sleep(1)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        everyday.stop()
        load.stop()
        if arguments.keep:
            shutil.copytree(work / "cluster" / "data" / "monitor", arguments.keep, dirs_exist_ok=True)
        cluster.stop()
        shutil.rmtree(work, ignore_errors=True)
        beside = ", ".join(f"{count} {kind}" for kind, count in sorted(collections.Counter(masked.values()).items())) or "none"
        print(f"{(time.time() - began) / 60:.0f} minutes, {load.done} operations ({load.failed} failed, {load.wrong} wrong), {len(alarms)} alarms; "
              f"verdicts that hold nobody up: {beside}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    recording = commands.add_parser("record")
    recording.add_argument("--injections", type=int, default=300)
    recording.add_argument("--seed", type=int, default=1)
    recording.add_argument("--faults", choices=WARM_UP, default="hangs", help="what to draw from; interference makes things slow, and takes two minutes each")
    recording.add_argument("--only", nargs="+", default=[], help="leave out all other kinds of fault, for development")
    recording.add_argument("--journal", type=pathlib.Path, default=pathlib.Path("campaign.journal"))
    recording.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("build/test/bin"))
    recording.add_argument("--dir", type=pathlib.Path, default=pathlib.Path("."))
    recording.add_argument("--keep", type=pathlib.Path, help="copy the monitor's directory here, for `kintsugi-monitor analyse`")
    recording.add_argument("--behaviour", action="store_true", help="with the detector of odd executions (Guardian), which is off by default")
    recording.set_defaults(run=record)
    recording.add_argument("--pace", type=float, default=1, help="clients rest so many times longer: several campaigns side by side")
    judging = commands.add_parser("report")
    judging.add_argument("--journal", type=pathlib.Path, nargs="+", default=[pathlib.Path("campaign.journal")])
    judging.set_defaults(run=judge.report)
    rating = commands.add_parser("rates")
    rating.add_argument("--journal", type=pathlib.Path, nargs="+", required=True)
    rating.add_argument("--write", action="store_true", help="write them where `kintsugi diagnose` takes them from")
    rating.set_defaults(run=judge.rates)
    comparing = commands.add_parser("compare")
    comparing.add_argument("--journal", type=pathlib.Path, nargs="+", default=[pathlib.Path("campaign.journal")])
    comparing.add_argument("--snapshots", type=pathlib.Path, nargs="+", required=True, help="what `record --keep` kept, of each journal")
    comparing.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("build/test/bin"))
    comparing.set_defaults(run=judge.compare)
    windows = commands.add_parser("phases")
    windows.add_argument("--journal", type=pathlib.Path, nargs="+", required=True)
    windows.add_argument("--snapshots", type=pathlib.Path, nargs="+", required=True, help="what `record --keep` kept, of each journal")
    windows.add_argument("--only", nargs="+", default=[], help="kinds of fault; the others are left out")
    windows.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("build/test/bin"))
    windows.add_argument("--forms", action="store_true", help="judge the texts' groupings of windows instead (build the target window_forms)")
    windows.set_defaults(run=lambda arguments: (phases.judge_forms if arguments.forms else phases.judge)(arguments))
    quiet = commands.add_parser("healthy")
    quiet.add_argument("--minutes", type=float, default=240)
    quiet.add_argument("--seed", type=int, default=1)
    quiet.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("build/test/bin"))
    quiet.add_argument("--dir", type=pathlib.Path, default=pathlib.Path("."))
    quiet.add_argument("--pace", type=float, default=1, help="clients rest so many times longer")
    quiet.add_argument("--keep", type=pathlib.Path, help="copy the monitor's directory here, for `kintsugi-monitor analyse`")
    quiet.set_defaults(run=healthy)
    arguments = parser.parse_args()
    arguments.run(arguments)


if __name__ == "__main__":
    main()
