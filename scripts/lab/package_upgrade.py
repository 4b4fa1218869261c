#!/usr/bin/env python3
"""A cluster of installed packages is upgraded while it is used: do users notice, and what would an operator stumble on?

    scripts/lab/package_upgrade.py OLD_PACKAGES [--debs build/packages] [--bare DIRECTORY]

Six machines boot a Debian 12 with systemd, in namespaces: a metaserver's with repair manager and monitor, four stores, and
one that mounts. The packages in OLD_PACKAGES are installed on all, and the cluster is made with their own settings. Then
they are upgraded as docs/operations.md says, brought back, upgraded again, and finalized, while commands and a program in
the mount work and compare all that they read. scripts/package.sh of the other commit makes OLD_PACKAGES. Needs root,
debootstrap and a mirror of Debian; --bare keeps the bare system for the next run. The exit code is 1 when users met an
error, a repair began, a file differs, or a machine is not as it should be.
"""

import argparse
import contextlib
import json
import pathlib
import re
import secrets
import shutil
import signal
import sys
import tempfile
import time

from machines import Machine
from network import LabError, Network, sh
from packages import Bare, expect, make_bare
from upgrade import Appender, Commands, Meter

STORES = 4  # rs-2-1 has three chunks, and one server is restarted
PACKAGES = ("kintsugi-common", "kintsugi-server", "kintsugi-client", "kintsugi-mount", "kintsugi-monitor")
SYSTEM = ("systemd", "systemd-sysv", "dbus", "udev", "procps", "iproute2", "fuse3")
POLICY = "rs-2-1-1024k"
MOUNT, MOUNT_UNIT = "/srv/data", "kintsugi-mount@srv-data"
# Addresses in the settings that packages bring.
PLACES = {"10.0.0.1": "meta-1", "10.0.0.2": "meta-1", "10.0.0.11": "store"}
SETTINGS = {"metaserver": "meta-1", "repair-manager": "meta-1", "monitor": "meta-1", "mount": "desk-1"}
REMARK = "# A remark of the operator.\n"
PLAIN = "tls.require = false\n"
DROP_IN = "[Service]\nReadWritePaths=-/srv/elsewhere\n"
# What units of different versions differ in.
PROPERTIES = "User,ProtectSystem,PrivateMounts,CapabilityBoundingSet,ReadWritePaths,LimitNOFILE,Restart"
PATIENCE_SECONDS = 60
REST_SECONDS = 3


class Site:
    """The machines, and the cluster on them. Commands of users run on the desk, with what is installed there."""

    def __init__(self, base, directory, network, debs):
        self.directory = directory / "shared"
        self.debs = {}
        for version, files in debs.items():
            self.debs[version] = self.directory / version
            self.debs[version].mkdir(parents=True)
            for file in files:
                shutil.copy(file, self.debs[version])
        names = ["meta-1", *(f"store-{number}" for number in range(1, STORES + 1)), "desk-1"]
        self.machines = {}
        for host, name in enumerate(names, 1):
            self.machines[name] = Machine(name, network, host, base, directory / "machines", [self.directory])
        self.meta, self.desk = self.machines["meta-1"], self.machines["desk-1"]
        self.stores = [self.machines[name] for name in names if name.startswith("store")]
        self.environment = {"KINTSUGI_META": f"{self.meta.address}:9600", "KINTSUGI_SECRET_FILE": "/etc/kintsugi/secret"}

    def boot(self):
        for machine in self.machines.values():
            machine.wait()

    def stop(self):
        for machine in self.machines.values():
            machine.stop()

    def install(self, version, machines=None):
        """As the documents say; apt has to be allowed to go to a lower version."""
        files = " ".join(str(path) for path in sorted(self.debs[version].glob("*.deb")))
        for machine in machines or self.machines.values():
            machine.run("sh", "-c", f"apt-get install -y --no-install-recommends --allow-downgrades {files}")

    def daemons(self):
        """Each daemon's machine, unit and file of settings."""
        for kind, name in SETTINGS.items():
            if kind != "mount":
                yield self.machines[name], f"kintsugi-{kind}", f"{kind}.toml"
        for store in self.stores:
            yield store, "kintsugi-chunkserver@1", "chunkserver-1.toml"

    def units(self):
        return [*((machine, unit) for machine, unit, _ in self.daemons()), (self.desk, MOUNT_UNIT)]

    def write_settings(self):
        """Those of the package with this network's addresses, the secret, and a drop-in of the operator's."""
        secret = secrets.token_hex(32) + "\n"
        for machine in self.machines.values():
            (machine.inside() / "etc/kintsugi/secret").write_text(secret)
            machine.run("install", "-d", "-o", "kintsugi", "-g", "kintsugi", "-m", "700", "/srv/kintsugi/disk-1")
        for machine, unit, name in [*self.daemons(), (self.desk, MOUNT_UNIT, "mount.toml")]:
            text = (machine.inside() / "usr/share/kintsugi/settings" / name).read_text()
            text = "".join(line for line in text.splitlines(keepends=True) if not line.startswith("tls."))
            for address, place in PLACES.items():
                text = re.sub(rf'"{re.escape(address)}:', f'"{(machine if place == "store" else self.machines[place]).address}:', text)
            text = text.replace('"store-1"', f'"{machine.name}"').replace("rack-a", machine.name)
            text = re.sub(r'policy = "[^"]*"', f'policy = "{POLICY}"', text).replace(', "/srv/kintsugi/disk-2"', "")
            (machine.inside() / "etc/kintsugi" / name).write_text(f"{text}{REMARK}")
        for machine in self.machines.values():
            machine.run("sh", "-c", "chown kintsugi: /etc/kintsugi/* && chmod 600 /etc/kintsugi/*")
        for store in self.stores:
            place = store.inside() / "etc/systemd/system/kintsugi-chunkserver@1.service.d"
            place.mkdir()
            (place / "override.conf").write_text(DROP_IN)
            store.run("systemctl", "daemon-reload")

    def allow_plain(self, allowed, machines=()):
        """Lets new daemons listen without TLS. Old ones that do not know the setting do not start with it."""
        for machine, _, name in self.daemons():
            if not machines or machine in machines:
                settings = machine.inside() / "etc/kintsugi" / name
                settings.write_text(settings.read_text().replace(PLAIN, "") + (PLAIN if allowed else ""))

    def start(self):
        for machine, unit, _ in self.daemons():
            machine.run("systemctl", "enable", "--now", unit)
        self.wait_for("all chunkservers", lambda: self.alive() == STORES)
        self.desk.run("mkdir", "-p", MOUNT)
        self.desk.run("systemctl", "enable", "--now", MOUNT_UNIT)

    @property
    def mount(self):
        return self.desk.inside() / MOUNT[1:]

    def kintsugi(self, _, *words):
        return self.desk.run("kintsugi", *words, check=False, environment=self.environment)

    def must(self, *words):
        done = self.kintsugi(None, *words)
        if done.returncode != 0:
            raise LabError(f"kintsugi {' '.join(words)}: {(done.stderr or done.stdout).strip()}")
        return done.stdout

    def alive(self):
        listed = self.kintsugi(None, "server", "list", "--json")
        return sum(server["liveness"] == "alive" for server in json.loads(listed.stdout)["servers"]) if listed.returncode == 0 else 0

    def repairs(self):
        """Counts those that the repair manager has had since it started, those that wait included."""
        status = json.loads(self.must("repair", "status", "--json"))
        return status["done"] + status["failed"] + len(status["running"]) + status["queued"]

    def wait_for(self, what, condition):
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not condition():
            if time.monotonic() > deadline:
                raise LabError(f"{what}: not within {PATIENCE_SECONDS} s")
            time.sleep(0.2)

    def restart(self, machine, unit):
        machine.run("systemctl", "restart", unit)
        self.wait_for(f"{unit} on {machine.name}", lambda: self.is_well(machine, unit))

    def is_well(self, machine, unit):
        if machine.run("systemctl", "is-active", unit, check=False).stdout.strip() != "active":
            return False
        return self.alive() == STORES

    def runs(self, machine, unit):
        """Returns whether the unit has a process of the program that is installed. The parent of a mount stays what it was."""
        processes = machine.run("sh", "-c", f"readlink $(sed 's|.*|/proc/&/exe|' $(find /sys/fs/cgroup -path '*/{unit}.service/cgroup.procs'))",
                                check=False)
        return any(line.startswith("/usr/bin/kintsugi-") and "deleted" not in line for line in processes.stdout.splitlines())


class Trial:
    def __init__(self, site):
        self.site, self.meter, self.right = site, Meter(), True
        self.appender = Appender(site, self.meter)
        self.users = [Commands(site, self.meter, 0), self.appender]

    def expect(self, what, holds):
        self.right &= expect(what, holds)

    @contextlib.contextmanager
    def step(self, name):
        """Says what users met meanwhile."""
        self.meter.begin()
        began = time.monotonic()
        yield
        operations, errors, longest = self.meter.operations, list(self.meter.errors), self.meter.take_longest()
        self.right &= not errors
        print(f"{time.monotonic() - began:6.1f} s  {name}: {operations} operations, {len(errors)} errors, at most {longest[0]:.2f} s longer "
              f"than usual ({longest[1]})", flush=True)
        for error in errors[:5]:
            print(f"          {error}", flush=True)

    def move(self, version):
        """Docs/operations.md, "To install another version"."""
        site = self.site
        before = site.repairs()
        with self.step(f"{version}: apt-get install on all machines"):
            site.install(version)
        self.look_at_machines()
        site.allow_plain(version == "new")
        with self.step(f"{version}: metaserver"):
            site.restart(site.meta, "kintsugi-metaserver")
            time.sleep(REST_SECONDS)
        with self.step(f"{version}: chunkservers"):
            for store in site.stores:
                site.restart(store, "kintsugi-chunkserver@1")
                time.sleep(1)
            time.sleep(REST_SECONDS)
        begun = site.repairs() - before
        with self.step(f"{version}: repair manager and monitor"):
            site.restart(site.meta, "kintsugi-repair-manager")
            site.restart(site.meta, "kintsugi-monitor")
            time.sleep(REST_SECONDS)
        with self.step(f"{version}: the mount takes the new program"):
            site.desk.run("systemctl", "reload", MOUNT_UNIT)
            time.sleep(REST_SECONDS)
        self.expect("no repair began", begun + site.repairs() == 0)
        self.look_for_damage()
        for machine, unit in site.units():
            self.expect(f"{machine.name}: {unit} runs what is installed", site.runs(machine, unit))

    def look_at_machines(self):
        """An installation restarts nothing, leaves what operators wrote, and has systemd know what is installed."""
        site = self.site
        for machine, unit in site.units():
            self.expect(f"{machine.name}: {unit} goes on", not site.runs(machine, unit))
            known = machine.run("systemctl", "show", "-p", PROPERTIES, unit).stdout
            machine.run("systemctl", "daemon-reload")
            installed = machine.run("systemctl", "show", "-p", PROPERTIES, unit).stdout
            changed = set(installed.splitlines()) - set(known.splitlines())
            self.expect(f"{machine.name}: systemd knows the unit that is installed {changed or ''}", not changed)
            self.expect(f"{machine.name}: {unit} is enabled",
                        machine.run("systemctl", "is-enabled", unit, check=False).stdout.strip() == "enabled")
            failed = machine.run("systemctl", "list-units", "--failed", "--plain", "--no-legend", "kintsugi*").stdout.split("\n")[0]
            self.expect(f"{machine.name}: nothing of Kintsugi has failed {failed}", not failed)
        for machine, _, name in site.daemons():
            self.expect(f"{machine.name}: {name} is the operator's", REMARK in (machine.inside() / "etc/kintsugi" / name).read_text())
        for store in site.stores:
            self.expect(f"{store.name}: the drop-in stays", "/srv/elsewhere" in
                        store.run("systemctl", "show", "-P", "ReadWritePaths", "kintsugi-chunkserver@1").stdout)

    def look_for_damage(self):
        """What fsck finds while files are written may be whole a moment later: it is said, and looked for once more."""
        for _ in range(2):
            fsck = self.site.kintsugi(None, "fsck", "/")
            if fsck.returncode == 0:
                break
            print(f"fsck: {fsck.stdout}{fsck.stderr}", flush=True)
            time.sleep(REST_SECONDS)
        self.expect(f"fsck: {(fsck.stdout or fsck.stderr).strip().splitlines()[-1]}", fsck.returncode == 0)

    def finalize(self):
        """The version before is refused from then on, and the newer one is back after that."""
        site, store = self.site, self.site.stores[-1]
        with self.step("finalize"):
            print(site.must("cluster", "finalize").strip(), flush=True)
        status = json.loads(site.must("metadata", "status", "--json"))
        self.expect("the cluster is finalized", status["format"] == status["newest_format"])
        site.install("old", [store])
        site.allow_plain(False, [store])
        store.run("systemctl", "restart", "kintsugi-chunkserver@1", check=False)
        time.sleep(REST_SECONDS)
        said = store.run("journalctl", "--no-pager", "-o", "cat", "-n", "20", "-u", "kintsugi-chunkserver@1").stdout
        refused = [line for line in said.splitlines() if "format" in line]
        self.expect(f"an old chunkserver is refused: {refused[-1:]}", bool(refused) and site.alive() == STORES - 1)
        site.install("new", [store])
        site.allow_plain(True, [store])
        site.restart(store, "kintsugi-chunkserver@1")

    def end(self):
        """Everything is read once, and again after all machines were switched off."""
        for user in self.users:
            user.ends = True
        for user in self.users:
            user.join()
        self.check_all("whole")
        self.site.desk.run("systemctl", "restart", MOUNT_UNIT)
        self.check_all("whole through a mount of the new unit")
        for machine in self.site.machines.values():
            machine.switch_off()
        for machine in self.site.machines.values():
            machine.boot()
        self.site.boot()
        self.appender.directory = self.site.mount / self.appender.directory.name
        self.check_all("whole after all machines were switched off")

    def check_all(self, what):
        self.meter.begin()
        for user in self.users:
            user.check()
        errors, differ = self.meter.errors, sum(len(user.differ) for user in self.users)
        self.expect(f"{self.meter.operations} files are {what} {errors[:3] or ''}", not errors and not differ)
        self.look_for_damage()


def base_of(bare, root, debs):
    """The machines' root directory: the bare system, what boots it, and in apt's cache what packages depend on."""
    sh("cp", "-a", bare, root)
    for version, files in debs.items():
        (root / version).mkdir()
        for file in files:
            shutil.copy(file, root / version)
    with Bare(root) as system:
        (root / "etc/apt/apt.conf.d/docker-clean").unlink(missing_ok=True)
        system.run("apt-get", "update", "-qq")
        system.run("apt-get", "install", "-y", "-qq", "--no-install-recommends", *SYSTEM)
        for version in debs:
            system.install("--download-only", where=version)
            shutil.rmtree(root / version)


def packages_in(directory):
    files = [path for path in sorted(directory.glob("*.deb")) if path.name.partition("_")[0] in PACKAGES]
    if len(files) != len(PACKAGES):
        raise LabError(f"{directory} has not one of each of {', '.join(PACKAGES)}")
    return files


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("old", type=pathlib.Path)
    arguments.add_argument("--debs", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2] / "build/packages")
    arguments.add_argument("--bare", type=pathlib.Path)
    said = arguments.parse_args()
    debs = {"old": packages_in(said.old), "new": packages_in(said.debs)}
    signal.signal(signal.SIGTERM, lambda *unused: sys.exit("package_upgrade: ended by a signal"))
    with tempfile.TemporaryDirectory(prefix="kintsugi-package-upgrade-", dir="/var/tmp") as name:
        directory = pathlib.Path(name)
        make_bare(said.bare or directory / "bare")
        base_of(said.bare or directory / "bare", directory / "base", debs)
        with Network(STORES + 2) as network:
            site = Site(directory / "base", directory, network, debs)
            try:
                site.boot()
                return run(site)
            finally:
                site.stop()


def run(site):
    site.install("old")
    site.write_settings()
    site.start()
    trial = Trial(site)
    for user in trial.users:
        user.start()
    with trial.step("at rest"):
        time.sleep(10)
    for version in ("new", "old", "new"):
        trial.move(version)
    trial.finalize()
    trial.end()
    return 0 if trial.right else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except LabError as error:
        sys.exit(f"package_upgrade: {error}")
