#!/usr/bin/env python3
"""Databases on the mount, while something is killed: is everything that they acknowledged there afterwards, and their files whole?

    scripts/lab/databases.py [--kills 50] [--database sqlite,postgresql] [--victim database,mount,metaserver,chunkservers]
                             [--bin build/release/bin] [--dir DIRECTORY] [--journal FILE]

A cluster of ten chunkservers (rs-6-3-1024k) and its mount are made below DIRECTORY. For every database and victim: transactions are committed one
after the other, the victim gets SIGKILL at a random moment (`mount`: the child that serves the kernel; `chunkservers`: one to three of
them), what is gone is started again, and the database is checked: PRAGMA integrity_check, or pg_amcheck, and every row whose commit was
acknowledged. Each kill is a line of the journal, which a later run goes on with. Root is needed; SQLite is Python's own, PostgreSQL the
machine's (postgresql, postgresql-contrib), run as the user postgres.
"""

import argparse
import collections
import json
import os
import pathlib
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time

from compare import Cluster

VICTIMS = ["database", "mount", "metaserver", "chunkservers"]
LOAD = 1.5      # seconds of transactions before a kill, at most
AFTER = 1.0     # and after it
PATIENCE = 120  # seconds in which transactions have to go on

SQLITE_WRITER = """
import sqlite3, sys, os
db = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=120)
db.execute("pragma synchronous=full")
n = int(sys.argv[2])
while True:
    db.execute("begin immediate")
    db.execute("insert into t values (?, ?)", (n, os.urandom(300)))
    db.execute("commit")
    print(n, flush=True)
    n += 1
"""


class Writer:
    """A process that commits rows with growing numbers and tells each once it is committed."""

    def __init__(self, command, **options):
        self.acknowledged = []
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options)
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            if line.strip().isdigit():
                self.acknowledged.append(int(line))

    def wait_for_progress(self):
        before, began = len(self.acknowledged), time.time()
        while len(self.acknowledged) == before:
            if self.process.poll() is not None:
                raise RuntimeError("the writer ended by itself")
            if time.time() - began > PATIENCE:
                raise RuntimeError(f"no transaction for {PATIENCE} s")
            time.sleep(0.05)
        return time.time() - began

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.reader.join()


class Sqlite:
    def __init__(self, directory, _scratch):
        self.path = directory / "data.sqlite"
        db = sqlite3.connect(self.path)
        db.execute("create table if not exists t (n integer primary key, b blob)")
        db.close()  # an open file of the mount would be closed in every process that is begun here, and wait for the metaserver
        self.next = 1

    def start(self):
        writer = Writer([sys.executable, "-c", SQLITE_WRITER, self.path, str(self.next)])
        return writer

    def kill(self, writer):
        writer.kill()

    def stop(self, writer):
        writer.kill()

    def check(self, acknowledged):
        db = sqlite3.connect(self.path, timeout=60)
        answer = db.execute("pragma integrity_check").fetchone()[0]
        rows = {n for n, in db.execute("select n from t")} if answer == "ok" else set()
        db.close()
        if answer != "ok":
            return answer
        self.next = max(rows, default=0) + 1
        missing = sorted(set(acknowledged) - rows)
        return f"acknowledged and gone: {missing[:5]}" if missing else None


class Postgres:
    PORT = "54329"

    def __init__(self, directory, scratch):
        self.bin = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"))[-1]
        self.data, self.scratch = directory / "postgresql", scratch
        self.data.mkdir()
        shutil.chown(self.data, "postgres", "postgres")
        shutil.chown(self.scratch, "postgres", "postgres")
        self.run(self.bin / "initdb", "-D", self.data, "--auth=trust", "-k", check=True)
        with open(self.data / "postgresql.conf", "a", encoding="utf-8") as conf:
            conf.write(f"port = {self.PORT}\nlisten_addresses = ''\nunix_socket_directories = '{self.scratch}'\n"
                       "shared_buffers = 32MB\nfsync = on\ncheckpoint_timeout = 30s\n")
        self.up()
        self.sql("create table t (n bigint primary key, b text); create extension amcheck;")
        self.next = 1

    def run(self, *command, check=False, **options):
        return subprocess.run(["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups", *map(str, command)],
                              cwd="/tmp", capture_output=True, text=True, check=check, **options)

    def up(self):
        for _ in range(20):
            done = self.run(self.bin / "pg_ctl", "-D", self.data, "-w", "-t", str(PATIENCE), "-l", self.scratch / "log", "start")
            if done.returncode == 0:
                return
            time.sleep(1)
        raise RuntimeError("PostgreSQL does not start: " + (self.scratch / "log").read_text()[-500:])

    def psql(self, *more):
        return ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups", str(self.bin / "psql"), "-h", str(self.scratch),
                "-p", self.PORT, "-U", "postgres", "-XAtq", *more]

    def sql(self, text):
        return subprocess.run(self.psql("-v", "ON_ERROR_STOP=1", "-c", text), cwd="/tmp", check=True, capture_output=True, text=True).stdout

    def start(self):
        self.alive = True
        writer = Writer(self.psql("-v", "ON_ERROR_STOP=1"), stdin=subprocess.PIPE, cwd="/tmp")
        first = self.next

        def feed():
            n = first
            try:
                while self.alive:
                    while n - first > len(writer.acknowledged) + 4 and writer.process.poll() is None and self.alive:
                        time.sleep(0.0005)
                    writer.process.stdin.write(f"insert into t values ({n}, repeat('x', 300)) returning n;\n")
                    writer.process.stdin.flush()
                    n += 1
            except (BrokenPipeError, ValueError):
                pass

        self.feeder = threading.Thread(target=feed)
        self.feeder.start()
        return writer

    def kill(self, writer):
        head = int((self.data / "postmaster.pid").read_text().split()[0])
        family = [head] + [int(p) for p in subprocess.run(["pgrep", "-P", str(head)], capture_output=True, text=True).stdout.split()]
        for pid in family:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.stop(writer)
        time.sleep(0.5)
        self.up()

    def stop(self, writer):
        self.alive = False
        writer.kill()
        self.feeder.join()

    def check(self, acknowledged):
        checked = self.run(self.bin / "pg_amcheck", "-h", self.scratch, "-p", self.PORT, "-U", "postgres", "--heapallindexed", "postgres")
        if checked.returncode != 0:
            return (checked.stdout + checked.stderr)[-500:]
        rows = {int(n) for n in self.sql("select n from t").split()}
        self.next = max(rows, default=0) + 1
        missing = sorted(set(acknowledged) - rows)
        return f"acknowledged and gone: {missing[:5]}" if missing else None

    def close(self):
        self.run(self.bin / "pg_ctl", "-D", self.data, "-m", "fast", "stop")


class Machine:
    """The cluster and its mount, and how each part of them is killed and comes back."""

    def __init__(self, binaries, work):
        self.bin, self.work = binaries, work
        self.cluster = Cluster(binaries, work / "cluster")
        self.mount = work / "mnt"
        self.mount.mkdir()
        subprocess.run([binaries / "kintsugi-mount", self.mount, "--log-file", work / "mount.log"], env=self.cluster.environment, check=True)

    def pid(self, name):
        return int((self.work / "cluster" / "run" / f"{name}.pid").read_text().split()[0])

    def mount_child(self):
        parent = subprocess.run(["pgrep", "-f", f"kintsugi-mount {self.mount}"], capture_output=True, text=True).stdout.split()
        for pid in parent:
            if children := subprocess.run(["pgrep", "-P", pid], capture_output=True, text=True).stdout.split():
                return int(children[0])
        raise RuntimeError("the mount has no child")

    def kill(self, victim, rng):
        if victim == "mount":
            os.kill(self.mount_child(), signal.SIGKILL)
            return
        names = ["metaserver"] if victim == "metaserver" else \
            [f"chunkserver-{i}" for i in rng.sample(range(1, 11), rng.randrange(1, 4))]
        for name in names:
            os.kill(self.pid(name), signal.SIGKILL)
        time.sleep(rng.random() * 2)
        subprocess.run([self.bin / "kintsugi", "cluster", "start", "--dir", self.work / "cluster"], check=True, stdout=subprocess.DEVNULL)

    def close(self):
        subprocess.run(["umount", "-l", self.mount], check=False)
        self.cluster.stop()


def one_kill(machine, database, victim, rng):
    writer = database.start()
    try:
        writer.wait_for_progress()
        time.sleep(rng.random() * LOAD)
        began = time.time()
        if victim == "database":
            database.kill(writer)
        else:
            machine.kill(victim, rng)
            writer.wait_for_progress()
            time.sleep(AFTER)
    finally:
        database.stop(writer)
    wrong = database.check(writer.acknowledged)
    return {"wrong": wrong, "committed": len(writer.acknowledged), "seconds": round(time.time() - began, 2)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--database", default="sqlite,postgresql")
    parser.add_argument("--victim", default=",".join(VICTIMS))
    parser.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("build/release/bin"))
    parser.add_argument("--dir", type=pathlib.Path, default=pathlib.Path("."))
    parser.add_argument("--journal", type=pathlib.Path, default=pathlib.Path("databases.journal"))
    arguments = parser.parse_args()
    done = collections.Counter()
    if arguments.journal.exists():
        done.update((r["database"], r["victim"]) for r in map(json.loads, arguments.journal.read_text().splitlines()))
    work = pathlib.Path(tempfile.mkdtemp(prefix="databases-", dir=arguments.dir)).resolve()
    work.chmod(0o755)
    (work / "scratch").mkdir()
    machine = Machine(arguments.bin.resolve(), work)
    failed = 0
    try:
        for kind in arguments.database.split(","):
            database = {"sqlite": Sqlite, "postgresql": Postgres}[kind](machine.mount, work / "scratch")
            for victim in arguments.victim.split(","):
                for number in range(done[kind, victim], arguments.kills):
                    rng = random.Random(f"{kind} {victim} {number}")
                    try:
                        result = one_kill(machine, database, victim, rng)
                    except (RuntimeError, subprocess.CalledProcessError, sqlite3.Error) as error:
                        result = {"wrong": f"{type(error).__name__}: {error}"}
                    failed += result["wrong"] is not None
                    line = json.dumps({"database": kind, "victim": victim, "number": number, **result})
                    with open(arguments.journal, "a", encoding="utf-8") as journal:
                        journal.write(line + "\n")
                    print(line, flush=True)
            if kind == "postgresql":
                database.close()
    finally:
        machine.close()
        if failed == 0:
            shutil.rmtree(work, ignore_errors=True)
    raise SystemExit(1 if failed else 0)


if __name__ == "__main__":
    main()
