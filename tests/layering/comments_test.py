#!/usr/bin/env python3
"""The comment behind a member has a subject: "requests that run at a time", not "that run at a time"."""

import pathlib
import re
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
WITHOUT_SUBJECT = re.compile(r"///< (?:of|that|whose|to which|by which) ")


def without_subject(path: str, text: str) -> list[str]:
    return [f"{path}:{number}: {line.strip()}" for number, line in enumerate(text.splitlines(), 1) if WITHOUT_SUBJECT.search(line)]


class Comments(unittest.TestCase):
    def test_those_of_members_have_a_subject(self):
        listed = subprocess.run(["git", "-C", ROOT, "ls-files", "*.h", "*.cc"], check=True, capture_output=True, text=True)
        sources = [path for path in listed.stdout.split() if not path.startswith("tests/")]
        self.assertGreater(len(sources), 1_000)
        self.assertEqual([found for path in sources for found in without_subject(path, (ROOT / path).read_text())], [])

    def test_one_without_a_subject_is_found(self):
        self.assertEqual(without_subject("a.h", "int a;  ///< of it\nint b;  ///< size of it\n"), ["a.h:1: int a;  ///< of it"])


if __name__ == "__main__":
    unittest.main()
