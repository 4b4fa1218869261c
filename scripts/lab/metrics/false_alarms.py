#!/usr/bin/env python3
"""How often each method accuses a healthy cluster: learns from the first part of a recording, and judges the rest.

    scripts/lab/metrics/false_alarms.py TRACE... --began UNIX --until UNIX [--learn 3000] [--bin build/test/bin] [--methods limits orion augury rams]

TRACE is the directory `metrics` of a monitor's data; the activity logs stand beside it in `logs`. Nothing was wrong with the cluster, so every accusation is
false. ORION is asked for ten minutes at a time, as `kintsugi diagnose --metrics` does; the others judge all of the rest at once. Accusations of one process
within ten minutes of each other are one episode. Rates a day have intervals of 95 % (Poisson, exact), which take episodes for independent.
"""

import argparse
import json
import math
import pathlib
import subprocess

PIECE = 600


def poisson_limits(count):
    """The means at which so many or more, and so many or fewer, have a probability of 2.5 %."""
    def below(mean, most):
        return sum(math.exp(-mean) * mean ** i / math.factorial(i) for i in range(most + 1))

    def solve(function, target):
        low, high = 0.0, 10.0 * count + 20
        for _ in range(100):
            middle = (low + high) / 2
            low, high = (middle, high) if function(middle) > target else (low, middle)
        return low
    return (solve(lambda mean: below(mean, count - 1), 0.975) if count else 0.0), solve(lambda mean: below(mean, count), 0.025)


def arguments_of(trace, method, begin, middle):
    words = ["--method", method]
    if method not in ("limits", "rams-text"):
        words += ["--healthy", f"{trace}@{begin:.0f}..{middle:.0f}"]
    if method.startswith("blacksheep"):
        words += ["--logs", trace.parent / "logs"]
    return words


def accusations(monitor, trace, method, begin, middle, end):
    """(server, time, what is told of it) of each."""
    pieces = [middle + PIECE * i for i in range(int((end - middle) // PIECE))] if method.startswith("orion") else [middle]
    for at in pieces:
        until = at + PIECE if method.startswith("orion") else end
        words = [monitor, "judge", "--json", *arguments_of(trace, method, begin, middle), f"{trace}@{at:.0f}..{until:.0f}"]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode not in (0, 3):
            raise RuntimeError(done.stderr)
        for one in json.loads(done.stdout):
            if "not_judged" not in one and one.get("accused", True):
                what = one.get("metric") or one.get("name") or ", ".join(each["name"] for each in one.get("metrics", []))
                yield one["server"], one.get("t_ns", one.get("to_ns", at * 1e9)) / 1e9, what


def episodes(found):
    out, last = [], {}
    for server, at, what in sorted(found, key=lambda one: one[1]):
        if at - last.get(server, -math.inf) > PIECE:
            out.append((server, what))
        last[server] = at
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", type=pathlib.Path, nargs="+")
    parser.add_argument("--began", type=float, required=True, help="seconds since 1970 from which on the clusters were healthy")
    parser.add_argument("--until", type=float, required=True)
    parser.add_argument("--learn", type=float, default=3000, help="seconds that are learnt from")
    parser.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("build/test/bin"))
    parser.add_argument("--methods", nargs="+", default=["limits", "orion", "augury", "rams", "blacksheep"])
    arguments = parser.parse_args()
    middle = arguments.began + arguments.learn
    days = len(arguments.traces) * (arguments.until - middle) / 86400
    for method in arguments.methods:
        found = []
        for trace in arguments.traces:
            found += episodes(accusations(arguments.bin / "kintsugi-monitor", trace, method, arguments.began, middle, arguments.until))
        least, most = (limit / days for limit in poisson_limits(len(found)))
        print(f"| {method} | {len(found)} in {24 * days:.1f} hours | {len(found) / days:.0f} a day ({least:.0f} to {most:.0f}) |", flush=True)
        for server, what in found[:12]:
            print(f"  {server}: {what}")


if __name__ == "__main__":
    main()
