"""A whole server is lost and everything it held is rebuilt, in network namespaces; then the same in simulation.

The time is from the begin of the first repair to the end of the last one, as the repair history has it.
"""

import json
import statistics
import subprocess
import time

from bounds import Code, server_loss_seconds
from calibration import calibrate
from cluster import MIB, Cluster, digest_of, server_host, write_random
from network import LabError, Network

LIMIT_SECONDS = 300


def run(spec, results, lab):
    for cell in spec.expanded_cells():
        servers, rate_mbit = cell["servers"], cell["rate_mbit"]
        with Network(2 + servers) as network:
            network.shape_all(rate_mbit)
            hosts = [server_host(n) for n in range(servers)]
            rate = results.calibrated(calibrate(network, rate_mbit, hosts))
            rows = [measure(network, lab, cell, mode, rate, hosts, run_number)
                    for run_number in range(spec.runs) for mode in spec.option("modes", ["joint"])]
        for mode in spec.option("modes", ["joint"]):
            mine = [row for row in rows if row["mode"] == mode]
            simulated = simulate(lab, cell, mode, rate, round(statistics.median(row["lost"] for row in mine)))
            ratio = statistics.median(row["ratio"] for row in mine)
            row = {"series": mode, "servers": servers, "code": Code.parse(cell["code"]).label(),
                   "chunk_mib": cell["chunk_mib"], "rate_mbit": rate_mbit, "runs": spec.runs,
                   "lost": [r["lost"] for r in mine], "seconds": [r["seconds"] for r in mine],
                   "median_seconds": statistics.median(r["seconds"] for r in mine), "ratio_to_bound": ratio,
                   "simulated_ratio_to_bound": simulated["ratio"], "simulated_lost": simulated["lost"],
                   "measured_to_simulated": ratio / simulated["ratio"]}
            results.add(row)
            lab.say(f"{mode}: {ratio:.3f} x bound measured, {simulated['ratio']:.3f} simulated, "
                    f"{row['measured_to_simulated']:.3f} of it")
        results.save()


def settings_of(mode, chunk_bytes):
    if mode == "joint":
        return {"repair.schedule": "joint"}
    return {"repair.schedule": "greedy", "repair.shape": mode}


def measure(network, lab, cell, mode, rate, hosts, run_number):
    code, chunk = Code.parse(cell["code"]), cell["chunk_mib"] * MIB
    settings = {"metaserver": {"repair.delay": "0s", "chunk_bytes": chunk, **settings_of(mode, chunk)}}
    network.shape_all(None)
    with Cluster(network, lab.binaries, lab.directory / f"{mode}-{run_number}", cell["servers"], settings,
                 link_rates={host: (rate, rate) for host in hosts}) as cluster:
        source, target = lab.directory / "source", lab.directory / "target"
        digest = write_random(source, cell["stripes"] * code.k * chunk)
        cluster.cli("put", "--policy", cell["code"], source, "/file")
        network.shape_all(cell["rate_mbit"])
        states = wait_for_counts(cluster, cell["stripes"] * code.chunks)
        victim = max(states.values(), key=lambda s: s["chunks"])
        lost = victim["chunks"]
        cluster.stop_chunkserver(victim["number"])
        records = wait_for_repairs(cluster, lost)
        network.shape_all(None)
        cluster.cli("get", "--replace", "/file", target)
        if digest_of(target) != digest:
            raise LabError("the file differs after the repairs")
    begin = min(r["started_ns"] for r in records) * 1e-9
    end = max(r["started_ns"] * 1e-9 + r["seconds"] for r in records)
    rates = [rate] * (cell["servers"] - 1)
    bound = server_loss_seconds(code.k, lost * chunk, chunk, rates, rates)
    lab.say(f"  {mode}: {lost} chunks in {end - begin:.2f} s, bound {bound:.2f} s")
    return {"mode": mode, "lost": lost, "seconds": end - begin, "ratio": (end - begin) / bound}


def wait_for_counts(cluster, chunks):
    """Servers, once their heartbeats have told of all chunks."""
    deadline = time.monotonic() + 30
    while True:
        states = cluster.servers()
        if sum(s["chunks"] for s in states.values()) >= chunks:
            return states
        if time.monotonic() > deadline:
            raise LabError(f"the servers do not report {chunks} chunks")
        time.sleep(0.3)


def wait_for_repairs(cluster, lost):
    deadline = time.monotonic() + LIMIT_SECONDS
    while True:
        records = [r for r in cluster.cli_json("repair", "history", "--limit", 1000)["repairs"] if r["outcome"] == "done"]
        if len(records) >= lost:
            return records
        if time.monotonic() > deadline:
            raise LabError(f"{len(records)} of {lost} repairs were done in {LIMIT_SECONDS} s")
        time.sleep(0.5)


def simulate(lab, cell, mode, rate, lost):
    code = Code.parse(cell["code"])
    arguments = ["--servers", cell["servers"], "--policy", f"rs-{code.k}-{code.parities}-1024k", "--chunk-mib",
                 cell["chunk_mib"], "--rate-mbit", rate * 8 / 1e6, "--lost", lost, "--modes", mode]
    done = subprocess.run([str(lab.binaries / "repair_simulation_bench"), *map(str, arguments)], capture_output=True, text=True)
    if done.returncode != 0:
        raise LabError(f"repair_simulation_bench: {done.stderr.strip()}")
    return json.loads(done.stdout)["results"][0]
