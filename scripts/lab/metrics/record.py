#!/usr/bin/env python3
"""Records what metrics do in a cluster, healthy and with faults that take resources little by little; analyse.py judges detectors by it.

    scripts/lab/metrics/record.py --out DIRECTORY [--seed 1] [--minutes 10] [--runs 20] [--bin build/test/bin] [--dir DIRECTORY]

A cluster of ten chunkservers and its monitor is used by clients whose pace rises and falls. First the healthy time is recorded, then one fault after the
other: which, where, when and how fast is drawn by seed and number and written to runs.jsonl before the run begins. A fault lasts until a limit is reached
or the run ends; then its server is restarted, so that nothing of it is left. The detectors see the monitor's trace alone (copied to OUT/trace), and judge.py
sees the runs. A later call goes on after the last run. Needs root (a network of its own).
"""

import argparse
import json
import math
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "diagnosis"))

from load import Load  # noqa: E402
from watched import Watched, enter_own_network  # noqa: E402

SERVERS = 10
SAMPLES_A_SECOND = 4  # 250 ms stand for the text's 5 s: everything is 20 times as fast
# Points that every load passes often at a chunkserver, and which of its metrics and regions a right answer names.
POINTS = {"serve-stream": "chunkserver.", "disk-write": "chunkserver.", "serve-call": "chunkserver."}
KINDS = {
    "sockets": {"action": "leak-socket", "metrics": ["num_fds", "sockets_inuse", "process_open_fds", "rpc_connections"]},
    "memory": {"action": "leak", "metrics": ["rss", "RssAnon", "VmData", "vsize", "process_resident_memory_bytes", "minflt"]},
    "delay": {"action": "delay", "metrics": []},
}
FEW, MANY = 60, 720  # samples from the beginning of a leak to its failure, drawn log-uniformly


class Breathing:
    """Changes the pace of the load slowly: ramps, steps and bursts, drawn by seed."""

    def __init__(self, load, seed):
        self.load, self.rng, self.stopping = load, random.Random(f"pace {seed}"), threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.factor = 1.0

    def run(self):
        while not self.stopping.is_set():
            shape, length, high = self.rng.choice(["ramp", "step", "bursts"]), self.rng.uniform(40, 90), self.rng.uniform(0.5, 3)
            began = time.time()
            while time.time() - began < length and not self.stopping.is_set():
                share = (time.time() - began) / length
                self.load.pace = self.factor * {"ramp": 0.5 + (high - 0.5) * share, "step": high, "bursts": 0.4 if self.rng.random() < 0.2 else 3}[shape]
                time.sleep(2)

    def stop(self):
        self.stopping.set()
        self.thread.join()


def draw(seed, number):
    rng = random.Random(f"{seed} {number}")
    kind = rng.choice(list(KINDS))
    return {"seed": seed, "number": number, "kind": kind, "server": f"chunkserver-{rng.randrange(1, SERVERS + 1)}", "point": rng.choice(list(POINTS)),
            "before_s": round(rng.uniform(30, 50), 1), "until_failure_s": round(math.exp(rng.uniform(math.log(FEW), math.log(MANY))) / SAMPLES_A_SECOND, 1),
            "load": rng.choice([0.5, 1, 1, 2]), "metrics": KINDS[kind]["metrics"], "regions": [POINTS["serve-call"]]}
