#!/usr/bin/python3
"""Builds the wheel and installs it with the commands of docs/python.md, and uses what was installed."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest
import zipfile

from live import PACKAGE, ROOT, live, require

require(["build", "ensurepip", "fsspec"], "python3-build, python3-venv, python3-fsspec")
setUpModule, tearDownModule = live.start, live.stop

PROGRAM = """
import fsspec, kintsugi, sys
assert kintsugi.__file__.startswith(sys.prefix), kintsugi.__file__
fsspec.filesystem("kintsugi").pipe("/wheel", b"found by its entry point")
print(fsspec.open("kintsugi:///wheel").open().read().decode(), kintsugi.__version__)
"""


class Wheel(unittest.TestCase):
    def test_the_commands_of_the_document_install_a_package_that_fsspec_finds(self):
        commands = re.search(r"^```sh\n(python3 -m build.*?)^```$", (ROOT / "docs" / "python.md").read_text(), re.M | re.S).group(1)
        directory = pathlib.Path(tempfile.mkdtemp(prefix="kintsugi-wheel-"))
        self.addCleanup(shutil.rmtree, directory)
        shutil.copytree(PACKAGE, directory / "client" / "python", ignore=shutil.ignore_patterns("__pycache__", "dist", "build"))
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {"PATH": "/usr/bin:/bin"}
        installed = subprocess.run(["bash", "-ec", commands], cwd=directory, env=environment, capture_output=True, text=True)
        self.assertEqual(installed.returncode, 0, installed.stdout + installed.stderr)
        wheel, = (directory / "client" / "python" / "dist").glob("*.whl")
        with zipfile.ZipFile(wheel) as files:
            packed = {name for name in files.namelist() if name.startswith("kintsugi/")}
        self.assertEqual(packed, {f"kintsugi/{path.name}" for path in (PACKAGE / "kintsugi").iterdir() if path.name != "__pycache__"})
        used = subprocess.run([directory / "venv" / "bin" / "python", "-c", PROGRAM], cwd=directory, env=environment, capture_output=True, text=True)
        version = re.search(r"^project\(kintsugi VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text(), re.M).group(1)
        self.assertEqual((used.stdout, used.stderr), (f"found by its entry point {version}\n", ""))


if __name__ == "__main__":
    unittest.main()
