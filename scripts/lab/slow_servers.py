#!/usr/bin/env python3
"""Reads of 1 MiB while a server is slow, dead, or has a slow disk: their p99 beside that of the healthy cluster, in one run.

    scripts/lab/slow_servers.py [--bin build/test/bin] [--library build/test/lib/libkintsugi.so] [--dir DIRECTORY] [--mib 2048]
                                [--reads 2000] [--readers 1] [--rounds 1] [--disk-rate 10] [--delay-ms 0] [--only NAME,...] [--json FILE]

A cluster of ten chunkservers (rs-6-3-1024k, no cache of chunks: every read comes from a disk) is made below DIRECTORY, which has to be on a real
disk for the part `disk`. Readers in processes of their own read 1 MiB at random, aligned offsets of one file through the library, without
read-ahead. Parts (--only):

    slow   one server answers a hundred times slower: a delay at its fault point send-chunk, of 99 times the healthy median, or of --delay-ms
    dead   one server is killed; reads until its chunks are rebuilt, by repairs at full speed
    disk   all disks are limited to --disk-rate MB/s by control groups, one of them to a third of that: seconds until `kintsugi diagnose` names it and until
           the metaserver has others go around it, and the reads from 10 s later on. Needs root and the first version of the controller blkio

Each part measures the healthy cluster right before. Printed are medians of the rounds. Anything else that runs on the machine shows in p99: run it alone.
"""

import argparse
import ctypes
import json
import os
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "diagnosis"))

from compare import Cluster  # noqa: E402
from surroundings import Grouped, disk_of  # noqa: E402

MIB = 1 << 20
SLOWER = 100
LEARNING_SECONDS = 45  # a monitor judges a disk by what it was before
DISK_READERS = 4  # so that the disks have something to do
NAMED_WITHIN, AFTER_NAMED, CALM_SECONDS = 120, 10, 30


class Options(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("uid", ctypes.c_uint32), ("gid", ctypes.c_uint32), ("groups", ctypes.c_void_p), ("group_count", ctypes.c_size_t),
                ("umask", ctypes.c_uint32), ("max_outstanding", ctypes.c_uint32), ("connect_timeout_ms", ctypes.c_uint64), ("io_timeout_ms", ctypes.c_uint64),
                ("write_behind_ms", ctypes.c_uint64), ("dirty_bytes", ctypes.c_uint64), ("memory_bytes", ctypes.c_uint64),
                ("read_ahead_bytes", ctypes.c_uint64), ("log_file", ctypes.c_char_p)]


def read_for_ever(library, path, seed):
    """The reader's process: a line `TIME SECONDS` for each read, until it is ended."""
    lib = ctypes.CDLL(library)
    lib.kintsugi_pread.restype = ctypes.c_int64
    lib.kintsugi_pread.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int64]
    lib.kintsugi_last_error.restype = ctypes.c_char_p
    options = Options()
    lib.kintsugi_options_init(ctypes.byref(options), ctypes.sizeof(options))
    options.read_ahead_bytes = 0
    connection, file = ctypes.c_void_p(), ctypes.c_void_p()
    if lib.kintsugi_connect(None, None, ctypes.byref(options), ctypes.byref(connection)) != 0 or \
            lib.kintsugi_open(connection, path.encode(), os.O_RDONLY, 0, ctypes.byref(file)) != 0:
        sys.exit(f"reader: {lib.kintsugi_last_error().decode()}")
    size = int(os.environ["SLOW_SERVERS_MIB"])
    rng, buffer = random.Random(seed), ctypes.create_string_buffer(MIB)
    while True:
        offset = rng.randrange(size) * MIB
        began = time.monotonic()
        if lib.kintsugi_pread(file, buffer, MIB, offset) != MIB:
            sys.exit(f"reader: {lib.kintsugi_last_error().decode()}")
        print(f"{began:.6f} {time.monotonic() - began:.6f} {int(buffer.raw[:8] == offset.to_bytes(8, 'little'))}", flush=True)


class Readers:
    """Processes that read while this is entered. `reads(begin, end)`: seconds of those that began in between."""

    def __init__(self, library, path, count, mib, environment, directory):
        self.command = [sys.executable, __file__, "--reader", str(library), path]
        self.count, self.environment, self.directory = count, dict(environment, SLOW_SERVERS_MIB=str(mib)), directory

    def __enter__(self):
        self.outputs = [self.directory / f"reader-{number}" for number in range(self.count)]
        self.processes = [subprocess.Popen([*self.command, str(number)], env=self.environment, stdout=open(output, "w"))
                          for number, output in enumerate(self.outputs)]
        return self

    def __exit__(self, *unused):
        for process in self.processes:
            process.kill()
            process.wait()

    def all(self):
        if any(process.poll() is not None for process in self.processes):
            raise RuntimeError("a reader has ended")
        found = []
        for output in self.outputs:
            for line in output.read_text().splitlines(keepends=True):
                if line.endswith("\n"):
                    found.append(tuple(map(float, line.split())))
        if not all(right for _, _, right in found):
            raise RuntimeError("a read brought wrong bytes")
        return found

    def reads(self, begin, end=float("inf")):
        return [seconds for at, seconds, _ in self.all() if begin <= at < end]

    def next(self, count, least_seconds=0.0):
        """Waits for so many more reads, and for as long as that."""
        begin = time.monotonic()
        while True:
            time.sleep(0.5)
            reads = self.reads(begin)
            if len(reads) >= count and time.monotonic() - begin >= least_seconds:
                return reads


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def summary(reads):
    return {"reads": len(reads), "median_ms": 1e3 * statistics.median(reads), "p90_ms": 1e3 * percentile(reads, 0.9), "p99_ms": 1e3 * percentile(reads, 0.99),
            "longest_ms": 1e3 * max(reads)}


class Servers(Cluster):
    """Chunkservers without caches."""

    def __init__(self, binaries, directory):
        super().__init__(binaries, directory)
        for config in (directory / "etc").glob("chunkserver-*.toml"):
            config.write_text(config.read_text() + 'cache.memory = "0B"\n')
        meta = directory / "etc" / "metaserver.toml"
        meta.write_text("".join(line for line in meta.read_text().splitlines(keepends=True) if "delay" not in line) + 'repair.delay = "0s"\n')
        self.stop()
        self.start()

    def start(self):
        subprocess.run([self.kintsugi, "cluster", "start", "--dir", self.directory], check=True, stdout=subprocess.DEVNULL)

    def pid(self, name):
        return int((self.directory / "run" / f"{name}.pid").read_text().split()[0])

    def json(self, *words, check=True):
        out = subprocess.run([self.kintsugi, *map(str, words), "--json"], env=self.environment, check=check, capture_output=True, text=True).stdout
        return json.loads(out)

    def write(self, path, mib):
        """Each MiB begins with its offset; the rest cannot be compressed away by anything."""
        source, part = self.directory / "source", os.urandom(MIB)
        with open(source, "wb") as out:
            for number in range(mib):
                out.write((number * MIB).to_bytes(8, "little") + part[8:])
        subprocess.run([self.kintsugi, "put", str(source), path], env=self.environment, check=True, stdout=subprocess.DEVNULL)
        source.unlink()


def measure_slow(cluster, readers, arguments, server):
    readers.next(200)
    healthy = summary(readers.next(arguments.reads))
    delay = (arguments.delay_ms or (SLOWER - 1) * healthy["median_ms"]) / 1e3
    cluster.output("fault", "set", server, "send-chunk", "delay", "--delay", f"{delay:.3f}")
    slowed = summary(readers.next(arguments.reads))
    cluster.output("fault", "clear", server)
    return {"healthy": healthy, "slowed": slowed, "ratio": slowed["p99_ms"] / healthy["p99_ms"], "delay_ms": 1e3 * delay}


def missing(cluster):
    return cluster.json("fsck", "/", check=False)["missing_chunks"]


def measure_dead(cluster, readers, arguments, server):
    readers.next(200)
    healthy = summary(readers.next(arguments.reads))
    os.kill(cluster.pid(server), signal.SIGKILL)
    killed = time.monotonic()
    while missing(cluster) == 0:
        time.sleep(0.2)
    began = time.monotonic()
    while missing(cluster) > 0:
        time.sleep(0.2)
    ended = time.monotonic()
    before, during = readers.reads(killed, began), readers.reads(began, ended)
    cluster.start()
    time.sleep(5)
    result = {"healthy": healthy, "until_repair": summary(before), "during_repair": summary(during), "repair_seconds": ended - began}
    result["ratio_until_repair"], result["ratio"] = (result[name]["p99_ms"] / healthy["p99_ms"] for name in ("until_repair", "during_repair"))
    return result


def limited_disk(pid, directory, rate):
    files = ["blkio.throttle.read_bps_device", "blkio.throttle.write_bps_device"]
    disk = disk_of(directory)
    return Grouped(pid, "blkio", before=[(file, f"{disk} {rate}") for file in files], at_end=[(file, f"{disk} 0") for file in files])


def seconds_until(condition, limit):
    began = time.monotonic()
    while time.monotonic() - began < limit:
        if condition():
            return time.monotonic() - began
        time.sleep(0.5)
    return None


def measure_disk(cluster, readers, arguments, server):
    rate = int(arguments.disk_rate * 1e6)
    servers = [f"chunkserver-{number}" for number in range(1, 11)]
    groups = {name: limited_disk(cluster.pid(name), cluster.directory, rate) for name in servers}
    try:
        for group in groups.values():
            group.begin()
        readers.next(arguments.reads, LEARNING_SECONDS)
        healthy = summary(readers.next(arguments.reads))
        groups[server].write([(file, value.rsplit(" ", 1)[0] + f" {rate // 3}") for file, value in groups[server].before])
        throttled = time.monotonic()

        def named():
            return any(server in verdict["server"] and verdict["kind"] in ("device", "slow")
                       for verdict in cluster.json("diagnose", check=False)["verdicts"])

        def gone_around():
            return any(state["name"] == server and state.get("slow") for state in cluster.json("server", "list")["servers"])

        named_after = seconds_until(named, NAMED_WITHIN)
        result = {"healthy": healthy, "named_s": named_after, "until_named": summary(readers.reads(throttled))}
        if named_after is None:
            return result
        result["gone_around_s"] = (seconds_until(gone_around, 10) or float("nan")) + named_after
        time.sleep(AFTER_NAMED)
        result["after"] = summary(readers.next(arguments.reads, CALM_SECONDS))
        result["ratio"] = result["after"]["p99_ms"] / healthy["p99_ms"]
        return result
    finally:
        for group in groups.values():
            group.end()


PARTS = {"slow": measure_slow, "dead": measure_dead, "disk": measure_disk}


def main():
    if sys.argv[1:2] == ["--reader"]:
        read_for_ever(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("build/test/bin"))
    parser.add_argument("--library", type=pathlib.Path, default=pathlib.Path("build/test/lib/libkintsugi.so"))
    parser.add_argument("--dir", type=pathlib.Path, default=pathlib.Path("."))
    parser.add_argument("--mib", type=int, default=2048)
    parser.add_argument("--reads", type=int, default=2000)
    parser.add_argument("--readers", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--disk-rate", type=float, default=10, help="MB/s of each disk in the part `disk`")
    parser.add_argument("--delay-ms", type=float, default=0, help="of the part `slow`; 0: 99 times the healthy median")
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    for needed in (arguments.bin / "kintsugi", arguments.library):
        if not needed.exists():
            parser.error(f"{needed} does not exist: build it, or say where it is (--bin, --library)")
    results = {}
    with tempfile.TemporaryDirectory(prefix="slow-servers-", dir=arguments.dir) as work:
        work = pathlib.Path(work).resolve()
        cluster = Servers(arguments.bin.resolve(), work / "cluster")
        try:
            cluster.write("/file", arguments.mib)
            for number in range(arguments.rounds):
                for part in arguments.only.split(","):
                    server = f"chunkserver-{1 + (3 * number + list(PARTS).index(part)) % 10}"
                    count = DISK_READERS if part == "disk" else arguments.readers
                    with Readers(arguments.library.resolve(), "/file", count, arguments.mib, cluster.environment, work) as readers:
                        result = PARTS[part](cluster, readers, arguments, server)
                    results.setdefault(part, []).append(result)
                    print(f"round {number + 1}, {part}, {server}: {json.dumps(result)}", flush=True)
        finally:
            cluster.stop()
            if arguments.json:
                arguments.json.write_text(json.dumps(results, indent=1))
    print("\n| part | healthy p99, ms | p99 with the fault, ms | ratio |\n| --- | --- | --- | --- |")
    faulty = {"slow": "slowed", "dead": "during_repair", "disk": "after"}
    for part, rounds in results.items():
        whole = [one for one in rounds if "ratio" in one]
        if whole:
            print(f"| {part} | {statistics.median(one['healthy']['p99_ms'] for one in whole):.1f} | "
                  f"{statistics.median(one[faulty[part]]['p99_ms'] for one in whole):.1f} | {statistics.median(one['ratio'] for one in whole):.2f} |")
    for one in results.get("disk", []):
        print(f"named after {one['named_s']} s, gone around after {one.get('gone_around_s')} s")


if __name__ == "__main__":
    main()
