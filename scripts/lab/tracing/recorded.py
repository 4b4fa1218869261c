"""The cluster of a campaign: it has a network of its own, and its servers record themselves while a load uses it."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

LAB = pathlib.Path(__file__).resolve().parents[1]
sys.path += [str(LAB), str(LAB / "diagnosis")]

from compare import Cluster  # noqa: E402

SERVERS, POLICY = 12, "rs-6-3-64k"
LIMIT = 60  # seconds that a command may take: a fault may hold it up
RECORDED = 60  # seconds after which a recording ends if nobody ends it


class RecordedCluster(Cluster):
    def __init__(self, binaries, directory, servers=SERVERS, policy=POLICY):
        super().__init__(binaries, directory, servers=servers, policy=policy)
        self.binaries = pathlib.Path(binaries)
        self.names = [f"chunkserver-{number}" for number in range(1, servers + 1)]

    def pid(self, name):
        return int((self.directory / "run" / f"{name}.pid").read_text().split()[0])

    def lives(self, name):
        try:
            return pathlib.Path(f"/proc/{self.pid(name)}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
        except OSError:
            return False

    def begin(self, *words, **options):
        return subprocess.Popen([self.kintsugi, *map(str, words)], env=self.environment, **options)

    def run(self, *words, limit=LIMIT):
        """(exit status, standard output) of a command."""
        done = subprocess.run([self.kintsugi, *map(str, words)], env=self.environment, capture_output=True, text=True, timeout=limit, check=False)
        return done.returncode, done.stdout

    def start_again(self):
        """Starts the daemons that do not run, and waits until all servers are alive."""
        subprocess.run([self.kintsugi, "cluster", "start", "--dir", self.directory], check=True, stdout=subprocess.DEVNULL)
        for _ in range(300):
            status, out = self.run("server", "list", "--json")
            if status == 0 and sum(one["liveness"] == "alive" for one in json.loads(out)["servers"]) == self.servers:
                return
            time.sleep(0.2)
        raise RuntimeError("the servers do not come back")

    def restart(self, name):
        pid = self.pid(name)
        os.kill(pid, signal.SIGTERM)
        while pathlib.Path(f"/proc/{pid}").exists():
            time.sleep(0.1)
        self.start_again()

    def settings_of(self, name):
        return self.directory / "etc" / f"{name}.toml"

    def disk_of(self, name):
        """The only directory of a chunkserver."""
        return pathlib.Path(re.search(r'disks = \["([^"]+)"', self.settings_of(name).read_text()).group(1))


class Recording:
    """Recordings of some servers (all chunkservers) at the same time, below a directory."""

    def __init__(self, cluster, directory, names=None):
        self.cluster, self.directory, self.names = cluster, pathlib.Path(directory), names or cluster.names
        self.running, self.paths = {}, {}

    def file(self, name):
        return self.directory / name

    def begin(self):
        """Returns when all of them record."""
        self.directory.mkdir(parents=True)
        for name in self.names:
            self.running[name] = self.cluster.begin("trace", "attach", name, "--for", f"{RECORDED}s", "--out", self.file(name), "--json",
                                                    stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        waiting = list(self.names)
        for _ in range(100):
            for name in list(waiting):
                status, out = self.cluster.run("trace", "status", name, "--json")
                answer = json.loads(out) if status == 0 else {}
                if answer.get("phase") == "recording":
                    self.paths[name] = answer["path"]
                    waiting.remove(name)
            if not waiting:
                return
            time.sleep(0.1)
        raise RuntimeError(f"no recording of {', '.join(waiting)}")

    def end(self):
        """Returns the files. What a server recorded that has died lies where it ran."""
        ending = [self.cluster.begin("trace", "detach", name, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                  for name in self.names if self.cluster.lives(name)]
        for one in ending:
            one.wait()
        for name, one in self.running.items():
            try:
                one.communicate(timeout=LIMIT)
            except subprocess.TimeoutExpired:
                one.kill()
                one.communicate()
            if not self.file(name).exists() and os.path.exists(self.paths[name]):
                shutil.copyfile(self.paths[name], self.file(name))
        return [str(self.file(name)) for name in self.names if self.file(name).exists()]
