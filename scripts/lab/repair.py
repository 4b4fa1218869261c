#!/usr/bin/env python3
"""Repair and transfer times on shaped links, as ratios to the link rate measured in the same run.

    sudo scripts/lab/repair.py [--rate 200] [--runs 3] [--policy rs-6-3-1024k] [--out results.json]

Ten chunkservers, the metaserver and the client each get a network namespace whose link is shaped in both directions.
Prints one line a measurement and writes all of them as JSON.
"""

import argparse
import json
import math
import os
import pathlib
import statistics
import sys
import tempfile

from cluster import CLIENT, FIRST_CHUNKSERVER, Cluster
from network import Network, timed

MIB = 1 << 20


def repair_floor(shape, k):
    """Chunk transfer times (C/B) that the shape needs at least, as its goal is stated in docs/benchmarks.md."""
    return {"star": k, "ppr": math.ceil(math.log2(k + 1)), "chain": 1}[shape]


def measure_repairs(cluster, rate, runs, chunk_mib, k):
    """Rebuilds chunk 0 of a stripe of full chunks on a server that has none of it, with each shape in turn."""
    size = chunk_mib * k * MIB
    source = cluster.directory / "full-stripe"
    with open(source, "wb") as out:
        for _ in range(size // MIB):
            out.write(os.urandom(MIB))
    cluster.cli("put", source, "/full-stripe")
    stripe = cluster.cli_json("stat", "/full-stripe")["extents"][0]["stripe_id"]
    results = []
    for shape, slice_bytes in (("star", None), ("ppr", chunk_mib * MIB), ("chain", None)):
        seconds = []
        for _ in range(runs):
            extra = ["--slice", slice_bytes] if slice_bytes else []
            record = cluster.cli_json("repair", "run", "--chunk", f"{stripe}:0", "--shape", shape, *extra)
            seconds.append(record["seconds"])
        unit = chunk_mib * MIB / rate
        floor = repair_floor(shape, k)
        results.append({"what": f"repair {shape}", "slice_bytes": record["slice_bytes"], "seconds": seconds,
                        "median_seconds": statistics.median(seconds), "c_over_b_seconds": unit,
                        "times_c_over_b": statistics.median(seconds) / unit, "floor_times_c_over_b": floor,
                        "ratio_to_floor": statistics.median(seconds) / unit / floor})
    with timed() as elapsed:
        target = cluster.directory / "read-back"
        cluster.cli("get", "/full-stripe", target)
    if target.read_bytes() != source.read_bytes():
        raise RuntimeError("the file differs after the repairs")
    results.append({"what": "read back after repairs", "seconds": [elapsed[0]], "ok": True})
    return results


def measure_transfers(cluster, rate, runs, policy, megabytes):
    """put and get of one file against what the client's link allows."""
    k, m = (int(x) for x in policy.split("-")[1:3])
    source = cluster.directory / "transfer"
    source.write_bytes(os.urandom(megabytes * MIB))
    results = []
    puts, gets = [], []
    for run in range(runs):
        with timed() as t:
            cluster.cli("put", source, f"/transfer-{run}")
        puts.append(t[0])
        target = cluster.directory / f"transfer-{run}.back"
        with timed() as t:
            cluster.cli("get", f"/transfer-{run}", target)
        gets.append(t[0])
        target.unlink()
    for what, seconds, wire in (("put", puts, megabytes * MIB * (k + m) / k), ("get", gets, megabytes * MIB)):
        floor = wire / rate
        results.append({"what": what, "seconds": seconds, "median_seconds": statistics.median(seconds),
                        "floor_seconds": floor, "ratio_to_floor": statistics.median(seconds) / floor})
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=int, default=200, help="link rate of every host in Mbit/s")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--policy", default="rs-6-3-1024k")
    parser.add_argument("--chunk-mib", type=int, default=64)
    parser.add_argument("--transfer-mib", type=int, default=256)
    parser.add_argument("--binaries", default=str(pathlib.Path(__file__).resolve().parents[2] / "build/release/bin"))
    parser.add_argument("--out", help="write the results here as JSON")
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("repair.py: needs root for network namespaces")
    k, m = (int(x) for x in arguments.policy.split("-")[1:3])
    servers = k + m + 1

    with tempfile.TemporaryDirectory(prefix="kintsugi-lab-") as directory, \
            Network(FIRST_CHUNKSERVER + servers - 1, arguments.rate) as network:
        rates = [network.measure_link(a, b) for a, b in ((CLIENT, 3), (3, 4), (5, CLIENT))]
        rate = statistics.median(rates)
        print(f"link: {rate * 8 / 1e6:.1f} Mbit/s measured (TCP payload), {arguments.rate} Mbit/s shaped", flush=True)
        with Cluster(network, arguments.binaries, directory, servers, arguments.policy) as cluster:
            results = measure_transfers(cluster, rate, arguments.runs, arguments.policy, arguments.transfer_mib)
            results += measure_repairs(cluster, rate, arguments.runs, arguments.chunk_mib, k)
    for result in results:
        if "ratio_to_floor" in result:
            print(f"{result['what']:<14} median {result['median_seconds']:7.2f} s   "
                  f"{result['ratio_to_floor']:.3f} x floor", flush=True)
    if arguments.out:
        document = {"rate_mbit": arguments.rate, "measured_bytes_per_second": rate, "policy": arguments.policy,
                    "chunk_mib": arguments.chunk_mib, "runs": arguments.runs, "results": results}
        pathlib.Path(arguments.out).write_text(json.dumps(document, indent=2) + "\n")


if __name__ == "__main__":
    main()
