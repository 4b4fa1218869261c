#!/usr/bin/env python3
"""The mounts of two builds, in slices of 0.4 s that take turns, so that what a noisy neighbour does meets both.

    scripts/lab/mount_pairs.py BASE/build/release/bin build/release/bin [--pairs 60] [--mib 256] [--dir DIRECTORY] [--only NAME,...]

mount.py compares whole figures, of which one takes seconds: on a shared machine a round is off by a factor of two. Here each slice
of the first build is set beside a slice of the second right after or before it. Printed are the medians, and second / first of the
pairs as a median with its interval of 95 % (by ranks, of pairs that are independent); above 1 the second is faster. Both clusters
have ten chunkservers (rs-6-3-1024k) and stay up throughout. Root is needed: it drops the page cache.
"""

import argparse
import contextlib
import math
import mmap
import os
import pathlib
import random
import shutil
import statistics
import tempfile
import threading
import time

from mount import BLOCK, Mounted, drop_caches, write_file, write_large

SLICE = 0.4  # seconds
READERS = 16
FILES = 400  # of a slice that makes or reads files


class Side:
    """A mount, and what the slices need of it."""

    def __init__(self, binaries, work, mib):
        self.mounted = Mounted(binaries, work)
        self.directory = self.mounted.directory
        self.random = random.Random(1)
        self.made = self.read = 0
        write_large(self.directory, mib)
        self.blocks = mib * 256
        self.reader = os.open(self.directory / "large", os.O_RDONLY | os.O_DIRECT)
        self.writer = os.open(self.directory / "large", os.O_WRONLY)
        self.page = mmap.mmap(-1, 4096)
        (self.directory / "files").mkdir()
        for block in range(0, self.blocks, 16):  # the chunkservers keep what was read
            os.preadv(self.reader, [self.page], block * 4096)

    def stop(self):
        os.close(self.reader)
        os.close(self.writer)
        self.mounted.stop()

    def offset(self):
        return self.random.randrange(self.blocks) * 4096

    def new_file(self, sync):
        self.made += 1
        write_file(self.directory / "files" / str(self.made), sync)

    def write_block(self):
        os.pwrite(self.writer, BLOCK, self.offset())
        os.fsync(self.writer)

    def read_by_many(self):
        counts = [0] * READERS
        offsets = [random.Random(self.random.random()) for _ in range(READERS)]

        def work(number):
            page, until = mmap.mmap(-1, 4096), time.monotonic() + SLICE
            while time.monotonic() < until:
                os.preadv(self.reader, [page], offsets[number].randrange(self.blocks) * 4096)
                counts[number] += 1

        threads = [threading.Thread(target=work, args=(number,)) for number in range(READERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return sum(counts) / SLICE

    def read_file(self):
        self.read += 1
        with open(self.directory / "files" / str(self.read), "rb", buffering=0) as file:
            file.read(8192)


def for_a_slice(work):
    began, count = time.monotonic(), 0
    while time.monotonic() - began < SLICE:
        work()
        count += 1
    return count / (time.monotonic() - began)


def per_second(work):
    began = time.monotonic()
    for _ in range(FILES):
        work()
    return FILES / (time.monotonic() - began)


def settle():
    time.sleep(6)  # until what was written behind is written out
    drop_caches()


# (name, share of the pairs, what comes before the first slice, a slice of a side)
FIGURES = [
    ("4 KiB random reads, direct", 1.0, None, lambda s: for_a_slice(lambda: os.preadv(s.reader, [s.page], s.offset()))),
    (f"the same, {READERS} threads", 1.0, None, Side.read_by_many),
    ("4 KiB random writes, fsync each", 1.0, None, lambda s: for_a_slice(s.write_block)),
    ("new files of 4 KiB, no fsync", 0.5, None, lambda s: per_second(lambda: s.new_file(False))),
    ("read back, cold", 0.5, settle, lambda s: per_second(s.read_file)),
    ("new files of 4 KiB, fsync each", 1.0, None, lambda s: for_a_slice(lambda: s.new_file(True))),
]


def in_pairs(sides, count, work):
    """The rates of each side."""
    rates = [[], []]
    for number in range(count):
        for side in (0, 1) if number % 2 == 0 else (1, 0):
            rates[side].append(work(sides[side]))
    return rates


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("first", type=pathlib.Path)
    parser.add_argument("second", type=pathlib.Path)
    parser.add_argument("--pairs", type=int, default=60)
    parser.add_argument("--mib", type=int, default=256)
    parser.add_argument("--dir", type=pathlib.Path, default=pathlib.Path("."))
    parser.add_argument("--only", default="", help="figures whose names contain one of these, separated by commas")
    arguments = parser.parse_args()

    work = pathlib.Path(tempfile.mkdtemp(prefix="mount-pairs-", dir=arguments.dir)).resolve()
    work.chmod(0o755)
    try:
        with contextlib.ExitStack() as running:
            sides = []
            for name, binaries in (("first", arguments.first), ("second", arguments.second)):
                sides.append(Side(binaries, work / name, arguments.mib))
                running.callback(sides[-1].stop)
            print("| | first | second | second / first |\n| --- | --- | --- | --- |")
            for name, share, before, slice_of in FIGURES:
                # Files that are read back have to be made first.
                if not any(word in name for word in arguments.only.split(",")) and "no fsync" not in name:
                    continue
                if before:
                    before()
                first, second = in_pairs(sides, max(int(arguments.pairs * share), 1), slice_of)
                ratios = sorted(b / a for a, b in zip(first, second))
                middle, reach = len(ratios) / 2, 0.98 * math.sqrt(len(ratios))
                low, high = ratios[max(0, int(middle - reach))], ratios[min(len(ratios) - 1, int(middle + reach))]
                print(f"| {name}, /s | {statistics.median(first):,.4g} | {statistics.median(second):,.4g} | "
                      f"{statistics.median(ratios):.2f} [{low:.2f}, {high:.2f}] |", flush=True)
    finally:
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()
