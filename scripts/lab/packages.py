#!/usr/bin/env python3
"""Packages in a bare Debian 12: how long it takes from them to the first file, and what an upgrade and a purge leave.

    scripts/lab/packages.py [--debs build/packages] [--bare DIRECTORY]

Needs root, debootstrap and a mirror of Debian; --bare keeps the bare system for the next run. The hosts of
docs/getting-started-several-machines.md are network namespaces that share one root directory, with files of each in
place of /etc/kintsugi. What packages depend on is fetched before the clock runs. There is no systemd inside: daemons
are started as their units start them, by the user kintsugi. The exit code is 1 when a step fails or takes the first
file above 30 s.
"""

import argparse
import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from network import LabError, Network, sh

MOST_SECONDS = 30
PATIENCE_SECONDS = 60
STORES = 3
DAEMONS = {"meta-1": ("metaserver", "repair-manager", "monitor")}
# What apt, dpkg and the libraries' cache write for themselves, and the packages that are tried.
OF_THE_SYSTEM = re.compile(r"^(var/(lib/(dpkg|apt|systemd)|cache|log/(apt|dpkg\.log|alternatives\.log))|"
                           r"etc/ld\.so\.cache|"
                           r"(etc|var/backups)/(passwd|group|shadow|gshadow|subuid|subgid)-?|"
                           r"proc|dev|sys|run|tmp|root|packages|older)(/|$)|__pycache__")


class Bare:
    """The root directory of a bare Debian, and commands in it."""

    def __init__(self, root):
        self.root = root

    def __enter__(self):
        for name in ("proc", "dev"):
            sh("mount", "--rbind", f"/{name}", self.root / name)
            sh("mount", "--make-rslave", self.root / name)
        return self

    def __exit__(self, *unused):
        for name in ("dev", "proc"):
            sh("umount", "--recursive", "--lazy", self.root / name, check=False)
            if os.path.ismount(self.root / name):
                # Whoever removes the directory would remove the machine's devices.
                print(f"packages: {self.root / name} is still mounted: unmount it before you remove {self.root}",
                      file=sys.stderr)
                os._exit(1)

    def run(self, *arguments, check=True):
        environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}
        done = subprocess.run(["chroot", self.root, *map(str, arguments)], capture_output=True, text=True,
                              env=environment)
        if check and done.returncode != 0:
            raise LabError(f"{' '.join(map(str, arguments))}: {(done.stderr or done.stdout).strip()}")
        return done

    def install(self, *options, where="packages"):
        self.run("sh", "-c", f"apt-get install -y --no-install-recommends {' '.join(options)} /{where}/*.deb")

    def files(self):
        """All paths but those that the system keeps for itself."""
        found = set()
        for at, directories, names in os.walk(self.root):
            inside = pathlib.Path(at).relative_to(self.root)
            directories[:] = [name for name in directories if not OF_THE_SYSTEM.search(str(inside / name))]
            found |= {str(inside / name) for name in directories + names
                      if not OF_THE_SYSTEM.search(str(inside / name))}
        return found


def make_bare(where):
    if not (where / "etc/apt").exists():
        where.mkdir(parents=True, exist_ok=True)
        sh("debootstrap", "--variant=minbase", "bookworm", where)
    shutil.copy("/etc/resolv.conf", where / "etc/resolv.conf")


def older(debs, where):
    """The same packages as of an older version: what maintainers' scripts do does not depend on programs."""
    where.mkdir()
    for deb in debs:
        with tempfile.TemporaryDirectory() as directory:
            sh("dpkg-deb", "--raw-extract", deb, directory)
            control = pathlib.Path(directory, "DEBIAN/control")
            version = re.search(r"^Version: (\S+)", control.read_text(), re.M)[1]
            control.write_text(control.read_text().replace(version, f"{version}~older"))
            sh("dpkg-deb", "--build", "-Znone", directory, where / deb.name)


class Steps:
    """Runs steps one after another and says how long each took."""

    def __init__(self):
        self.seconds = 0.0

    @contextlib.contextmanager
    def step(self, name):
        begin = time.monotonic()
        yield
        took = time.monotonic() - begin
        self.seconds += took
        print(f"{took:7.2f} s  {name}", flush=True)


class Hosts:
    """The metaserver's host and stores, as the guide describes them."""

    def __init__(self, bare, network):
        self.bare, self.network = bare, network
        self.names = ["meta-1", *(f"store-{number}" for number in range(1, STORES + 1))]
        self.processes = []

    def describe(self):
        lines = ['policy = "rs-2-1-1024k"', "[hosts.meta-1]", f'address = "{self.network.address(1)}"',
                 'roles = ["metaserver"]']
        for number, name in enumerate(self.names[1:], 2):
            lines += [f"[hosts.{name}]", f'address = "{self.network.address(number)}"', f'rack = "rack-{number}"',
                      f'disks = ["/srv/kintsugi/{name}"]']
            (self.bare.root / f"srv/kintsugi/{name}").mkdir(parents=True)
            self.bare.run("chown", "kintsugi:", f"/srv/kintsugi/{name}")
        (self.bare.root / "root/hosts.toml").write_text("\n".join(lines) + "\n")

    def copy(self):
        """What rsync --chown does in the guide."""
        for name in self.names:
            self.bare.run("sh", "-c", f"mkdir -p /hosts/{name} && cp -r /root/keys/hosts/{name} /hosts/{name}/etc && "
                                      f"mkdir /hosts/{name}/lib && chown -R kintsugi:kintsugi /hosts/{name}")

    def command(self, name, *arguments):
        root, host = self.bare.root, self.bare.root / "hosts" / name
        script = (f"mount --bind {host}/etc {root}/etc/kintsugi && mount --bind {host}/lib {root}/var/lib/kintsugi && "
                  f'exec chroot {root} runuser -u kintsugi -- sh -c \'. /etc/kintsugi/env && exec "$@"\' sh "$@"')
        return self.network.command(self.names.index(name) + 1, "sh", "-c", script, "sh", *arguments)

    def run(self, name, *arguments):
        return subprocess.run(self.command(name, *arguments), capture_output=True, text=True, timeout=PATIENCE_SECONDS)

    def must(self, name, *arguments):
        done = self.run(name, *arguments)
        if done.returncode != 0:
            raise LabError(f"on {name}, {' '.join(arguments)}: {(done.stderr or done.stdout).strip()}")
        return done.stdout

    def start(self):
        for name in self.names:
            for daemon in DAEMONS.get(name, ("chunkserver-1",)):
                with open(self.bare.root / f"hosts/{name}/{daemon}.log", "wb") as log:
                    program = "kintsugi-" + daemon.removesuffix("-1")
                    self.processes.append(subprocess.Popen(
                        self.command(name, program, "--config", f"/etc/kintsugi/{daemon}.toml"),
                        stdout=log, stderr=log))

    def stop(self):
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.wait()

    def put(self):
        """Stores the first file; returns how often it failed before the servers were there."""
        failed, deadline = 0, time.monotonic() + PATIENCE_SECONDS
        put = ("kintsugi", "put", "--replace", "/usr/bin/kintsugi", "/first")
        while (done := self.run("meta-1", *put)).returncode != 0:
            failed += 1
            if time.monotonic() > deadline:
                raise LabError(f"put: {done.stderr.strip()}")
            time.sleep(0.2)
        return failed


def first_file(bare, network):
    steps, hosts = Steps(), Hosts(bare, network)
    try:
        with steps.step("apt install, with dependencies in its cache"):
            bare.install()
        hosts.describe()
        with steps.step("kintsugi cluster init"):
            bare.run("kintsugi", "cluster", "init", "/root/hosts.toml", "--out", "/root/keys")
        with steps.step("copy the files to the hosts"):
            hosts.copy()
        with steps.step("kintsugi cluster check on each"):
            for name in hosts.names:
                hosts.must(name, "kintsugi", "cluster", "check")
        failed = 0
        with steps.step("start the daemons, and kintsugi put until it succeeds"):
            hosts.start()
            failed = hosts.put()
        with steps.step("kintsugi get, compared"):
            hosts.must("store-1", "sh", "-c", "kintsugi cat /first | cmp - /usr/bin/kintsugi")
        hosts.must("meta-1", "kintsugi", "fsck", "/")
        print(f"{steps.seconds:7.2f} s  together; put failed {failed} times before the servers were there", flush=True)
        return steps.seconds
    finally:
        hosts.stop()


def expect(what, holds):
    print(f"{'ok' if holds else 'WRONG'}: {what}", flush=True)
    return holds


def installed_right(bare):
    """What a machine has after an installation."""
    wanted = {"etc/kintsugi": (0o750, "root:kintsugi"), "var/lib/kintsugi": (0o755, "root:root"),
              "var/log/kintsugi": (0o750, "kintsugi:kintsugi")}
    right = True
    for name, (mode, owner) in wanted.items():
        said = bare.run("stat", "-c", "%a %U:%G", f"/{name}", check=False).stdout.strip()
        right &= expect(f"/{name} is {mode:o} {owner}", said == f"{mode:o} {owner}")
    right &= expect("the user kintsugi has no shell",
                    bare.run("getent", "passwd", "kintsugi").stdout.strip().endswith("/nologin"))
    for path in ("usr/share/zsh/vendor-completions/_kintsugi", "usr/share/bash-completion/completions/kintsugi",
                 "sbin/mount.kintsugi"):
        right &= expect(f"/{path} is there", bare.run("test", "-e", f"/{path}", check=False).returncode == 0)
    listed = bare.run("sh", "-c", "dpkg -L kintsugi-client kintsugi-server kintsugi-monitor kintsugi-mount | "
                                  "grep share/man/.*gz").stdout.split()
    right &= expect(f"{len(listed)} manual pages", len(listed) >= 8)
    units = [path for path in (bare.root / "lib/systemd/system").glob("kintsugi-*")]
    right &= expect("five units, none enabled",
                    len(units) == 5 and not list(bare.root.glob("etc/systemd/system/*/kintsugi*")))
    return right


def lives_and_goes(bare, before):
    """Upgrade over an older version, remove, purge: once with a secret that stays, once without a cluster's files."""
    names = bare.run("sh", "-c", "for deb in /packages/*.deb; do dpkg-deb -f $deb Package; done").stdout.split()
    bare.install("--allow-downgrades", where="older")
    (bare.root / "etc/kintsugi/secret").write_text("0" * 64)
    bare.install()
    right = installed_right(bare)
    right &= expect("an upgrade leaves the secret, closed",
                    bare.run("stat", "-c", "%a %U", "/etc/kintsugi/secret").stdout == "600 kintsugi\n")
    (bare.root / "var/log/kintsugi/x.log").write_text("")
    bare.run("apt-get", "remove", "-y", *names)
    right &= expect("a removal leaves settings", (bare.root / "etc/kintsugi/secret").exists())
    bare.run("dpkg", "--purge", *names)
    right &= expect("a purge leaves settings that are there", (bare.root / "etc/kintsugi/secret").exists())
    (bare.root / "etc/kintsugi/secret").unlink()
    bare.install()
    bare.run("dpkg", "--purge", *names)
    bare.run("apt-get", "autoremove", "--purge", "-y")
    left = sorted(path for path in bare.files() - before if "kintsugi" in path)
    right &= expect(f"a purge leaves nothing else {left or ''}", not left)
    others = sorted(bare.files() - before - set(left))
    print(f"  what other packages left: {others[:20]}")
    return right


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--debs", type=pathlib.Path,
                           default=pathlib.Path(__file__).resolve().parents[2] / "build/packages")
    arguments.add_argument("--bare", type=pathlib.Path)
    said = arguments.parse_args()
    # A signal ends it as an error does: what is mounted and made goes away.
    signal.signal(signal.SIGTERM, lambda *unused: sys.exit("packages: ended by a signal"))
    debs = sorted(path for path in said.debs.glob("*.deb") if "-dbgsym_" not in path.name)
    if not debs:
        raise LabError(f"no packages in {said.debs}: scripts/package.sh makes them")
    with tempfile.TemporaryDirectory(prefix="kintsugi-packages-") as directory:
        base, root = said.bare or pathlib.Path(directory, "bare"), pathlib.Path(directory, "root")
        make_bare(base)
        sh("cp", "-a", base, root)
        before = Bare(root).files()
        (root / "packages").mkdir()
        for deb in debs:
            shutil.copy(deb, root / "packages")
        older(debs, root / "older")
        with Bare(root) as bare, Network(STORES + 1) as network:
            # Some images say to remove what apt has fetched.
            (root / "etc/apt/apt.conf.d/docker-clean").unlink(missing_ok=True)
            bare.run("apt-get", "update", "-qq")
            bare.install("--download-only")
            took = first_file(bare, network)
            right = installed_right(bare)
            shutil.rmtree(root / "hosts")
            shutil.rmtree(root / "srv/kintsugi")
            right &= lives_and_goes(bare, before)
        right &= expect(f"the first file within {MOST_SECONDS} s", took <= MOST_SECONDS)
    return 0 if right else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except LabError as error:
        sys.exit(f"packages: {error}")
