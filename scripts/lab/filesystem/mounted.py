"""Mounts of a cluster, and whoever kills what serves them."""

import multiprocessing
import os
import random
import signal
import subprocess


class Killer:
    """Kills the process that serves the mount, again and again. A process of its own: the children of a thread would interrupt what others wait for."""

    def __init__(self, mount, mean):
        self.mount, self.mean = mount, mean
        self.count, self.ends = multiprocessing.Value("i", 0), multiprocessing.Event()
        self.process = multiprocessing.Process(target=self.run)
        self.process.start()

    @property
    def kills(self):
        return self.count.value

    def run(self):
        rng = random.Random()
        while not self.ends.wait(self.mean * (0.5 + rng.random())):
            for parent in subprocess.run(["pgrep", "-f", f"kintsugi-mount {self.mount}"], capture_output=True, text=True).stdout.split():
                if children := subprocess.run(["pgrep", "-P", parent], capture_output=True, text=True).stdout.split():
                    os.kill(int(children[0]), signal.SIGKILL)
                    self.count.value += 1
                    break

    def stop(self):
        self.ends.set()
        self.process.join()


def require_fuse():
    if os.geteuid() != 0 or not os.access("/dev/fuse", os.R_OK | os.W_OK):
        print("nothing can be mounted here: root and /dev/fuse are needed")
        raise SystemExit(77)


def mount(binaries, cluster, directory, *options):
    directory.mkdir()
    subprocess.run([binaries / "kintsugi-mount", directory, *options, "--log-file", f"{directory}.log"], env=cluster.environment, check=True)
