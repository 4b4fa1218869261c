"""What users lose while a capped repair runs: a client reads a file again and again, without and with repairs."""

import itertools
import statistics
import threading
import time

from bounds import Code
from calibration import calibrate
from cluster import MIB, Cluster, CommandFailed, server_host, write_random
from network import Network


class Repairs(threading.Thread):
    """Rebuilds chunks of a stripe in turn until told to stop."""

    def __init__(self, cluster, stripe, chunks):
        super().__init__(daemon=True)
        self.cluster, self.stripe, self.chunks = cluster, stripe, chunks
        self.stopped = threading.Event()
        self.seconds = []

    def run(self):
        for index in itertools.cycle(range(self.chunks)):
            if self.stopped.is_set():
                return
            try:
                self.seconds.append(self.cluster.cli_json("repair", "run", "--chunk", f"{self.stripe}:{index}")["seconds"])
            except CommandFailed:
                time.sleep(0.5)  # a server still has to delete its old copy


def run(spec, results, lab):
    for cell in spec.expanded_cells():
        code, servers = Code.parse(cell["code"]), cell["servers"]
        cap = cell["cap_mbit"] * 1e6 / 8
        with Network(2 + servers) as network:
            network.shape_all(cell["rate_mbit"])
            hosts = [server_host(n) for n in range(servers)]
            rate = results.calibrated(calibrate(network, cell["rate_mbit"], [2, *hosts]))
            settings = {"chunkserver": {"repair.bandwidth": int(cap), "cache.memory": 0}}
            with Cluster(network, lab.binaries, lab.directory / "cluster", servers, settings,
                         link_rates={host: (rate, rate) for host in hosts}) as cluster:
                source, target = lab.directory / "source", lab.directory / "target"
                write_random(source, cell["read_mib"] * MIB)
                cluster.cli("put", "--policy", cell["code"], source, "/read")
                write_random(source, cell["chunk_mib"] * code.k * MIB)
                cluster.cli("put", "--policy", cell["code"], source, "/repaired")
                stripe = cluster.cli_json("stat", "/repaired")["extents"][0]["stripe_id"]
                quiet, busy, repaired = [], [], []
                for _ in range(spec.runs):
                    quiet.append(read(cluster, target))
                    repairs = Repairs(cluster, stripe, code.chunks)
                    repairs.start()
                    time.sleep(1)
                    busy.append(read(cluster, target))
                    repairs.stopped.set()
                    repairs.join()
                    repaired += repairs.seconds
        base, loaded = statistics.median(quiet), statistics.median(busy)
        row = {"series": "reads beside repairs", "code": code.label(), "rate_mbit": cell["rate_mbit"],
               "cap_mbit": cell["cap_mbit"], "quiet_seconds": quiet, "busy_seconds": busy,
               "lost_percent": 100 * (1 - base / loaded), "repairs": len(repaired),
               "repair_mbit": cell["chunk_mib"] * MIB * 8e-6 / statistics.median(repaired)}
        results.add(row)
        results.save()
        lab.say(f"reads {base:.2f} s alone, {loaded:.2f} s beside repairs: {row['lost_percent']:.1f} % lost; "
                f"{len(repaired)} repairs at {row['repair_mbit']:.0f} Mbit/s, cap {cell['cap_mbit']}")


def read(cluster, target):
    began = time.monotonic()
    cluster.cli("get", "--replace", "/read", target)
    return time.monotonic() - began
