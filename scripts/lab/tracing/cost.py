#!/usr/bin/env python3
"""What it costs to record the chunkservers of a cluster under load, and for how long a chunkserver stands while somebody attaches to it.

    scripts/build.sh release kintsugi kintsugi-metaserver kintsugi-chunkserver kintsugi-repair-manager kintsugi-monitor kintsugi_capi
    scripts/lab/tracing/cost.py recording [--runs 21] [--mib 256] [--bin build/release/bin] [--dir /dev/shm]
    scripts/lab/tracing/cost.py pauses [--runs 50] [--bin build/release/bin] [--library build/release/lib/libkintsugi.so.1]

`recording`: put and get of one file while nobody records (twice, the second is what the others are compared with), right after `trace attach --circular`
has had all chunkservers record all functions, and once more while they go on. Printed are the medians of the runs' ratios, with the interval in which the
median lies with 95 %: of wall time, and of the processor time of the client and all daemons.

`pauses`: a client reads 4 KiB of files of one chunkserver, again and again, and another one gets a large file, again and again. In turns, for half a second,
somebody attaches to that server, or nobody does. Printed is how long the longest read took, of both kinds of half seconds; the first attach, for which
the server looks through its binary, stands alone.
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
from paired import interval_of_median  # noqa: E402

LONGEST = "600s"
WINDOW = 0.5  # seconds
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
        for name in names:
            while json.loads(self.cluster.output("trace", "status", name, "--json"))["phase"] != "recording":
                time.sleep(0.02)

    def end(self):
        for number in range(1, len(self.processes) + 1):
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
    rows = {}
    try:
        recorders = Recorders(cluster)
        transfer(cluster, source / "large", root / "back", "warm-up")
        for run in range(arguments.runs):
            plain = transfer(cluster, source / "large", root / "back", f"plain-{run}")
            phases = {"nobody": transfer(cluster, source / "large", root / "back", f"again-{run}")}
            recorders.begin()
            try:
                for phase in ("just attached", "recording on"):
                    phases[phase] = transfer(cluster, source / "large", root / "back", f"recorded-{run}")
            finally:
                recorders.end()
            for phase, measured in phases.items():
                for operation, (wall, processor) in measured.items():
                    rows.setdefault((operation, phase), []).append((wall / plain[operation][0], processor / plain[operation][1]))
    finally:
        cluster.stop()
    print("| operation | chunkservers | wall time | processor time |\n| --- | --- | --- | --- |")
    for (operation, phase), ratios in rows.items():
        columns = [(statistics.median(side), *interval_of_median(side)) for side in zip(*ratios)]
        print(f"| {operation} | {phase} | " + " | ".join(f"{middle:.3f} ({low:.3f} to {high:.3f})" for middle, low, high in columns) + " |")
    return {f"{operation}, {phase}": ratios for (operation, phase), ratios in rows.items()}


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

    def longest(self, begin, end):
        return max(took for began, took in self.reads if began + took > begin and began < end)


def files_of_one_server(cluster, names):
    """(name of the chunkserver that has most of the files, these files): a file that is smaller than a cell lies in one chunk."""
    by_server = {}
    for name in names:
        chunk = json.loads(cluster.output("stat", name, "--json"))["stripes"][0]["chunks"][0]
        by_server.setdefault(chunk["server_name"], []).append(name)
    return max(by_server.items(), key=lambda item: len(item[1]))


def milliseconds(values):
    ordered = sorted(1000 * value for value in values)
    return f"median {statistics.median(ordered):.1f}, p95 {ordered[int(0.95 * (len(ordered) - 1))]:.1f}, most {ordered[-1]:.1f} ms"


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
        load = subprocess.Popen(["sh", "-c", f"while {cluster.kintsugi} get --replace /large {root}/back > {root}/log 2>&1; do :; done"],
                                env=cluster.environment, start_new_session=True)
        try:
            probe.start()
            time.sleep(2)
            found = {"nobody": [], "attached": []}
            for _ in range(arguments.runs):
                began = time.monotonic()
                time.sleep(WINDOW)
                found["nobody"].append(probe.longest(began, began + WINDOW))
                began = time.monotonic()
                cluster.output("trace", "attach", server, "--for", f"{WINDOW}s", "--memory", "256m")
                found["attached"].append(probe.longest(began, began + WINDOW))
                time.sleep(WINDOW)
            probe.stopping.set()
            probe.join()
        finally:
            os.killpg(load.pid, 15)
            load.wait()
    finally:
        cluster.stop()
    print(f"The longest of the reads of half a second ({len(probe.reads)} reads, median {1000 * statistics.median(took for _, took in probe.reads):.2f} ms):")
    print(f"- nobody attaches ({arguments.runs}): {milliseconds(found['nobody'])}")
    print(f"- somebody attaches for the first time: {1000 * found['attached'][0]:.1f} ms")
    print(f"- again ({arguments.runs - 1}): {milliseconds(found['attached'][1:])}")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("recording", "pauses"))
    parser.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("build/release/bin"))
    parser.add_argument("--library", type=pathlib.Path, default=pathlib.Path("build/release/lib/libkintsugi.so.1"))
    parser.add_argument("--runs", type=int)
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
