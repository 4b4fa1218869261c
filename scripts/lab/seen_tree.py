#!/usr/bin/env python3
"""How long it takes to remove a tree that another mount has looked at.

    scripts/lab/seen_tree.py [--files 3000] [--runs 3] [--bin build/release/bin] [--dir DIRECTORY]

A cluster of ten chunkservers and two mounts are made below DIRECTORY; root is needed. One mount makes a directory of empty files and removes
it (`rm -r`): alone, three seconds after the other one listed it with all attributes (`ls -l`), and right after that. What costs in the second case is that
the directory's lease is gone; what costs more in the third is that the other mount's kernel believes what it was told.
"""

import argparse
import pathlib
import shutil
import subprocess
import tempfile
import time

from compare import Cluster
from huge_directory import fill, mount, require_fuse


def measure(here, there, files, pause):
    """Seconds that `rm -r` takes; `pause` seconds after the other mount looked, or never if that is None."""
    here.mkdir()
    fill(here, 0, files)
    if pause is not None:
        subprocess.run(["ls", "-l", there], check=True, stdout=subprocess.DEVNULL)
        time.sleep(pause)
    began = time.monotonic()
    subprocess.run(["rm", "-r", here], check=True)
    took = time.monotonic() - began
    # What the other one was told is over, so that the next run begins as this one did.
    time.sleep(2)
    if there.exists():
        raise RuntimeError(f"{there} was removed and is seen")
    return took


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=3000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("build/release/bin"))
    parser.add_argument("--dir", type=pathlib.Path, default=pathlib.Path("."))
    arguments = parser.parse_args()
    require_fuse()
    binaries = arguments.bin.resolve()
    place = pathlib.Path(tempfile.mkdtemp(prefix="seen-tree-", dir=arguments.dir)).resolve()
    cluster = Cluster(binaries, place / "cluster")
    mounts = [place / "here", place / "there"]
    try:
        for directory in mounts:
            mount(binaries, cluster, directory)
        for what, pause in (("alone", None), ("looked at three seconds before", 3), ("looked at just now", 0)):
            times = []
            for run in range(arguments.runs):
                name = f"tree-{0 if pause is None else pause + 1}-{run}"
                times.append(measure(mounts[0] / name, mounts[1] / name, arguments.files, pause))
            print(f"{what}: " + ", ".join(f"{seconds:.2f}" for seconds in times) +
                  f" s; {1000 * min(times) / arguments.files:.3f} ms a name at best", flush=True)
    finally:
        for directory in mounts:
            subprocess.run(["umount", "-l", directory], check=False)
        cluster.stop()
        shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    main()
