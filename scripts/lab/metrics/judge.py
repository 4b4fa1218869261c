#!/usr/bin/env python3
"""Judges what record.py recorded: which server and metric ORION names, and whether AUGURY tells a leak before its end.

    scripts/lab/metrics/judge.py DIRECTORY... [--bin build/test/bin] [--methods orion orion-text augury rams rams-text blacksheep limits]

For each recording the first four fifths of its healthy time are what the detectors learn from, the last fifth is a run without a fault. AUGURY is scored by
the first alarm of a run (Laguna 2012, 7.6.2): one before the fault began, or in a run without a fault, is false; one before the end of the resource is a
prediction. Runs whose leak did not end count only for ORION. RAMS and BlackSheep are scored by chunkserver: the faulty one of a run should be accused, the
others of that run and all of a run without a fault should not. Rates have Wilson intervals of 95 %.
"""

import argparse
import json
import math
import pathlib
import statistics
import subprocess

PAST = 240  # seconds before a fault that RAMS learns a process's own line from
TRAFFIC = ["calls", "read_bytes", "written_bytes", "link_bytes", "rx_", "tx_", "connections", "loop_lag"]
GUILTY = {"sockets": ["fds", "sockets_inuse", "rpc_connections"],
          "connections": ["fds", "sockets_inuse", "rpc_connections", "TcpCurrEstab"],
          "hog": ["cpu", "run_delay", "utime", "stime", "ctxt_switches", "loop_lag"],
          "hang": TRAFFIC, "delay": TRAFFIC,
          "memory": ["rss", "RssAnon", "VmData", "vsize", "resident_memory", "minflt", "page_faults"]}


def share(right, of):
    if of == 0:
        return "-"
    z, p = 1.96, right / of
    middle, half = (p + z * z / (2 * of)) / (1 + z * z / of), z * math.sqrt(p * (1 - p) / of + z * z / (4 * of * of)) / (1 + z * z / of)
    return f"{right} of {of} ({100 * p:.0f} %, {100 * (middle - half):.0f} to {100 * (middle + half):.0f})"


def is_guilty(run, *names):
    return any(part in name for name in names for part in GUILTY[run["kind"]])


class Recording:
    def __init__(self, directory, binaries):
        self.monitor = binaries / "kintsugi-monitor"
        self.runs, self.traces, self.healthy = [], [], []
        trace = None
        for line in (directory / "runs.jsonl").read_text().splitlines():
            run = json.loads(line)
            if run["kind"] == "healthy":
                trace = directory / f"trace-{run['after'] + 1}"
                cut = run["began"] + 0.8 * (run["ended"] - run["began"])
                self.healthy.append((trace, run["began"], cut))
                run = {"kind": "none", "number": -1, "server": "", "began": cut, "fault_began": cut, "failed": None, "ended": run["ended"], "load": 1}
            if trace is not None and trace.exists():
                self.runs.append({**run, "trace": trace})

    def judge(self, method, healthy, trace, begin, end):
        words = [self.monitor, "judge", "--json", "--method", method, f"{trace}@{begin:.2f}..{end:.2f}"]
        if method == "blacksheep":
            words += ["--logs", f"{trace}.logs"]
        if method not in ("limits", "rams-text"):
            words += ["--healthy", f"{healthy[0]}@{healthy[1]:.2f}..{healthy[2]:.2f}"]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode not in (0, 3):
            raise RuntimeError(done.stderr)
        return json.loads(done.stdout)

    def healthy_of(self, run):
        return next(one for one in self.healthy if one[0] == run["trace"])


def judge_orion(recordings, method):
    faulty = servers = metrics = both = accused = healthy = 0
    for recording in recordings:
        for run in recording.runs:
            end = run["failed"] or run["ended"]
            found = recording.judge(method, recording.healthy_of(run), run["trace"], run["fault_began"], end)
            found = [one for one in found if "metrics" in one]
            if run["kind"] == "none":
                healthy += 1
                accused += bool(found) if method == "orion" else 0
                continue
            faulty += 1
            right = [one for one in found if one["server"] == run["server"]]
            first = bool(found) and found[0]["server"] == run["server"] and method == "orion"
            named = bool(right) and is_guilty(run, *[name for metric in right[0]["metrics"] for name in [metric["name"], *metric.get("aliases", [])]])
            servers, metrics, both = servers + first, metrics + named, both + (first and named)
            print(f"  {method} {run['number']}: {run['kind']} at {run['server']}, load {run['load']}: " +
                  "; ".join(f"{one['server']} {one.get('excess', 0):.1f}: " + ", ".join(metric["name"] for metric in one["metrics"]) for one in found[:2]))
    print(f"| {method} | guilty metric in the top 3 of the faulty server | {share(metrics, faulty)} |")
    if method == "orion":
        print(f"| {method} | faulty server first | {share(servers, faulty)} |")
        print(f"| {method} | healthy runs accused | {share(accused, healthy)} |")


def judge_augury(recordings, method):
    outcomes, ahead, ahead_share, resource = {"predicted": 0, "detected": 0, "missed": 0, "false": 0, "quiet": 0}, [], [], 0
    for recording in recordings:
        alarms = {}
        for healthy in recording.healthy:
            end = max(run["ended"] for run in recording.runs if run["trace"] == healthy[0])
            alarms[healthy[0]] = recording.judge(method, healthy, healthy[0], healthy[2], end + 15)
        for run in recording.runs:
            if run["kind"] != "none" and run["failed"] is None:
                continue
            until = (run["failed"] + 12.5) if run["failed"] else run["ended"]
            within = [one for one in alarms[run["trace"]] if run["began"] + 5 <= one.get("t_ns", 0) / 1e9 <= until]
            first = min(within, key=lambda one: one["t_ns"], default=None)
            if run["kind"] == "none":
                outcomes["false" if first else "quiet"] += 1
                outcome = "false" if first else "quiet"
            elif first is None:
                outcomes["missed"] += 1
                outcome = "missed"
            elif first["t_ns"] / 1e9 < run["fault_began"]:
                outcomes["false"] += 1
                outcome = "false"
            else:
                left = run["failed"] - first["t_ns"] / 1e9
                outcome = "predicted" if left > 0 else "detected"
                outcomes[outcome] += 1
                ahead.append(max(left, 0))
                ahead_share.append(max(left, 0) / (run["failed"] - run["fault_began"]))
                resource += first["server"] == run["server"] and is_guilty(run, first.get("metric", ""), *first.get("aliases", []))
            print(f"  {method} {run['number']}: {run['kind']} at {run['server']}: {outcome}" + (f", {first['server']} {first.get('metric', '')}" if first else ""))
    true = outcomes["predicted"] + outcomes["detected"]
    print(f"| {method} | recall, strict | {share(true, true + outcomes['missed'] + outcomes['false'])} |")
    print(f"| {method} | precision | {share(true, true + outcomes['false'])} |")
    print(f"| {method} | predicted before the end | {share(outcomes['predicted'], true + outcomes['missed'])} |")
    print(f"| {method} | right server and resource among the true ones | {share(resource, true)} |")
    if ahead:
        print(f"| {method} | look-ahead, s (minutes at 5 s) and share of the time to the end, medians | {statistics.median(ahead):.0f} "
              f"({statistics.median(ahead) * 20 / 60:.1f}); {100 * statistics.median(ahead_share):.0f} % |")


def accused_in(recording, run, method):
    """(chunkserver, how strongly) for those that the method judged in the run's time; strength 0: not accused."""
    begin = run["fault_began"] if method == "blacksheep" else run["fault_began"] - PAST
    found = recording.judge(method, recording.healthy_of(run), run["trace"], begin, run["ended"])
    out = {f"chunkserver-{number}": 0.0 for number in range(1, 11)}
    for one in found:
        if "not_judged" in one:
            out.pop(one["server"], None)
        elif one["server"] in out and method == "rams-text":
            out[one["server"]] = 1 - one["p"]
        elif one["server"] in out and one["t_ns"] / 1e9 >= run["fault_began"]:
            out[one["server"]] = max(out[one["server"]], one.get("excess", 1.0))
    return out


def balanced(right, of, quiet, of_quiet):
    return (right / of + quiet / of_quiet) / 2 if of and of_quiet else float("nan")


def judge_nodes(recordings, method):
    threshold = 0.99 if method == "rams-text" else 1e-9
    faulty, healthy, kinds, first = [], [], {}, 0
    for recording in recordings:
        for run in recording.runs:
            strengths = accused_in(recording, run, method)
            guilty = strengths.pop(run["server"], None) if run["kind"] != "none" else None
            healthy += strengths.values()
            if guilty is not None:
                faulty.append(guilty)
                first += guilty > max(strengths.values(), default=0)
                kinds.setdefault(run["kind"], []).append(guilty > threshold)
                print(f"  {method} {run['number']}: {run['kind']} at {run['server']}: {guilty:.2f}; others {sorted(strengths.values())[-3:]}")
    right, quiet = sum(one > threshold for one in faulty), sum(one <= threshold for one in healthy)
    print(f"| {method} | faulty servers accused | {share(right, len(faulty))}: " + ", ".join(f"{kind} {sum(hits)} of {len(hits)}" for kind, hits in kinds.items()) + " |")
    print(f"| {method} | healthy servers not accused | {share(quiet, len(healthy))} |")
    print(f"| {method} | balanced accuracy | {balanced(right, len(faulty), quiet, len(healthy)):.2f} |")
    print(f"| {method} | the faulty server accused most strongly | {share(first, len(faulty))} |")
    best = max((balanced(sum(x > t for x in faulty), len(faulty), sum(x <= t for x in healthy), len(healthy)) for t in [*faulty, *healthy]), default=0)
    print(f"| {method} | balanced accuracy at the best of all thresholds, for comparison | {best:.2f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directories", type=pathlib.Path, nargs="+")
    parser.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("build/test/bin"))
    parser.add_argument("--methods", nargs="+", default=["orion", "orion-text", "augury"])
    arguments = parser.parse_args()
    recordings = [Recording(directory, arguments.bin.resolve()) for directory in arguments.directories]
    for method in arguments.methods:
        judged_by = {"orion": judge_orion, "augury": judge_augury}.get(method.split("-")[0], judge_nodes)
        judged_by(recordings, method)


if __name__ == "__main__":
    main()
