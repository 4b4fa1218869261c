"""What uses a cluster while faults are made: puts and gets that are compared, metadata, repairs of chunks that are not lost, reads as if one
were, and a file that is written on a mount and read by another client."""

import json
import os
import pathlib
import random
import subprocess
import threading
import time

LIMIT = 90  # seconds that an operation may take: a fault may hold it up
# What the clients of a mix do, and how many seconds each rests between two rounds.
MIXES = {"mixed": [("transfer", 0.3), ("transfer", 0.7), ("metadata", 0.3), ("repair", 0.4), ("shared", 1.0)],
         "writes": [("write", 0.2), ("write", 0.4), ("metadata", 0.5)],
         "reads": [("read", 0.1), ("read", 0.2), ("metadata", 1.0)],
         "repairs": [("repair", 0.1), ("repair", 0.2), ("metadata", 1.0)]}


class Load:
    def __init__(self, cluster, directory, seed, pace=1.0, size=14 << 20, journal=None, mix="mixed"):
        """`pace`: with 2, clients rest for twice as long between operations; `size`: bytes of a file that is put and got; `journal`: a file that is told of
        each round of operations: what, when it began, seconds, and whether it failed; `mix`: one of MIXES."""
        self.cluster, self.directory = cluster, pathlib.Path(directory)
        self.rng = random.Random(f"load {seed}")
        self.stopping = threading.Event()
        self.sharing = threading.Lock()  # of what is written on the mount until it is read
        self.done, self.failed, self.wrong = 0, 0, 0
        (self.directory / "big").write_bytes(os.urandom(size))
        (self.directory / "small").write_bytes(os.urandom(3000))
        self.mount = self.directory / "mnt"
        self.pace, self.journal = pace, journal and open(journal, "a", buffering=1, encoding="utf-8")
        self.idle = False  # clients begin nothing
        self.threads = [threading.Thread(target=self.repeat, args=(getattr(self, work), pause)) for work, pause in MIXES[mix]]

    def start(self):
        self.run("put", self.directory / "big", "/kept")
        self.mount.mkdir()
        subprocess.run([pathlib.Path(self.cluster.kintsugi).with_name("kintsugi-mount"), self.mount, "--log-file", self.directory / "mount.log"],
                       env=self.cluster.environment, check=True)
        for thread in self.threads:
            thread.start()

    def stop(self):
        self.stopping.set()
        for thread in self.threads:
            thread.join()
        subprocess.run(["umount", self.mount], check=False)

    def mount_processes(self):
        """Those that serve the mount. Their parent only starts them anew when they die."""
        parent = subprocess.run(["pgrep", "-f", f"kintsugi-mount {self.mount}"], capture_output=True, text=True, check=True).stdout.split()[0]
        return [int(pid) for pid in subprocess.run(["pgrep", "-P", parent], capture_output=True, text=True, check=True).stdout.split()]

    def write_on_mount(self):
        """Whoever opens it next waits until the mount has given back its write lease. Returns what was written."""
        written = os.urandom(3000)
        (self.mount / "shared").write_bytes(written)
        return written

    def run(self, *words):
        return subprocess.run([self.cluster.kintsugi, *map(str, words)], env=self.cluster.environment, capture_output=True, text=True,
                              timeout=LIMIT, check=True).stdout

    def repeat(self, work, pause):
        name = f"{threading.get_ident():x}"
        while not self.stopping.is_set():
            if self.idle:
                time.sleep(0.1)
                continue
            began, failed = time.time(), False
            try:
                work(name)
                self.done += 1
            except (subprocess.SubprocessError, ValueError, KeyError):
                self.failed += 1  # what a fault does to a client is no matter here
                failed = True
            if self.journal:
                self.journal.write(json.dumps({"what": work.__name__, "began": round(began, 3), "s": round(time.time() - began, 3), "failed": failed}) + "\n")
            time.sleep(pause * self.pace)

    def write(self, name):
        self.run("put", self.directory / "big", f"/{name}", "--replace")

    def read(self, name, file="kept"):
        back = self.directory / name
        self.run("get", f"/{file}", back, "--replace")
        if back.read_bytes() != (self.directory / "big").read_bytes():
            self.wrong += 1

    def transfer(self, name):
        self.write(name)
        self.read(name, name)

    def metadata(self, name):
        where = f"/d-{name}-{self.done + self.failed}"  # a new one each time: a fault may have left the last one behind
        self.run("mkdir", where)
        self.run("put", self.directory / "small", f"{where}/f")
        self.run("ls", where)
        self.run("stat", f"{where}/f")
        self.run("rm", "-r", where)

    def repair(self, _name):
        """A repair of a chunk that is there, or a read as if one of data were lost, which the servers decode by a tree."""
        stripe = json.loads(self.run("stat", "/kept", "--json"))["extents"][0]["stripe_id"]
        if self.rng.random() < 0.5:
            self.run("bench", "degraded-read", "--chunk", f"{stripe}:{self.rng.randrange(self.cluster.data_chunks)}", "--runs", 1)
        else:
            self.run("repair", "run", "--chunk", f"{stripe}:{self.rng.randrange(self.cluster.data_chunks + self.cluster.parity_chunks)}", "--shape", self.rng.choice(["chain", "ppr", "star"]))

    def begin_to_read_shared(self):
        return subprocess.Popen([self.cluster.kintsugi, "cat", "/shared"], env=self.cluster.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def shared(self, _name):
        with self.sharing:
            written = self.write_on_mount()
            read = subprocess.run([self.cluster.kintsugi, "cat", "/shared"], env=self.cluster.environment, capture_output=True, timeout=LIMIT, check=True).stdout
            if read != written:
                self.wrong += 1
