#!/usr/bin/env python3
"""The units of deploy/systemd, the settings of deploy/etc, and what packages and containers take of both.

    units_test.py BIN    the programs in BIN say which settings there are. Exits with 77 when systemd-analyze is not installed.
"""

import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import tomllib
import unittest

import yaml

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
UNITS = ROOT / "deploy/systemd"
SETTINGS = ROOT / "deploy/etc"
MOST_EXPOSED = 2.0  # as systemd-analyze counts it
DAEMONS = {"kintsugi-metaserver.service": "metaserver", "kintsugi-chunkserver@.service": "chunkserver-1",
           "kintsugi-repair-manager.service": "repair-manager", "kintsugi-monitor.service": "monitor",
           "kintsugi-mount@.service": "mount"}


def run(*arguments, **options):
    return subprocess.run([str(word) for word in arguments], capture_output=True, text=True, **options)


def entries(unit):
    """The settings of a unit: every value of each, by its key."""
    found = {}
    for line in (UNITS / unit).read_text().splitlines():
        if parts := re.match(r"(\w+)=(.*)", line):
            found.setdefault(parts[1], []).append(parts[2])
    return found


def keys_of(table, prefix=""):
    """The keys of a file of settings, those of sections with their sections: "tls.key"."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from keys_of(value, f"{prefix}{key}.")
        else:
            yield prefix + key


class Units(unittest.TestCase):
    def test_they_expose_little(self):
        for path in UNITS.glob("*.service"):
            done = run("systemd-analyze", "security", "--offline=yes", "--no-pager", path)
            exposed = float(re.search(r"Overall exposure level for \S+: ([\d.]+)", done.stdout)[1])
            self.assertLessEqual(exposed, MOST_EXPOSED, path.name)

    def test_what_is_left_is_what_the_document_says(self):
        text = (ROOT / "docs/security.md").read_text().split("## What units may do")[1].split("\n## ")[0]
        rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in text.splitlines() if line.startswith("| `")]
        for path in UNITS.glob("*.service"):
            done = run("systemd-analyze", "security", "--offline=yes", "--no-pager", "--json=short", path)
            found = {each["name"] for each in json.loads(done.stdout) if each["set"] is False}
            whose = {"all", "the mount"} if path.name == "kintsugi-mount@.service" else {"all"}
            said = {name for names, of, why in rows if of in whose for name in re.findall(r"`([^`]+)`", names.replace("\\|", "|"))}
            self.assertEqual(found, said, path.name)

    def test_only_what_makes_detaches_and_reloads_a_mount_has_all_rights(self):
        """systemd-analyze says nothing of commands that are beyond the restrictions."""
        for path in UNITS.glob("*.service"):
            said = entries(path.name)
            free = [command.lstrip("+-!:@").split()[0] for key, commands in said.items() if key.startswith("Exec")
                    for command in commands if re.match(r"[-@:]*[+!]", command)]
            mounts = path.name == "kintsugi-mount@.service"
            self.assertEqual(sorted(free), ["/bin/kill", *["/usr/bin/nsenter"] * 3] if mounts else [], path.name)
            self.assertIn("kintsugi-mount %f --mount-for $MAINPID" if mounts else "", " ".join(said.get("ExecStartPost", [])))

    def test_systemd_understands_them(self):
        with tempfile.TemporaryDirectory() as directory:
            where = pathlib.Path(directory)
            for path in UNITS.iterdir():
                # The programs are not installed here.
                text = re.sub(r"^(Exec\w+=\W*)/usr/bin/\S+", r"\1/bin/true", path.read_text(), flags=re.M)
                name = path.name.replace("@.", "@1.")
                (where / name).write_text(text)
            units = [path for path in sorted(where.iterdir()) if path.suffix in (".service", ".timer")]
            done = run("systemd-analyze", "verify", "--man=no", *units, env=os.environ | {"SYSTEMD_UNIT_PATH": f"{directory}:"})
            about_us = [line for line in done.stderr.splitlines() if "kintsugi" in line]
            self.assertEqual((about_us, done.returncode), ([], 0), done.stderr)

    def test_a_server_that_was_removed_is_not_started_again(self):
        self.assertEqual(entries("kintsugi-chunkserver@.service")["RestartPreventExitStatus"], ["3"])

    def test_each_reads_its_settings_and_may_write_where_they_say(self):
        for unit, name in DAEMONS.items():
            said, settings = entries(unit), tomllib.loads((SETTINGS / f"{name}.toml").read_text())
            with self.subTest(unit=unit):
                self.assertIn(f"--config /etc/kintsugi/{name.replace('-1', '-%i')}.toml", said["ExecStart"][0])
                writable = [f"/var/lib/{state.replace('%i', '1')}" for state in said.get("StateDirectory", [])]
                writable += [path.lstrip("-") for path in said.get("ReadWritePaths", [])]
                for needed in settings.get("disks", []) + [settings[key] for key in ("data_dir",) if key in settings]:
                    self.assertTrue(any(needed == path or needed.startswith(path + "/") for path in writable), needed)

    def test_each_has_limits_and_starts_again(self):
        for unit in DAEMONS:
            said = entries(unit)
            with self.subTest(unit=unit):
                self.assertGreaterEqual(int(said["LimitNOFILE"][0]), 16384)
                self.assertIn("MemoryMax", said)
                self.assertEqual(said["Restart"], ["on-failure"])
                self.assertEqual(said["StartLimitIntervalSec"], ["0"])


def settings_of(program, name):
    """What a program says of its settings: the names of all, and of those that it requires, as keys or as flags."""
    described = tomllib.loads(run(BINARIES / program, "--describe", check=True).stdout)["settings"]
    return {setting[name] for setting in described}, {setting[name] for setting in described if setting["required"]}


class Settings(unittest.TestCase):
    def test_each_is_one_that_its_program_knows(self):
        for path in SETTINGS.glob("*.toml"):
            known, required = settings_of("kintsugi-" + path.stem.removesuffix("-1"), "key")
            here = set(keys_of(tomllib.loads(path.read_text())))
            self.assertFalse(here - known, path.name)
            self.assertFalse(required - here, path.name)

    def test_containers_give_flags_that_their_programs_know(self):
        services = yaml.safe_load((ROOT / "deploy/container/compose.yml").read_text())["services"]
        daemons = {name: shlex.split(service["command"]) for name, service in services.items() if "--secret-file" in service.get("command", "")}
        self.assertEqual(len(daemons), 6)
        for name, (program, *words) in daemons.items():
            known, required = settings_of(program, "flag")
            flags = {word.replace("--no-", "--") for word in words if word.startswith("--")}
            with self.subTest(service=name):
                self.assertFalse(flags - known)
                self.assertFalse(required - flags)


class Packages(unittest.TestCase):
    def test_every_program_unit_and_manual_is_in_one_package(self):
        packages = re.findall(r"^Package: (\S+)$", (ROOT / "debian/control").read_text(), re.M)
        taken = []
        for package in packages:
            for kind in ("install", "manpages", "sysusers", "tmpfiles", "udev"):
                path = ROOT / f"debian/{package}.{kind}"
                if path.is_symlink():
                    taken.append(str(path.resolve().relative_to(ROOT)))
                elif path.exists():
                    taken += [line.split()[0] for line in path.read_text().splitlines()]
        for name in taken:
            if not name.startswith(("build/", "usr/")):
                self.assertTrue(list(ROOT.glob(name)), f"debian: there is no {name}")
        programs = {f"build/package/bin/{name}" for name in ("kintsugi", "kintsugi-metaserver", "kintsugi-chunkserver",
                                                           "kintsugi-repair-manager", "kintsugi-monitor", "kintsugi-mount")}
        files = {str(path.relative_to(ROOT)) for where in (UNITS, ROOT / "docs/man") for path in where.iterdir()}
        self.assertEqual(len(taken), len(set(taken)), "a file is in two packages")
        self.assertFalse((programs | files) - set(taken), "in no package")
        self.assertFalse({path.name.split(".")[0] for path in (ROOT / "debian").glob("*.install")} - set(packages), "of no package")


    def test_all_say_the_same_version(self):
        version = re.search(r"^project\(kintsugi VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text(), re.M)[1]
        self.assertRegex((ROOT / "debian/changelog").read_text(), rf"^kintsugi \({re.escape(version)}\) ")
        self.assertIn(f'__version__ = "{version}"', (ROOT / "client/python/kintsugi/__init__.py").read_text())
        self.assertEqual(run(BINARIES / "kintsugi", "--version", check=True).stdout, f"kintsugi {version}\n")

    def test_mount_finds_its_helper_by_both_names_of_the_type(self):
        links = dict(reversed(line.split()) for line in (ROOT / "debian/kintsugi-mount.links").read_text().splitlines())
        for name in ("mount.kintsugi", "mount.fuse.kintsugi"):
            self.assertEqual(links[f"sbin/{name}"], "usr/bin/kintsugi-mount")
            self.assertEqual(links[f"usr/share/man/man8/{name}.8"], "usr/share/man/man8/kintsugi-mount.8")

    def test_every_package_that_runs_programs_depends_on_their_libraries(self):
        for paragraph in (ROOT / "debian/control").read_text().split("\n\n")[1:]:
            package = re.match(r"Package: (\S+)", paragraph)[1]
            with self.subTest(package=package):
                self.assertIn("${misc:Depends}", paragraph)
                installs = ROOT / f"debian/{package}.install"
                compiled = installs.exists() and re.search(r"^build/|libkintsugi\.so\.1", installs.read_text(), re.M)
                self.assertEqual("${shlibs:Depends}" in paragraph, bool(compiled))


class Machine(unittest.TestCase):
    """What sysusers.d and tmpfiles.d make of a machine that has nothing."""

    def test_the_user_and_the_directories_are_made_and_the_secret_is_closed(self):
        if os.geteuid() != 0:
            self.skipTest("only root may make users")
        with tempfile.TemporaryDirectory() as directory:
            root = pathlib.Path(directory)
            (root / "etc/kintsugi").mkdir(parents=True)
            secret = root / "etc/kintsugi/secret"
            secret.write_text("0" * 64)
            secret.chmod(0o644)
            token = root / "etc/kintsugi/token"
            token.write_text("")
            run("systemd-sysusers", f"--root={root}", UNITS / "kintsugi.sysusers.conf", check=True)
            user = re.search(r"^kintsugi:x:(\d+):(\d+):.*:/var/lib/kintsugi:", (root / "etc/passwd").read_text(), re.M)
            run("systemd-tmpfiles", "--create", f"--root={root}", UNITS / "kintsugi.tmpfiles.conf", check=True)
            uid, gid = int(user[1]), int(user[2])
            for name, mode, owner in (("etc/kintsugi", 0o750, (0, gid)), ("var/lib/kintsugi", 0o755, (0, 0)),
                                      ("var/log/kintsugi", 0o750, (uid, gid)), ("etc/kintsugi/secret", 0o600, (uid, gid)),
                                      ("etc/kintsugi/token", 0o600, (uid, gid))):
                found = (root / name).stat()
                self.assertEqual((oct(found.st_mode & 0o7777), found.st_uid, found.st_gid), (oct(mode), *owner), name)


if __name__ == "__main__":
    if not shutil.which("systemd-analyze"):
        print("systemd-analyze is not installed (package systemd), so nobody has tried the units")
        sys.exit(77)
    BINARIES = pathlib.Path(sys.argv[1]).resolve()
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
