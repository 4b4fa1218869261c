#!/usr/bin/python3
"""Runs the blocks of Python of docs/python.md one after the other, as they are printed there."""

import contextlib
import io
import re
import unittest

from live import ROOT, kintsugi, live, require

require(["fsspec"], "python3-fsspec")

import fsspec  # noqa: E402

setUpModule, tearDownModule = live.start, live.stop
# Debian 12 does not have them. A block that imports one of them is run where it is installed.
NOT_IN_DEBIAN = ("duckdb", "pyarrow")


class Document(unittest.TestCase):
    def test_every_block_of_python_runs_and_prints_what_it_says(self):
        fsspec.register_implementation("kintsugi", "kintsugi.fs.KintsugiFileSystem", clobber=True)
        blocks = re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs" / "python.md").read_text(), re.M | re.S)
        self.assertGreaterEqual(len(blocks), 6)
        names, printed, left_out = {}, io.StringIO(), []
        for block in blocks:
            try:
                with contextlib.redirect_stdout(printed):
                    exec(compile(block, "docs/python.md", "exec"), names)
            except ModuleNotFoundError as error:
                self.assertIn(error.name.partition(".")[0], (*NOT_IN_DEBIAN, "pandas"), block)
                left_out.append(error.name)
        said = printed.getvalue()
        self.assertIn("Hello from Python\n\n['2026'] 18\n", said)
        self.assertIn("'/notes/fsspec.txt'", said)
        self.assertIn("[Errno 2] not found: 'no' does not exist: '/no/such/file'\n", said)
        with kintsugi.connect() as cluster:
            with cluster.open("/notes/copy.json") as file:
                self.assertEqual(file.read(), '{"colour": "gold"}')
            if "pandas" not in left_out:
                self.assertIn("Köln    1087", said)
                self.assertTrue(cluster.isfile("/notes/cities.csv"))
        if left_out:
            self.skipTest(f"one block was not run, for nothing is installed of: {', '.join(left_out)}")


if __name__ == "__main__":
    unittest.main()
