#!/usr/bin/env python3
"""Many small files: how fast a tree of them goes in and out, beside what the disk syncs in the same minute.

    scripts/lab/small_files.py [BINARIES...] [--files 10000] [--bytes 4096] [--rounds 5] [--dir DIR] [--out results.json]

Each directory of executables (default: build/release/bin) gets a cluster of ten chunkservers below --dir; in every round each of
them, in changing order, stores the same tree and fetches it into another one, beside a loop that writes 4 KiB and calls fdatasync:
alone, and ten of them at once, as ten chunkservers do. The tree that came back is compared with the one that went in. Nothing is
removed before the end, and five minutes should lie between two runs: so long ext4 looks at each inode that was freed before it takes
another, which costs a get more than all the rest. Printed are medians and their range: files a second, and CPU time for one file by who spent it.
"""

import argparse
import filecmp
import json
import os
import pathlib
import statistics
import subprocess
import tempfile
import threading
import time

from throughput import cpu_seconds

FILES_A_DIRECTORY = 250
SYNC_SECONDS = 1.0
SYNCING_AT_ONCE = 10


def write_tree(root, files, size):
    for i in range(files):
        directory = root / f"d{i // FILES_A_DIRECTORY:04}"
        directory.mkdir(parents=True, exist_ok=True)
        (directory / f"file-{i:06}").write_bytes(os.urandom(size))


def same_trees(left, right):
    for directory, _, names in os.walk(left):
        other = pathlib.Path(right) / pathlib.Path(directory).relative_to(left)
        _, mismatch, errors = filecmp.cmpfiles(directory, other, names, shallow=False)
        if mismatch or errors:
            return False
    return True


def count_syncs(path, deadline, counts):
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    os.posix_fallocate(descriptor, 0, 64 << 20)
    os.fsync(descriptor)
    block, done = bytes(4096), 0
    while time.monotonic() < deadline:
        os.pwrite(descriptor, block, done * 4096 % (64 << 20))
        os.fdatasync(descriptor)
        done += 1
    os.close(descriptor)
    os.unlink(path)
    counts.append(done)


def syncs_a_second(directory, at_once):
    """4 KiB each, over all loops together."""
    counts, began = [], time.monotonic()
    loops = [threading.Thread(target=count_syncs, args=(directory / f"sync-{i}", began + SYNC_SECONDS, counts))
             for i in range(at_once)]
    for loop in loops:
        loop.start()
    for loop in loops:
        loop.join()
    return sum(counts) / (time.monotonic() - began)


class Cluster:
    def __init__(self, binaries, directory):
        self.name = str(binaries)
        self.kintsugi = str(pathlib.Path(binaries).resolve() / "kintsugi")
        self.directory = pathlib.Path(directory)
        subprocess.run([self.kintsugi, "cluster", "start", "--dir", self.directory, "--chunkservers", "10",
                        "--policy", "rs-6-3-1024k"], check=True, stdout=subprocess.DEVNULL)
        lines = subprocess.run(["sh", "-c", f". {self.directory}/env; echo $KINTSUGI_META; echo $KINTSUGI_SECRET_FILE"],
                               check=True, capture_output=True, text=True).stdout.split()
        self.environment = dict(os.environ, KINTSUGI_META=lines[0], KINTSUGI_SECRET_FILE=lines[1])
        pids = {p.stem: int(p.read_text().split()[0]) for p in (self.directory / "run").glob("*.pid")}
        self.metaserver = pids.pop("metaserver")
        self.chunkservers = list(pids.values())

    def cpu(self):
        return cpu_seconds(self.metaserver), sum(map(cpu_seconds, self.chunkservers))

    def measure(self, files, *words):
        """Files a second, and microseconds of CPU for each: of the client, the metaserver, all chunkservers."""
        before, start = self.cpu(), time.monotonic()
        process = subprocess.Popen([self.kintsugi, *map(str, words)], env=self.environment)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.monotonic() - start
        if status != 0:
            raise RuntimeError(f"{' '.join(map(str, words))} failed with status {status}")
        spent = [usage.ru_utime + usage.ru_stime] + [now - then for now, then in zip(self.cpu(), before)]
        return [files / seconds] + [1e6 * cpu / files for cpu in spent]

    def stop(self):
        subprocess.run([self.kintsugi, "cluster", "stop", "--dir", self.directory], stdout=subprocess.DEVNULL)


def one_round(cluster, source, target, files, number):
    """Rows of measure() for a put and a get."""
    put = cluster.measure(files, "put", source, f"/tree-{number}")
    get = cluster.measure(files, "get", f"/tree-{number}", target)
    if not same_trees(source, target):
        raise RuntimeError(f"{cluster.name}: what came back differs")
    return {"put": put, "get": get}


def spread(values):
    return f"{statistics.median(values):,.0f} ({min(values):,.0f} to {max(values):,.0f})"


def report(clusters, syncs, rows):
    print(f"syncs/s: one loop {spread(syncs[1])}, {SYNCING_AT_ONCE} loops {spread(syncs[SYNCING_AT_ONCE])}")
    for cluster in clusters:
        for what in ("put", "get"):
            columns = list(zip(*rows[cluster.name][what]))
            client, meta, chunk = (statistics.median(column) for column in columns[1:])
            print(f"{cluster.name}: {what} {spread(columns[0])} files/s; CPU-us a file: {client + meta + chunk:.0f} = "
                  f"client {client:.0f} + metaserver {meta:.0f} + chunkservers {chunk:.0f}")


def main():
    here = pathlib.Path(__file__).resolve().parents[2] / "build/release/bin"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binaries", nargs="*", default=[str(here)], help="directories of executables")
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--bytes", type=int, default=4096)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--dir", help="where clusters and files are (default: the directory for temporary files)")
    parser.add_argument("--out", help="write the results here as JSON")
    arguments = parser.parse_args()

    with tempfile.TemporaryDirectory(prefix="kintsugi-small-", dir=arguments.dir) as name:
        root, clusters = pathlib.Path(name), []
        write_tree(root / "source", arguments.files, arguments.bytes)
        os.sync()
        syncs = {1: [], SYNCING_AT_ONCE: []}
        try:
            for i, binaries in enumerate(arguments.binaries):
                clusters.append(Cluster(binaries, root / f"cluster-{i}"))
            rows = {cluster.name: {"put": [], "get": []} for cluster in clusters}
            for number in range(arguments.rounds):
                for at_once, rates in syncs.items():
                    rates.append(syncs_a_second(root, at_once))
                for cluster in clusters if number % 2 == 0 else reversed(clusters):
                    target = root / f"target-{clusters.index(cluster)}-{number}"
                    found = one_round(cluster, root / "source", target, arguments.files, number)
                    for what, row in found.items():
                        rows[cluster.name][what].append(row)
        finally:
            for cluster in clusters:
                cluster.stop()
    report(clusters, syncs, rows)
    if arguments.out:
        pathlib.Path(arguments.out).write_text(json.dumps({"syncs": syncs, "rows": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
