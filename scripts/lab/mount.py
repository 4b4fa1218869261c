#!/usr/bin/env python3
"""The mount beside a local ext4 directory, or beside the mount of another build, in turns on one machine.

    scripts/lab/mount.py [--rounds 3] [--bin build/release/bin] [--beside BINARIES] [--dir DIRECTORY] [--mib 1024] [--json FILE]
                         [--only NAME,...]

A cluster of ten chunkservers (rs-6-3-1024k) and its mount are made below DIRECTORY. The other side is DIRECTORY's own file system,
or, with --beside, a cluster and a mount of that build. Each figure is measured on one side and right after on the other, round
after round, and the sides change places; printed are medians, and the median of the rounds' ratios.
Before what is to be read cold, the page cache is dropped: root is needed. fio, git, sqlite3, tar, gcc with make, and PostgreSQL
(postgresql, postgresql-contrib; as the user postgres) are used where they are installed.
"""

import argparse
import json
import multiprocessing
import os
import pathlib
import shutil
import sqlite3
import statistics
import subprocess
import tempfile
import time

from compare import Cluster
from databases import Postgres

SECONDS = 4  # of a figure that counts operations
BLOCK = os.urandom(4096)


def drop_caches():
    os.sync()
    pathlib.Path("/proc/sys/vm/drop_caches").write_text("3")


def per_second(count, began):
    return count / (time.time() - began)


def write_large(d, mib):
    part = os.urandom(1 << 20)
    began = time.time()
    f = os.open(d / "large", os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
    for _ in range(mib):
        os.write(f, part)
    os.fsync(f)
    os.close(f)
    return per_second(mib * (1 << 20) / 1e6, began)


def read_large(d, mib):
    drop_caches()
    began = time.time()
    f = os.open(d / "large", os.O_RDONLY)
    while os.read(f, 1 << 20):
        pass
    os.close(f)
    return per_second(mib * (1 << 20) / 1e6, began)


def fio(d, mib, kind, engine, depth, *more):
    drop_caches()
    out = subprocess.run(["fio", "--name=x", f"--filename={d / 'large'}", f"--ioengine={engine}", f"--iodepth={depth}",
                          f"--rw={kind}", "--bs=4k", f"--size={mib}m", f"--runtime={SECONDS}", "--time_based",
                          "--output-format=json", *more], check=True, capture_output=True, text=True).stdout
    job = json.loads(out[out.index("{"):])["jobs"][0]
    return job["read"]["iops"] + job["write"]["iops"]


def write_file(path, sync):
    f = os.open(path, os.O_CREAT | os.O_WRONLY)
    os.write(f, BLOCK)
    if sync:
        os.fsync(f)
    os.close(f)


def create_synced(d, name="synced"):
    (d / name).mkdir()
    began, count = time.time(), 0
    while time.time() - began < SECONDS:
        write_file(d / name / str(count), True)
        count += 1
    return per_second(count, began)


def create_synced_by(d, processes):
    with multiprocessing.Pool(processes) as pool:
        return sum(pool.starmap(create_synced, [(d, f"synced-{i}") for i in range(processes)]))


def create_small(d, files):
    (d / "small").mkdir()
    began = time.time()
    for i in range(files):
        write_file(d / "small" / str(i), False)
    return per_second(files, began)


def read_small(d, files):
    time.sleep(5)  # until what was written behind is written out
    drop_caches()
    began = time.time()
    for i in range(files):
        with open(d / "small" / str(i), "rb", buffering=0) as f:
            f.read(8192)
    return per_second(files, began)


def stat_small(d, files, cold):
    if cold:
        drop_caches()
    began = time.time()
    for entry in os.scandir(d / "small"):
        entry.stat(follow_symlinks=False)
    return per_second(files, began)


def sqlite_commits(d):
    db = sqlite3.connect(d / "data.sqlite", isolation_level=None)
    db.execute("create table t (a integer primary key, b text)")
    began, count = time.time(), 0
    while time.time() - began < SECONDS:
        db.execute("begin")
        db.execute("insert into t (b) values (?)", ("x" * 100,))
        db.execute("commit")
        count += 1
    db.close()
    return per_second(count, began)


def untar(d, archive):
    (d / "tar").mkdir()
    began = time.time()
    subprocess.run(["tar", "-xf", archive, "-C", d / "tar"], check=True)
    return time.time() - began


def clone(d, repository):
    began = time.time()
    subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", repository, d / "clone"], check=True)
    return time.time() - began


def build_c(d, files):
    """Compiles and links a program of that many small sources."""
    sources = d / "build"
    sources.mkdir()
    for i in range(files):
        (sources / f"f{i}.c").write_text(f"int f{i}(int x) {{ return x * {i} + 1; }}\n")
    (sources / "main.c").write_text("".join(f"int f{i}(int);\n" for i in range(files)) +
                                    "int main(void) { return 0" + "".join(f" + f{i}(0)" for i in range(files)) + " == 0; }\n")
    (sources / "Makefile").write_text("program: $(patsubst %.c,%.o,$(wildcard *.c))\n\t@gcc -o $@ $^\n%.o: %.c\n\t@gcc -c -o $@ $<\n")
    drop_caches()
    began = time.time()
    subprocess.run(["make", "-C", sources, "-s", "-j2"], check=True)
    return time.time() - began


def pgbench(d, scratch):
    """Transactions a second of PostgreSQL's own benchmark, four clients."""
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    d.chmod(0o755)
    database = Postgres(d, scratch)
    try:
        bench = [database.bin / "pgbench", "-h", scratch, "-p", database.PORT, "-U", "postgres"]
        database.run(*bench, "-i", "-q", "-s", "5", "postgres", check=True)
        output = database.run(*bench, "-c", "4", "-j", "2", "-T", str(3 * SECONDS), "postgres", check=True).stdout
    finally:
        database.close()
    return float(next(line.split()[2] for line in output.splitlines() if line.startswith("tps = ")))


def figures(arguments, repository, archive, scratch):
    """(name, unit, function of a directory), in the order in which they are measured."""
    mib, files = arguments.mib, arguments.files
    yield "write, then fsync", "MB/s", lambda d: write_large(d, mib)
    yield "read, cold", "MB/s", lambda d: read_large(d, mib)
    if shutil.which("fio"):
        yield "4 KiB random reads, direct", "/s", lambda d: fio(d, mib, "randread", "psync", 1, "--direct=1")
        yield "the same, queue depth 32", "/s", lambda d: fio(d, mib, "randread", "libaio", 32, "--direct=1")
        yield "4 KiB random writes, fsync each", "/s", lambda d: fio(d, mib, "randwrite", "psync", 1, "--fsync=1")
    yield "new files of 4 KiB, fsync each", "/s", create_synced
    yield "the same, 16 processes", "/s", lambda d: create_synced_by(d, 16)
    yield f"{files} files of 4 KiB, no fsync", "/s", lambda d: create_small(d, files)
    yield "read back, cold", "/s", lambda d: read_small(d, files)
    yield "stat of all, cold", "/s", lambda d: stat_small(d, files, True)
    yield "stat of all, warm", "/s", lambda d: stat_small(d, files, False)
    yield "SQLite commits", "/s", sqlite_commits
    if archive:
        yield "tar x of the sources", "s", lambda d: untar(d, archive)
    if repository:
        yield "git clone", "s", lambda d: clone(d, repository)
    if shutil.which("gcc") and shutil.which("make"):
        yield "C build of 1,000 files", "s", lambda d: build_c(d, 1000)
    if list(pathlib.Path("/usr/lib/postgresql").glob("*/bin/pgbench")):
        yield "pgbench, 4 clients", "/s", lambda d: pgbench(d, scratch)


class Mounted:
    """A cluster of a build, and its mount."""

    def __init__(self, binaries, work):
        work.mkdir()
        self.cluster = Cluster(binaries.resolve(), work / "cluster")
        self.directory = work / "mnt"
        self.directory.mkdir()
        subprocess.run([binaries.resolve() / "kintsugi-mount", self.directory, "--log-file", work / "mount.log"],
                       env=self.cluster.environment, check=True)

    def stop(self):
        subprocess.run(["umount", self.directory], check=False)
        self.cluster.stop()


class Local:
    """A directory of the file system that is there."""

    def __init__(self, work):
        self.directory = work
        work.mkdir()

    def stop(self):
        pass


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("build/release/bin"))
    parser.add_argument("--beside", type=pathlib.Path, help="executables of another build, whose mount is the other side")
    parser.add_argument("--dir", type=pathlib.Path, default=pathlib.Path("."))
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--files", type=int, default=5000)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--only", help="figures whose names contain one of these, separated by commas")
    arguments = parser.parse_args()

    root = pathlib.Path(__file__).resolve().parents[2]
    repository = root if (root / ".git").exists() and shutil.which("git") else None
    work = pathlib.Path(tempfile.mkdtemp(prefix="mount-", dir=arguments.dir)).resolve()
    archive = None
    if repository:
        archive = work / "sources.tar"
        subprocess.run(["git", "-C", root, "archive", "-o", archive, "HEAD"], check=True)
    work.chmod(0o755)
    other = "other" if arguments.beside else "ext4"
    results, mounted = {}, {}
    try:
        mounted["mount"] = Mounted(arguments.bin, work / "mount")
        mounted[other] = Mounted(arguments.beside, work / other) if arguments.beside else Local(work / other)
        for number in range(arguments.rounds):
            order = ["mount", other] if number % 2 == 0 else [other, "mount"]
            sides = {side: mounted[side].directory / str(number) for side in order}
            for side in sides.values():
                side.mkdir()
            wanted = arguments.only.split(",") if arguments.only else None
            for name, unit, measure in figures(arguments, repository, archive, work / "scratch"):
                needed = wanted is None or any(word in name for word in wanted) or \
                    name.startswith("write,") or "no fsync" in name
                if not needed:
                    continue
                for side, directory in sides.items():
                    results.setdefault((name, unit), {}).setdefault(side, []).append(measure(directory))
                mount, beside = (results[name, unit][side][-1] for side in mounted)
                print(f"round {number + 1}: {name}: {mount:.4g} {unit}, {other} {beside:.4g}", flush=True)
            for side in sides.values():
                shutil.rmtree(side)
    finally:
        for side in mounted.values():
            side.stop()
        shutil.rmtree(work, ignore_errors=True)

    print(f"\n| | mount | {other} | mount / {other} |\n| --- | --- | --- | --- |")
    for (name, unit), sides in results.items():
        ratio = statistics.median(m / b for m, b in zip(sides["mount"], sides[other]))
        mount, beside = (statistics.median(sides[side]) for side in ("mount", other))
        print(f"| {name}, {unit} | {mount:,.4g} | {beside:,.4g} | {ratio:.2f} |")
    if arguments.json:
        arguments.json.write_text(json.dumps([{"name": name, "unit": unit, **sides}
                                              for (name, unit), sides in results.items()], indent=1))


if __name__ == "__main__":
    main()
