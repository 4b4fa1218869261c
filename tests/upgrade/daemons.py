"""Daemons of a small cluster on directories that stay, with the programs of whichever version."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts/lab"))

from own_addresses import own_address  # noqa: E402

PATIENCE_SECONDS = 60
CHUNKSERVERS = tuple(f"chunkserver-{number}" for number in range(3))
NAMES = ("metaserver", *CHUNKSERVERS, "repair-manager", "monitor")
POLICY = "rs-2-1-64k"  # one chunk for each of the chunkservers


def kind(name):
    return name.rstrip("-0123456789")


def flags_of(program):
    return set(re.findall(r"^\s+--([a-z0-9.-]+)", subprocess.run([program, "--help"], capture_output=True, text=True).stdout, re.M))


class Daemons:
    """`directory` has `secret`, and a directory for each daemon that stores something. `activity_logs`: whether daemons write them there."""

    def __init__(self, binaries, directory, names=NAMES, activity_logs=False):
        self.binaries, self.directory, self.names = pathlib.Path(binaries), pathlib.Path(directory), names
        self.activity_logs = activity_logs
        self.addresses = {name: (own_address(), own_address()) for name in names}
        self.processes = {}
        self.environment = os.environ | {"KINTSUGI_META": self.addresses["metaserver"][0], "KINTSUGI_SECRET_FILE": str(self.directory / "secret")}

    def command(self, name):
        program = self.binaries / f"kintsugi-{kind(name)}"
        rpc, http = self.addresses[name]
        settings = {"listen": rpc, "http-listen": http, "secret-file": self.directory / "secret", "log-file": self.directory / f"{name}.log",
                    "metaserver": self.addresses["metaserver"][0], "data-dir": self.directory / name, "disks": self.directory / name,
                    "name": name, "rack": name, "policy": POLICY, "daemons-on-machine": len(self.names),
                    "activity-log": "true" if self.activity_logs else "false"}
        known = flags_of(program)
        if kind(name) == "metaserver":
            del settings["metaserver"]
        return [program, *(f"--{key}={value}" for key, value in settings.items() if key in known)]

    def start(self, *names):
        names = names or self.names
        for name in names:
            with open(self.directory / f"{name}.out", "ab") as out:
                self.processes[name] = subprocess.Popen(self.command(name), stdout=out, stderr=out)
        for name in names:
            self.wait_until(f"{name} is well", lambda name=name: self.is_well(name))
        if set(names) & set(CHUNKSERVERS):
            self.wait_until("all chunkservers are alive", self.all_alive)

    def is_well(self, name):
        if self.processes[name].poll() is not None:
            raise AssertionError(f"{name} ended: {(self.directory / f'{name}.out').read_text()}{(self.directory / f'{name}.log').read_text()[-2000:]}")
        try:
            return urllib.request.urlopen(f"http://{self.addresses[name][1]}/healthz", timeout=5).status == 200
        except OSError:
            return False

    def all_alive(self):
        done = self.kintsugi("server", "list", "--json")
        return done.returncode == 0 and sum(server["liveness"] == "alive" for server in json.loads(done.stdout)["servers"]) == len(CHUNKSERVERS)

    def wait_until(self, what, condition):
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError(f"{what}: not within {PATIENCE_SECONDS} s")
            time.sleep(0.05)

    def stop(self):
        """Chunkservers after those who use them, and the metaserver last."""
        for name in sorted(self.processes, key=lambda name: (name == "metaserver", name in CHUNKSERVERS)):
            self.processes[name].send_signal(signal.SIGTERM)
            if self.processes[name].wait(PATIENCE_SECONDS) != 0:
                raise AssertionError(f"{name} ended with {self.processes[name].returncode}")
        self.processes.clear()

    def kill(self):
        for process in self.processes.values():
            process.kill()
            process.wait()
        self.processes.clear()

    def kintsugi(self, *words):
        return subprocess.run([self.binaries / "kintsugi", *map(str, words)], env=self.environment, capture_output=True, text=True, timeout=PATIENCE_SECONDS)

    def does_bytes(self, *words):
        return subprocess.run([self.binaries / "kintsugi", *words], env=self.environment, capture_output=True, check=True, timeout=PATIENCE_SECONDS).stdout

    def does(self, *words):
        done = self.kintsugi(*words)
        if done.returncode != 0:
            raise AssertionError(f"kintsugi {' '.join(map(str, words))}: {done.stderr}")
        return done.stdout


HEADER_BYTES = 4096  # of a chunk file, and of a record of a segment


def stored_chunks(directory):
    """The chunks on the disks of all chunkservers, by (index, length, CRC): bytes of their files, or of their records in segments,
    without what differs from stripe to stripe (chunk_format.cc, segment_format.cc)."""
    found = {}
    for path in pathlib.Path(directory).glob("chunkserver-*/**/*"):
        if named := re.fullmatch(r"[0-9a-f]{16}-(\d+)-(\d+)-([0-9a-f]{8})", path.name):
            text = path.read_bytes()
            # The header has the stripe behind magic and version, and its own CRC at its end.
            fixed = text[:6] + text[14:HEADER_BYTES - 4] + text[HEADER_BYTES:]
            found.setdefault((int(named[1]), int(named[2]), named[3]), set()).add(fixed)
        elif path.is_file() and path.parent.name == "segments":
            add_records(path.read_bytes(), found)
    return found


def add_records(text, found):
    """Records of one segment. Of a header: magic, version and kind (8 bytes); places, numbers and the stripe (40); index, length, CRC."""
    for begin in range(0, len(text), HEADER_BYTES):
        if text[begin:begin + 4] != b"KSEC" or text[begin + 6] != 1:  # 2: names of chunks that were removed
            continue
        number = lambda at, size: int.from_bytes(text[begin + at:begin + at + size], "little")
        length = number(52, 8)
        fixed = text[begin:begin + 8] + text[begin + 48:begin + HEADER_BYTES - 4] + text[begin + HEADER_BYTES:begin + HEADER_BYTES + length]
        found.setdefault((number(48, 4), length, f"{number(60, 4):08x}"), set()).add(fixed)
