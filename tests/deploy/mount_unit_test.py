#!/usr/bin/env python3
"""The unit of a mount under a real systemd, which runs in namespaces of its own: what users of the mount notice, and which rights its
processes have.

    mount_unit_test.py BIN

Starts a cluster with the programs in BIN, and mounts it by deploy/systemd/kintsugi-mount@.service, in which only the places of programs
and settings and the user's name are changed. Exits with 77 where it is not root, has no FUSE, or systemd cannot be started.
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

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
UNIT = ROOT / "deploy/systemd/kintsugi-mount@.service"
USER = "daemon"  # on every Debian; the user kintsugi is there only where the package is installed
CGROUPS = pathlib.Path("/sys/fs/cgroup/systemd")
PATIENCE_SECONDS = 60
# Its own control groups, processes, mounts and /run; the network is the machine's.
BOOT = """
mount -t proc proc /proc && mount -t tmpfs tmpfs /run && mount -t tmpfs tmpfs /sys/fs/cgroup || exit 77
mkdir -p /sys/fs/cgroup/systemd
if [ "$1" = hybrid ]; then mount -t cgroup -o none,name=systemd cgroup /sys/fs/cgroup/systemd || exit 77
else umount /sys/fs/cgroup && mount -t cgroup2 cgroup2 /sys/fs/cgroup || exit 77; fi
exec env container=oci SYSTEMD_UNIT_PATH="$2" /lib/systemd/systemd --unit=test.target --log-target=console --show-status=no </dev/null
"""
TARGET = "[Unit]\nDescription=nothing\nDefaultDependencies=no\nAllowIsolate=yes\n"


def run(*words, **options):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=PATIENCE_SECONDS, **options)


def wait_for(what, condition):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.1)
    raise AssertionError(f"{what}: not within {PATIENCE_SECONDS} s")


class System:
    """A systemd that is process 1 of its namespaces."""

    def __init__(self, units, log):
        hybrid = CGROUPS.is_dir()
        self.group = (CGROUPS if hybrid else CGROUPS.parent) / f"kintsugi-test-{os.getpid()}"
        try:
            self.group.mkdir()
        except OSError as error:
            raise unittest.SkipTest(f"no control group can be made here: {error}") from None
        enter = f'echo $$ > {self.group}/cgroup.procs && exec unshare -mpfCiu --propagation private --kill-child sh -c "$0" sh "$@"'
        self.log = log
        with open(log, "ab") as out:
            self.process = subprocess.Popen(["sh", "-c", enter, BOOT, "hybrid" if hybrid else "unified", units], stdout=out, stderr=out)
        self.first = None
        try:
            wait_for("systemd", self.started)
        except AssertionError:
            self.stop()
            raise unittest.SkipTest(f"systemd cannot be started here: {self.log.read_text()[-300:]}") from None

    def started(self):
        if self.process.poll() is not None:
            raise AssertionError("it ended")
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        self.first = children[0] if children else None
        return self.first and self.run("systemctl", "is-system-running").stdout.strip() in ("running", "degraded")

    def run(self, *words, **options):
        return run("nsenter", "-t", self.first, "-m", "-p", "-C", "-i", "-u", *words, **options)

    def stop(self):
        self.process.kill()
        self.process.wait()
        def empty():
            # Processes that are being ended are in it for a moment.
            try:
                for inner in sorted(self.group.glob("**/"), key=lambda path: -len(path.parts)):
                    inner.rmdir()
                return True
            except OSError:
                return not self.group.exists()
        wait_for("the end of all processes", empty)


class MountUnit(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # Not below /tmp, which the unit does not see.
        cls.directory = pathlib.Path(tempfile.mkdtemp(prefix="kintsugi-mount-unit-", dir=BINARIES.parent))
        cls.addClassCleanup(shutil.rmtree, cls.directory, ignore_errors=True)
        cls.directory.chmod(0o755)
        cls.cluster = cls.directory / "cluster"
        done = run(BINARIES / "kintsugi", "cluster", "start", "--dir", cls.cluster, "--chunkservers", "3", "--policy", "rs-2-1-64k")
        assert done.returncode == 0, done.stderr
        cls.addClassCleanup(run, BINARIES / "kintsugi", "cluster", "stop", "--dir", cls.cluster)
        said = dict(line.removeprefix("export ").split("=", 1) for line in (cls.cluster / "env").read_text().splitlines() if "=" in line)
        cls.environment = os.environ | {key: value.strip("'\"") for key, value in said.items()}
        cls.secret = cls.directory / "secret"
        shutil.copy(cls.environment["KINTSUGI_SECRET_FILE"], cls.secret)
        cls.secret.chmod(0o600)
        shutil.chown(cls.secret, USER, USER)
        (cls.directory / "mount.toml").write_text(f'metaserver = "{cls.environment["KINTSUGI_META"]}"\nsecret_file = "{cls.secret}"\nwait = "3s"\n')
        units = cls.directory / "units"
        units.mkdir()
        (units / "test.target").write_text(TARGET)
        text = UNIT.read_text().replace("/usr/bin/kintsugi-mount", str(BINARIES / "kintsugi-mount"))
        text = text.replace("/etc/kintsugi/mount.toml", str(cls.directory / "mount.toml"))
        text = text.replace("User=kintsugi", f"User={USER}").replace("Group=kintsugi", f"Group={USER}")
        # There is no other unit here, and nothing may be written to /var.
        text = text.replace("LogsDirectory=kintsugi\n", "").replace("[Service]\n", f"[Service]\nStandardOutput=append:{cls.directory}/log\n", 1)
        text = text.replace("[Unit]\n", "[Unit]\nDefaultDependencies=no\n", 1)
        (units / UNIT.name).write_text(text)
        cls.log = cls.directory / "log"
        cls.system = System(units, cls.log)
        cls.addClassCleanup(cls.system.stop)
        cls.place = cls.directory / "a place"
        cls.place.mkdir()
        cls.unit = "kintsugi-mount@" + run("systemd-escape", "--path", cls.place).stdout.strip()

    def tearDown(self):
        self.systemctl("stop", self.unit)

    def systemctl(self, *words):
        return self.system.run("systemctl", *words)

    def start(self):
        done = self.systemctl("start", self.unit)
        self.assertEqual(done.returncode, 0, done.stderr + self.log.read_text()[-3000:])

    def shell(self, script, user=0):
        """As a process of the machine whose systemd this is."""
        done = self.system.run("setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "sh", "-c", script, "sh", self.place)
        return done.stdout + done.stderr

    def command(self, *words):
        return run(BINARIES / "kintsugi", *words, env=self.environment)

    def mounted(self):
        """Whether it is at its place. Those that the machine has elsewhere are seen here, too."""
        return self.system.run("findmnt", "--types", "fuse.kintsugi", "--mountpoint", self.place).returncode == 0

    def processes(self):
        return [pathlib.Path("/proc") / number for path in self.system.group.glob("**/cgroup.procs") if self.unit in str(path)
                for number in path.read_text().split()]

    def test_others_see_it_and_its_processes_have_no_rights(self):
        self.start()
        self.assertEqual(self.shell('echo hello > "$1/f" && mkdir -m 777 "$1/d" && cat "$1/f"'), "hello\n")
        self.assertEqual(self.shell('echo mine > "$1/d/g"; stat -c %u "$1/d/g"; echo no > "$1/f"', user=1000).splitlines()[0], "1000")
        self.assertEqual(self.shell('cat "$1/f"'), "hello\n", "who may not write does not")
        self.assertEqual(self.command("cat", "/f").stdout, "hello\n")
        processes = self.processes()
        self.assertGreaterEqual(len(processes), 3)
        for process in processes:
            status = dict(line.split(":\t", 1) for line in (process / "status").read_text().splitlines() if ":\t" in line)
            self.assertEqual(status["Uid"].split()[1:2], [str(shutil.os.stat(self.secret).st_uid)], status["Name"])
            self.assertEqual([int(status[key], 16) for key in ("CapPrm", "CapEff", "CapBnd")], [0, 0, 0], status["Name"])
            self.assertEqual((status["NoNewPrivs"], status["Seccomp"]), ("1", "2"), status["Name"])

    def test_a_reload_changes_the_program_and_no_file(self):
        self.start()
        before = {process.name for process in self.processes()}
        self.shell('echo kept > "$1/r"')
        self.assertEqual(self.systemctl("reload", self.unit).returncode, 0)
        wait_for("another process", lambda: len({process.name for process in self.processes()} - before) >= 1)
        self.assertEqual(self.shell('cat "$1/r"; echo more >> "$1/r"; cat "$1/r"'), "kept\nkept\nmore\n")

    def test_a_stop_writes_out_what_was_not_yet(self):
        self.start()
        self.shell('echo last > "$1/w"')
        done = self.systemctl("stop", self.unit)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.systemctl("is-active", self.unit).stdout.strip(), "inactive", self.log.read_text()[-3000:])
        self.assertFalse(self.mounted())
        self.assertEqual(list(self.place.iterdir()), [])
        self.assertEqual(self.command("cat", "/w").stdout, "last\n")

    def test_open_files_outlive_a_stop_for_a_while(self):
        self.start()
        with subprocess.Popen(["nsenter", "-t", self.system.first, "-m", "sh", "-c", 'exec 3> "$1/open"; echo opened; read go; echo late >&3 && echo written',
                               "sh", self.place], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as user:
            self.assertEqual(user.stdout.readline(), "opened\n")
            begun = time.monotonic()
            with subprocess.Popen(["nsenter", "-t", self.system.first, "-m", "-p", "-C", "systemctl", "stop", self.unit]) as stopping:
                wait_for("the directory is detached", lambda: not self.mounted())
                self.assertEqual(user.communicate("go\n", timeout=PATIENCE_SECONDS)[0], "written\n")
                stopping.wait(PATIENCE_SECONDS)
            self.assertLess(time.monotonic() - begun, 25, "it ends with the last open file")
        self.assertEqual(self.command("cat", "/open").stdout, "late\n")

    def test_an_unmount_by_hand_ends_the_service_well(self):
        self.start()
        self.shell('echo by-hand > "$1/u"')
        self.assertEqual(self.system.run("umount", self.place).returncode, 0)
        wait_for("the end of the service", lambda: self.systemctl("is-active", self.unit).stdout.strip() == "inactive")
        self.assertEqual(self.command("cat", "/u").stdout, "by-hand\n")

    def test_without_a_metaserver_nothing_is_mounted(self):
        settings = self.directory / "mount.toml"
        good = settings.read_text()
        settings.write_text(good.replace(self.environment["KINTSUGI_META"], "127.0.0.1:1"))
        done = self.systemctl("start", self.unit)
        settings.write_text(good)
        self.assertNotEqual(done.returncode, 0)
        self.assertFalse(self.mounted())
        self.assertIn("nothing is mounted", self.log.read_text())

    def test_a_mount_whose_processes_all_died_is_made_again(self):
        self.start()
        for process in self.processes():
            os.kill(int(process.name), signal.SIGKILL)
        wait_for("the mount", lambda: self.mounted() and self.shell('echo again > "$1/k" && cat "$1/k"') == "again\n")


if __name__ == "__main__":
    BINARIES = pathlib.Path(sys.argv.pop(1)).resolve()
    needed = ("unshare", "nsenter", "setpriv", "systemctl", "systemd-escape", "findmnt")
    if os.geteuid() != 0 or not os.path.exists("/dev/fuse") or not os.path.exists("/lib/systemd/systemd") or not all(map(shutil.which, needed)):
        print("needs root, /dev/fuse, systemd and " + ", ".join(needed))
        sys.exit(77)
    unittest.main()
