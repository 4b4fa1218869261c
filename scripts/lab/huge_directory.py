#!/usr/bin/env python3
"""One directory of very many names: how long it takes to fill, list and empty it, what memory that takes, and how long others wait meanwhile.

    scripts/lab/huge_directory.py [--files 1000000] [--alone 190000] [--mounts 3] [--bin build/release/bin] [--dir DIRECTORY] [--json FILE]
    scripts/lab/huge_directory.py --stored 10000000 [--skip "look at all,remove"] ...

A cluster of ten chunkservers and its mounts are made below DIRECTORY; root is needed. The first mount makes the directory and --alone names in it
by itself, which it may do under its lease; then all --mounts mounts fill it together (each kernel lets one name at a time be made in a directory).
It is listed, all names are looked at (`find -size`), names are made, looked at and removed in it at random while it is full, it gets a quota
and loses it, gets a snapshot, has half of its names removed through the mount, loses the snapshot, and what is left is removed at once
(`kintsugi rm -r`). With --stored the names are put into the metaserver's store before it starts, by huge_directory_bench (target `benchmarks`), since
millions of calls take hours. --skip leaves out steps whose names contain one of these.

All the while a client in another directory asks the metaserver for attributes and makes names, one after the other. Printed is for each step: how
long it took, operations a second, the longest and the 99.9th-percentile time of the other client's calls (and the longest that a process which
only sleeps was late in the same time, which is the machine's share), and the most memory of the mounts' processes (PSS of all three of a mount)
and of the metaserver (RSS), in MiB.
"""

import argparse
import contextlib
import json
import multiprocessing
import os
import pathlib
import random
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time

from compare import Cluster

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "filesystem"))
from mounted import mount, require_fuse  # noqa: E402

PROBE_PAUSE = 0.002
FULL_OPERATIONS = 2000
PATIENCE = 3600


def name_of(number):
    return f"entry-{number:010d}"  # as huge_directory_bench makes them


def fill(directory, begin, end):
    at = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    for number in range(begin, end):
        os.mknod(name_of(number), stat.S_IFREG | 0o644, dir_fd=at)
    os.close(at)


def list_names(directory):
    with os.scandir(directory) as entries:
        return sum(1 for _ in entries)


def look_at_all(directory):
    # Sorts nothing and holds nothing back, and asks for the attributes of each.
    found = subprocess.run(["find", directory, "-mindepth", "1", "-size", "0", "-printf", "x"], capture_output=True, check=True)
    return len(found.stdout)


def at_random(directory, files):
    """Makes, looks at and removes names all over the directory."""
    rng = random.Random(1)
    for _ in range(FULL_OPERATIONS):
        name = f"entry-{rng.randrange(files):010d}+"
        with contextlib.suppress(FileExistsError):
            os.close(os.open(directory / name, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        os.stat(directory / name_of(rng.randrange(files)))
        os.unlink(directory / name)
    return 3 * FULL_OPERATIONS


def remove(directory, begin, end):
    at = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    for number in range(begin, end):
        os.unlink(name_of(number), dir_fd=at)
    os.close(at)


def pss(pid):
    with contextlib.suppress(OSError):
        for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]:
            name, value = line.split(":")
            if name == "Pss":
                return int(value.split()[0]) / 1024
    return 0


def rss(pid):
    with contextlib.suppress(OSError):
        for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1]) / 1024
    return 0


class Memory:
    """The most that the mounts and the metaserver hold, looked at every half second."""

    def __init__(self, mounts, metaserver):
        self.mounts, self.metaserver = mounts, metaserver
        self.ends = threading.Event()
        self.lock = threading.Lock()
        self.most = {}
        self.take()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while not self.ends.wait(0.5):
            now = {"metaserver": rss(self.metaserver)}
            for directory in self.mounts:
                pids = subprocess.run(["pgrep", "-f", f"kintsugi-mount {directory}"], capture_output=True, text=True, check=False).stdout.split()
                now[directory.name] = sum(pss(pid) for pid in pids)
            with self.lock:
                for who, mib in now.items():
                    self.most[who] = max(self.most.get(who, 0), mib)

    def take(self):
        with self.lock:
            most, self.most = self.most, {}
        return most

    def stop(self):
        self.ends.set()
        self.thread.join()


def probe(directory, ends, out):
    """Times of calls, one after the other; sends what was measured since the last time whenever it is asked."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    number, found = 0, {"stat": [], "create": [], "sleep": []}

    def timed(what, call):
        began = time.monotonic()
        call()
        found[what].append(time.monotonic() - began)

    while not ends.is_set():
        timed("sleep", lambda: time.sleep(PROBE_PAUSE))
        found["sleep"][-1] -= PROBE_PAUSE
        timed("stat", lambda: os.stat(directory / "known"))
        if number % 5 == 0:
            timed("create", lambda: os.mknod(directory / f"new-{number}", stat.S_IFREG | 0o644))
        number += 1
        if out.poll():
            out.recv()
            out.send(found)
            found = {"stat": [], "create": [], "sleep": []}


class Others:
    """A client of its own, with a mount that believes nothing that it was told before."""

    def __init__(self, directory):
        self.ends = multiprocessing.Event()
        self.pipe, theirs = multiprocessing.Pipe()
        self.process = multiprocessing.Process(target=probe, args=(directory, self.ends, theirs))
        self.process.start()

    def take(self):
        self.pipe.send(None)
        return self.pipe.recv()

    def stop(self):
        self.ends.set()
        self.process.join()


class Steps:
    def __init__(self, memory, others, skipped):
        self.memory, self.others, self.skipped, self.rows = memory, others, skipped, []

    def run(self, what, function):
        if any(word in what for word in self.skipped):
            return
        self.memory.take()
        self.others.take()
        began = time.monotonic()
        count = function()
        seconds = time.monotonic() - began
        time.sleep(1.0)  # what goes on behind it counts, too
        times = self.others.take()
        row = {"step": what, "seconds": seconds, "rate": count / seconds if count else None, "memory": self.memory.take()}
        for kind, values in times.items():
            values.sort()
            row[kind] = {"longest": values[-1], "999": values[int(len(values) * 0.999)], "median": values[len(values) // 2], "calls": len(values)}
        self.rows.append(row)
        mounts = max(mib for who, mib in row["memory"].items() if who != "metaserver")
        print(f"{what}: {seconds:.1f} s" + (f", {row['rate']:,.0f}/s" if count else "") +
              "".join(f"; {kind} {1000 * row[kind]['999']:.0f}, longest {1000 * row[kind]['longest']:.0f} ms" for kind in ("stat", "create", "sleep")) +
              f"; MiB: mount {mounts:.0f}, metaserver {row['memory']['metaserver']:.0f}", flush=True)


def store_names(binaries, cluster, directory, names):
    """Fills /huge in the store of the metaserver, which is stopped for that time."""
    pid = int((directory / "run/metaserver.pid").read_text().split()[0])
    os.kill(pid, signal.SIGTERM)
    while pathlib.Path(f"/proc/{pid}").exists():
        time.sleep(0.1)
    subprocess.run([binaries / "huge_directory_bench", str(names), directory / "data/meta", "fill"], check=True)
    subprocess.run([cluster.kintsugi, "cluster", "start", "--dir", directory], check=True, stdout=subprocess.DEVNULL)


def wait_until_reclaimed(cluster, left):
    began = time.monotonic()
    while time.monotonic() - began < PATIENCE:
        if json.loads(cluster.output("df", "--json"))["files"] <= left:
            return
        time.sleep(0.2)
    raise RuntimeError("what was removed is not gone")


def run_steps(steps, cluster, mounts, arguments):
    files, alone = arguments.stored or arguments.files, arguments.alone
    directories = [one / "huge" for one in mounts]
    first = directories[0]

    def together(function, begin, end):
        share = -(-(end - begin) // len(directories))
        ranges = [(directory, begin + i * share, min(end, begin + (i + 1) * share)) for i, directory in enumerate(directories)]
        with multiprocessing.Pool(len(ranges), signal.signal, (signal.SIGTERM, signal.SIG_DFL)) as pool:
            pool.starmap(function, ranges)
        return end - begin

    def counted(found):
        if found != files:
            raise RuntimeError(f"{found} of {files} names are listed")
        return found

    def silently(*words):
        cluster.output(*words)

    alone = files if arguments.stored else min(alone, files)
    if not arguments.stored:
        first.mkdir()
        steps.run(f"make {alone} alone", lambda: fill(first, 0, alone) or alone)
    if files > alone:
        steps.run(f"make {files - alone} more by {len(mounts)} mounts", lambda: together(fill, alone, files))
    steps.run("list", lambda: counted(list_names(first)))
    steps.run("look at all", lambda: counted(look_at_all(first)))
    steps.run("make, look at, remove at random", lambda: at_random(first, files))
    steps.run("set a quota", lambda: silently("quota", "set", "/huge", "--files", str(10 * files)))
    steps.run("remove the quota", lambda: silently("quota", "remove", "/huge"))
    steps.run("make a snapshot", lambda: silently("snapshot", "create", "/huge", "kept"))
    half = files // 2
    steps.run(f"remove {half} by {len(mounts)} mounts", lambda: together(remove, 0, half))
    steps.run("list the snapshot", lambda: counted(list_names(first / ".snapshots/kept")))
    steps.run("delete the snapshot", lambda: silently("snapshot", "delete", "/huge", "kept"))
    steps.run("list what is left", lambda: list_names(first))
    steps.run("wait for what is done behind", lambda: time.sleep(5))
    left = json.loads(cluster.output("df", "--json"))["files"]
    steps.run("remove what is left at once", lambda: silently("rm", "-r", "/huge"))
    steps.run("until it is gone", lambda: wait_until_reclaimed(cluster, left // 100) or left)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--alone", type=int, default=190_000, help="names that one mount makes before the others help")
    parser.add_argument("--stored", type=int, help="so many names are there before anything is measured")
    parser.add_argument("--skip", default="", help="steps, separated by commas")
    parser.add_argument("--mounts", type=int, default=3)
    parser.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("build/release/bin"))
    parser.add_argument("--dir", type=pathlib.Path, default=pathlib.Path("."))
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    require_fuse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended before it was done"))
    binaries = arguments.bin.resolve()
    place = pathlib.Path(tempfile.mkdtemp(prefix="huge-directory-", dir=arguments.dir)).resolve()
    cluster = Cluster(binaries, place / "cluster")
    mounts, other, running = [place / f"mount-{i}" for i in range(arguments.mounts)], place / "other", []
    try:
        if arguments.stored:
            store_names(binaries, cluster, place / "cluster", arguments.stored)
        for directory in mounts:
            mount(binaries, cluster, directory)
        mount(binaries, cluster, other, "--cached-for", "0ms")
        # Made by another mount than the one that uses it, which therefore has no lease of it and asks for everything.
        (mounts[0] / "others").mkdir()
        (mounts[0] / "others" / "known").touch()
        os.stat(other / "others" / "known")
        metaserver = int((place / "cluster/run/metaserver.pid").read_text().split()[0])
        memory = Memory([*mounts, other], metaserver)
        running.append(memory)
        others = Others(other / "others")
        running.append(others)
        steps = Steps(memory, others, [word for word in arguments.skip.split(",") if word])
        run_steps(steps, cluster, mounts, arguments)
        if arguments.json:
            arguments.json.write_text(json.dumps(steps.rows, indent=1))
    finally:
        for one in running:
            one.stop()
        for directory in [*mounts, other]:
            subprocess.run(["umount", "-l", directory], check=False)
        cluster.stop()
        shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    main()
