"""A small cluster of real processes for tests of the Python package, which is taken from the tree.

KINTSUGI_BINARIES names the folder of the programs, KINTSUGI_LIBRARY the library; ctest sets both.
"""

import importlib.util
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "client" / "python"
sys.path.insert(0, str(PACKAGE))

import kintsugi  # noqa: E402

SKIPPED = 77
MIB = 1 << 20


class Live:
    """The cluster: five chunkservers, three of which hold the data of a stripe and two its parity."""

    def __init__(self):
        self._binaries = pathlib.Path(os.environ["KINTSUGI_BINARIES"])
        self.directory = None

    def start(self):
        """Makes it, or starts what does not run, and names it in the environment."""
        self.directory = self.directory or pathlib.Path(tempfile.mkdtemp(prefix="kintsugi-python-"))
        self.command("cluster", "start", "--dir", str(self.directory / "cluster"), "--chunkservers", "5", "--policy", "rs-3-2-64k",
                     "--repair-delay", "0")
        for line in (self.directory / "cluster" / "env").read_text().splitlines():
            name, _, value = line.removeprefix("export ").partition("=")
            os.environ[name] = value.strip("'")

    def stop(self):
        """Ends every process of it and removes its files."""
        self.command("cluster", "stop", "--dir", str(self.directory / "cluster"))
        shutil.rmtree(self.directory)

    def command(self, *arguments):
        """What `kintsugi` prints."""
        run = subprocess.run([self._binaries / "kintsugi", *arguments], capture_output=True, text=True)
        if run.returncode:
            raise AssertionError(f"kintsugi {' '.join(arguments)}: {run.stdout}{run.stderr}")
        return run.stdout

    def kill(self, daemon):
        """Ends a daemon as a crash does: "metaserver", "chunkserver-3"."""
        os.kill(int((self.directory / "cluster" / "run" / f"{daemon}.pid").read_text().split()[0]), signal.SIGKILL)


live = Live()


class ClusterTest(unittest.TestCase):
    """Has a connection, and a directory of its own in the cluster of the module, which calls live.start and live.stop."""

    def setUp(self):
        self.cluster = kintsugi.connect()
        self.addCleanup(self.cluster.close)
        self.directory = "/" + self.id().rsplit(".", 1)[-1]
        self.cluster.mkdir(self.directory)

    def path(self, name):
        return f"{self.directory}/{name}"

    def write(self, name, data):
        """A file with these bytes; returns its path."""
        with self.cluster.open(self.path(name), "wb") as file:
            file.write(data)
        return self.path(name)

    def read(self, name):
        with self.cluster.open(self.path(name), "rb") as file:
            return file.read()


def require(modules, packages):
    """Ends the program as one that was skipped when one of the modules is not installed."""
    for module in modules:
        if importlib.util.find_spec(module) is None:
            print(f"skipped: {module} is not installed ({packages})")
            sys.exit(SKIPPED)


def run_python(program, *arguments, **environment):
    """The outcome of a program for the Python that runs the tests."""
    return subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=60,
                          env={**os.environ, "PYTHONPATH": str(PACKAGE), "PYTHONDONTWRITEBYTECODE": "1", **environment})
