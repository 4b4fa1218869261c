#!/usr/bin/env python3
"""Records what metrics do in a cluster, healthy and with resources that leak; judge.py judges the detectors by it.

    scripts/lab/metrics/record.py --out DIRECTORY [--seed 1] [--train 600] [--runs 12] [--pace 2] [--kinds sockets memory ...] [--small]
                                  [--mix writes|reads|repairs] [--jobs] [--bin build/test/bin] [--dir DIRECTORY]

A cluster and its monitor are used by clients whose pace rises and falls. First the healthy time is recorded, in which every chunkserver is restarted once,
and some of which is kept for calibration; then one fault after the other: which, where, when and how fast is drawn by seed and number and written to
truth.jsonl before the run begins. A fault lasts until its limit is reached or the run ends; then its server is restarted, so that nothing of it is left.
Half of the runs have another load than the healthy time. The detectors see the monitor's trace (copied to OUT/trace-N) and the activity logs
(OUT/trace-N.logs). A later call goes on after the last run. It needs root (a network of its own) and a build with fault points. 250 ms stand for the text's
5 s: everything is 20 times as fast. Each of the kinds comes once before one comes again, in an order drawn by seed: none, shifted (another load) and restart
have no fault. `--small`: five chunkservers and smaller files, of which several clusters fit on two processors. `--jobs`: clients work and rest in turn, for
10 to 30 seconds each. What else the machine did is noted beside each run: its load, and the share of processor time that a hypervisor took.
"""

import argparse
import json
import math
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "diagnosis"))

from load import MIXES, Load  # noqa: E402
from surroundings import Crowded, Stopped  # noqa: E402
from watched import Watched, enter_own_network  # noqa: E402

INTERVAL = 0.25
POINTS = ["serve-stream", "disk-write"]  # every load passes them often at a chunkserver
FEW, MANY = 60, 720  # samples from the beginning of a leak to its end, drawn log-uniformly
MEMORY = 400 << 20  # bytes that a leak of memory takes until it counts as a failure
HEALTHY_RUN = 100.0  # seconds of a run without a fault
STEADY_FAULT = 90.0  # seconds of a fault that reaches no limit: a hog, a hang or a delay
MOST_CONNECTIONS = 150  # that a client which closes none of them may have
DELAY = 1.0  # seconds that each message waits
BUSY = 0.1  # seconds that a server computes for each message
COUNTED, JOBS_COUNTED = 8, 80  # seconds in which passes are counted: clients that work and rest do so about twice
FEWEST_RATE = 0.2  # passes a second that are counted on, however few there were
FEWEST_SOCKETS = 40  # that leak until the limit: fewer come and go in a healthy process
SLOW_LEAK = 10  # times as long until its end, which a run does not wait for
HEALTHY = ["none", "shifted", "restart"]
KINDS = ["sockets", "memory", "slow-memory", "connections", "hog", "stopped", "hang", "spin", "stuck", "delay", "slow-disk", "busy", "deadlock", "lock", *HEALTHY]
# Where an execution hangs that has begun its state of the activity log, by the mix of the load.
STUCK = {"mixed": "disk-write", "writes": "disk-write", "reads": "send-chunk", "repairs": "own-sum"}
SLOW_DISK = 0.2  # seconds that each read and write of the disk waits
# What is set for a fault that reaches no limit, and where: a lock is the metaserver's, which changes no metadata then. Streams hang with "spin", and a thread
# of the process keeps a processor busy.
STEADY = {"hang": [("serve-stream", "hang")], "delay": [("serve-stream", "delay", "--delay", DELAY)], "busy": [("serve-stream", "cpu-loop", "--delay", BUSY)],
          "deadlock": [("deadlock", "hang")], "lock": [("store-commit", "hang")],
          "spin": [("serve-stream", "memory-walk", "--bytes", 16 << 20, "--delay", STEADY_FAULT, "--times", 1), ("serve-stream", "hang", "--skip", 1)],
          "slow-disk": [("disk-read", "delay", "--delay", SLOW_DISK), ("disk-write", "delay", "--delay", SLOW_DISK)],
          **{f"stuck {mix}": [(point, "hang")] for mix, point in STUCK.items()}}
LARGE = {"servers": 10, "policy": "rs-6-3-1024k"}
SMALL = {"servers": 5, "policy": "rs-2-1-256k"}
SIZES = {10: 14 << 20, 5: 4 << 20}  # bytes of a file, by the number of servers


class Breathing:
    """Changes the pace of the load slowly: ramps, steps and bursts, drawn by seed."""

    def __init__(self, load, seed, pace, jobs):
        self.load, self.rng, self.stopping = load, random.Random(f"pace {seed}"), threading.Event()
        self.factor, self.pace, self.jobs = 1.0, pace, jobs
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while self.jobs and not self.stopping.is_set():
            self.load.pace, self.load.idle = self.pace / self.factor, not self.load.idle
            self.stopping.wait(self.rng.uniform(10, 30))
        while not self.stopping.is_set():
            shape, length, high = self.rng.choice(["ramp", "step", "bursts"]), self.rng.uniform(30, 70), self.rng.uniform(0.5, 3)
            began = time.time()
            while time.time() - began < length and not self.stopping.is_set():
                share = (time.time() - began) / length
                rest = {"ramp": 0.5 + (high - 0.5) * share, "step": high, "bursts": 0.4 if self.rng.random() < 0.2 else 3}[shape]
                self.load.pace = self.pace * rest / self.factor
                time.sleep(2)

    def stop(self):
        self.stopping.set()
        self.thread.join()


def draw(seed, number, kinds, servers, mix):
    rng = random.Random(f"{seed} {number}")
    turn, place = divmod(number, len(kinds))
    kind = random.Random(f"kinds {seed} {turn}").sample(kinds, len(kinds))[place]
    run = {"seed": seed, "number": number, "drawn": kind, "kind": "none" if kind in HEALTHY else kind, "server": f"chunkserver-{rng.randrange(1, servers + 1)}",
           "servers": servers, "point": rng.choice(POINTS), "before_s": round(rng.uniform(30, 45), 1),
           "until_end_s": round(math.exp(rng.uniform(math.log(FEW), math.log(MANY))) * INTERVAL, 1), "load": rng.choice([0.5, 1, 1, 2])}
    if kind == "shifted":
        run["load"] = rng.choice([0.5, 2])
    run["mix"] = mix
    if faults_of(run):
        run["point"] = faults_of(run)[0][0]
    if run["kind"] == "slow-memory":
        run["until_end_s"] *= SLOW_LEAK
    if run["kind"] == "lock":
        run["server"] = "metaserver"
    return run


def faults_of(run):
    """What is set for a kind that reaches no limit; nothing for one that is made otherwise."""
    return STEADY.get(f"stuck {run['mix']}" if run["kind"] == "stuck" else run["kind"], [])


def open_files(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def resident(pid):
    return int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


def passes_a_second(cluster, run):
    """How often the point is passed under the present load: a fault that never happens counts it."""
    cluster.output("fault", "set", run["server"], run["point"], "delay", "--skip", 10 ** 12)
    seconds = JOBS_COUNTED if run["jobs"] else COUNTED
    time.sleep(seconds)
    count = sum(fault["passed"] for fault in json.loads(cluster.output("fault", "list", run["server"], "--json"))["faults"])
    cluster.output("fault", "clear", run["server"])
    return max(count / seconds, FEWEST_RATE)


class Connections:
    """A client that connects to a server and never closes what it has. It has no secret, so the server closes its connections after two seconds."""

    def __init__(self, port, a_second):
        self.port, self.pause, self.held, self.stopping = port, 1 / a_second, [], threading.Event()
        self.thread = threading.Thread(target=self.run)

    def begin(self):
        self.thread.start()

    def run(self):
        while not self.stopping.wait(self.pause):
            try:
                self.held.append(socket.create_connection(("127.0.0.1", self.port), timeout=1))
            except OSError:
                pass  # the limit is reached

    def end(self):
        self.stopping.set()
        self.thread.join()
        for one in self.held:
            one.close()


class NoMeans:
    def end(self):
        pass


def begin_fault(cluster, run):
    """Returns what says whether the fault's limit is reached (None: it has none), and what ends it before its server is restarted."""
    pid = cluster.pid(run["server"])
    if run["kind"] in ("hog", "stopped"):
        means = Crowded(pid) if run["kind"] == "hog" else Stopped(pid)
        means.begin()
        return None, means
    for fault in faults_of(run):
        cluster.output("fault", "set", run["server"], *fault, *([] if "--times" in fault else ["--times", 0]))
    if faults_of(run):
        return None, NoMeans()
    if run["kind"] == "connections":
        limit = open_files(pid) + MOST_CONNECTIONS
        subprocess.run(["prlimit", f"--pid={pid}", f"--nofile={limit}:{limit}"], check=True)
        means = Connections(cluster.port(run["server"]), MOST_CONNECTIONS / run["until_end_s"])
        means.begin()
        return lambda: open_files(pid) >= limit - 1, means
    return leak(cluster, run), NoMeans()


def leak(cluster, run):
    """Begins it so that it ends in about the time that was drawn; returns what says whether its limit is reached."""
    pid, rate = cluster.pid(run["server"]), passes_a_second(cluster, run)
    if run["kind"] == "sockets":
        more = max(rate * run["until_end_s"], FEWEST_SOCKETS)
        run["until_end_s"] = round(more / rate, 1)
        limit = int(open_files(pid) + more)
        subprocess.run(["prlimit", f"--pid={pid}", f"--nofile={limit}:{limit}"], check=True)
        cluster.output("fault", "set", run["server"], run["point"], "leak-socket", "--times", 0)
        return lambda: open_files(pid) >= limit - 1
    began = resident(pid)
    cluster.output("fault", "set", run["server"], run["point"], "leak", "--times", 0, "--bytes", max(int(MEMORY / (rate * run["until_end_s"])), 4096))
    return lambda: resident(pid) >= began + MEMORY and run["kind"] == "memory"


def processor_times():
    """All of the machine's, and what a hypervisor took of it, in ticks."""
    times = [int(word) for word in pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return sum(times), times[7]


def record_run(cluster, run, journal):
    run["began"] = time.time()
    all_before, stolen_before = processor_times()
    time.sleep(run["before_s"])
    failed, reached, means = None, None, NoMeans()
    if run["drawn"] == "restart":
        cluster.restart(run["server"])
    if run["kind"] != "none":
        run["fault_asked"] = time.time()
        reached, means = begin_fault(cluster, run)
    run["fault_began"] = time.time()
    longest = HEALTHY_RUN if run["kind"] == "none" else STEADY_FAULT if reached is None or run["kind"] == "slow-memory" else 2.5 * run["until_end_s"] + 20
    try:
        while time.time() - run["fault_began"] < longest and failed is None:
            time.sleep(INTERVAL)
            if reached is not None and reached():
                failed = time.time()
        run.update(failed=failed, ended=time.time(), machine_load=os.getloadavg()[1])
    finally:
        means.end()  # also when the recording is ended in the middle: competitors and a stopped server would stay
    all_after, stolen_after = processor_times()
    run["steal"] = round((stolen_after - stolen_before) / max(all_after - all_before, 1), 4)
    with open(journal, "a", encoding="utf-8") as out:
        out.write(json.dumps(run) + "\n")
    if faults_of(run):
        cluster.output("fault", "clear", run["server"], limit=30)  # a server does not stop while one of its streams hangs
    if run["kind"] != "none":
        cluster.restart(run["server"])
        time.sleep(5)


def copy_grown(files, to):
    to.mkdir(exist_ok=True)
    for file in files:
        copy = to / file.name
        if not copy.exists() or copy.stat().st_size != file.stat().st_size:
            shutil.copy2(file, copy)


def keep(work, out):
    """Copies what the detectors read."""
    copy_grown((work / "cluster" / "data" / "monitor" / "metrics").iterdir(), out)
    copy_grown((work / "cluster" / "log").glob("*.activity*"), out.with_name(out.name + ".logs"))


def be_healthy(cluster, seconds):
    """Processes of every age are healthy: each chunkserver is restarted once."""
    for number in range(1, cluster.servers + 1):
        time.sleep(seconds / (cluster.servers + 1))
        cluster.restart(f"chunkserver-{number}")
    time.sleep(seconds / (cluster.servers + 1))


def record(arguments):
    journal, done = arguments.out / "runs.jsonl", -1
    arguments.out.mkdir(parents=True, exist_ok=True)
    if journal.exists():
        done = max(json.loads(line)["number"] for line in journal.read_text().splitlines())
    enter_own_network()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    arguments.dir.mkdir(parents=True, exist_ok=True)
    work = pathlib.Path(tempfile.mkdtemp(prefix="metrics-", dir=arguments.dir)).resolve()
    shape = SMALL if arguments.small else LARGE
    cluster = Watched(arguments.bin.resolve(), work / "cluster", '[metrics]\ninterval = "250ms"\n', snapshots="", **shape)
    load = Load(cluster, work, arguments.seed, arguments.pace, SIZES[cluster.servers], arguments.out / "operations.jsonl", arguments.mix)
    trace = arguments.out / f"trace-{done + 1}"
    load.start()
    breathing = Breathing(load, f"{arguments.seed} {done}", arguments.pace, arguments.jobs)
    try:
        time.sleep(60)
        healthy = {"number": -1, "kind": "healthy", "began": time.time()}
        be_healthy(cluster, arguments.train)
        with open(journal, "a", encoding="utf-8") as out:
            out.write(json.dumps({**healthy, "ended": time.time(), "after": done}) + "\n")
        for number in range(done + 1, arguments.runs):
            run = {**draw(arguments.seed, number, arguments.kinds, cluster.servers, arguments.mix), "jobs": arguments.jobs}
            breathing.factor = run["load"]
            with open(arguments.out / "truth.jsonl", "a", encoding="utf-8") as out:  # before it begins
                out.write(json.dumps(run) + "\n")
            record_run(cluster, run, journal)
            keep(work, trace)
            breathing.factor = 1
            print(run, flush=True)
            time.sleep(15)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        breathing.stop()
        load.stop()
        keep(work, trace)
        cluster.stop()
        shutil.rmtree(work, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--train", type=float, default=600, help="seconds of healthy load that are recorded first")
    parser.add_argument("--runs", type=int, default=12)
    parser.add_argument("--pace", type=float, default=2.0, help="how long clients rest, against the load of the other campaigns")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--small", action="store_true", help="five chunkservers, smaller files")
    parser.add_argument("--mix", choices=list(MIXES), default="mixed")
    parser.add_argument("--jobs", action="store_true", help="clients work and rest in turn")
    parser.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("build/test/bin"))
    parser.add_argument("--dir", type=pathlib.Path, default=pathlib.Path("."))
    record(parser.parse_args())


if __name__ == "__main__":
    main()
