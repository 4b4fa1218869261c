"""Hosts in network namespaces, joined by a bridge, with links shaped by a token bucket in both directions.

Needs root. Names carry the pid of the lab, so several labs can run on one machine. Everything is removed at the end, also
after a failure or a signal; what a killed lab left behind is removed by the next one.
"""

import ctypes
import os
import pathlib
import re
import shutil
import signal
import subprocess

PREFIX = "ktl"
NETNS = pathlib.Path("/run/netns")
PR_SET_PDEATHSIG = 1
# The same everywhere, whatever the machine's own is: every kernel has it and allows it to namespaces.
CONGESTION_CONTROL = "reno"


class LabError(RuntimeError):
    """What the user can do something about: printed without a stack."""


def check_host():
    if os.geteuid() != 0:
        raise LabError("needs root for network namespaces and traffic shaping: run it with sudo")
    for tool in ("ip", "tc"):
        if not shutil.which(tool):
            raise LabError(f"{tool} is missing: apt-get install iproute2")


def sh(*arguments, check=True):
    result = subprocess.run([str(a) for a in arguments], capture_output=True, text=True)
    if check and result.returncode != 0:
        raise LabError(f"{' '.join(map(str, arguments))}: {result.stderr.strip() or result.stdout.strip()}")
    return result


def die_with_parent():
    """For preexec_fn: the child is killed when the lab dies, even by kill -9."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def remove_leftovers():
    """Namespaces of labs that are gone: their processes died with them (die_with_parent)."""
    for path in NETNS.glob(f"{PREFIX}*-*") if NETNS.is_dir() else ():
        owner = re.fullmatch(rf"{PREFIX}(\d+)-\d+", path.name)
        if owner and not pathlib.Path(f"/proc/{owner[1]}").exists():
            sh("ip", "netns", "del", path.name, check=False)


class Network:
    """`hosts` namespaces numbered 1..hosts; number 0 holds the bridge. Links start without a limit."""

    def __init__(self, hosts):
        self.hosts = hosts
        self.pid = os.getpid()
        self.subnet = f"10.{64 + self.pid // 250 % 128}.{self.pid % 250}"
        self.rates = {}

    def __enter__(self):
        check_host()
        remove_leftovers()
        try:
            sh("ip", "netns", "add", self.namespace(0))
            self.run(0, "ip", "link", "add", "br0", "type", "bridge")
            self.run(0, "ip", "link", "set", "br0", "up")
            for host in range(1, self.hosts + 1):
                self._add_host(host)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, *unused):
        for host in range(self.hosts, -1, -1):
            sh("ip", "netns", "del", self.namespace(host), check=False)

    def _add_host(self, host):
        sh("ip", "netns", "add", self.namespace(host))
        sh("ip", "link", "add", f"kh{host}", "netns", self.namespace(host), "type", "veth", "peer", "name", f"kb{host}",
           "netns", self.namespace(0))
        self.run(0, "ip", "link", "set", f"kb{host}", "master", "br0", "up")
        self.run(host, "ip", "addr", "add", f"{self.address(host)}/24", "dev", f"kh{host}")
        self.run(host, "ip", "link", "set", f"kh{host}", "up")
        self.run(host, "ip", "link", "set", "lo", "up")
        self.run(host, "sh", "-c", f"echo {CONGESTION_CONTROL} > /proc/sys/net/ipv4/tcp_congestion_control")

    def shape(self, host, rate_mbit):
        """Sets both directions of a host's link; None removes the limit."""
        if self.rates.get(host) == rate_mbit:
            return
        for namespace, device in ((host, f"kh{host}"), (0, f"kb{host}")):
            if self.rates.get(host):
                self.run(namespace, "tc", "qdisc", "del", "dev", device, "root")
            if rate_mbit:
                burst_kb = max(32, int(rate_mbit * 1000 / 8 / 250))  # 4 ms worth
                self.run(namespace, "tc", "qdisc", "add", "dev", device, "root", "tbf", "rate", f"{rate_mbit}mbit",
                         "burst", f"{burst_kb}kb", "latency", "40ms")
        self.rates[host] = rate_mbit

    def shape_all(self, rate_mbit, slow=None):
        """All hosts alike, but for those in `slow`, a map from host to its rate. None: no limits."""
        for host in range(1, self.hosts + 1):
            self.shape(host, (slow or {}).get(host, rate_mbit))

    def namespace(self, host):
        return f"{PREFIX}{self.pid}-{host}"

    def address(self, host):
        return f"{self.subnet}.{host}"

    def run(self, host, *arguments, check=True):
        return sh(*self.command(host, *arguments), check=check)

    def command(self, host, *arguments):
        """The command line that runs `arguments` on a host."""
        return ["ip", "netns", "exec", self.namespace(host), *map(str, arguments)]

    def start(self, host, *arguments, **options):
        """A process on a host, in a session of its own (a Ctrl-C reaches only the lab), that dies with the lab."""
        return subprocess.Popen(self.command(host, *arguments), start_new_session=True, preexec_fn=die_with_parent,
                                **options)
