#!/usr/bin/env python3
"""scripts/package.sh on a small source with one package: what it makes is in build/packages, and nothing is left elsewhere, however it ends.

Exits with 77 where Debian's tools for packages are not installed.
"""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOLS = ("dpkg-buildpackage", "dpkg-checkbuilddeps", "dh_clean", "dh_builddeb")
CONTROL = """Source: kintsugi
Section: admin
Priority: optional
Maintainer: Nobody <nobody@kintsugi.example>
Standards-Version: 4.6.2
Rules-Requires-Root: no
Build-Depends: debhelper-compat (= 13)

Package: kintsugi-common
Architecture: all
Depends: ${misc:Depends}
Description: nothing
 A package without files.
"""
CHANGELOG = """kintsugi (0.0.1) unstable; urgency=low

  * Nothing.

 -- Nobody <nobody@kintsugi.example>  Sun, 29 Nov 2026 12:00:00 +0000
"""
# The package is beside the source's directory when what follows begins.
RULES = """#!/usr/bin/make -f
clean build:
binary:
\tdh_prep
\tdh_gencontrol
\tdh_builddeb
\t{after}
"""
PATIENCE_SECONDS = 60


class Packaging(unittest.TestCase):
    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="kintsugi-package-"))
        self.addCleanup(shutil.rmtree, self.directory)
        self.source = self.directory / "source"
        (self.source / "scripts").mkdir(parents=True)
        shutil.copy(ROOT / "scripts/package.sh", self.source / "scripts/package.sh")
        (self.source / "debian").mkdir()
        (self.source / "debian/control").write_text(CONTROL)
        (self.source / "debian/changelog").write_text(CHANGELOG)
        self.other = self.directory / "kintsugi-common_0.0.2_all.deb"
        self.other.write_text("of another version")

    def start(self, after):
        rules = self.source / "debian/rules"
        rules.write_text(RULES.format(after=after))
        rules.chmod(0o755)
        # A group of its own, as a terminal gives it: Ctrl-C reaches all that runs.
        return subprocess.Popen([self.source / "scripts/package.sh"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                start_new_session=True)

    def left(self):
        return sorted(path.name for path in self.directory.iterdir() if path not in (self.source, self.other))

    def test_an_interrupted_build_leaves_no_packages_behind(self):
        for number, to_all in ((signal.SIGINT, True), (signal.SIGTERM, True), (signal.SIGTERM, False)):
            with self.subTest(signal=number, to_all=to_all):
                process = self.start("sleep 3")
                deadline = time.monotonic() + PATIENCE_SECONDS
                while not self.left():
                    self.assertLess(time.monotonic(), deadline)
                    self.assertIsNone(process.poll())
                    time.sleep(0.05)
                (os.killpg if to_all else os.kill)(process.pid, number)
                process.communicate(timeout=PATIENCE_SECONDS)
                self.assertNotEqual(process.returncode, 0)
                self.assertEqual(self.left(), [])
                self.assertTrue(self.other.exists(), "it is not of this build")

    def test_a_build_that_fails_leaves_no_packages_behind(self):
        process = self.start("false")
        process.communicate(timeout=PATIENCE_SECONDS)
        self.assertNotEqual(process.returncode, 0)
        self.assertEqual(self.left(), [])

    def test_packages_are_where_it_says(self):
        process = self.start("true")
        process.communicate(timeout=PATIENCE_SECONDS)
        made = {path.name for path in (self.source / "build/packages").iterdir()}
        self.assertIn("kintsugi-common_0.0.1_all.deb", made)
        self.assertEqual(self.left(), [])

    def git(self, *words):
        subprocess.run(["git", "-c", "user.name=Nobody", "-c", "user.email=nobody@kintsugi.example", *words], cwd=self.source, check=True,
                       capture_output=True)

    def version_made(self):
        self.start("true").communicate(timeout=PATIENCE_SECONDS)
        package, = (self.source / "build/packages").glob("*.deb")
        return subprocess.run(["dpkg-deb", "-f", package, "Version"], capture_output=True, text=True, check=True).stdout.strip()

    def is_lower(self, one, other):
        return subprocess.run(["dpkg", "--compare-versions", one, "lt", other]).returncode == 0

    def test_packages_of_a_later_commit_have_a_higher_version_and_the_release_the_highest(self):
        changelog = CHANGELOG.replace("unstable", "UNRELEASED")
        (self.source / "debian/changelog").write_text(changelog)
        self.start("true").communicate(timeout=PATIENCE_SECONDS)
        (self.source / ".gitignore").write_text("build/\ndebian/files\ndebian/kintsugi-common/\n")
        self.git("init", "--quiet")
        self.git("add", "--all")
        versions = []
        for day in (1, 2):
            os.environ["GIT_COMMITTER_DATE"] = f"2026-11-0{day}T12:00:00Z"
            self.addCleanup(os.environ.pop, "GIT_COMMITTER_DATE", None)
            self.git("commit", "--quiet", "--allow-empty", "--message", f"of day {day}")
            versions.append(self.version_made())
        self.assertRegex(versions[0], r"^0\.0\.1~git20261101120000\.[0-9a-f]{12}$")
        (self.source / "debian/control").write_text(CONTROL + " Changed.\n")
        versions.append(self.version_made())
        for lower, higher in zip(versions, [*versions[1:], "0.0.1"], strict=True):
            self.assertTrue(self.is_lower(lower, higher), f"{lower} and {higher}")
        self.assertEqual((self.source / "debian/changelog").read_text(), changelog, "it is as it was")

    def test_packages_of_a_release_have_its_version(self):
        self.git("init", "--quiet")
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "the release")
        self.assertEqual(self.version_made(), "0.0.1")


if __name__ == "__main__":
    if not all(shutil.which(tool) for tool in TOOLS):
        print("needs " + ", ".join(TOOLS))
        sys.exit(77)
    unittest.main()
