#!/usr/bin/env python3
"""The mount beside a local file system, system call by system call: the same errors, modes, owners, link counts, sizes, contents and times?

    scripts/lab/conformance.py [--family NAME,...] [--sample N] [--bin build/release/bin] [--dir DIRECTORY] [--oracle DIRECTORY] [--journal FILE]
    scripts/lab/conformance.py --list

A cluster of ten chunkservers (rs-6-3-1024k) is made below DIRECTORY and mounted twice. Every case (filesystem/cases_*.py) makes its objects in a directory of
its own, on the mount and below the oracle's directory (ext4 is what the cases are written for), does the same on both, and compares what each call said and
what is there afterwards; the second mount must show exactly what the first one does. Differences that are meant stand in filesystem/expected.py with their
reasons. `--sample N` takes every N-th case. The exit code is 1 when something differs that is not expected, and 77 where it cannot be run: root, /dev/fuse and
an ext4 for the oracle are needed.
"""

import argparse
import collections
import itertools
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "filesystem"))

import calls  # noqa: E402
import cases_attributes  # noqa: E402
import cases_data  # noqa: E402
import cases_errors  # noqa: E402
import cases_listing  # noqa: E402
import cases_locks  # noqa: E402
import cases_making  # noqa: E402
import cases_memory  # noqa: E402
import cases_names  # noqa: E402
import cases_open  # noqa: E402
import cases_xattrs  # noqa: E402
import expected  # noqa: E402
import observe  # noqa: E402
from compare import Cluster  # noqa: E402
from mounted import mount, require_fuse  # noqa: E402

FAMILIES = {
    name: function
    for module in (cases_attributes, cases_making, cases_names, cases_open, cases_data, cases_memory, cases_listing, cases_xattrs, cases_locks, cases_errors)
    for name, function in module.FAMILIES.items()
}


def perform(case, root):
    """(what the call said, what is there afterwards without times, times)."""
    os.mkdir(root)
    os.chmod(root, 0o755)
    os.umask(0o022)
    case.setup(root)
    before = observe.stats(root, observe.tree(root))
    began = time.time_ns()
    os.umask(case.umask)
    with calls.as_user(case.user):
        said = calls.outcome(case.act, root)
    os.umask(0o022)
    ended = time.time_ns()
    after = observe.stats(root, before)
    times = observe.times(before, after, began, ended) if case.times else {}
    return said, observe.described(root, after), times


def flattened(said, described, times):
    flat = {"said": said}
    for path, about in described.items():
        flat.update({f"{path} {what}": value for what, value in about.items()})
    return {**flat, **times}


def exact(root):
    """What two mounts of one cluster must agree on to the last bit."""
    found = observe.tree(root)
    described = observe.described(root, found)
    numbers = {f"{path} {name[3:]}": getattr(about, name) for path, about in found.items() for name in ("st_atime_ns", "st_mtime_ns", "st_ctime_ns", "st_ino")}
    return {**flattened(None, described, {}), **numbers}


def differences(ours, theirs):
    return {
        what: (ours.get(what, "nothing"), theirs.get(what, "nothing"))
        for what in sorted(ours.keys() | theirs.keys())
        if ours.get(what, "nothing") != theirs.get(what, "nothing")
    }


def run_case(family, case, sides):
    """Differences that nobody expects, and reasons of those that are expected."""
    mount, oracle, second = (side / str(case.number) for side in sides)
    results = [flattened(*perform(case, str(side))) for side in (mount, oracle)]
    found, reasons = {}, set()
    for what, pair in differences(*results).items():
        reason = expected.reason(family, case.name, what, *pair)
        if reason:
            reasons.add(reason)
        else:
            found[what] = pair
    one, other = exact(str(mount)), exact(str(second))
    for path, pair in differences(one, other).items():
        found[f"the second mount: {path}"] = pair
    for side in (mount, oracle):
        shutil.rmtree(side)
    return found, reasons


def cases_of(name, sample):
    """Every `sample`-th of all cases, of whichever family."""
    before = 0
    for other in itertools.takewhile(lambda family: family != name, FAMILIES):
        before += sum(1 for _ in FAMILIES[other]()) if sample > 1 else 0
    for number, case in enumerate(FAMILIES[name]()):
        if (before + number) % sample == 0:
            case.number = number
            yield case


def run_family(name, roots, sample, journal):
    sides = [root / name for root in roots]
    for side in sides[:2]:
        side.mkdir()
    count, failed, reasons, began = 0, 0, collections.Counter(), time.time()
    for case in cases_of(name, sample):
        count += 1
        found, why = run_case(name, case, sides)
        reasons.update(why)
        if found:
            failed += 1
            print(f"{name} {case.number}: {case.name}")
            for what, (ours, theirs) in found.items():
                print(f"    {what}: {ours!r}, not {theirs!r}", flush=True)
            journal.write(json.dumps({"family": name, "case": case.name, "found": {k: list(map(repr, v)) for k, v in found.items()}}) + "\n")
    for side in sides[:2]:
        shutil.rmtree(side)
    print(f"{name}: {count} cases, {failed} differ, {sum(reasons.values())} as expected ({time.time() - began:.1f} s)", flush=True)
    return count, failed, reasons


def why_not(oracle):
    """What is wrong with where the oracle would be, or None."""
    kind = subprocess.run(["stat", "-f", "-c", "%T", oracle], capture_output=True, text=True).stdout.strip()
    return None if kind == "ext2/ext3" else f"{oracle} is on {kind}, and the cases are written for ext4"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--family", default=",".join(FAMILIES))
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--sample", type=int, default=1)
    parser.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("build/release/bin"))
    parser.add_argument("--dir", type=pathlib.Path, default=pathlib.Path("/dev/shm"))
    parser.add_argument("--oracle", type=pathlib.Path, default=pathlib.Path("."))
    parser.add_argument("--journal", type=pathlib.Path, default=pathlib.Path("/dev/null"))
    arguments = parser.parse_args()
    if arguments.list:
        for name in FAMILIES:
            print(f"{name}: {sum(1 for _ in cases_of(name, arguments.sample))}")
        return

    require_fuse()
    if reason := why_not(arguments.oracle):
        print(reason)
        raise SystemExit(77)

    work = pathlib.Path(tempfile.mkdtemp(prefix="conformance-", dir=arguments.dir)).resolve()
    oracle = pathlib.Path(tempfile.mkdtemp(prefix="conformance-", dir=arguments.oracle)).resolve()
    for directory in (work, oracle):
        directory.chmod(0o755)
    binaries = arguments.bin.resolve()
    cluster = Cluster(binaries, work / "cluster")
    mounts = [work / "one", work / "two"]
    total, failed, reasons = 0, 0, collections.Counter()
    try:
        for directory in mounts:
            mount(binaries, cluster, directory, "-o", "suid,dev")
        with open(arguments.journal, "a", encoding="utf-8") as journal:
            for name in arguments.family.split(","):
                counts = run_family(name, [mounts[0], oracle, mounts[1]], arguments.sample, journal)
                total, failed = total + counts[0], failed + counts[1]
                reasons.update(counts[2])
    finally:
        for directory in mounts:
            subprocess.run(["umount", "-l", directory], check=False)
        cluster.stop()
        shutil.rmtree(work, ignore_errors=True)
        shutil.rmtree(oracle, ignore_errors=True)
    for reason, count in reasons.most_common():
        print(f"expected {count} times: {reason}")
    print(f"{total} cases, {failed} differ")
    raise SystemExit(1 if failed else 0)


if __name__ == "__main__":
    main()
