#!/usr/bin/env python3
"""One file on the mount under random reads, writes, truncates, mappings and fallocates, byte for byte beside a model in memory.

    scripts/lab/file_stress.py [--seeds 1-8] [--operations 5000] [--kill SECONDS] [--bin build/release/bin] [--dir DIRECTORY] [--size BYTES]

A cluster of ten chunkservers (rs-6-3-1024k) is made below DIRECTORY and mounted twice. Every seed is a sequence of operations on a file of its own: buffered,
appending, synced and direct descriptors and mappings, truncate, fallocate (allocate, punch, zero), copy_file_range within it and from and to another file,
fsync, msync, dropping the page cache, closing and opening again, renaming, looking for holes. Each read is compared with the model, and now and then everything
is closed and the other mount compared. With `--kill` the process that serves the mount gets SIGKILL after random times of this mean. What differs is said with
the seed, the number of the operation and those before it; `--seeds N` runs it again. The exit code is then 1, and 77 where nothing can be mounted: root and
/dev/fuse are needed.
"""

import argparse
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "filesystem"))

from compare import Cluster  # noqa: E402
from file_model import Stress  # noqa: E402
from mounted import Killer, mount, require_fuse  # noqa: E402


def seeds_of(text):
    for part in text.split(","):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="1-8")
    parser.add_argument("--operations", type=int, default=5000)
    parser.add_argument("--kill", type=float, help="mean seconds between kills")
    parser.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("build/release/bin"))
    parser.add_argument("--dir", type=pathlib.Path, default=pathlib.Path("/dev/shm"))
    parser.add_argument("--size", type=int, default=4_000_000, help="of the file, at most")
    arguments = parser.parse_args()
    require_fuse()
    work = pathlib.Path(tempfile.mkdtemp(prefix="file-stress-", dir=arguments.dir)).resolve()
    binaries = arguments.bin.resolve()
    cluster = Cluster(binaries, work / "cluster")
    mounts, failed, killer = [work / "one", work / "two"], 0, None
    try:
        for directory in mounts:
            mount(binaries, cluster, directory)
        killer = Killer(mounts[0], arguments.kill) if arguments.kill else None
        for seed in seeds_of(arguments.seeds):
            began = time.time()
            wrong = Stress(seed, mounts, arguments.size).run(arguments.operations)
            failed += wrong is not None
            kills = f", {killer.kills} kills so far" if killer else ""
            print(f"seed {seed}: {wrong or f'{arguments.operations} operations'} ({time.time() - began:.0f} s{kills})", flush=True)
    finally:
        if killer:
            killer.stop()
        for directory in mounts:
            subprocess.run(["umount", "-l", directory], check=False)
        cluster.stop()
        if not failed:
            shutil.rmtree(work, ignore_errors=True)
    raise SystemExit(1 if failed else 0)


if __name__ == "__main__":
    main()
