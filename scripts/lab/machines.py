"""Machines that boot a Debian with systemd: each has namespaces, control groups and a layer over a root directory of its own.

Needs root. Daemons run as their units say, but for limits of memory and devices where the machine's control groups are of
the first version. All processes of a machine end with it, also when the lab is killed.
"""

import os
import pathlib
import shlex
import subprocess
import time

from network import NETNS, LabError, die_with_parent, sh

CGROUPS = pathlib.Path("/sys/fs/cgroup/systemd")
DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "fuse")
PATIENCE_SECONDS = 60
ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}
# Units that look for hardware, wait for a person or fetch something.
MASKED = ("systemd-udevd.service", "systemd-udev-trigger.service", "systemd-logind.service", "getty.target",
          "systemd-networkd-wait-online.service", "apt-daily.timer", "apt-daily-upgrade.timer")
# $1 is the root directory, $2 the control group, $3 the version of control groups; the rest are directories that the machine
# sees at the same place.
BOOT = f"""
set -e
cd "$1"
mount -t proc proc proc; mount -t sysfs -o ro sysfs sys; mount -t tmpfs tmpfs run; mount -t tmpfs -o mode=755 tmpfs dev
for device in {' '.join(DEVICES)}; do touch dev/$device; mount --bind /dev/$device dev/$device; done
mkdir dev/pts dev/shm; mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts; ln -s pts/ptmx dev/ptmx
if [ "$2" = hybrid ]; then
  mount -t tmpfs tmpfs sys/fs/cgroup; mkdir sys/fs/cgroup/systemd
  mount -t cgroup -o none,name=systemd cgroup sys/fs/cgroup/systemd
else
  mount -t cgroup2 cgroup2 sys/fs/cgroup
fi
shift 2
for shared; do mkdir -p ".$shared"; mount --bind "$shared" ".$shared"; done
mkdir -p before; pivot_root . before
exec chroot . sh -c 'umount -l /before; exec env -i container=oci /lib/systemd/systemd --log-target=console --show-status=no' </dev/null
"""


class Machine:
    """A systemd that is process 1, in the network namespace `host` of `network`; `directory` is for its layer and what it says."""

    def __init__(self, name, network, host, base, directory, shared=()):
        self.name, self.network, self.host = name, network, host
        self.address = network.address(host)
        self.root = directory / name / "root"
        for part in ("root", "layer", "work"):
            (directory / name / part).mkdir(parents=True)
        sh("mount", "-t", "overlay", "overlay", "-o",
           f"lowerdir={base},upperdir={directory / name / 'layer'},workdir={directory / name / 'work'}", self.root)
        self.console = directory / name / "console"
        (self.root / "etc/hostname").write_text(f"{name}\n")
        for unit in MASKED:
            (self.root / "etc/systemd/system" / unit).symlink_to("/dev/null")
        hybrid = CGROUPS.is_dir()
        self.group = (CGROUPS if hybrid else CGROUPS.parent) / f"kintsugi-lab-{os.getpid()}-{name}"
        self.shared, self.kind, self.process, self.first = shared, "hybrid" if hybrid else "unified", None, None
        self.boot()

    def boot(self):
        """Switches it on: wait() waits until it has started."""
        self.group.mkdir()
        # `ip netns exec` would hide the control groups.
        enter = (f'echo $$ > {self.group}/cgroup.procs && exec nsenter --net={NETNS / self.network.namespace(self.host)} '
                 'unshare -mpfCiu --propagation private --kill-child sh -c "$@"')
        with open(self.console, "ab") as out:
            self.process = subprocess.Popen(
                ["sh", "-c", enter, "sh", BOOT, "boot", self.root, self.kind, *self.shared],
                stdout=out, stderr=out, preexec_fn=die_with_parent)

    def wait(self):
        """Returns when all its units have started."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not self._started():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise LabError(f"{self.name} does not start: {self.console.read_text()[-500:]}")
            time.sleep(0.1)

    def _started(self):
        try:
            children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        except FileNotFoundError:
            return False
        self.first = children[0] if children else None
        return self.first and self.run("systemctl", "is-system-running", check=False).stdout.strip() in ("running", "degraded")

    def inside(self):
        """Its root directory with all that is mounted there, as others see it."""
        return pathlib.Path(f"/proc/{self.first}/root")

    def command(self, *arguments):
        return ["nsenter", "-t", self.first, "-m", "-n", "-p", "-C", "-i", "-u", "--", *map(str, arguments)]

    def run(self, *arguments, check=True, environment=()):
        done = subprocess.run(self.command(*arguments), capture_output=True, text=True, env=ENVIRONMENT | dict(environment))
        if check and done.returncode != 0:
            raise LabError(f"on {self.name}, {shlex.join(map(str, arguments))}: {(done.stderr or done.stdout).strip()}")
        return done

    def switch_off(self):
        """Ends all of its processes at once. What they wrote is there when it boots again."""
        self.process.kill()
        self.process.wait()
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self.group.exists() and time.monotonic() < deadline:
            try:
                # Processes that are being ended are in it for a moment.
                for inner in sorted(self.group.glob("**/"), key=lambda path: -len(path.parts)):
                    inner.rmdir()
            except OSError:
                time.sleep(0.1)

    def stop(self):
        self.switch_off()
        sh("umount", "--recursive", "--lazy", self.root, check=False)
