#!/usr/bin/env python3
"""What it costs to record the chunkservers of a cluster under load, and for how long a chunkserver stands while somebody attaches to it.

    scripts/build.sh release kintsugi kintsugi-metaserver kintsugi-chunkserver kintsugi-repair-manager kintsugi-monitor kintsugi_capi
    scripts/lab/tracing/cost.py recording [--runs 21] [--mib 256] [--bin build/release/bin] [--dir /dev/shm]
    scripts/lab/tracing/cost.py pauses [--runs 50] [--bin build/release/bin] [--library build/release/lib/libkintsugi.so.1]

`recording`: put and get of one file twice while nobody records, and twice after `trace attach --circular` has had all chunkservers record all functions, in
changing order. Printed are the medians of the runs' ratios (of the first transfers, of the second ones, and how much the second differs from the first while
nobody records), with the interval in which the median lies with 95 %: of wall time, and of the processor time of the client and all daemons.

`pauses`: a client reads 4 KiB of files of one chunkserver, one read after the other without a rest, and with `--busy` another one gets a large file, again and
again. In turns, somebody has that server record all functions for a moment, or nobody does. Printed is how long the longest read took, of both kinds of
moments, and how many took longer than 5 ms; the first attach, for which the server looks through its binary, stands alone.
"""

import argparse
import itertools
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from compare import Cluster, write_sources  # noqa: E402
from paired import interval_of_median, order_of  # noqa: E402

LONGEST = "600s"
RECORDED = 0.3  # seconds of a recording; WINDOW has its beginning and its end in it
WINDOW = 0.6
LONG = 0.005
PATIENCE = 60
SMALL = 4096
FILES = 200


class Recorders:
    """Commands that have every chunkserver of a cluster record, until they are told to end."""

    def __init__(self, cluster):
        self.cluster, self.processes = cluster, []

    def begin(self):
        names = [f"chunkserver-{number}" for number in range(1, self.cluster.servers + 1)]
        self.processes = [subprocess.Popen([self.cluster.kintsugi, "trace", "attach", name, "--circular", "--for", LONGEST],
                                           env=self.cluster.environment, stdout=subprocess.DEVNULL) for name in names]
        until = time.monotonic() + PATIENCE
        for name in names:
            while not self.records(name):
                if time.monotonic() > until:
                    raise RuntimeError(f"{name} does not record")
                time.sleep(0.02)

    def records(self, name):
        return json.loads(self.cluster.output("trace", "status", name, "--json"))["phase"] == "recording"

    def end(self):
        for number in range(1, len(self.processes) + 1):
            if not self.records(f"chunkserver-{number}"):
                raise RuntimeError(f"chunkserver-{number} recorded no more")
            self.cluster.output("trace", "detach", f"chunkserver-{number}")
        for process in self.processes:
            process.wait()
        self.processes = []


def transfer(cluster, source, back, name):
    measured = {"put": cluster.measure("put", source, f"/{name}"), "get": cluster.measure("get", f"/{name}", back)}
    back.unlink()
    cluster.output("rm", f"/{name}")
    return measured


def recording(arguments, root):
    source = root / "source"
    source.mkdir()
    write_sources(source, arguments.mib, 0)
    cluster = Cluster(arguments.bin, root / "cluster")
    recorders = Recorders(cluster)
    rows = {}
    try:
        transfer(cluster, source / "large", root / "back", "warm-up")
        for run in range(arguments.runs):
            sides = [None, None]
            for side in order_of(run):
                if side:
                    recorders.begin()
                sides[side] = [transfer(cluster, source / "large", root / "back", f"{run}-{side}-{turn}") for turn in range(2)]
                if side:
                    recorders.end()
            (first, second), (attached, goes_on) = sides
            for row, (above, below) in {"nobody records, second / first": (second, first), "just attached": (attached, first), "recording goes on": (goes_on, second)}.items():
                for operation in first:
                    rows.setdefault((operation, row), []).append(tuple(a / b for a, b in zip(above[operation], below[operation])))
    finally:
        cluster.stop()
    print("| operation | chunkservers | wall time | processor time |\n| --- | --- | --- | --- |")
    for (operation, row), ratios in rows.items():
        columns = [(statistics.median(side), *interval_of_median(side)) for side in zip(*ratios)]
        print(f"| {operation} | {row} | " + " | ".join(f"{middle:.3f} ({low:.3f} to {high:.3f})" for middle, low, high in columns) + " |")
    return {f"{operation}, {row}": ratios for (operation, row), ratios in rows.items()}


class Probe(threading.Thread):
    """Opens files whose bytes one chunkserver has, and reads their beginnings, in turn."""

    def __init__(self, paths):
        super().__init__(daemon=True)
        import kintsugi
        self.cluster, self.paths = kintsugi.connect(), paths
        self.reads, self.stopping = [], threading.Event()  # (seconds at which each began, seconds that it took)

    def run(self):
        for path in itertools.cycle(self.paths):
            if self.stopping.is_set():
                return
            with self.cluster.open_raw(path) as file:
                began = time.monotonic()
                if len(file.pread(SMALL, 0)) != SMALL:
                    raise RuntimeError("a read was short")
                self.reads.append((began, time.monotonic() - began))

    def between(self, begin, end):
        """Seconds of all reads that were under way then; waits until they have ended."""
        while not self.reads or self.reads[-1][0] < end:
            if not self.is_alive():
                raise RuntimeError("the reads have ended")
            time.sleep(0.01)
        return [took for began, took in self.reads if began + took > begin and began < end]


def files_of_one_server(cluster, names):
    """(name of the chunkserver that has most of the files, these files): a file that is smaller than a cell lies in one chunk."""
    by_server = {}
    for name in names:
        chunk = json.loads(cluster.output("stat", name, "--json"))["stripes"][0]["chunks"][0]
        by_server.setdefault(chunk["server_name"], []).append(name)
    return max(by_server.items(), key=lambda item: len(item[1]))


def summary(moments):
    longest = sorted(1000 * max(reads) for reads in moments)
    late = sum(took > LONG for reads in moments for took in reads)
    return f"median {statistics.median(longest):.1f}, p95 {longest[int(0.95 * len(longest))]:.1f}, most {longest[-1]:.1f} ms; longer than 5 ms {late / len(moments):.1f} reads"


def gets_again_and_again(cluster, root):
    return subprocess.Popen(["sh", "-c", f"while {cluster.kintsugi} get --replace /large {root}/back > {root}/log 2>&1; do :; done"],
                            env=cluster.environment, start_new_session=True)


def pauses(arguments, root):
    source = root / "source"
    source.mkdir()
    write_sources(source, 128, 0)
    (source / "files").mkdir()
    for number in range(FILES):
        (source / "files" / str(number)).write_bytes(os.urandom(16 * SMALL))
    cluster = Cluster(arguments.bin, root / "cluster")
    try:
        cluster.output("put", source / "large", "/large")
        cluster.output("put", source / "files", "/files")
        os.environ.update(cluster.environment, KINTSUGI_LIBRARY=str(arguments.library.resolve()))
        sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "client/python"))
        server, paths = files_of_one_server(cluster, [f"/files/{number}" for number in range(FILES)])
        probe = Probe(paths)
        load = gets_again_and_again(cluster, root) if arguments.busy else None
        try:
            probe.start()
            time.sleep(2)
            moments = ([], [])  # nobody attaches; somebody does
            for run in range(arguments.runs):
                for attaches in order_of(run):
                    began = time.monotonic()
                    if attaches:
                        cluster.output("trace", "attach", server, "--for", f"{RECORDED}s", "--memory", "256m")
                    time.sleep(max(0.0, began + WINDOW - time.monotonic()))
                    moments[attaches].append(probe.between(began, time.monotonic()))
            if load and load.poll() is not None:
                raise RuntimeError(f"a get failed: {(root / 'log').read_text()}")
            probe.stopping.set()
            probe.join()
        finally:
            if load:
                os.killpg(load.pid, 15)
                load.wait()
    finally:
        cluster.stop()
    print(f"The longest read of {WINDOW} s ({len(probe.reads)} reads, median {1000 * statistics.median(took for _, took in probe.reads):.2f} ms):")
    print(f"- nobody attaches ({arguments.runs}): {summary(moments[0])}")
    print(f"- somebody attaches for the first time: {1000 * max(moments[1][0]):.1f} ms")
    print(f"- again ({arguments.runs - 1}): {summary(moments[1][1:])}")
    return {"nobody": [max(reads) for reads in moments[0]], "attached": [max(reads) for reads in moments[1]]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("recording", "pauses"))
    parser.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("build/release/bin"))
    parser.add_argument("--library", type=pathlib.Path, default=pathlib.Path("build/release/lib/libkintsugi.so.1"))
    parser.add_argument("--runs", type=int)
    parser.add_argument("--busy", action="store_true", help="of pauses: beside gets of a large file")
    parser.add_argument("--mib", type=int, default=256)
    parser.add_argument("--dir", default="/dev/shm", help="where the cluster and its files are (default: memory)")
    parser.add_argument("--out", type=pathlib.Path, help="write the results here as JSON")
    arguments = parser.parse_args()
    measure, runs = {"recording": (recording, 21), "pauses": (pauses, 50)}[arguments.what]
    arguments.runs = arguments.runs or runs
    with tempfile.TemporaryDirectory(prefix="kintsugi-cost-", dir=arguments.dir) as name:
        results = measure(arguments, pathlib.Path(name))
    if arguments.out:
        arguments.out.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
