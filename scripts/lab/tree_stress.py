#!/usr/bin/env python3
"""Many processes on two mounts make, move, link, exchange and remove names in the same few directories: does the tree make sense afterwards?

    scripts/lab/tree_stress.py [--seconds 30] [--processes 6] [--rounds 4] [--seed 1] [--kill SECONDS] [--bin build/release/bin] [--dir DIRECTORY]

A cluster of ten chunkservers (rs-6-3-1024k) is made below DIRECTORY and mounted twice; in every other round half of the processes work on each mount, else
all on one. An operation may fail as POSIX lets it fail when others were faster, and in no other way, but for ESTALE where two mounts meet. After each round
both mounts must show the same tree, link counts must be those that the names say, every file must hold what was written into it as a whole, and nothing may be
left when all is removed; at the end `kintsugi fsck` must find nothing. With `--kill` the processes that serve the mounts get SIGKILL after random times of this
mean. The exit code is 1 when something is wrong, and 77 where nothing can be mounted: root and /dev/fuse are needed.
"""

import argparse
import collections
import errno
import multiprocessing
import os
import pathlib
import random
import shutil
import stat
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "filesystem"))

import calls  # noqa: E402
from compare import Cluster  # noqa: E402
from mounted import Killer, mount, require_fuse  # noqa: E402

ALLOWED = {errno.ENOENT, errno.EEXIST, errno.ENOTEMPTY, errno.EISDIR, errno.ENOTDIR, errno.EINVAL, errno.ELOOP, errno.EPERM, errno.ENODATA}
NAMES, DEPTH = 8, 4


def content(rng):
    """A file says of itself what it is, so that whoever reads it can tell whether it is whole."""
    unit = f"{rng.randrange(10**9):010d}".encode()
    return unit * rng.choice([1, 10, 1000, 20_000])


def is_part(data):
    """Of one file, from its beginning on: it may be truncated while it is read."""
    return data == (data[:10] * (len(data) // 10 + 1))[: len(data)]


def is_whole(data):
    return len(data) % 10 == 0 and is_part(data)


class Worker:
    def __init__(self, root, seed, allowed):
        self.root, self.rng, self.allowed = root, random.Random(seed), allowed
        self.done, self.unexpected = collections.Counter(), []
        self.operations = [
            self.write,
            self.write,
            self.read,
            self.mkdir,
            self.mkdir,
            self.rmdir,
            self.unlink,
            self.rename,
            self.rename,
            self.exchange,
            self.link,
            self.symlink,
            self.fifo,
            self.replace,
            self.list,
            self.attributes,
            self.nameless,
            self.truncate_to_nothing,
        ]

    def path(self, deep=False):
        parts = [f"d{self.rng.randrange(4)}" for _ in range(self.rng.randrange(DEPTH))]
        return os.path.join(self.root, *parts, f"d{self.rng.randrange(4)}" if deep else f"n{self.rng.randrange(NAMES)}")

    def any(self):
        return self.path(self.rng.random() < 0.4)

    def write(self):
        """Written aside and renamed, as editors do it, so that nobody ever sees a part of it."""
        aside = os.path.join(self.root, f"aside-{os.getpid()}")
        with calls.opened(aside, os.O_CREAT | os.O_TRUNC | os.O_WRONLY) as fd:
            os.write(fd, content(self.rng))
            if self.rng.random() < 0.1:
                os.fsync(fd)
        try:
            os.rename(aside, self.path())
        except OSError:
            os.unlink(aside)
            raise

    def read(self):
        path = self.path()
        with calls.opened(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW) as fd:
            if stat.S_ISREG(os.fstat(fd).st_mode):
                parts = []
                while part := os.read(fd, 1 << 20):
                    parts.append(part)
                if not is_part(b"".join(parts)):
                    self.unexpected.append(f"{path} holds {len(b''.join(parts))} bytes of several files")

    def mkdir(self):
        os.mkdir(self.path(True))

    def rmdir(self):
        os.rmdir(self.path(True))

    def unlink(self):
        os.unlink(self.path())

    def rename(self):
        os.rename(self.any(), self.any())

    def exchange(self):
        calls.renameat2(self.any(), self.any(), self.rng.choice([calls.EXCHANGE, calls.NOREPLACE]))

    def link(self):
        os.link(self.path(), self.path(), follow_symlinks=False)

    def symlink(self):
        os.symlink(f"n{self.rng.randrange(NAMES)}", self.path())

    def fifo(self):
        os.mkfifo(self.path())

    def replace(self):
        os.rename(self.path(True), self.path(True))

    def list(self):
        names = [entry.name for entry in os.scandir(os.path.dirname(self.path()))]
        if len(names) != len(set(names)):
            self.unexpected.append("a listing has an entry twice")

    def attributes(self):
        path = self.any()
        os.chmod(path, self.rng.choice([0o600, 0o755, 0o644]), follow_symlinks=True)
        os.setxattr(path, "user.note", b"x" * self.rng.randrange(100), follow_symlinks=False)

    def nameless(self):
        directory = os.path.dirname(self.path())
        with calls.opened(directory, os.O_TMPFILE | os.O_WRONLY) as fd:
            os.write(fd, content(self.rng))
            calls.linkat(f"/proc/self/fd/{fd}", os.path.join(directory, f"n{self.rng.randrange(NAMES)}"), calls.AT_SYMLINK_FOLLOW)

    def truncate_to_nothing(self):
        with calls.opened(self.path(), os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_TRUNC):
            pass

    def run(self, seconds):
        end = time.time() + seconds
        while time.time() < end:
            operation = self.rng.choice(self.operations)
            try:
                operation()
                self.done[operation.__name__] += 1
            except OSError as error:
                fifo_without_reader = error.errno == errno.ENXIO
                if error.errno not in self.allowed and not fifo_without_reader:
                    self.unexpected.append(f"{operation.__name__}: {error}")
        return sum(self.done.values()), self.unexpected[:5]


def work(root, seed, seconds, allowed):
    os.umask(0o022)
    return Worker(root, seed, allowed).run(seconds)


def seen(root):
    """Everything below the root, and what in it contradicts itself."""
    found, names, wrong = {}, collections.Counter(), []
    for directory, subdirectories, files in os.walk(root, onerror=lambda error: wrong.append(f"listing: {error}")):
        links = os.lstat(directory).st_nlink
        real = [name for name in subdirectories if not os.path.islink(os.path.join(directory, name))]
        if links != 2 + len(real):
            wrong.append(f"{directory} has {links} links and {len(real)} subdirectories")
        for name in subdirectories + files:
            path = os.path.join(directory, name)
            about = os.lstat(path)
            data = b""
            if stat.S_ISREG(about.st_mode):
                data = pathlib.Path(path).read_bytes()
                if not is_whole(data):
                    wrong.append(f"{path} is not whole")
            if not stat.S_ISDIR(about.st_mode):
                names[about.st_ino] += 1
            found[os.path.relpath(path, root)] = (
                about.st_ino,
                about.st_mode,
                about.st_nlink,
                about.st_size if not stat.S_ISDIR(about.st_mode) else 0,
                about.st_mtime_ns,
                about.st_ctime_ns,
                hash(data),
            )
    for path, about in found.items():
        if not stat.S_ISDIR(about[1]) and names[about[0]] != about[2]:
            wrong.append(f"{path} has {about[2]} links and {names[about[0]]} names")
    return found, wrong


def one_round(mounts, arguments, number, pool):
    roots = [directory / f"round-{number}" for directory in mounts]
    roots[0].mkdir()
    used = 1 + number % 2
    allowed = ALLOWED | {errno.ESTALE} if used == 2 else ALLOWED
    jobs = [(str(roots[i % used]), f"{arguments.seed} {number} {i}", arguments.seconds, allowed) for i in range(arguments.processes)]
    results = pool.starmap(work, jobs)
    wrong = [text for _, unexpected in results for text in unexpected]
    time.sleep(1.5)  # until neither kernel believes what it was told before the last changes
    trees = []
    for root in roots:
        tree, contradictions = seen(root)
        trees.append(tree)
        wrong += contradictions[:5]
    if trees[0] != trees[1]:
        differ = [path for path in trees[0].keys() | trees[1].keys() if trees[0].get(path) != trees[1].get(path)]
        wrong.append(f"the mounts differ in {len(differ)} paths: {[(path, trees[0].get(path), trees[1].get(path)) for path in sorted(differ)[:3]]}")
    try:
        shutil.rmtree(roots[0])
    except OSError as error:
        left = [sorted(str(path.relative_to(root)) for path in root.rglob("*")) for root in roots]
        wrong.append(f"not everything can be removed: {error}; left are {left[0][:5]}, on the other mount {left[1][:5]}")
    return sum(count for count, _ in results), len(trees[0]), wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--processes", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kill", type=float, help="mean seconds between kills")
    parser.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("build/release/bin"))
    parser.add_argument("--dir", type=pathlib.Path, default=pathlib.Path("/dev/shm"))
    arguments = parser.parse_args()
    require_fuse()
    place = pathlib.Path(tempfile.mkdtemp(prefix="tree-stress-", dir=arguments.dir)).resolve()
    binaries = arguments.bin.resolve()
    mounts, failed, killers = [place / "one", place / "two"], 0, []
    cluster = Cluster(binaries, place / "cluster")
    try:
        for directory in mounts:
            mount(binaries, cluster, directory)
        if arguments.kill:
            killers = [Killer(directory, arguments.kill) for directory in mounts]
        with multiprocessing.Pool(arguments.processes) as pool:
            for number in range(arguments.rounds):
                operations, paths, wrong = one_round(mounts, arguments, number, pool)
                failed += bool(wrong)
                print(
                    f"round {number + 1}: {operations} operations, {paths} paths at the end, {sum(killer.kills for killer in killers)} kills so far"
                    + "".join(f"\n    {text}" for text in wrong),
                    flush=True,
                )
        checked = subprocess.run([binaries / "kintsugi", "fsck"], env=cluster.environment, capture_output=True, text=True, check=False)
        if checked.returncode != 0:
            failed += 1
            print(f"fsck: {checked.stdout}{checked.stderr}")
    finally:
        for killer in killers:
            killer.stop()
        for directory in mounts:
            subprocess.run(["umount", "-l", directory], check=False)
        cluster.stop()
        if not failed:
            shutil.rmtree(place, ignore_errors=True)
    raise SystemExit(1 if failed else 0)


if __name__ == "__main__":
    main()
