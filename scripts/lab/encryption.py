#!/usr/bin/env python3
"""Transfers with TLS against transfers without it, in turns, between hosts in network namespaces. Needs root.

    scripts/lab/encryption.py [--mib 256] [--pairs 5] [--chunkservers 5] [--policy rs-3-2-1024k] [--rate MBIT] [--dir DIR] [--out results.json]

Both clusters run all the time on the same hosts, with disks in memory unless --dir names a place. Wall time and the processor time of
the client and all daemons together are told. --rate limits each host's link; without it the processors are the limit.
"""

import argparse
import json
import pathlib
import subprocess
import tempfile
import time

from cluster import CLIENT, Cluster, check_binaries, digest_of, server_host, write_random
from disks import directory_for_disks
from network import LabError, Network
from paired import order_of, report
from throughput import cpu_seconds

SIDES = ("without", "with TLS")


def measured(cluster, *command):
    """Wall seconds, and CPU seconds of all processes together."""
    before, start = cluster.cpu_seconds(), time.monotonic()
    process = cluster.network.start(CLIENT, "sh", "-c", '"$@" && cut -d" " -f16,17 /proc/$$/stat', "sh", cluster.binaries / "kintsugi",
                                    *command, env=cluster.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    out, error = process.communicate()
    seconds = time.monotonic() - start
    if process.returncode != 0:
        raise LabError(f"kintsugi {' '.join(map(str, command))}: {error.strip()}")
    client = sum(map(int, out.split()[-2:])) / 100
    return seconds, client + cluster.cpu_seconds() - before


def pair_of(clusters, pair, source, digest, scratch):
    """For each operation the two sides, each as wall and CPU seconds."""
    both = {"put": [None, None], "get": [None, None]}
    for side in order_of(pair):
        cluster = clusters[side]
        both["put"][side] = measured(cluster, "put", source, f"/file-{pair}")
        target = scratch / f"fetched-{side}"
        both["get"][side] = measured(cluster, "get", f"/file-{pair}", target)
        if digest_of(target) != digest:
            raise LabError("what was fetched is not what was stored")
        target.unlink()
        cluster.cli("rm", f"/file-{pair}")
    return both


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mib", type=int, default=256)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--chunkservers", type=int, default=5)
    parser.add_argument("--policy", default="rs-3-2-1024k")
    parser.add_argument("--rate", type=float, metavar="MBIT")
    parser.add_argument("--binaries", default=str(pathlib.Path(__file__).resolve().parents[2] / "build/release/bin"))
    parser.add_argument("--dir", help="where the disks are; default: in memory")
    parser.add_argument("--out", help="write the results here as JSON")
    arguments = parser.parse_args()
    check_binaries(arguments.binaries)
    settings = {"metaserver": {"policy": arguments.policy}}
    walls, cpus = {"put": [], "get": []}, {"put": [], "get": []}
    with tempfile.TemporaryDirectory(prefix="kintsugi-encryption-") as scratch, directory_for_disks(arguments.dir) as disks, \
            Network(server_host(arguments.chunkservers) - 1) as network:
        network.shape_all(arguments.rate)
        scratch, disks = pathlib.Path(scratch), pathlib.Path(disks)
        source = scratch / "source"
        digest = write_random(source, arguments.mib << 20)
        clusters = [Cluster(network, arguments.binaries, disks / f"side-{side}", arguments.chunkservers, settings={"metaserver": dict(settings["metaserver"])},
                            ports=7400 + 100 * side, tls=side == 1) for side in (0, 1)]
        with clusters[0], clusters[1]:
            pair_of(clusters, 0, source, digest, scratch)  # warms up
            for pair in range(arguments.pairs):
                for operation, (first, second) in pair_of(clusters, pair + 1, source, digest, scratch).items():
                    walls[operation].append((first[0], second[0]))
                    cpus[operation].append((first[1], second[1]))
    print(f"{arguments.mib} MiB, {arguments.policy}, {arguments.chunkservers} chunkservers, "
          f"{'no limit' if arguments.rate is None else f'{arguments.rate:g} Mbit/s'} on links")
    print("wall time")
    document = {"wall": report(walls, SIDES)}
    print("processor time of all processes")
    document["cpu"] = report(cpus, SIDES)
    for operation in walls:
        print(f"{operation}: {1 / document['wall'][operation]['ratio']:.2f} of the rate without TLS")
    if arguments.out:
        pathlib.Path(arguments.out).write_text(json.dumps(document, indent=2) + "\n")


if __name__ == "__main__":
    main()
