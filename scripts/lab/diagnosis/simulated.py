#!/usr/bin/env python3
"""Judges the journal of the simulated campaign: which faults were named, how much of what was said was right, how soon.

    build/test/bin/kintsugi-simulate-faults --seeds 1..100 --journal simulated.journal
    scripts/lab/diagnosis/simulated.py simulated.journal [--misses]

A verdict is right when it names the server and no other one; of a link, both of its ends; of a lost message, one that lost it. Faults that make something slow are judged apart:
they are no hangs. `--misses` prints every miss and every wrong verdict with its seed, else they are counted by kind.
"""

import argparse
import collections
import json
import pathlib
import statistics

from judge import faulty, has_region, reported, share


def is_right(injection, verdict):
    wanted, said = faulty(injection), reported(injection, verdict)
    return wanted <= said and (said <= wanted or injection["kind"] == "lost-message")


def is_named(injection):
    return any(is_right(injection, verdict) for verdict in injection["verdicts"])


def title(injection):
    if injection["kind"] == "cpu-loop":  # whatever the place, the process as a whole stands still
        return "cpu-loop"
    return " ".join(filter(None, [injection["kind"], injection["point"], injection["detail"]]))


def kind_of_link(machine):
    return machine.split("-")[0]


def table(judged):
    verdicts = [(one, verdict) for one in judged for verdict in one["verdicts"]]
    named = [one for one in judged if is_named(one)]
    certain = [(one, v) for one, v in verdicts if v["confidence"] == "certain"]
    with_region = [one for one in judged if one["place"] and one["kind"] == "hang"]
    first_right = [one for one in with_region if one["verdicts"] and is_right(one, one["verdicts"][0]) and has_region(one, one["verdicts"][0])]
    delays = sorted(max(0.0, min(v["after"] for v in one["verdicts"] if is_right(one, v)) - one["reached"]) for one in named)
    ends = [one for one in named if one["kind"] != "lost-message"]  # whoever waits for a lost answer goes on to wait until the deadline
    cleared = [one for one in ends if one["clears_after"] >= 0]
    print("| | |\n| --- | --- |")
    print(f"| faulty server among those named | {share(len(named), len(judged))} |")
    print(f"| right of all verdicts | {share(sum(is_right(*pair) for pair in verdicts), len(verdicts))} |")
    print(f"| right of those called certain | {share(sum(is_right(*pair) for pair in certain), len(certain))} |")
    print(f"| region right at first place (hangs at fault points) | {share(len(first_right), len(with_region))} |")
    if delays:
        print(f"| from the fault to the right line, s | median {statistics.median(delays):.1f}, p95 {delays[int(0.95 * (len(delays) - 1))]:.1f} |")
    print(f"| alarms gone within 20 s of the fault's end | {share(len(cleared), len(ends))} |")


def classes(judged):
    print("\n| fault | named | right verdicts | certain and right | median s |\n| --- | --- | --- | --- | --- |")
    kinds = collections.defaultdict(list)
    for one in judged:
        ends = " and ".join(sorted(map(kind_of_link, filter(None, [one["server"], one["peer"]]))))
        kinds[title(one) + (f" {ends}" if one["peer"] else "")].append(one)
    for kind, ones in sorted(kinds.items()):
        all_of = [(one, v) for one in ones for v in one["verdicts"]]
        sure = [pair for pair in all_of if pair[1]["confidence"] == "certain"]
        delays = [min(v["after"] for v in one["verdicts"] if is_right(one, v)) - one["reached"] for one in ones if is_named(one)]
        print(f"| {kind} | {len(delays)} of {len(ones)} | {sum(is_right(*p) for p in all_of)} of {len(all_of)} | "
              f"{sum(is_right(*p) for p in sure)} of {len(sure)} | {max(0, statistics.median(delays)) if delays else float('nan'):.1f} |")


def misses(judged, each):
    counts = collections.Counter()
    examples = {}
    for one in judged:
        wrong = [v for v in one["verdicts"] if not is_right(one, v)]
        said = [f"{v['confidence']}{' masked' if v['masked'] else ''} {v['kind']} {v['process_kind']}: {v['region'] or v['peer']}" for v in wrong]
        nothing = f"nothing; a client was held up for {'less' if one['held_up'] < 4 else 'more'} than 4 s"
        for text in said or ([] if is_named(one) else [nothing]):
            key = (title(one), "named, and" if is_named(one) else "MISSED:", text)
            counts[key] += 1
            examples.setdefault(key, []).append(one["seed"])
        if each and (wrong or not is_named(one)):
            print(f"- {one['seed']}: {title(one)} at {one['server']}{' and ' + one['peer'] if one['peer'] else ''}: {'named, and ' if is_named(one) else ''}"
                  f"{'; '.join(v['line_of_text'] for v in wrong) or nothing}")
    if not each:
        for (what, named, text), count in counts.most_common():
            print(f"- {count} x {what}: {named} {text} (seeds {', '.join(map(str, examples[what, named, text][:4]))})")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("journal", type=pathlib.Path, nargs="+")
    parser.add_argument("--misses", action="store_true")
    arguments = parser.parse_args()
    lines = {one["seed"]: one for path in arguments.journal for line in path.read_text(encoding="utf-8").splitlines() if (one := json.loads(line))}
    broken = [one for one in lines.values() if "problem" in one]
    runs = [one for one in lines.values() if "problem" not in one]
    judged = [one for one in runs if one["reached"] is not None]
    early = [one for one in runs if one["before"]]
    wrong_bytes = sum(one["load"][2] for one in runs)
    print(f"{len(judged)} injections; {len(runs) - len(judged)} redraws, {len(broken)} that could not be run; {len(early)} with an alarm before the fault; "
          f"{wrong_bytes} reads of wrong bytes\n")
    for one in broken:
        print(f"- {one['seed']}: {one['problem'][:300]}")
    for one in early:
        print(f"- {one['seed']}, before the fault: {'; '.join(one['before'])}")
    table([one for one in judged if one["class"] != "slow"])
    classes([one for one in judged if one["class"] != "slow"])
    print("\nMisses and wrong verdicts:")
    misses([one for one in judged if one["class"] != "slow"], arguments.misses)
    slow = [one for one in judged if one["class"] == "slow"]
    if slow:
        print("\nWhat is slow:")
        classes(slow)
        misses(slow, arguments.misses)


if __name__ == "__main__":
    main()
