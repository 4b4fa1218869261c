"""Whether alarms come before the end of a resource, and none otherwise (Laguna 2012, 7.6.2)."""

import collections
import statistics

from guilty import is_guilty
from shares import mcnemar, share

FORETELL = ["augury", "augury-ahead", "leaks", "augury-text", "augury-text-ahead", "polynomial", "three-sigma"]
DETECTED = 12.5  # seconds after the end of the resource in which an alarm is no prediction, but still right: half a window
SETTLED = 5  # seconds of a run that belong to what was before it


def outcome_of(run, alarms):
    """By the first alarm of the run; and that alarm."""
    until = run["failed"] + DETECTED if run["failed"] else run["ended"]
    within = [one for one in alarms if run["began"] + SETTLED <= one.get("t_ns", 0) / 1e9 <= until]
    first = min(within, key=lambda one: one["t_ns"], default=None)
    if run["kind"] == "none":
        return ("false" if first else "quiet"), first
    if first is None:
        return "missed", None
    at = first["t_ns"] / 1e9
    if at < run["fault_began"]:
        return "early", first
    return ("predicted" if at < run["failed"] else "detected"), first


def judge_foretelling(recordings, methods, said):
    outcomes = {}
    for method in methods:
        outcomes[method] = [one for recording in recordings for one in of_recording(recording, method)]
        said += [{**one, "method": method} for one in outcomes[method]]
        tell(method, outcomes[method])
    right = {method: [one["outcome"] in ("predicted", "detected", "quiet") for one in outcomes[method]] for method in methods}
    for other in methods[1:]:
        ours, theirs = right[methods[0]], right[other]
        only_ours, only_theirs = (sum(a and not b for a, b in zip(*pair)) for pair in ((ours, theirs), (theirs, ours)))
        print(f"| {methods[0]}, {other} | runs in which only one is right | {only_ours}, {only_theirs}: p {mcnemar(only_ours, only_theirs):.3g} |")


def of_recording(recording, method):
    alarms = {}
    for healthy in recording.healthy:
        end = max(run["ended"] for run in recording.runs if run["trace"] == healthy[0])
        alarms[healthy[0]] = recording.judge(method, healthy, healthy[0], healthy[2], end + DETECTED)
    for run in recording.runs:
        if run["kind"] != "none" and run["failed"] is None:
            continue
        outcome, first = outcome_of(run, alarms[run["trace"]])
        one = {"recording": recording.name, "run": run["number"], "kind": run["kind"], "drawn": run.get("drawn", ""), "load": run["load"], "outcome": outcome,
               "server": run["server"], "said": first and first["server"], "metric": (first or {}).get("metric", "")}
        if outcome in ("predicted", "detected"):
            one["ahead"] = max(run["failed"] - first["t_ns"] / 1e9, 0)
            one["share"] = one["ahead"] / (run["failed"] - run["fault_began"])
            one["right"] = first["server"] == run["server"] and is_guilty(run, one["metric"], *first.get("aliases", []))
        print(f"  {method} {recording.name}/{run['number']}: {one['drawn'] or run['kind']} at {run['server']}, load {run['load']}: {outcome}, "
              f"{one['said'] or ''} {one['metric']}", flush=True)
        yield one


def tell(method, runs):
    count = collections.Counter(one["outcome"] for one in runs)
    true = count["predicted"] + count["detected"]
    failed, healthy = true + count["early"] + count["missed"], count["quiet"] + count["false"]
    false = count["early"] + count["false"]
    ahead = [one["ahead"] for one in runs if "ahead" in one]
    kinds = sorted({one["kind"] for one in runs if one["outcome"] in ("predicted", "detected", "early", "missed")})
    of_kind = {kind: [one for one in runs if one["kind"] == kind] for kind in kinds}
    print(f"| {method} | recall, strict | {share(true, failed)}: " +
          ", ".join(f"{kind} {sum('ahead' in one for one in of_kind[kind])} of {len(of_kind[kind])}" for kind in kinds) + " |")
    print(f"| {method} | precision | {share(true, true + false)} |")
    print(f"| {method} | F1 | {2 * true / max(2 * true + false + failed - true, 1):.2f} |")
    print(f"| {method} | runs without a failure and without an alarm | {share(count['quiet'], healthy)} |")
    print(f"| {method} | predicted before the end | {share(count['predicted'], failed)} |")
    print(f"| {method} | right server and resource among the true ones | {share(sum(one.get('right', False) for one in runs), true)} |")
    if ahead:
        shares = [one["share"] for one in runs if "share" in one]
        print(f"| {method} | look-ahead, s (minutes at 5 s) and share of the time to the end, medians | {statistics.median(ahead):.0f} "
              f"({statistics.median(ahead) * 20 / 60:.1f}); {100 * statistics.median(shares):.0f} % |")
