"""What uses the cluster while it is recorded: eight clients at a time, each of which gets, puts and asks for attributes in turn, as drawn by seed."""

import os
import pathlib
import random
import subprocess
import threading
import time

from recorded import LIMIT

CLIENTS = 8
SMALL, LARGE = 700_000, 7 << 20  # bytes: chunks that share segments, and chunks with a file each
KEPT = 24
REST = 1.0  # seconds between two operations of a client, on average


class Load:
    def __init__(self, cluster, directory, seed):
        self.cluster, self.directory, self.seed = cluster, pathlib.Path(directory), seed
        self.stopping = threading.Event()
        self.threads, self.done, self.failed, self.wrong = [], 0, 0, 0
        self.counting = threading.Lock()

    def prepare(self):
        """Stores the files that are read. Files of one size are equal, so that what comes back can be judged."""
        for size in (SMALL, LARGE):
            self.source(size).write_bytes(os.urandom(size))
        for number in range(KEPT):
            self.cluster.run("put", self.source(self.size_of(number)), self.kept(number))

    def source(self, size):
        return self.directory / f"source-{size}"

    def kept(self, number):
        return f"/kept-{number}"

    def size_of(self, number):
        return LARGE if number % 3 == 0 else SMALL

    def start(self, run):
        self.stopping.clear()
        self.done = self.failed = self.wrong = 0
        self.threads = [threading.Thread(target=self.client, args=(run, number)) for number in range(CLIENTS)]
        for thread in self.threads:
            thread.start()

    def stop(self):
        self.stopping.set()
        for thread in self.threads:
            thread.join()
        self.threads = []

    def client(self, run, number):
        rng = random.Random(f"load {self.seed} {run} {number}")
        count = 0
        while not self.stopping.is_set():
            count += 1
            time.sleep(REST * 2 * rng.random())
            try:
                right = self.operation(rng, f"{run}-{number}-{count}")
                status = 0 if right else 1
            except subprocess.TimeoutExpired:
                right, status = True, 1
            with self.counting:
                self.done += status == 0
                self.failed += status != 0
                self.wrong += not right

    def operation(self, rng, name):
        what = rng.random()
        if what < 0.5:
            return self.get(rng.randrange(KEPT), name)
        if what < 0.75:
            size = LARGE if rng.random() < 0.3 else SMALL
            return self.cluster.run("put", self.source(size), f"/put-{name}", limit=LIMIT)[0] == 0
        return self.cluster.run("stat", self.kept(rng.randrange(KEPT)), limit=LIMIT)[0] == 0

    def get(self, number, name):
        back = self.directory / f"got-{name}"
        status = self.cluster.run("get", self.kept(number), back, limit=LIMIT)[0]
        if status != 0:
            return False
        right = back.read_bytes() == self.source(self.size_of(number)).read_bytes()
        back.unlink()
        return right
