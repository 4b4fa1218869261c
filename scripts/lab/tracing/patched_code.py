"""Code of a running process that is changed from outside, without any fault point: an endless loop, or the end, at the beginning of one function.

Only functions with a sled are taken (tracing/repository/sled_map.h): eleven bytes at their beginning, which tracing changes. What is changed here is the
instruction behind them, so that a recording has the function's entry, and then nothing more of the thread. Two bytes are written through
/proc/PID/mem, and written back.
"""

import functools
import os
import pathlib
import re
import signal
import struct
import subprocess
import time

LOOP, CRASH = b"\xeb\xfe", b"\x0f\x0b"  # a jump to itself; an instruction that does not exist
SLED, SLED_BYTES = b"\xeb\x09", 11  # as the compiler leaves it
PARTS = (".resume", ".destroy", ".cleanup")
CLONE = re.compile(r" \[clone (\.[a-z]+)\]$")


def without_types(name):
    """As `kintsugi trace show` shortens names (tracing/repository/names.cc), but for lambdas and operators, which are left out."""
    part = CLONE.search(name)
    name = CLONE.sub("", name)
    if "lambda" in name or "operator" in name:
        return ""
    name = name.replace("(anonymous namespace)::", "")
    kept, depth = "", 0
    for letter in name:
        depth += letter == "<"
        if depth == 0 and letter == "(":
            break
        if depth == 0:
            kept = "" if letter == " " else kept + letter
        depth -= letter == ">"
    return kept.removeprefix("kintsugi::") + (part.group(1) if part else "")


@functools.cache
def functions_of(binary):
    """Short name -> address in the file, of the functions that have a sled; without those that share a name or an address."""
    lines = subprocess.run(["nm", "-C", "--defined-only", str(binary)], check=True, capture_output=True, text=True).stdout.splitlines()
    names, addresses = {}, {}
    for line in lines:
        address, kind, name = line.split(" ", 2)
        if kind not in "tTwW":
            continue
        short, address = without_types(name), int(address, 16)
        names.setdefault(short, set()).add(address)
        addresses.setdefault(address, set()).add(short)
    offset_of = file_offsets(binary)
    found = {}
    with open(binary, "rb") as file:
        for name, places in names.items():
            address = min(places)
            if not name or len(places) > 1 or len(addresses[address]) > 1:
                continue
            file.seek(offset_of(address))
            if file.read(2) == SLED:
                found[name] = address
    return found


def file_offsets(binary):
    """A function from addresses to places in the file, by the segments of the program."""
    data = pathlib.Path(binary).read_bytes()[:1 << 16]
    table, size, count = struct.unpack_from("<Q", data, 32)[0], *struct.unpack_from("<HH", data, 54)
    segments = []
    for number in range(count):
        kind, _flags, offset, address, _physical, bytes_in_file = struct.unpack_from("<IIQQQQ", data, table + number * size)
        if kind == 1:
            segments.append((address, bytes_in_file, offset))

    def offset_of(address):
        return next((offset + address - begin for begin, length, offset in segments if begin <= address < begin + length), 0)
    return offset_of


class Patched:
    """One function of one process. begin() and end() as those of diagnosis/surroundings.py."""

    def __init__(self, pid, binary, address, code):
        self.pid, self.code, self.before = pid, code, None
        self.place = self._base(binary) + address + SLED_BYTES

    def _base(self, binary):
        name = os.path.basename(binary)
        for line in pathlib.Path(f"/proc/{self.pid}/maps").read_text().splitlines():
            words = line.split()
            if len(words) > 5 and os.path.basename(words[5]) == name and int(words[2], 16) == 0:
                return int(words[0].split("-")[0], 16)
        raise RuntimeError(f"process {self.pid} does not run {binary}")

    def met(self):
        """A thread turns in the loop now. REQUIRES: begin() was called, and end() was not."""
        os.kill(self.pid, signal.SIGSTOP)
        time.sleep(0.005)
        try:
            return self._stands_at(self.place)
        finally:
            os.kill(self.pid, signal.SIGCONT)

    def _stands_at(self, place):
        """A thread is about to execute what stands there. REQUIRES: all threads are stopped."""
        for task in pathlib.Path(f"/proc/{self.pid}/task").iterdir():
            try:
                at = (task / "syscall").read_text().split()
            except OSError:
                continue
            if at[0] != "running" and int(at[-1], 16) == place:
                return True
        return False

    def _write(self, code):
        with open(f"/proc/{self.pid}/mem", "r+b", buffering=0) as memory:
            memory.seek(self.place)
            before = memory.read(len(code))
            memory.seek(self.place)
            memory.write(code)
        return before

    def begin(self):
        for _ in range(100):
            os.kill(self.pid, signal.SIGSTOP)
            time.sleep(0.005)
            try:
                if not self._stands_at(self.place + 1):
                    self.before = self._write(self.code)
                    return
            finally:
                os.kill(self.pid, signal.SIGCONT)
            time.sleep(0.005)
        raise RuntimeError(f"process {self.pid} always stands at {self.place:#x}")

    def end(self):
        if self.before is None:
            return
        try:
            self._write(self.before)
        except OSError:
            pass  # it has ended
        self.before = None
