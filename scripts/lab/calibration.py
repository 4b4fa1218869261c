"""What the links really carry: the B of every ratio. TCP payload of one stream, on the same links, in the same run."""

import statistics
import subprocess
import sys

MIN_MEGABYTES = 8
SECONDS = 1.5  # of traffic for each measurement


def measure_pair(network, source, target, rate_mbit):
    """Bytes per second of one TCP stream from `source` to `target`."""
    megabytes = max(MIN_MEGABYTES, int(rate_mbit * SECONDS / 8))
    receiver = network.start(target, sys.executable, "-c", _RECEIVER, network.address(target), stdout=subprocess.PIPE,
                             text=True)
    try:
        port = receiver.stdout.readline().strip()
        network.run(source, sys.executable, "-c", _SENDER, network.address(target), port, megabytes)
        received, seconds = receiver.stdout.readline().split()
        return int(received) / float(seconds)
    finally:
        receiver.kill()
        receiver.wait()
        receiver.stdout.close()


def calibrate(network, rate_mbit, hosts, pairs=5):
    """The median over several pairs of `hosts`, which all have links of `rate_mbit`."""
    step = max(1, len(hosts) // pairs)
    chosen = [(hosts[i], hosts[(i + 1) % len(hosts)]) for i in range(0, len(hosts), step)][:pairs]
    rates = [measure_pair(network, a, b, rate_mbit) for a, b in chosen]
    return {"rate_mbit": rate_mbit, "bytes_per_second": statistics.median(rates), "pairs": rates}


def calibrate_hosts(network, rates_mbit):
    """Up and down rate of each host of `rates_mbit` (host -> Mbit/s), against one that is at least as quick."""
    fastest = sorted(rates_mbit, key=rates_mbit.get)[-2:]
    result = {}
    for host, rate in rates_mbit.items():
        peer = fastest[0] if fastest[0] != host else fastest[1]
        result[host] = {"rate_mbit": rate, "up": measure_pair(network, host, peer, rate),
                        "down": measure_pair(network, peer, host, rate)}
    return result


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
