"""Judges journals of campaign.py: what was named, how much of it was right, how soon. It sees journals and snapshots, and never a cluster.

It compares what a verdict says with what the fault wrote down when it happened: the servers that it was done to, and the file, line, function and region
of the place in the code.

- A fault is *named* by a verdict in which all of its servers stand: the server, or both ends of a link; that of a mount by one that says so of a mount.
- A *reported server* is right when the fault was done to it. The healthy end of a link is a wrong one, and so is every server of a verdict that stood before
  the injection, or came after its end without naming the fault's server: reports come a second late.
- A verdict is right when all servers that it reports are, and there is one. One on the machine (short of processor, or its servers' disks stand still
  together) reports no server, and is right only where a fault takes the machine's processors; how many there were is printed. One on a client reports no
  server.
- Of faults that hold nobody up only whose messages they were is right.
"""

import collections
import concurrent.futures
import json
import math
import os
import pathlib
import statistics
import subprocess

RATES = pathlib.Path(__file__).resolve().parents[3] / "common" / "proto" / "measured_rates.inc"
METHODS = ["waits", "waits-only", "targets-hidden", "prodometer", "automaded", "automaded-semi", "oldest-span", "silence"]
WATCH, WATCH_SLOW, WATCH_HARMLESS = 25.0, 100.0, 10.0
AVOIDED_WITHIN = 60  # seconds
SLICE = 10  # lines of `diagnose --slice`


def read(journals):
    return [json.loads(line) for path in journals for line in path.read_text().splitlines()]


def wilson(hits, count):
    if count == 0:
        return 0.0, 1.0
    z, p = 1.96, hits / count
    middle, half = p + z * z / (2 * count), z * math.sqrt(p * (1 - p) / count + z * z / (4 * count * count))
    return (middle - half) / (1 + z * z / count), (middle + half) / (1 + z * z / count)


def share(hits, count):
    low, high = wilson(hits, count)
    return f"{hits} of {count} ({100 * hits / max(1, count):.1f} %, {100 * low:.1f} to {100 * high:.1f})"


def is_client(end):
    return end.startswith(("client", "mount", "an unknown"))


def faulty(injection):
    return {end for end in (injection["server"], injection["peer"]) if end and not is_client(end)}


def reported(injection, verdict):
    """The servers that a verdict accuses; a client at the other end of a link is none. "repair manager" is whichever there is."""
    if verdict["kind"] in ("host", "client") or verdict["server"].startswith("machine "):
        return set()
    ends = {end for end in (verdict["server"], verdict["peer"]) if end and not is_client(end)}
    return {injection["server"] if end == "repair manager" and injection["server"].startswith(end) else end for end in ends}


def names(injection, verdict):
    """All servers of the fault stand in the verdict."""
    if injection["kind"] == "machine-hog":
        return verdict["kind"] == "host"
    if is_client(injection["server"]):
        return is_client(verdict["server"]) and verdict["server"].startswith(injection["server"])
    # Of what holds nobody up, it may be said whose messages they were.
    may_be_said = not injection["harmless"] or verdict["kind"] == "messages"
    return may_be_said and faulty(injection) <= reported(injection, verdict)


def is_right(injection, verdict):
    """It names the fault, and accuses no other server."""
    return names(injection, verdict) and reported(injection, verdict) <= faulty(injection)


def has_region(injection, verdict):
    """The innermost region of the verdict is the one in which the fault happened."""
    innermost = verdict["region"].split(" > ")[-1].lower()
    return bool(injection["place"]) and innermost == injection["place"]["region"].lower()


def is_at(place, file, line, function, lines):
    """`file` and so on are of a verdict: they are the place's function, or lie within so many lines of it."""
    return bool(file) and place["file"].endswith(file) and (
        (function and f"{function}(" in place["function"]) or abs(line - place["line"]) <= lines)


def judged_verdicts(injection):
    """(verdict, whether it is right), in the order in which they came; without those that accuse nobody."""
    found = ([(verdict, False) for verdict in injection["before"]]
             + [(verdict, is_right(injection, verdict)) for verdict in injection["verdicts"] + injection["aftermath"]])
    return [(verdict, right) for verdict, right in found if right or reported(injection, verdict)]


def reported_servers(injection):
    """(server, whether it is right), each once: all that were reported, before the fault, meanwhile, and after it."""
    early = {(server, False) for verdict in injection["before"] for server in reported(injection, verdict)}
    wanted = faulty(injection) if not injection["harmless"] else set()
    found = {(server, server in wanted or (verdict["kind"] == "messages" and server in faulty(injection)))
             for verdict in injection["verdicts"] + injection["aftermath"] for server in reported(injection, verdict)}
    return sorted(early | found)


def is_named(injection):
    return any(names(injection, verdict) for verdict in injection["verdicts"])


def right_at(injection, places):
    """Among the first so many verdicts is one that is right about server and region."""
    return any(names(injection, verdict) and has_region(injection, verdict) for verdict in injection["verdicts"][:places])


def in_first_function(injection):
    """The place lies in the function that the first verdict on the fault's server names."""
    right = [verdict for verdict in injection["verdicts"] if names(injection, verdict)]
    return bool(right) and is_at(injection["place"], right[0]["file"], right[0]["line"], right[0]["function"], 0)


def in_slice(injection):
    """It is in what `kintsugi diagnose --slice 10` prints of a verdict that names the server."""
    return any(is_at(injection["place"], place["file"], place["line"], place["function"], SLICE)
               for verdict in injection["verdicts"] if names(injection, verdict) for place in [verdict, *verdict["slice"]])


def names_disk(injection):
    return any(names(injection, verdict) and verdict["kind"] == "device" for verdict in injection["verdicts"])


def names_kind(injection):
    """A right verdict says, too, what it is that the server lacks."""
    return any(names(injection, verdict) and verdict["kind"] in injection["right_kinds"] for verdict in injection["verdicts"])


def seconds_to_right(injection):
    return max(0.0, min(verdict["after"] for verdict in injection["verdicts"] if names(injection, verdict)) - injection["reached"])


def title(injection):
    return " ".join(filter(None, [injection["kind"], injection["point"], injection["detail"]]))


def print_by_kind(judged):
    print("\n| fault | named | right verdicts |\n| --- | --- | --- |")
    kinds = collections.defaultdict(list)
    for one in judged:
        kinds[title(one)].append(one)
    for kind, ones in sorted(kinds.items()):
        verdicts = [right for one in ones for _, right in judged_verdicts(one)]
        named = "-" if ones[0]["harmless"] else f"{sum(map(is_named, ones))} of {len(ones)}"
        print(f"| {kind}{f' ({len(ones)} times)' if ones[0]['harmless'] else ''} | {named} | {sum(verdicts)} of {len(verdicts)} |")


def print_misses(judged):
    print("\nMisses and wrong verdicts:")
    for one in judged:
        wrong = [verdict["line_of_text"] for verdict, right in judged_verdicts(one) if not right]
        missed = not one["harmless"] and not is_named(one)
        if missed or wrong:
            where = " and ".join(filter(None, [one["server"], one["peer"]]))
            outcome = "held nobody up" if one["harmless"] else "missed" if missed else "named"
            print(f"- {one['seed']}/{one['number']}: {title(one)} at {where}: {outcome}; {'; '.join(wrong) or 'nothing wrong was said'}")
    print("\nRegion not right at first place:")
    for one in judged:
        if one.get("place") and one["place"]["region"] and not right_at(one, 1):
            said = one["verdicts"][0]["line_of_text"] if one["verdicts"] else "nothing"
            print(f"- {one['seed']}/{one['number']}: {title(one)} at {one['server']}: {said}")


def report(arguments):
    injections = read(arguments.journal)
    judged = [one for one in injections if one["reached"] is not None]
    harmful = [one for one in judged if not one["harmless"]]
    verdicts = [pair for one in judged for pair in judged_verdicts(one)]
    certain = [right for verdict, right in verdicts if verdict["confidence"] == "certain"]
    with_region = [one for one in harmful if one.get("place") and one["place"]["region"]]
    servers = [right for one in judged for _, right in reported_servers(one)]
    named = [one for one in harmful if is_named(one)]
    delays = sorted(map(seconds_to_right, named))
    outside = sum(one["class"] == "outside" for one in judged)
    print(f"{len(judged)} injections, {outside} of them without a fault point; {len(injections) - len(judged)} redraws\n")
    print("| | |\n| --- | --- |")
    print(f"| faulty server (of a link: both ends) among those named | {share(len(named), len(harmful))} |")
    print(f"| right of all reported servers | {share(sum(servers), len(servers))} |")
    print(f"| right of all verdicts | {share(sum(right for _, right in verdicts), len(verdicts))} |")
    print(f"| right of those called certain | {share(sum(certain), len(certain))} |")
    print(f"| region right at first place | {share(sum(right_at(one, 1) for one in with_region), len(with_region))} |")
    print(f"| region right among the first three | {share(sum(right_at(one, 3) for one in with_region), len(with_region))} |")
    print(f"| the place in the function named first | {share(sum(map(in_first_function, with_region)), len(with_region))} |")
    print(f"| the place in the slice | {share(sum(map(in_slice, with_region)), len(with_region))} |")
    machines = collections.Counter(verdict["kind"] for one in judged for verdict in one["before"] + one["verdicts"] + one["aftermath"]
                                   if verdict["server"].startswith("machine "))
    print(f"| verdicts on the machine: short of processor; disks of its servers | {machines['host']}; {machines['device'] + machines['pauses']} |")
    disks = [one for one in harmful if one["kind"] == "disk"]
    print(f"| hanging disks, called that | {share(sum(map(names_disk, disks)), len(disks))} |")
    with_kind = [one for one in harmful if one.get("right_kinds")]
    if with_kind:
        print(f"| interference, called what it is | {share(sum(map(names_kind, with_kind)), len(with_kind))} |")
    avoidable = [one for one in harmful if one.get("avoidable")]
    if avoidable:
        soon = sum(one["avoided"] is not None and one["avoided"] - one["reached"] <= AVOIDED_WITHIN for one in avoidable)
        print(f"| slow links and disks of chunkservers, gone around within {AVOIDED_WITHIN} s | {share(soon, len(avoidable))} |")
    if delays:
        print(f"| from the fault to the right line, s | median {statistics.median(delays):.1f}, p95 {delays[int(0.95 * (len(delays) - 1))]:.1f} |")
    for name, ones in (("outside", [one for one in harmful if one["class"] == "outside"]), ("point", [one for one in harmful if one["class"] == "point"])):
        print(f"| named, {'without a fault point' if name == 'outside' else 'at fault points'} | {share(sum(map(is_named, ones)), len(ones))} |")
    print_by_kind(judged)
    print_misses(judged)


def rates(arguments):
    """How often verdicts were right, by kind and confidence; with --write, for the code that prints it."""
    counts = collections.defaultdict(lambda: [0, 0])
    for one in read(arguments.journal):
        for verdict, right in judged_verdicts(one) if one["reached"] is not None else []:
            counts[verdict["kind"], verdict["confidence"]][0] += right
            counts[verdict["kind"], verdict["confidence"]][1] += 1
    print("| kind | confidence | right |\n| --- | --- | --- |")
    for (kind, confidence), (right, count) in sorted(counts.items()):
        print(f"| {kind} | {confidence} | {share(right, count)} |")
    if arguments.write:
        lines = [f"{{Verdict::{kind.upper().replace(' ', '_')}, Verdict::{confidence.upper()}, {{{right}, {count}}}}},"
                 for (kind, confidence), (right, count) in sorted(counts.items())]
        head = "// Written by `scripts/lab/diagnosis/campaign.py rates --write`: kind, confidence, right, of."
        RATES.write_text("\n".join([head, *lines]) + "\n")


def mcnemar(only_first, only_second):
    """The exact two-sided probability of so uneven a split of the pairs that differ."""
    count = only_first + only_second
    if count == 0:
        return 1.0
    tail = sum(math.comb(count, i) for i in range(min(only_first, only_second) + 1)) / 2 ** count
    return min(1.0, 2 * tail)


def servers_named(rounds, injection):
    """By a method's verdicts on the snapshots of an injection, both ends of links among them."""
    begin, end = injection["unix"] + injection["reached"], injection["unix"] + injection["ended"]
    named = {name for each in rounds if begin <= each["unix_s"] <= min(begin + WATCH, end)
             for verdict in each["verdicts"] for name in reported(injection, verdict)}
    return named


def rounds_of(arguments, method):
    rounds = []
    for snapshots in arguments.snapshots:
        command = [arguments.bin / "kintsugi-monitor", "analyse", "--method", method, snapshots]
        out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        rounds += [json.loads(line) for line in out.splitlines()]
    return rounds


def compare(arguments):
    """Other methods name no links: of a link, either end counts, for all methods."""
    judged = [one for one in read(arguments.journal) if one["reached"] is not None and not one["harmless"]]
    outcomes = {}
    print("| method | faulty server named | right of all it named | McNemar p against ours |\n| --- | --- | --- | --- |")
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as threads:
        running = [threads.submit(rounds_of, arguments, method) for method in METHODS]
    for method, rounds in zip(METHODS, (each.result() for each in running)):
        outcomes[method], right, reported = [], 0, 0
        for one in judged:
            named = servers_named(rounds, one)
            hits = named & {one["server"], one["peer"]}
            outcomes[method].append(bool(hits))
            right += len(hits)
            reported += len(named)
        ours = outcomes[METHODS[0]]
        first = sum(a and not b for a, b in zip(ours, outcomes[method]))
        second = sum(b and not a for a, b in zip(ours, outcomes[method]))
        print(f"| {method} | {share(sum(outcomes[method]), len(judged))} | {share(right, reported)} | {mcnemar(first, second):.2g} |")
