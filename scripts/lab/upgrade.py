#!/usr/bin/env python3
"""Two versions in one cluster: does a user notice that it is upgraded, in whichever order, and brought back?

    scripts/lab/upgrade.py OLD_BIN NEW_BIN [--orders metaserver,chunkservers] [--dir /dev/shm] [--servers 10] [--users 1] [--no-mount] [--finalize] [--keep]

A cluster of chunkservers (rs-6-3-1024k), a repair manager and, where both versions have one, a monitor serve a load: commands put, get, move and remove files,
and a program appends to files in a mount; all that is read is compared with what was written. For each order of the upgrade the programs are replaced one
daemon after the other, by SIGTERM and a start, then in the reverse order by the old ones. The table says for each way what users met: operations, errors, the
longest time that an operation took beyond what one of its kind takes at rest (while chunkservers are replaced, and otherwise), repairs that began, and files
that differ. scripts/build_previous.sh makes OLD_BIN. With
--finalize the last order is not brought back but finalized, and old daemons that are started after that must refuse with one line each. The exit code is 1
when users met an error, waited longer than a second for a chunkserver, a repair began, or a file differs.
"""

import argparse
import collections
import hashlib
import json
import os
import pathlib
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from own_addresses import own_address

ORDERS = {
    "metaserver": ["metaserver", "chunkservers", "repair-manager", "monitor", "mount", "clients"],
    "chunkservers": ["chunkservers", "metaserver", "repair-manager", "monitor", "mount", "clients"],
    "repair-manager": ["repair-manager", "chunkservers", "metaserver", "monitor", "mount", "clients"],
    "clients": ["clients", "mount", "monitor", "metaserver", "chunkservers", "repair-manager"],
}
KINDS = ("metaserver", "chunkserver", "repair-manager", "monitor")
START_SECONDS, STOP_SECONDS = 30, 40
LONGEST_WAIT = 1.0
SIZES = (0, 700, 9_000, 300_000, 2_500_000)


def flags_of(program):
    text = subprocess.run([program, "--help"], capture_output=True, text=True).stdout
    return set(re.findall(r"^\s+--([a-z0-9-]+)", text, re.M))


class Cluster:
    """Daemons on this host, each at addresses that stay, each of one version or the other."""

    def __init__(self, builds, directory, servers, mounted):
        self.builds, self.directory = builds, directory
        self.processes, self.version = {}, collections.defaultdict(lambda: "old")
        self.secret = directory / "secret"
        self.secret.write_text(os.urandom(32).hex() + "\n")
        self.secret.chmod(0o600)
        both = all((build / "kintsugi-monitor").exists() for build in builds.values())
        self.chunkservers = [f"chunkserver-{number}" for number in range(servers)]
        self.names = ["metaserver", *self.chunkservers, "repair-manager"] + (["monitor"] if both else [])
        self.addresses = {name: (own_address(), own_address()) for name in self.names}
        self.flags = {(version, kind): flags_of(build / f"kintsugi-{kind}") for version, build in builds.items() for kind in KINDS
                      if (build / f"kintsugi-{kind}").exists()}
        self.meta = self.addresses["metaserver"][0]
        self.environment = dict(os.environ, KINTSUGI_META=self.meta, KINTSUGI_SECRET_FILE=str(self.secret))
        for name in self.names:
            (directory / name).mkdir()
            self.start(name)
        for name in self.names:
            self.wait(name)
        self.mount = self.start_mount() if mounted else None

    def kind(self, name):
        return "chunkserver" if name.startswith("chunkserver") else name

    def settings(self, name):
        rpc, http = self.addresses[name]
        data = str(self.directory / name)
        kind = self.kind(name)
        result = {"listen": rpc, "http-listen": http, "secret-file": str(self.secret), "log-file": f"{data}.log",
                  "daemons-on-machine": len(self.names)}
        if kind != "metaserver":
            result["metaserver"] = self.meta
        if kind in ("metaserver", "monitor"):
            result["data-dir"] = data
        if kind == "chunkserver":
            result |= {"disks": data, "name": name, "rack": name}
        return {key: value for key, value in result.items() if key in self.flags[self.version[name], kind]}

    def command(self, name):
        settings = [f"--{key}={value}" for key, value in self.settings(name).items()]
        return [self.builds[self.version[name]] / f"kintsugi-{self.kind(name)}", *settings]

    def start(self, name):
        with open(self.directory / f"{name}.out", "ab") as out:
            self.processes[name] = subprocess.Popen(self.command(name), stdout=out, stderr=out)

    def wait(self, name, seconds=START_SECONDS):
        """Returns when it says that it is well."""
        give_up = time.monotonic() + seconds
        while subprocess.run(["curl", "-sf", "-o", "/dev/null", f"http://{self.addresses[name][1]}/healthz"]).returncode != 0:
            if self.processes[name].poll() is not None or time.monotonic() > give_up:
                raise RuntimeError(f"{name} ({self.version[name]}) did not start: {self.said(name)}")
            time.sleep(0.1)

    def said(self, name):
        """Returns the line that says why it does not serve."""
        said = (self.directory / f"{name}.out").read_text(errors="replace").strip().rpartition("\n")[2]
        lines = (self.directory / f"{name}.log").read_text(errors="replace").splitlines()
        return said or next((line for line in reversed(lines) if " warning " in line or " error " in line), "nothing")

    def stop(self, name):
        process = self.processes.pop(name)
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise RuntimeError(f"{name} did not stop within {STOP_SECONDS} s") from None
        return process.returncode

    def replace(self, name, version):
        if name not in self.processes:
            return
        self.stop(name)
        self.version[name] = version
        self.start(name)
        self.wait(name)

    def start_mount(self):
        """Starts it from a path at which replace_mount() puts another program."""
        self.install_mount("old")
        point = self.directory / "mounted"
        point.mkdir()
        subprocess.run([self.directory / "kintsugi-mount", point, "--log-file", f"{point}.log"], env=self.environment, check=True)
        return point

    def install_mount(self, version):
        shutil.copy(self.builds[version] / "kintsugi-mount", self.directory / "kintsugi-mount.new")
        os.rename(self.directory / "kintsugi-mount.new", self.directory / "kintsugi-mount")

    def replace_mount(self, version):
        if not self.mount:
            return
        self.install_mount(version)
        pids = subprocess.run(["pgrep", "-f", f"{self.directory}/kintsugi-mount"], capture_output=True, text=True).stdout.split()
        parents = [pid for pid in pids if subprocess.run(["pgrep", "-P", pid], capture_output=True).stdout]
        os.kill(int(parents[0]), signal.SIGHUP)
        time.sleep(2)

    def kintsugi(self, version, *words):
        return subprocess.run([self.builds[version] / "kintsugi", *map(str, words)], env=self.environment, capture_output=True, text=True)

    def repairs(self):
        """Counts those that the repair manager has had since it started, those that wait included."""
        answer = self.kintsugi("old", "repair", "status", "--json")
        if answer.returncode != 0:
            return 0
        status = json.loads(answer.stdout)
        return status["done"] + status["failed"] + len(status["running"]) + status["queued"]

    def end(self):
        if self.mount:
            subprocess.run(["umount", "-l", self.mount], check=False)
            pids = subprocess.run(["pgrep", "-f", f"{self.directory}/kintsugi-mount"], capture_output=True, text=True).stdout.split()
            for pid in pids:
                os.kill(int(pid), signal.SIGKILL)
        for process in self.processes.values():
            process.kill()
            process.wait()


class Meter:
    """What users meet."""

    def __init__(self):
        self.lock = threading.Lock()
        self.usual = collections.defaultdict(list)
        self.begin()

    def begin(self):
        with self.lock:
            self.operations, self.errors, self.longest = 0, [], (0.0, "")

    def take_longest(self):
        """Returns the longest wait of what ended since the last call."""
        with self.lock:
            longest, self.longest = self.longest, (0.0, "")
        return longest

    def note(self, kind, seconds, error):
        with self.lock:
            usual = self.usual[kind]
            beyond = seconds - (statistics.median(usual) if usual else 0)
            if len(usual) < 200:
                usual.append(seconds)
            self.operations += 1
            if error:
                self.errors.append(f"{kind}: {error}")
            self.longest = max(self.longest, (beyond, kind))


class Commands(threading.Thread):
    """Somebody who stores, fetches, moves and removes files by commands."""

    def __init__(self, cluster, meter, number):
        super().__init__(daemon=True)
        self.cluster, self.meter, self.rng = cluster, meter, random.Random(number)
        self.directory = f"/commands-{number}"
        self.scratch = cluster.directory / f"scratch-{number}"
        self.scratch.mkdir()
        self.files, self.differ, self.ends, self.made = {}, [], False, 0
        self.version = "old"
        self.run_one("mkdir", "mkdir", self.directory)

    def run_one(self, kind, *words):
        began = time.monotonic()
        answer = self.cluster.kintsugi(self.version, *words)
        error = "" if answer.returncode == 0 else answer.stderr.strip()
        self.meter.note(kind, time.monotonic() - began, error)
        return not error

    def put(self):
        data = self.rng.randbytes(self.rng.choice(SIZES))
        (self.scratch / "source").write_bytes(data)
        self.made += 1
        path = f"{self.directory}/{self.made}" if len(self.files) < 30 else self.rng.choice(list(self.files))
        if self.run_one("put", "put", "--replace", self.scratch / "source", path):
            self.files[path] = hashlib.blake2b(data).digest()
        else:
            self.files.pop(path, None)  # what failed may have been done all the same

    def get(self, path=None):
        if not self.files:
            return
        path = path or self.rng.choice(list(self.files))
        target = self.scratch / "target"
        if self.run_one("get", "get", "--replace", path, target) and hashlib.blake2b(target.read_bytes()).digest() != self.files[path]:
            self.differ.append(path)

    def move(self):
        if not self.files:
            return
        path = self.rng.choice(list(self.files))
        self.made += 1
        to = f"{self.directory}/{self.made}"
        digest = self.files.pop(path)
        if self.run_one("mv", "mv", path, to):
            self.files[to] = digest

    def remove(self):
        if len(self.files) < 10:
            return
        path = self.rng.choice(list(self.files))
        del self.files[path]
        self.run_one("rm", "rm", path)

    def run(self):
        while not self.ends:
            self.rng.choices([self.put, self.get, self.move, self.remove], [4, 6, 1, 1])[0]()
            time.sleep(0.02)

    def check(self):
        for path in self.files:
            self.get(path)


class Appender(threading.Thread):
    """A program that appends to files in the mount, syncs, and reads them back."""

    def __init__(self, cluster, meter):
        super().__init__(daemon=True)
        self.meter, self.rng = meter, random.Random(99)
        self.directory = cluster.mount / "appended"
        self.directory.mkdir()
        self.files, self.differ, self.ends = {}, [], False

    def step(self, kind, call):
        began, error, result = time.monotonic(), "", None
        try:
            result = call()
        except OSError as failed:
            error = str(failed)
        self.meter.note(kind, time.monotonic() - began, error)
        return result

    def append(self, name):
        data = self.rng.randbytes(self.rng.choice((100, 5_000, 400_000)))
        with open(self.directory / name, "ab", buffering=0) as out:
            out.write(data)
            os.fsync(out.fileno())
        self.files.setdefault(name, bytearray()).extend(data)

    def read(self, name):
        if (self.directory / name).read_bytes() != self.files.get(name, b""):
            self.differ.append(name)

    def run(self):
        while not self.ends:
            name = f"file-{self.rng.randrange(6)}"
            self.step("append", lambda: self.append(name))
            self.step("read", lambda: self.read(name))
            if len(self.files[name]) > 3_000_000:
                self.step("unlink", lambda: ((self.directory / name).unlink(), self.files.pop(name)))
            time.sleep(0.05)

    def check(self):
        for name in self.files:
            self.step("read", lambda: self.read(name))


class Trial:
    def __init__(self, cluster, meter, users):
        self.cluster, self.meter, self.users, self.failed = cluster, meter, users, False

    def step(self, part, version):
        if part == "clients":
            for user in self.users:
                user.version = version
        elif part == "mount":
            self.cluster.replace_mount(version)
        elif part == "chunkservers":
            for name in self.cluster.chunkservers:
                self.cluster.replace(name, version)
                time.sleep(1)
        else:
            self.cluster.replace(part, version)
        time.sleep(2)

    def way(self, title, parts, version):
        self.meter.begin()
        before, repairs, waits = self.cluster.repairs(), 0, {}
        for part in parts:
            if part == "repair-manager":  # a new one counts from nothing
                repairs, before = repairs + self.cluster.repairs() - before, 0
            operations, errors = self.meter.operations, len(self.meter.errors)
            self.step(part, version)
            waits[part] = self.meter.take_longest()
            print(f"  {title}: {part} {version}: {self.meter.operations - operations} operations, {len(self.meter.errors) - errors} errors, "
                  f"longest wait {waits[part][0]:.2f} s ({waits[part][1]})", file=sys.stderr, flush=True)
        repairs += self.cluster.repairs() - before
        of_servers = waits.pop("chunkservers")
        self.report(title, repairs, of_servers, max(waits.values()))

    def report(self, title, repairs, of_servers=(0.0, "none"), of_others=None):
        of_others = of_others or self.meter.take_longest()
        differ = sum(len(user.differ) for user in self.users)
        print(f"| {title} | {self.meter.operations} | {len(self.meter.errors)} | {of_servers[0]:.2f} s ({of_servers[1]}) | "
              f"{of_others[0]:.2f} s ({of_others[1]}) | {repairs} | {differ} |", flush=True)
        for line, count in collections.Counter(self.meter.errors).most_common(5):
            print(f"  {count} times: {line}", file=sys.stderr)
        self.failed = self.failed or bool(self.meter.errors) or of_servers[0] > LONGEST_WAIT or repairs != 0 or differ != 0

    def finalize(self):
        answer = self.cluster.kintsugi("new", "cluster", "finalize")
        print(f"finalize: {answer.stdout.strip()}{answer.stderr.strip()}")
        self.failed = self.failed or answer.returncode != 0
        for name in ("metaserver", "chunkserver-0"):
            self.cluster.stop(name)
            self.cluster.version[name] = "old"
            self.cluster.start(name)
            try:
                self.cluster.wait(name, 5)
                self.failed = True
                print(f"{name} of the old version serves a finalized cluster")
                self.cluster.stop(name)
            except RuntimeError as refused:
                print(f"refused as it should be: {refused}")
                process = self.cluster.processes.pop(name)
                process.kill()
                process.wait()
            self.cluster.version[name] = "new"
            self.cluster.start(name)
            self.cluster.wait(name)


def check_all(trial):
    """Nobody writes any more: everything is read once, and looked for."""
    trial.meter.begin()
    for user in trial.users:
        user.ends = True
    for user in trial.users:
        user.join()
        user.check()
    fsck = trial.cluster.kintsugi("old", "fsck")
    print(f"fsck: {fsck.stdout.strip().splitlines()[-1] if fsck.stdout.strip() else fsck.stderr.strip()}")
    trial.failed = trial.failed or fsck.returncode != 0
    trial.report("all read once", 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=pathlib.Path)
    parser.add_argument("new", type=pathlib.Path)
    parser.add_argument("--orders", default=",".join(ORDERS))
    parser.add_argument("--dir", default="/dev/shm")
    parser.add_argument("--servers", type=int, default=10)
    parser.add_argument("--users", type=int, default=1)
    parser.add_argument("--no-mount", action="store_true")
    parser.add_argument("--finalize", action="store_true")
    parser.add_argument("--keep", action="store_true", help="keep the cluster's directory, with the logs")
    words = parser.parse_args()
    mounted = not words.no_mount and os.geteuid() == 0 and os.access("/dev/fuse", os.R_OK | os.W_OK)
    directory = pathlib.Path(tempfile.mkdtemp(prefix="kintsugi-upgrade-", dir=words.dir))
    cluster = Cluster({"old": words.old.resolve(), "new": words.new.resolve()}, directory, words.servers, mounted)
    try:
        meter = Meter()
        users = [Commands(cluster, meter, number) for number in range(words.users)] + ([Appender(cluster, meter)] if mounted else [])
        trial = Trial(cluster, meter, users)
        for user in users:
            user.start()
        time.sleep(10)
        print("| way | operations | errors | longest wait, chunkservers | longest wait, others | repairs | files that differ |\n" + 7 * "| --- " + "|", flush=True)
        trial.report("at rest", cluster.repairs())
        orders = words.orders.split(",")
        for order in orders:
            trial.way(f"{order} first", ORDERS[order], "new")
            if words.finalize and order == orders[-1]:
                trial.finalize()
            else:
                trial.way(f"{order} first, back", list(reversed(ORDERS[order])), "old")
        check_all(trial)
        return 1 if trial.failed else 0
    finally:
        cluster.end()
        if words.keep:
            print(f"kept: {directory}", file=sys.stderr)
        else:
            shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
