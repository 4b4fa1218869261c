#!/usr/bin/env python3
"""Two builds on one machine, in turns: is the second at least as fast as the first?

    scripts/lab/compare.py BASE/build/release/bin build/release/bin [--runs 7] [--mib 256] [--files 1000] [--dir /dev/shm]

Each build gets a cluster of ten chunkservers; every operation runs on one and right after on the other, in changing order, so
that what a noisy neighbour does meets both. Printed are medians, and the median of the pairs' ratios (second / first: below 1
is faster): wall time, and CPU time of the client and all daemons. Metadata is measured by the builds' own metadata_bench (target
`benchmarks`), where both have it.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import tempfile

from throughput import run_measured


class Cluster:
    def __init__(self, binaries, directory, servers=10, policy="rs-6-3-1024k"):
        self.servers = servers
        self.data_chunks, self.parity_chunks = (int(number) for number in policy.split("-")[1:3])
        self.kintsugi = str(pathlib.Path(binaries) / "kintsugi")
        self.directory = pathlib.Path(directory)
        subprocess.run([self.kintsugi, "cluster", "start", "--dir", self.directory, "--chunkservers", str(servers),
                        "--policy", policy, "--repair-delay", "3600"], check=True, stdout=subprocess.DEVNULL)
        lines = subprocess.run(["sh", "-c", f". {self.directory}/env; echo $KINTSUGI_META; echo $KINTSUGI_SECRET_FILE"],
                               check=True, capture_output=True, text=True).stdout.split()
        self.environment = dict(os.environ, KINTSUGI_META=lines[0], KINTSUGI_SECRET_FILE=lines[1])
        self.daemons = [int(p.read_text().split()[0]) for p in sorted((self.directory / "run").glob("*.pid"))]

    def measure(self, *words):
        """(wall seconds, CPU seconds of client and daemons)."""
        return run_measured([self.kintsugi, *map(str, words)], self.environment, self.daemons)[:2]

    def output(self, *words):
        return subprocess.run([self.kintsugi, *map(str, words)], env=self.environment, check=True,
                              capture_output=True, text=True).stdout

    def stop(self):
        subprocess.run([self.kintsugi, "cluster", "stop", "--dir", self.directory], stdout=subprocess.DEVNULL)


def write_sources(directory, mib, files):
    with open(directory / "large", "wb") as out:
        for _ in range(mib):
            out.write(os.urandom(1 << 20))
    (directory / "small").mkdir()
    for i in range(files):
        (directory / "small" / f"file-{i}").write_bytes(os.urandom(4096 + 61 * (i % 100)))


def one_chunk(cluster, path):
    """Names a data chunk of the file's first stripe, as `repair run` wants it."""
    stripe = json.loads(cluster.output("stat", path, "--json"))["extents"][0]["stripe_id"]
    return f"{stripe}:0"


def rebuild(cluster, path):
    record = json.loads(cluster.output("repair", "run", "--chunk", one_chunk(cluster, path), "--shape", "chain", "--json"))
    return record["seconds"], record["seconds"]


def operations(source, scratch, run):
    """(name, function of a cluster): each leaves the cluster ready for the next."""
    yield "put", lambda c: c.measure("put", source / "large", f"/large-{run}")
    yield "get", lambda c: c.measure("get", f"/large-{run}", scratch / f"large-{id(c)}-{run}")
    yield "put small files", lambda c: c.measure("put", source / "small", f"/small-{run}")
    yield "get small files", lambda c: c.measure("get", f"/small-{run}", scratch / f"small-{id(c)}-{run}")
    yield "repair, chain", lambda c: rebuild(c, f"/large-{run}")


def in_turns(pair, run, function):
    results = [None, None]
    for side in ((0, 1) if run % 2 == 0 else (1, 0)):
        results[side] = function(pair[side])
    return results


def bench(binary, *words):
    return subprocess.run([str(binary), *map(str, words)], check=True, capture_output=True, text=True).stdout


def metadata(binaries, directory):
    """Seconds, and microseconds of CPU on both sides, for one operation: ((create, CPU), (stat, CPU))."""
    where = tempfile.mkdtemp(dir=directory)
    text = bench(pathlib.Path(binaries) / "metadata_bench", 64, 50_000, 200_000, where)
    shutil.rmtree(where)
    found = re.findall(r"([\d.]+)/s, +([\d.]+) us CPU", text)[:2]
    return [(1 / float(rate), float(cpu)) for rate, cpu in found]


def report(rows):
    document = {}
    print(f"{'':24} {'first':>10} {'second':>10} {'ratio':>7}   ratios of the pairs")
    for (name, what), pairs in rows.items():
        ratios = [b / a for a, b in pairs]
        first, second = (statistics.median(side) for side in zip(*pairs))
        document[f"{name}, {what}"] = {"first": first, "second": second, "ratio": statistics.median(ratios), "pairs": pairs}
        print(f"{name + ', ' + what:24} {first:10.4g} {second:10.4g} {statistics.median(ratios):7.3f}   "
              f"{min(ratios):.2f} to {max(ratios):.2f}")
    return document


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("first", help="directory of executables")
    parser.add_argument("second")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--mib", type=int, default=256)
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--dir", default="/dev/shm", help="where clusters and files are (default: memory)")
    parser.add_argument("--out", help="write the results here as JSON")
    arguments = parser.parse_args()

    rows = {}
    with tempfile.TemporaryDirectory(prefix="kintsugi-compare-", dir=arguments.dir) as name:
        root = pathlib.Path(name)
        source, scratch = root / "source", root / "scratch"
        source.mkdir()
        scratch.mkdir()
        write_sources(source, arguments.mib, arguments.files)
        pair = []
        try:
            for i, binaries in enumerate((arguments.first, arguments.second)):
                pair.append(Cluster(binaries, root / f"cluster-{i}"))
            for run in range(arguments.runs):
                for operation, function in operations(source, scratch, run):
                    (wall_a, cpu_a), (wall_b, cpu_b) = in_turns(pair, run, function)
                    rows.setdefault((operation, "s"), []).append((wall_a, wall_b))
                    if "repair" not in operation:
                        rows.setdefault((operation, "CPU-s"), []).append((cpu_a, cpu_b))
                shutil.rmtree(scratch)
                scratch.mkdir()
                for cluster in pair:
                    cluster.output("rm", "-r", f"/small-{run}")
                    cluster.output("rm", f"/large-{run}")
        finally:
            for cluster in pair:
                cluster.stop()
        measurable = all((pathlib.Path(b) / "metadata_bench").exists() for b in (arguments.first, arguments.second))
        for run in range(arguments.runs if measurable else 0):
            sides = in_turns((arguments.first, arguments.second), run, lambda b: metadata(b, root))
            for operation, (wall_a, cpu_a), (wall_b, cpu_b) in zip(("create", "stat"), *sides):
                rows.setdefault((operation, "s each"), []).append((wall_a, wall_b))
                rows.setdefault((operation, "CPU-us each"), []).append((cpu_a, cpu_b))
    document = report(rows)
    if arguments.out:
        pathlib.Path(arguments.out).write_text(json.dumps(document, indent=2) + "\n")


if __name__ == "__main__":
    main()
