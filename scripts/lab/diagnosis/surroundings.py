"""What can be done to a running daemon from outside: signals, control groups, its packets. None of it uses a fault point.

Each has begin(), happened() (whether it has met anything yet) and end(), which undoes it and may be called twice.
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

CGROUP = pathlib.Path("/sys/fs/cgroup")
TABLE = "kintsugi_campaign"


def leave_group(group, to):
    """Empties a control group and removes it."""
    if not group.exists():
        return
    for _ in range(50):
        try:
            for pid in (group / "cgroup.procs").read_text().split():
                (to / "cgroup.procs").write_text(pid)
            group.rmdir()
            return
        except OSError:
            time.sleep(0.1)  # a process is just ending in it
    raise RuntimeError(f"{group} cannot be removed")


class Stopped:
    """SIGSTOP; with `lasts`, it is continued by itself after so many seconds."""

    def __init__(self, pid, lasts=None):
        self.pid, self.lasts = pid, lasts
        self.goes_on = None

    def begin(self):
        os.kill(self.pid, signal.SIGSTOP)
        if self.lasts is not None:
            self.goes_on = subprocess.Popen(["sh", "-c", f"sleep {self.lasts}; kill -CONT {self.pid}"])

    def happened(self):
        return True

    def end(self):
        if self.goes_on is not None:
            self.goes_on.kill()
            self.goes_on.wait()
        os.kill(self.pid, signal.SIGCONT)


class StoppedMount:
    """SIGSTOP of the process that serves the load's mount, while it has the write lease of a file that another client reads."""

    def __init__(self, load):
        self.load, self.stopped, self.reader = load, [], None

    def begin(self):
        self.stopped = [Stopped(pid) for pid in self.load.mount_processes()]
        with self.load.sharing:  # whoever reads it before the mount is stopped gets the lease, and nobody waits then
            self.load.write_on_mount()
            for one in self.stopped:
                one.begin()
        self.reader = self.load.begin_to_read_shared()

    def happened(self):
        return True

    def end(self):
        for one in self.stopped:
            one.end()
        if self.reader is not None:
            self.reader.wait()


class Repeated:
    """Something that is begun and ended again and again: `on` seconds of each `period`, by a process of its own."""

    def __init__(self, means, on, period):
        self.means, self.on, self.period = means, on, period
        self.running = None

    def begin(self):
        self.running = os.fork()
        if self.running != 0:
            return
        try:
            while True:
                self.means.begin()
                time.sleep(self.on)
                self.means.end()
                time.sleep(self.period - self.on)
        finally:
            os._exit(0)

    def happened(self):
        return True

    def end(self):
        if self.running is not None:
            os.kill(self.running, signal.SIGKILL)
            os.waitpid(self.running, 0)
            self.running = None
        self.means.end()


class Grouped:
    """In a control group with limits: (file, what is written into it before the process enters, after it, and at the end)."""

    def __init__(self, pid, controller, before=(), after=(), at_end=()):
        self.pid, self.root = pid, CGROUP / controller
        self.group = self.root / f"kintsugi-{pid}"
        self.before, self.after, self.at_end = before, after, at_end

    def write(self, values):
        for file, text in values:
            (self.group / file).write_text(text)

    def begin(self):
        self.group.mkdir(exist_ok=True)
        self.write(self.before)
        (self.group / "cgroup.procs").write_text(str(self.pid))
        self.write(self.after)

    def happened(self):
        return True

    def end(self):
        if self.group.exists():
            self.write(self.at_end)
            leave_group(self.group, self.root)


def frozen(pid):
    return Grouped(pid, "freezer", after=[("freezer.state", "FROZEN")], at_end=[("freezer.state", "THAWED")])


def starved(pid):
    """A thousandth of a processor."""
    return Grouped(pid, "cpu", before=[("cpu.cfs_period_us", "1000000"), ("cpu.cfs_quota_us", "1000")], at_end=[("cpu.cfs_quota_us", "-1")])


class Competitors:
    """Loops without end: `count` of them, as children of this process; `enter`: what each does first."""

    def __init__(self, count, enter=None):
        self.count, self.enter = count, enter
        self.running = []

    def begin(self):
        self.running = [subprocess.Popen([sys.executable, "-c", "while True: pass"], preexec_fn=self.enter) for _ in range(self.count)]

    def happened(self):
        return True

    def end(self):
        for one in self.running:
            one.kill()
            one.wait()
        self.running = []


class Crowded:
    """Beside competitors in a control group that has half a processor: their weights are equal, so little of it is left for the daemon."""

    COMPETITORS, PERIOD_US, QUOTA_US = 6, 100_000, 50_000

    def __init__(self, pid):
        self.group = Grouped(pid, "cpu", before=[("cpu.cfs_period_us", str(self.PERIOD_US)), ("cpu.cfs_quota_us", str(self.QUOTA_US))],
                             at_end=[("cpu.cfs_quota_us", "-1")])
        enter = lambda: (self.group.group / "cgroup.procs").write_text(str(os.getpid()))  # noqa: E731
        self.competitors = Competitors(self.COMPETITORS, enter)

    def begin(self):
        self.group.begin()
        self.competitors.begin()

    def happened(self):
        return True

    def end(self):
        self.competitors.end()
        self.group.end()


def crowded_machine():
    """More loops than processors, at the priority of the daemons, beside all of them."""
    return Competitors(4 * os.cpu_count())


def disk_of(directory):
    """Major and minor number of the disk that a directory is on, not of a partition."""
    number = os.stat(directory).st_dev
    at = pathlib.Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}").resolve()
    return ((at.parent if (at / "partition").exists() else at) / "dev").read_text().strip()


def hanging_disk(pid, directory):
    """A byte a second each way: no request comes back."""
    files = ["blkio.throttle.read_bps_device", "blkio.throttle.write_bps_device"]
    disk = disk_of(directory)
    return Grouped(pid, "blkio", before=[(file, f"{disk} 1") for file in files], at_end=[(file, f"{disk} 0") for file in files])


def slow_disk(pid, directory, rate):
    """So many bytes a second each way."""
    files = ["blkio.throttle.read_bps_device", "blkio.throttle.write_bps_device"]
    disk = disk_of(directory)
    return Grouped(pid, "blkio", before=[(file, f"{disk} {rate}") for file in files], at_end=[(file, f"{disk} 0") for file in files])


class SlowLink:
    """All packets to and from a port share a few megabits a second. REQUIRES: a network of its own, and the kernel's token buckets (sch_htb)."""

    RATE = "8mbit"

    def __init__(self, port):
        self.port = port

    def begin(self):
        def tc(*words):
            subprocess.run(["tc", *words], check=True, stderr=subprocess.DEVNULL)
        tc("qdisc", "replace", "dev", "lo", "root", "handle", "1:", "htb")
        # A bucket holds the largest packet of the loopback device.
        tc("class", "add", "dev", "lo", "parent", "1:", "classid", "1:4", "htb", "rate", self.RATE, "burst", "200kb", "cburst", "200kb")
        for side in ("dport", "sport"):
            tc("filter", "add", "dev", "lo", "parent", "1:", "protocol", "ip", "u32", "match", "ip", "protocol", "6", "0xff",
               "match", "ip", side, str(self.port), "0xffff", "flowid", "1:4")

    def happened(self):
        return True

    def end(self):
        subprocess.run(["tc", "qdisc", "delete", "dev", "lo", "root"], stderr=subprocess.DEVNULL, check=False)


class Lost:
    """Packets that match are lost. REQUIRES: a network of its own (watched.py).

    `outgoing` and `incoming` are matches of nftables. Only packets of more than `least` bytes, which have something in them, count as having met something.
    """

    def __init__(self, outgoing, incoming=(), least=100):
        self.outgoing, self.incoming, self.least = outgoing, incoming, least

    def begin(self):
        rules = []
        for hook, matches in (("output", self.outgoing), ("input", self.incoming)):
            rules.append(f"chain {hook} {{ type filter hook {hook} priority 0; policy accept;")
            for match in matches:
                rules.append(f"{match} meta length gt {self.least} counter drop")
                if self.least > 0:
                    rules.append(f"{match} drop")
            rules.append("}")
        subprocess.run(["nft", "-f", "-"], input="\n".join([f"table inet {TABLE} {{", *rules, "}"]) + "\n", text=True, check=True)

    def happened(self):
        out = subprocess.run(["nft", "-j", "list", "table", "inet", TABLE], check=True, capture_output=True, text=True).stdout
        parts = [part for one in json.loads(out)["nftables"] for part in one.get("rule", {}).get("expr", [])]
        return any(part["counter"]["packets"] > 0 for part in parts if "counter" in part)

    def end(self):
        subprocess.run(["nft", "delete", "table", "inet", TABLE], stderr=subprocess.DEVNULL, check=False)


def no_new_connections(cluster, server):
    """Connections to its port go on, new ones are not answered."""
    return Lost([f"tcp dport {cluster.port(server)} tcp flags & (syn | ack) == syn"], least=0)


class LargePacketsLost:
    """Packets to and from a port beyond a size vanish, as behind a switch with a smaller MTU. REQUIRES: as Lost."""

    SIZE = 9000

    def __init__(self, port):
        self.rules = Lost([f"tcp {side} {port} meta length gt {self.SIZE}" for side in ("dport", "sport")])
        self.begin, self.happened, self.end = self.rules.begin, self.rules.happened, self.rules.end


def lossy(cluster, server, one_in=100):
    """One packet of a hundred to and from its port is lost on its way: dropped where it arrives, since its sender's kernel would notice at once if that were done
    where it leaves."""
    return Lost([], [f"tcp {side} {cluster.port(server)} numgen random mod {one_in} < 1" for side in ("dport", "sport")], least=0)


def of_socket(group):
    return f'socket cgroupv2 level 1 "unified/{group}"'


def dead_pair(cluster, one, other):
    """Whatever either of the two sends the other, on connections of either."""
    ends = [(cluster.groups[one], cluster.port(other)), (cluster.groups[other], cluster.port(one))]
    return Lost([f"{of_socket(group)} tcp dport {port}" for group, port in ends], [f"{of_socket(group)} tcp sport {port}" for group, port in ends])


def deaf(cluster, server):
    """Nothing reaches its port; what it says itself does."""
    return Lost([f"tcp dport {cluster.port(server)}"])


def cut_off(cluster, server):
    """Nothing reaches it, and nothing of it anybody."""
    mine = of_socket(cluster.groups[server])
    return Lost([mine, f"tcp dport {cluster.port(server)}"], [mine])
