"""Where the hosts have their disks: in memory, unless --dir names a real one.

All hosts of the lab share the disk of one machine. Twelve helpers that read at 1 Gbit/s ask it for 1.4 GB/s, which few can
do, and every experiment on links would be one on that disk. Slow disks are made by the chunkserver's own limiter.
"""

import contextlib
import os
import pathlib
import re
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
        mount("-t", "tmpfs", "-o", f"size={GIBIBYTES}g,mode=700", "tmpfs", directory)
        try:
            yield directory
        finally:
            subprocess.run(["umount", "-l", directory], check=False)


def check_memory():
    available = int(re.search(r"MemAvailable:\s+(\d+)", pathlib.Path("/proc/meminfo").read_text())[1]) >> 20
    if available < GIBIBYTES:
        raise LabError(f"disks in memory need {GIBIBYTES} GiB, {available} are free: say --dir to put them on a disk")


def mount(*arguments):
    result = subprocess.run(["mount", *arguments], capture_output=True, text=True)
    if result.returncode != 0:
        raise LabError(f"mount {' '.join(arguments)}: {result.stderr.strip()}")


def remove_leftovers():
    """Of labs that were killed."""
    for line in pathlib.Path("/proc/mounts").read_text().splitlines():
        path = line.split()[1]
        owner = re.search(rf"/{PREFIX}(\d+)-[^/]*$", path)
        if owner and not pathlib.Path(f"/proc/{owner[1]}").exists():
            subprocess.run(["umount", "-l", path], check=False)
            os.rmdir(path)
