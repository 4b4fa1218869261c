#!/usr/bin/env python3
"""Judges what record.py recorded: which server and metric ORION names, and whether AUGURY tells a leak before its end.

    scripts/lab/metrics/judge.py DIRECTORY... [--bin build/test/bin] [--out FILE] [--methods orion orion-soon orion-text mean-shift leaks augury augury-text
                                 polynomial three-sigma rams rams-text processor-band blacksheep blacksheep-text metric-band metric-changes state-changes]

Methods that are not ours are run by `metric_forms` (a target). For each recording the first four fifths of its healthy time are what the detectors learn
from, the last fifth is a run without a fault. What foretells is scored by the first alarm of a run (Laguna 2012, 7.6.2): one before the fault began, or in a
run without a fault, is false; one before the end of the resource is a prediction. Runs whose leak did not end do not count there. After these methods each is
paired with the first of them: in which runs only one was right (McNemar, exact). RAMS and BlackSheep are scored by chunkserver: the faulty one of a run
should be accused, the others of that run and all of a run without a fault should not; of BlackSheep and what is compared with it also whether the first
finding at the faulty server names the state or the resource. `orion-soon` asks ORION half a window after clients noticed the fault,
about what happened since shortly before it. Rates have Wilson intervals of 95 %. `--out`: what each method said of each run, as JSON.
"""

import argparse
import json
import pathlib
import subprocess

from foretelling import DETECTED, FORETELL, judge_foretelling
from guilty import guilty_regions, is_guilty, names_cause
from operations import Operations
from shares import balanced, share

STEADY = ["hang", "delay", "busy", "deadlock", "lock"]  # they reach no limit: they end in an operation that fails or is slow

PAST = 240  # seconds before a fault that RAMS learns a process's own line from
LOCALISE = ["orion", "orion-soon", "orion-text", "mean-shift"]
BEFORE = 15  # seconds before a fault that are judged with the first seconds of it
FORMS = ["augury-text", "augury-text-ahead", "polynomial", "three-sigma", "mean-shift", "processor-band", "metric-band", "metric-changes", "state-changes"]
BESIDE_LOGS = ["blacksheep", "blacksheep-text", "metric-band", "metric-changes", "state-changes"]  # they are asked about the time of the fault alone


class Recording:
    def __init__(self, directory, binaries):
        self.name, self.monitor, self.forms = directory.name, binaries / "kintsugi-monitor", binaries / "metric_forms"
        self.runs, self.traces, self.healthy = [], [], []
        operations = Operations(directory)
        trace = None
        for line in (directory / "runs.jsonl").read_text().splitlines():
            run = json.loads(line)
            if run["kind"] == "healthy":
                trace = directory / f"trace-{run['after'] + 1}"
                cut = run["began"] + 0.8 * (run["ended"] - run["began"])
                self.healthy.append((trace, run["began"], cut))
                run = {"kind": "none", "number": -1, "server": "", "began": cut, "fault_began": cut, "failed": None, "ended": run["ended"], "load": 1}
            if run["kind"] in STEADY and self.healthy:
                run["failed"] = operations.first_failure(run["fault_began"], run["ended"], self.healthy)
            if trace is not None and trace.exists():
                self.runs.append({**run, "trace": trace})
        servers = next((run["servers"] for run in self.runs if "servers" in run), 10)
        for run in self.runs:
            run.setdefault("servers", servers)

    def judge(self, method, healthy, trace, begin, end):
        if method in FORMS:
            words = [self.forms, method, f"{healthy[0]}@{healthy[1]:.2f}..{healthy[2]:.2f}", f"{trace}@{begin:.2f}..{end:.2f}"]
            if method == "state-changes":
                words.append(f"{trace}.logs")
            return json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
        words = [self.monitor, "judge", "--json", "--method", method, f"{trace}@{begin:.2f}..{end:.2f}"]
        if method.startswith("blacksheep"):
            words += ["--logs", f"{trace}.logs"]
        if method not in ("limits", "rams-text"):
            words += ["--healthy", f"{healthy[0]}@{healthy[1]:.2f}..{healthy[2]:.2f}"]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode not in (0, 3):
            raise RuntimeError(done.stderr)
        return json.loads(done.stdout)

    def healthy_of(self, run):
        return next(one for one in self.healthy if one[0] == run["trace"])


def judge_orion(recordings, method, said):
    """The text's form names no server and accuses nobody; the ranking by means puts the server first whose mean moved most."""
    faulty = servers = metrics = accused = healthy = sites = open_sites = with_site = 0
    kinds = {}
    soon, method_of_monitor = method == "orion-soon", method.removesuffix("-soon")
    for recording in recordings:
        for run in recording.runs:
            begin, end = run["fault_began"], run["ended"] if run["kind"] in STEADY else run["failed"] or run["ended"]
            if soon:
                begin, end = begin - BEFORE, (run["failed"] or run["fault_began"]) + DETECTED
            found = recording.judge(method_of_monitor, recording.healthy_of(run), run["trace"], begin, end)
            found = [one for one in found if "metrics" in one]
            if method == "mean-shift":
                found.sort(key=lambda one: -one["excess"])
            blamed = [one for one in found if one.get("accused", True)]  # ORION also names processes without peers, and does not accuse them
            if run["kind"] == "none":
                healthy += 1
                accused += bool(blamed) if method_of_monitor == "orion" else 0
                continue
            faulty += 1
            kinds.setdefault(run["kind"], [])
            right = [one for one in found if one["server"] == run["server"]]
            first = bool(blamed) and blamed[0]["server"] == run["server"] and method != "orion-text"
            named = bool(right) and is_guilty(run, *[name for metric in right[0]["metrics"] for name in [metric["name"], *metric.get("aliases", [])]])
            servers, metrics = servers + first, metrics + named
            look_at = [[region["name"], *region["aliases"]] for region in right[0].get("look_at", [])] if right else []
            regions = [region["name"] for region in right[0].get("regions", [])] if right else []
            with_site += bool(guilty_regions(run))
            at_site = any(name in guilty_regions(run) for region in look_at for name in region)
            sites += at_site
            open_sites += any(region in guilty_regions(run) for region in regions)
            kinds[run["kind"]].append((first, named, at_site))
            said.append({"method": method, "recording": recording.name, "run": run["number"], "kind": run["kind"], "load": run["load"], "first": first, "named": named,
                         "look_at": look_at, "regions": regions, "found": found})
            print(f"  {method} {run['number']}: {run['kind']} at {run['server']}, load {run['load']}: " +
                  "; ".join(f"{one['server']} {one.get('excess', 0):.1f}: " + ", ".join(metric["name"] for metric in one["metrics"]) for one in found[:2]))
    def of_kinds(which):
        return ", ".join(f"{kind} {sum(hit[which] for hit in hits)} of {len(hits)}" for kind, hits in sorted(kinds.items()))
    print(f"| {method} | guilty metric in the top 3 of the faulty server | {share(metrics, faulty)}: {of_kinds(1)} |")
    if method != "orion-text":
        print(f"| {method} | faulty server first | {share(servers, faulty)}: {of_kinds(0)} |")
    if method_of_monitor == "orion":
        print(f"| {method} | a region of the fault in the top 3 of the faulty server | {share(sites, with_site)}: {of_kinds(2)} |")
        print(f"| {method} | the same by the regions that were open alone | {share(open_sites, with_site)} |")
        print(f"| {method} | healthy runs accused | {share(accused, healthy)} |")


def findings_in(recording, run, method):
    begin = run["fault_began"] if method in BESIDE_LOGS else run["fault_began"] - PAST
    return recording.judge(method, recording.healthy_of(run), run["trace"], begin, run["ended"])


def accused_in(run, method, found):
    """(chunkserver, how strongly) for those that the method judged in the run's time; strength 0: not accused."""
    out = {f"chunkserver-{number}": 0.0 for number in range(1, run["servers"] + 1)}
    for one in found:
        if not one.get("accused", True):
            continue  # the method says that another process may be why
        if "not_judged" in one:
            out.pop(one["server"], None)
        elif one["server"] in out and method == "rams-text":
            out[one["server"]] = 1 - one["p"]
        elif one["server"] in out and one["t_ns"] / 1e9 >= run["fault_began"]:
            out[one["server"]] = max(out[one["server"]], one.get("excess", 1.0))
    return out


def judge_nodes(recordings, method, said):
    threshold = 0.99 if method == "rams-text" else 1e-9
    faulty, healthy, kinds, first = [], [], {}, 0
    detections, right_server, right_cause, healthy_runs, healthy_accused = 0, 0, 0, 0, 0
    for recording in recordings:
        for run in recording.runs:
            found = findings_in(recording, run, method)
            strengths = accused_in(run, method, found)
            strongest = max(strengths, key=strengths.get, default=None)
            if strengths and strengths[strongest] > threshold:
                detections += run["kind"] != "none"
                right_server += strongest == run["server"] and run["kind"] != "none"
                right_cause += strongest == run["server"] and run["kind"] != "none" and names_cause(run, found)
                healthy_accused += run["kind"] == "none"
            healthy_runs += run["kind"] == "none"
            guilty = strengths.pop(run["server"], None) if run["kind"] != "none" else None
            healthy += strengths.values()
            said.append({"method": method, "recording": recording.name, "run": run["number"], "kind": run["kind"], "guilty": guilty, "others": strengths,
                         "found": found if method in BESIDE_LOGS else []})
            if guilty is not None:
                faulty.append(guilty)
                first += guilty > max(strengths.values(), default=0)
                kinds.setdefault(run["kind"], []).append(guilty > threshold)
                print(f"  {method} {run['number']}: {run['kind']} at {run['server']}: {guilty:.2f}; others {sorted(strengths.values())[-3:]}")
    right, quiet = sum(one > threshold for one in faulty), sum(one <= threshold for one in healthy)
    print(f"| {method} | faulty servers accused | {share(right, len(faulty))}: " + ", ".join(f"{kind} {sum(hits)} of {len(hits)}" for kind, hits in kinds.items()) + " |")
    print(f"| {method} | healthy servers not accused | {share(quiet, len(healthy))} |")
    print(f"| {method} | balanced accuracy | {balanced(right, len(faulty), quiet, len(healthy)):.2f} |")
    print(f"| {method} | healthy runs in which nobody is accused | {share(healthy_runs - healthy_accused, healthy_runs)} |")
    print(f"| {method} | balanced accuracy of runs | {balanced(right, len(faulty), healthy_runs - healthy_accused, healthy_runs):.2f} |")
    if method in BESIDE_LOGS:
        print(f"| {method} | right server in detections | {share(right_server, detections)} |")
        print(f"| {method} | right server and right state or resource in detections | {share(right_cause, detections)} |")
    print(f"| {method} | the faulty server accused most strongly | {share(first, len(faulty))} |")
    best = max((balanced(sum(x > t for x in faulty), len(faulty), sum(x <= t for x in healthy), len(healthy)) for t in [*faulty, *healthy]), default=0)
    print(f"| {method} | balanced accuracy at the best of all thresholds, for comparison | {best:.2f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directories", type=pathlib.Path, nargs="+")
    parser.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("build/test/bin"))
    parser.add_argument("--methods", nargs="+", default=["orion", "orion-text", "augury"])
    parser.add_argument("--out", type=pathlib.Path)
    arguments = parser.parse_args()
    recordings = [Recording(directory, arguments.bin.resolve()) for directory in arguments.directories]
    said = []
    for method in arguments.methods:
        if method in LOCALISE:
            judge_orion(recordings, method, said)
        elif method not in FORETELL:
            judge_nodes(recordings, method, said)
    judge_foretelling(recordings, [method for method in arguments.methods if method in FORETELL], said)
    if arguments.out:
        arguments.out.write_text("".join(json.dumps(one) + "\n" for one in said))


if __name__ == "__main__":
    main()
