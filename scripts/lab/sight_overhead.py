#!/usr/bin/env python3
"""What recording costs: the same operations with two builds, with recording and without it (KINTSUGI_SIGHT=OFF), in turns.

    cmake -S . -B build/bare -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_C_COMPILER=clang-19 -DCMAKE_CXX_COMPILER=clang++-19 -DKINTSUGI_SIGHT=OFF
    ninja -C build/bare kintsugi kintsugi-metaserver kintsugi-chunkserver kintsugi-repair-manager kintsugi-monitor metadata_bench
    scripts/build.sh release kintsugi kintsugi-metaserver kintsugi-chunkserver kintsugi-repair-manager kintsugi-monitor metadata_bench
    scripts/lab/sight_overhead.py build/bare/bin build/release/bin [--pairs 20] [--mib 256] [--dir /dev/shm] [--out overhead.json]

Each build has a cluster of ten chunkservers with its monitor, to which the recording one reports every second. A pair is put, get and repair on one and
right after on the other; pairs go ABBA, so that a machine that becomes slower or faster with time favours neither. Creates and stats are those of a
metaserver by its metadata_bench. Printed for each operation are the medians of time, and the median of the pairs' ratios (recording / bare: above 1, it
costs) with the interval in which it lies with 95 % (of order statistics: nothing is assumed of how ratios are distributed). Run it alone on the machine.
"""

import argparse
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from compare import Cluster, bench, rebuild, write_sources
from paired import order_of, report

CALLERS, CREATES, STATS = 64, 30_000, 150_000


def metadata(binaries, directory):
    """Seconds of one create and of one stat."""
    where = tempfile.mkdtemp(dir=directory)
    try:
        text = bench(pathlib.Path(binaries) / "metadata_bench", CALLERS, CREATES, STATS, where, "recorded")
    finally:
        shutil.rmtree(where)
    create, stat = [1 / float(rate) for rate in re.findall(r" ([\d.]+)/s,", text)][:2]
    return {"create": create, "stat": stat}


def transfers(cluster, source, scratch, pair):
    seconds = {"put": cluster.measure("put", source / "large", f"/large-{pair}")[0]}
    back = scratch / "back"
    seconds["get"] = cluster.measure("get", f"/large-{pair}", back)[0]
    back.unlink()
    seconds["repair"] = rebuild(cluster, f"/large-{pair}")[0]
    cluster.output("rm", f"/large-{pair}")
    return seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bare", help="directory of executables built with KINTSUGI_SIGHT=OFF")
    parser.add_argument("recording", help="of others that are built as usual")
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--mib", type=int, default=256)
    parser.add_argument("--dir", default="/dev/shm", help="where clusters and files are (default: memory)")
    parser.add_argument("--out", help="write the results here as JSON")
    arguments = parser.parse_args()
    builds = (arguments.bare, arguments.recording)
    missing = [str(pathlib.Path(build) / "metadata_bench") for build in builds if not (pathlib.Path(build) / "metadata_bench").exists()]
    if missing:
        sys.exit(f"sight_overhead.py: {', '.join(missing)}: not there, build the target metadata_bench first")

    rows = {name: [] for name in ("put", "get", "repair", "create", "stat")}
    with tempfile.TemporaryDirectory(prefix="kintsugi-overhead-", dir=arguments.dir) as name:
        root = pathlib.Path(name)
        source, scratch = root / "source", root / "scratch"
        source.mkdir()
        scratch.mkdir()
        write_sources(source, arguments.mib, 0)
        clusters = []
        try:
            for side, build in enumerate(builds):
                clusters.append(Cluster(build, root / f"cluster-{side}"))
            for cluster in clusters:  # caches and connections are warm before anything counts
                transfers(cluster, source, scratch, "warm")
            for pair in range(arguments.pairs):
                both = [None, None]
                for side in order_of(pair):
                    both[side] = transfers(clusters[side], source, scratch, pair)
                for operation in ("put", "get", "repair"):
                    rows[operation].append((both[0][operation], both[1][operation]))
                print(f"pair {pair + 1} of {arguments.pairs}: put {both[1]['put'] / both[0]['put']:.3f}", file=sys.stderr, flush=True)
        finally:
            for cluster in clusters:
                cluster.stop()
        for pair in range(arguments.pairs):
            both = [None, None]
            for side in order_of(pair):
                both[side] = metadata(builds[side], root)
            for operation in ("create", "stat"):
                rows[operation].append((both[0][operation], both[1][operation]))
    document = report(rows, ("bare", "recording"))
    if arguments.out:
        pathlib.Path(arguments.out).write_text(json.dumps(document, indent=2) + "\n")


if __name__ == "__main__":
    main()
