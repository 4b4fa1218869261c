"""Where the hosts have their disks: in memory, unless --dir names a real one.

All hosts of the lab share the disk of one machine. Twelve helpers that read at 1 Gbit/s ask it for 1.4 GB/s, which few can
do, and every experiment on links would be one on that disk. Slow disks are made by the chunkserver's own limiter.
Each chunkserver has a file system of its own there: on a common one they would all report the same free space, by which
the repair manager and the rebalancer choose.
"""

import contextlib
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

from network import LabError

PREFIX = "kintsugi-lab-"
GIBIBYTES = 12


@contextlib.contextmanager
def directory_for_disks(wanted):
    remove_leftovers()
    with tempfile.TemporaryDirectory(prefix=f"{PREFIX}{os.getpid()}-", dir=wanted) as directory:
        if wanted:
            yield directory
            return
        check_memory()
        mount_memory(directory)
        try:
            yield directory
        finally:
            unmount(directory)


def make_disk(path):
    """The disk of a chunkserver, below the directory for disks."""
    path.mkdir(exist_ok=True)
    if in_memory(path) and not path.is_mount():
        mount_memory(path)


def remove_disk(path):
    if path.is_mount():
        unmount(path)
    shutil.rmtree(path, ignore_errors=True)


def in_memory(path):
    return any(parent.name.startswith(PREFIX) and parent.is_mount() for parent in path.parents)


def check_memory():
    available = int(re.search(r"MemAvailable:\s+(\d+)", pathlib.Path("/proc/meminfo").read_text())[1]) >> 20
    if available < GIBIBYTES:
        raise LabError(f"disks in memory need {GIBIBYTES} GiB, {available} are free: say --dir to put them on a disk")


def mount_memory(path):
    result = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={GIBIBYTES}g,mode=700", "tmpfs", path],
                            capture_output=True, text=True)
    if result.returncode != 0:
        raise LabError(f"no disk in memory at {path}: {result.stderr.strip()}")


def unmount(path):
    """With what is mounted below."""
    subprocess.run(["umount", "-l", path], check=False)


def remove_leftovers():
    """Of labs that were killed."""
    for line in pathlib.Path("/proc/mounts").read_text().splitlines():
        path = line.split()[1]
        owner = re.search(rf"/{PREFIX}(\d+)-[^/]*$", path)
        if owner and not pathlib.Path(f"/proc/{owner[1]}").exists():
            unmount(path)
            os.rmdir(path)
