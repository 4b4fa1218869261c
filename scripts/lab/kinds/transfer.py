"""put and get of a file over the client's link, against what that link allows."""

import itertools
import time

from bounds import Code
from calibration import calibrate
from cluster import MIB, Cluster, digest_of, server_host, write_random
from network import LabError, Network
from sweep import times


def seconds_of(cluster, *command):
    began = time.monotonic()
    cluster.cli(*command)
    return {"seconds": time.monotonic() - began}


def run(spec, results, lab):
    cells = [c for c in spec.expanded_cells() if not results.has(code=Code.parse(c["code"]).label(), rate_mbit=c["rate_mbit"])]
    servers = max((Code.parse(c["code"]).chunks for c in cells), default=0) + 1
    for rate_mbit, group in itertools.groupby(cells, key=lambda c: c["rate_mbit"]):
        with Network(2 + servers) as network:
            network.shape_all(rate_mbit)
            rate = results.calibrated(calibrate(network, rate_mbit, [2, *map(server_host, range(servers))]))
            with Cluster(network, lab.binaries, lab.directory / "cluster", servers) as cluster:
                for cell in group:
                    measure(spec, results, lab, cluster, cell, rate)


def measure(spec, results, lab, cluster, cell, rate):
    code, megabytes = Code.parse(cell["code"]), cell["megabytes"]
    source, target = lab.directory / "source", lab.directory / "target"
    digest = write_random(source, megabytes * MIB)
    samples = {"put": [], "get": []}
    for run_number in range(spec.runs):
        path = f"/transfer-{run_number}"
        samples["put"].append(seconds_of(cluster, "put", "--policy", cell["code"], source, path))
        samples["get"].append(seconds_of(cluster, "get", path, target))
        if digest_of(target) != digest:
            raise LabError(f"{path} differs from what was written")
        target.unlink()
        cluster.cli("rm", path)
    for what, floor_bytes in (("put", megabytes * MIB * code.chunks / code.k), ("get", megabytes * MIB)):
        row = {"series": what, "code": code.label(), "rate_mbit": cell["rate_mbit"], "megabytes": megabytes,
               "runs": spec.runs, "floor_seconds": floor_bytes / rate, **times(samples[what], megabytes * MIB / rate)}
        row["ratio_to_floor"] = row["median_seconds"] / row["floor_seconds"]
        results.add(row)
        lab.say(f"{what} {megabytes} MiB, {code.label()}: {row['median_seconds']:.2f} s, {row['ratio_to_floor']:.3f} x floor")
    results.save()
