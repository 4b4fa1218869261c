#!/usr/bin/env python3
"""Attaches to the chunkservers of a cluster and detaches again, many times, while files are stored, read back, compared and repaired.

    scripts/build.sh release kintsugi kintsugi-metaserver kintsugi-chunkserver kintsugi-repair-manager kintsugi-monitor
    scripts/lab/tracing/rounds.py [--rounds 20000] [--at-once 6] [--seed 1] [--bin build/release/bin] [--dir /dev/shm]

A round is one `trace attach`, drawn by seed: what begins the recording, linear or circular, and how it ends: at its deadline, by `trace detach`, or by its
deadline after the command was killed. A server that is being traced already refuses; that is a round, too. Fails when a read brings other bytes, when a
repair or a transfer fails, when a server has ended, when a command says something else than it should, or when a server's code is not what it was, byte for
byte. Files are read back before and after a repair, and `fsck` looks at them then.
"""

import argparse
import collections
import itertools
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from compare import Cluster, one_chunk, write_sources  # noqa: E402

STARTS = ("all", "method:ReadChunk", "method:WriteChunk", "method:Ping", "ReadChunkHandler::serve", "slow:ReadChunk:1ms")
IN_USE = "this process is being traced"
NOT_TRACED = "this process is not being traced"


def code_of(pid):
    """What the pages of the process's binary that are executed hold."""
    program, code = os.readlink(f"/proc/{pid}/exe"), b""
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for line in maps:
            places, rights, _, _, _, *path = line.split()
            if rights == "r-xp" and path == [program]:
                begin, end = (int(place, 16) for place in places.split("-"))
                memory.seek(begin)
                code += memory.read(end - begin)
    if not code:
        raise RuntimeError(f"no code of process {pid} was found")
    return code


class Load:
    """Stores a large and some small files, reads them back, and has a chunk repaired, again and again."""

    def __init__(self, cluster, root):
        self.cluster, self.root = cluster, root
        self.stopping, self.problems, self.done = threading.Event(), [], 0
        self.thread = threading.Thread(target=self.go_on)

    def go_on(self):
        try:
            while not self.stopping.is_set():
                self.once()
                self.done += 1
        except Exception as error:  # whatever it is: the run has failed
            self.problems.append(f"the load: {error} {getattr(error, 'stderr', None) or ''}".strip())

    def once(self):
        for name in ("large", "small"):
            self.cluster.output("put", self.root / "source" / name, f"/{name}")
            self.read_back(name)
        self.cluster.output("repair", "run", "--chunk", one_chunk(self.cluster, "/large"), "--shape", "chain")
        self.read_back("large")
        checked = json.loads(self.cluster.output("fsck", "/", "--json"))
        if checked["files"] < 2 or checked["missing_chunks"] or checked["lost_stripes"]:
            raise RuntimeError(f"fsck: {checked}")
        self.cluster.output("rm", "-r", "/small")
        self.cluster.output("rm", "/large")

    def read_back(self, name):
        back = self.root / "back"
        self.cluster.output("get", f"/{name}", back)
        if subprocess.run(["diff", "-rq", self.root / "source" / name, back]).returncode != 0:
            raise RuntimeError(f"what was read of {name} is not what was stored")
        subprocess.run(["rm", "-r", back], check=True)


class Rounds:
    def __init__(self, cluster, rounds, seed):
        self.cluster, self.seed = cluster, seed
        self.next, self.last, self.turn = itertools.count(), rounds, threading.Lock()
        self.outcomes, self.problems = collections.Counter(), []

    def run(self, *words):
        return subprocess.Popen([self.cluster.kintsugi, "trace", *words], env=self.cluster.environment, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True)

    def go_on(self):
        try:
            self.rounds()
        except Exception as error:  # whatever it is: the run has failed
            self.problems.append(f"a round: {error}")

    def rounds(self):
        while not self.problems:
            with self.turn:
                number = next(self.next)
            if number >= self.last:
                return
            outcome = self.one(random.Random(f"{self.seed} {number}"))
            with self.turn:
                self.outcomes[outcome] += 1
                if number % 1000 == 999:
                    print(f"{number + 1} rounds: {dict(self.outcomes)}", flush=True)

    def one(self, draw):
        server = f"chunkserver-{draw.randint(1, self.cluster.servers)}"
        end = draw.choice(("deadline", "deadline", "detached", "killed"))
        command = ["attach", server, "--start", draw.choice(STARTS), "--for", f"{draw.choice((20, 100, 300))}ms", "--memory", "1m"]
        attach = self.run(*command, *draw.choice(((), ("--circular",))))
        if end != "deadline":
            time.sleep(draw.uniform(0, 0.15))
        if end == "killed":
            end = "killed" if attach.poll() is None else "ended before it was killed"
            attach.kill()
        if end == "detached":
            detach = self.run("detach", server)
            said = detach.communicate()[0].strip()
            if detach.returncode != 0 and NOT_TRACED not in said:
                self.problems.append(f"detach {server}: {said}")
            end = "detached" if detach.returncode == 0 else "detached while nobody traced"
        said = attach.communicate()[0].strip()
        if end == "killed":
            return end
        if IN_USE in said:
            return "was being traced"
        if attach.returncode != 0:
            self.problems.append(f"{' '.join(command)}: {said}")
        return end


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20_000)
    parser.add_argument("--at-once", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("build/release/bin"))
    parser.add_argument("--dir", default="/dev/shm", help="where the cluster and its files are (default: memory)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kintsugi-rounds-", dir=arguments.dir) as name:
        root = pathlib.Path(name)
        (root / "source").mkdir()
        write_sources(root / "source", 16, 20)
        cluster = Cluster(arguments.bin, root / "cluster")
        try:
            servers = [int(file.read_text().split()[0]) for file in sorted((cluster.directory / "run").glob("chunkserver-*.pid"))]
            codes = {pid: code_of(pid) for pid in servers}
            load, rounds = Load(cluster, root), Rounds(cluster, arguments.rounds, arguments.seed)
            began = time.monotonic()
            load.thread.start()
            threads = [threading.Thread(target=rounds.go_on) for _ in range(arguments.at_once)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            load.stopping.set()
            load.thread.join()
            seconds = time.monotonic() - began
            time.sleep(1)  # the last deadlines
            ended = [pid for pid in servers if not pathlib.Path(f"/proc/{pid}").exists()]
            changed = [pid for pid in servers if pid not in ended and code_of(pid) != codes[pid]]
        finally:
            cluster.stop()
    problems = load.problems + rounds.problems + [f"process {pid} has ended" for pid in ended] + [f"the code of process {pid} is not what it was" for pid in changed]
    made = sum(rounds.outcomes.values())
    if not problems and (made < arguments.rounds or load.done == 0):
        problems = [f"{made} rounds were made, and the load went around {load.done} times"]
    print(f"{made} rounds in {seconds:.0f} s: {dict(rounds.outcomes)}; {load.done} times stored, read, compared and repaired; "
          f"{sum(map(len, codes.values())):,} bytes of code as before" if not problems else "\n".join(problems))
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
