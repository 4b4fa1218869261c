#!/usr/bin/env python3
"""Instructions that two builds need for the same work, counted by callgrind: noisy neighbours do not move them.

    scripts/lab/instructions.py BASE/build/release/bin build/release/bin [--mib 32] [--files 300] [--dir /dev/shm]

Each build gets a cluster of ten chunkservers whose client, metaserver and chunkservers run below valgrind (on Debian: the package
valgrind). Printed are millions of instructions, and second / first. What the daemons need while nobody asks for anything is
measured right before each operation, and taken off for as long as that lasted. Works on stripped copies: valgrind cannot read Clang's debug
information.
"""

import argparse
import pathlib
import re
import shutil
import subprocess
import tempfile
import time

from compare import Cluster, write_sources

IDLE_SECONDS = 10
WATCHED = {"kintsugi-metaserver": "metaserver", "kintsugi-chunkserver": "chunkservers"}
LAUNCHER = """#!/bin/sh
exec valgrind --tool=callgrind --fair-sched=yes --callgrind-out-file={counts}/{name}.%p {binary} "$@" 2>/dev/null
"""


def watched_binaries(binaries, directory, counts):
    """A directory of binaries in which the daemons that are watched are started below valgrind."""
    launchers, stripped = directory / "bin", directory / "stripped"
    for made in (launchers, stripped, counts):
        made.mkdir(parents=True)
    for source in pathlib.Path(binaries).glob("kintsugi*"):
        binary = stripped / source.name
        subprocess.run(["llvm-strip-19", "-g", source, "-o", binary], check=True)
        if source.name in WATCHED:
            launcher = launchers / source.name
            launcher.write_text(LAUNCHER.format(counts=counts, name=source.name, binary=binary))
            launcher.chmod(0o755)
        else:
            shutil.copy(binary, launchers)
    return launchers


class Watched:
    """A cluster that counts."""

    def __init__(self, binaries, directory):
        self.counts = directory / "counts"
        self.cluster = Cluster(watched_binaries(binaries, directory, self.counts), directory / "cluster")
        time.sleep(IDLE_SECONDS)  # the servers have registered, and asked each other
        self.idle = self.measure_idle()

    def measure_idle(self):
        """Instructions of each role while nobody asks for anything, for IDLE_SECONDS."""
        return self.daemons(lambda: time.sleep(IDLE_SECONDS))[0]

    def daemons(self, work):
        """(instructions of each role while the work is done, its seconds)"""
        for count in self.counts.iterdir():
            count.unlink()
        for pid in self.cluster.daemons:
            subprocess.run(["callgrind_control", "-z", str(pid)], capture_output=True)
        began = time.monotonic()
        work()
        seconds = time.monotonic() - began
        for pid in self.cluster.daemons:
            subprocess.run(["callgrind_control", "-d", str(pid)], capture_output=True)
        total = dict.fromkeys(WATCHED.values(), 0)
        for count in self.counts.iterdir():
            found = re.findall(r"^(?:totals|summary): (\d+)", count.read_text(), re.MULTILINE)
            total[WATCHED[count.name.split(".")[0]]] += int(found[-1]) if found else 0
        return total, seconds

    def measure(self, *words):
        """Instructions of a command by role: once to count in the daemons, once below callgrind itself."""
        command = [self.cluster.kintsugi, *map(str, words)]
        idle = self.measure_idle()
        total, seconds = self.daemons(
            lambda: subprocess.run(command, env=self.cluster.environment, check=True, stdout=subprocess.DEVNULL))
        total = {role: count - idle[role] / IDLE_SECONDS * seconds for role, count in total.items()}
        counted = subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", *command, "--replace"],
                                 env=self.cluster.environment, check=True, capture_output=True, text=True)
        total["client"] = int(re.search(r"Collected : (\d+)", counted.stderr)[1])
        total["all"] = sum(total.values())
        return total


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("first")
    parser.add_argument("second")
    parser.add_argument("--mib", type=int, default=32)
    parser.add_argument("--files", type=int, default=300)
    parser.add_argument("--dir", default="/dev/shm")
    arguments = parser.parse_args()

    with tempfile.TemporaryDirectory(prefix="kintsugi-instructions-", dir=arguments.dir) as made:
        directory = pathlib.Path(made)
        write_sources(directory, arguments.mib, arguments.files)
        operations = {
            "put": ("put", directory / "large", "/large"),
            "get": ("get", "/large", directory / "got"),
            "put of small files": ("put", directory / "small", "/small"),
            "get of small files": ("get", "/small", directory / "got-small"),
        }
        results = []
        for name, binaries in (("first", arguments.first), ("second", arguments.second)):
            watched = Watched(binaries, directory / name)
            try:
                results.append({f"idle for {IDLE_SECONDS} s": watched.idle}
                               | {what: watched.measure(*words) for what, words in operations.items()})
            finally:
                watched.cluster.stop()
            (directory / "got").unlink()
            shutil.rmtree(directory / "got-small")
    print(f"{'':34}{'first':>10}{'second':>10}{'ratio':>8}")
    for what, counts in results[0].items():
        for role in counts:
            first, second = (result[what][role] / 1e6 for result in results)
            print(f"{what + ', ' + role:34}{first:10.1f}{second:10.1f}{second / first:8.3f}")


if __name__ == "__main__":
    main()
