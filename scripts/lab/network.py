"""Hosts in network namespaces, joined by a bridge, with links shaped by a token bucket in both directions.

Needs root. Everything is named with a prefix of its own and removed at the end, even after a failure.
"""

import contextlib
import socket
import subprocess
import time

PREFIX = "ktl"
SUBNET = "10.77.0"


def sh(*arguments, check=True):
    return subprocess.run(arguments, check=check, capture_output=True, text=True)


class Network:
    """`hosts` namespaces ktl1..ktlN with addresses 10.77.0.1..N."""

    def __init__(self, hosts, rate_mbit):
        self.hosts = hosts
        self.rate_mbit = rate_mbit

    def __enter__(self):
        self.__exit__(None, None, None)
        try:
            sh("ip", "netns", "add", f"{PREFIX}0")
            self._run(0, "ip", "link", "add", "br0", "type", "bridge")
            self._run(0, "ip", "link", "set", "br0", "up")
            for host in range(1, self.hosts + 1):
                self._add_host(host)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, *unused):
        for host in range(0, max(self.hosts, 64) + 1):
            sh("ip", "netns", "del", self.namespace(host), check=False)

    def _add_host(self, host):
        sh("ip", "netns", "add", self.namespace(host))
        sh("ip", "link", "add", f"kh{host}", "netns", self.namespace(host), "type", "veth", "peer", "name", f"kb{host}",
           "netns", f"{PREFIX}0")
        self._run(0, "ip", "link", "set", f"kb{host}", "master", "br0", "up")
        self._run(host, "ip", "addr", "add", f"{self.address(host)}/24", "dev", f"kh{host}")
        self._run(host, "ip", "link", "set", f"kh{host}", "up")
        self._run(host, "ip", "link", "set", "lo", "up")
        self.shape(host, self.rate_mbit)

    def shape(self, host, rate_mbit):
        """Sets both directions of a host's link; None removes the limit."""
        for namespace, device in ((host, f"kh{host}"), (0, f"kb{host}")):
            self._run(namespace, "tc", "qdisc", "del", "dev", device, "root", check=False)
            if rate_mbit:
                burst_kb = max(32, int(rate_mbit * 1000 / 8 / 250))  # 4 ms worth
                self._run(namespace, "tc", "qdisc", "add", "dev", device, "root", "tbf", "rate", f"{rate_mbit}mbit",
                          "burst", f"{burst_kb}kb", "latency", "40ms")

    def namespace(self, host):
        return f"{PREFIX}{host}"

    def address(self, host):
        return f"{SUBNET}.{host}"

    def _run(self, host, *arguments, check=True):
        return sh("ip", "netns", "exec", self.namespace(host), *arguments, check=check)

    def command(self, host, *arguments):
        """The command line that runs `arguments` on a host."""
        return ["ip", "netns", "exec", self.namespace(host), *arguments]

    def measure_link(self, source, target, megabytes=48):
        """Bytes per second of one TCP stream between two hosts: the B of every ratio."""
        receiver = subprocess.Popen(self.command(target, "python3", "-c", _RECEIVER, self.address(target)),
                                    stdout=subprocess.PIPE, text=True)
        try:
            port = receiver.stdout.readline().strip()
            sh(*self.command(source, "python3", "-c", _SENDER, self.address(target), port, str(megabytes)))
            received, seconds = receiver.stdout.readline().split()
            return int(received) / float(seconds)
        finally:
            receiver.wait(timeout=30)


_SENDER = """
import socket, sys
s = socket.create_connection((sys.argv[1], int(sys.argv[2])))
block = bytes(1 << 20)
for _ in range(int(sys.argv[3])): s.sendall(block)
s.shutdown(socket.SHUT_WR); s.recv(1)
"""

# The first megabytes are left out: they pass on the bucket's burst and TCP's start.
_RECEIVER = """
import socket, sys, time
l = socket.create_server((sys.argv[1], 0)); print(l.getsockname()[1], flush=True)
s, _ = l.accept(); total = 0; skip = 4 << 20; start = None
while True:
    data = s.recv(1 << 20)
    if not data: break
    total += len(data)
    if start is None and total >= skip: start, base = time.monotonic(), total
print(total - base, time.monotonic() - start, flush=True)
"""


@contextlib.contextmanager
def timed():
    """`with timed() as t: ...` leaves the seconds in t[0]."""
    result = [0.0]
    start = time.monotonic()
    yield result
    result[0] = time.monotonic() - start


def wait_for_port(network, host, address, port, seconds):
    """Returns once something listens on address:port, seen from `host`."""
    deadline = time.monotonic() + seconds
    probe = f"import socket; socket.create_connection(('{address}', {port}), 1)"
    while sh(*network.command(host, "python3", "-c", probe), check=False).returncode != 0:
        if time.monotonic() > deadline:
            raise TimeoutError(f"nothing listens on {address}:{port} after {seconds} s")
        time.sleep(0.1)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]
