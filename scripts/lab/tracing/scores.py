"""Reads journals of campaign.py: was the right server accused first, and is the right function among the first three that are named?

- Answers that accuse stand first, the surest first, as `explain` prints them. The first one is right when the process that it accuses, or at which the request
  that it accuses began, is the server to which the bug was done.
- Each line of an answer names functions: of a call path its last one of ours (what waits, and what libraries do, is passed over), of a line about
  calls the caller and what it called. The function is right when a function of the truth is named in the first three lines.
- A clean run, or one in which all servers are slow, is right when nobody is accused.
"""

import collections
import json
import statistics
import sys

import recorded  # noqa: F401  (where the modules of the lab are)
from judge import share

ACCUSES = ("fail-stop", "outlier")
LINES = 3


def named_on(path):
    """The last function of ours on a path."""
    for name in reversed(path):
        if not name.startswith(("boost::", "std::", "(")):
            return name
    return ""


def lines_of(answer):
    """What each line of the text names, in its order."""
    evidence = answer["evidence"]
    if answer["finding"] == "fail-stop":
        return [[named_on(last["path"])] for last in evidence["last"]]
    lines = []
    if evidence["profile"] != "coverage":
        differences = evidence["differences"]
        other = next((one for one in differences if one["measure"] != differences[0]["measure"]), None)
        told = differences[:3] if evidence["profile"] == "elapsed time" else [one for one in (*differences[:1], other) if one]
        lines += [[named_on(one["path"])] for one in told]
    return lines + [[named_on(call["caller"]), *call["calls"]] for call in evidence["calls"]]


def is_function(name, wanted):
    for part in (".resume", ".destroy", ".cleanup"):
        name, wanted = name.removesuffix(part), wanted.removesuffix(part)
    return name == wanted or name.endswith("::" + wanted)


def accusations(run):
    return [answer for answer in run["answers"] if answer["finding"] in ACCUSES]


def accuses_right(run, answer):
    return answer["process"].startswith(f"kintsugi-chunkserver {run['pid']} ")


def right_first(run):
    found = accusations(run)
    return bool(found) and accuses_right(run, found[0])


def rank_of_function(run):
    """The number of the first line that names it, from 1, of the first answer; 0: none does."""
    found = accusations(run)
    if not found or not accuses_right(run, found[0]):
        return 0
    for number, names in enumerate(lines_of(found[0]), start=1):
        if any(is_function(name, wanted) for name in names for wanted in run["functions"]):
            return number
    return 0


def read(journals):
    """Runs that were answered: truth, what happened, and the answers, by whether runs that were well were given."""
    found = []
    for path in journals:
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        by_number = collections.defaultdict(dict)
        for line in lines:
            if line["line"] in ("truth", "done"):
                by_number[line["number"]].update({key: value for key, value in line.items() if key != "line"})
        found += [{**by_number[line["number"]], **line} for line in lines if line["line"] == "answers"]
    return found


def print_runs(name, runs):
    faulty = [run for run in runs if run["class"] not in ("clean", "massive") and run["met"]]
    print(f"\n## {name}\n\n| bug | runs | right server first | right function in the first three lines |\n| --- | --- | --- | --- |")
    groups = collections.defaultdict(list)
    for run in faulty:
        groups[run["class"], run["way"]].append(run)
    for (what, way), ones in sorted(groups.items()):
        print(f"| {what}, {'without a fault point' if way == 'outside' else 'at a fault point'} | {len(ones)} | {sum(map(right_first, ones))} "
              f"| {sum(1 <= rank_of_function(one) <= LINES for one in ones)} |")
    print(f"| all | {len(faulty)} | {share(sum(map(right_first, faulty)), len(faulty))} "
          f"| {share(sum(1 <= rank_of_function(one) <= LINES for one in faulty), len(faulty))} |")
    for what in ("clean", "massive"):
        ones = [run for run in runs if run["class"] == what]
        print(f"| {what} | {len(ones)} | accuse nobody: {share(sum(not accusations(one) for one in ones), len(ones))} | |")
    print_misses(runs)
    print_reductions(faulty)


def print_misses(runs):
    print("\nWhat was not right:")
    for run in runs:
        found = accusations(run)
        says = "; ".join(f"{answer['about']}: {answer['process']} {lines_of(answer)[:LINES]}" for answer in found[:2]) or "nobody is accused"
        title = f"- {run['number']}: {run['class']} {run['kind']} {run['function']} at {run['server']} ({run['pid']})"
        if run["class"] in ("clean", "massive"):
            if found:
                print(f"{title}: {says}")
        elif not run["met"]:
            print(f"{title}: met nothing")
        elif not right_first(run):
            print(f"{title}: {'second, ' if any(accuses_right(run, answer) for answer in found) else ''}{says}")
        elif not 1 <= rank_of_function(run) <= LINES:
            print(f"{title}: the function is at {rank_of_function(run)}: {says}")


def print_reductions(faulty):
    """Of the first right answers: how many call paths differ, and how few are left."""
    found = [accusations(run)[0]["evidence"]["paths"] for run in faulty if right_first(run) and accusations(run)[0]["finding"] == "outlier"]
    found = [one for one in found if one["merged"] > 0]
    if not found:
        return
    print("\n| of the answers with calls that differ | median | most |\n| --- | --- | --- |")
    for name, of in (("call paths that differ", lambda one: one["differing"]), ("not the effect of another one", lambda one: one["pruned"]),
                     ("lines", lambda one: one["merged"]), ("differing for each not an effect", lambda one: one["differing"] / one["pruned"]),
                     ("not an effect for each line", lambda one: one["pruned"] / one["merged"])):
        values = sorted(of(one) for one in found)
        print(f"| {name} | {statistics.median(values):.4g} | {values[-1]:.4g} |")


def report(arguments):
    runs = read(arguments.journal)
    if not runs:
        sys.exit("no answers: run campaign.py explain first")
    for known in (True, False):
        print_runs("With runs that were well" if known else "Without", [run for run in runs if run["known_normal"] == known])
