"""A whole server is lost and everything it held is rebuilt, in network namespaces; then the same in simulation.

The time is from the begin of the first repair to the end of the last one, as the repair history has it.
"""

import json
import statistics
import subprocess
import time

from bounds import Code, server_loss_seconds
from calibration import calibrate
from cluster import MIB, Cluster, check_binaries, digest_of, server_host, write_random
from network import LabError, Network

LIMIT_SECONDS = 300


def run(spec, results, lab):
    check_binaries(lab.binaries, ["repair_simulation_bench"])
    modes = spec.option("modes", ["joint"])
    for cell in spec.expanded_cells():
        servers, rate_mbit = cell["servers"], cell["rate_mbit"]
        with Network(2 + servers) as network:
            network.shape_all(rate_mbit)
            hosts = [server_host(n) for n in range(servers)]
            rate = results.calibrated(calibrate(network, rate_mbit, hosts))
            rows = [measure(network, lab, cell, mode, rate, hosts, run_number)
                    for run_number in range(spec.runs) for mode in modes]
        for row in rows:
            row["simulated"] = simulate(lab, cell, row, rate)
        for mode in modes:
            mine = [row for row in rows if row["mode"] == mode]
            ratios = [row["seconds"] / row["simulated"]["seconds"] for row in mine]
            row = {"series": mode, "servers": servers, "code": Code.parse(cell["code"]).label(),
                   "chunk_mib": cell["chunk_mib"], "rate_mbit": rate_mbit, "runs": spec.runs,
                   "ratio_to_bound": statistics.median(r["ratio"] for r in mine),
                   "simulated_ratio_to_bound": statistics.median(r["simulated"]["ratio"] for r in mine),
                   "measured_to_simulated": statistics.median(ratios), "measured_to_simulated_of_runs": ratios,
                   "of_runs": mine}
            results.add(row)
            lab.say(f"{mode}: {row['ratio_to_bound']:.3f} x bound measured, {row['simulated_ratio_to_bound']:.3f} simulated, "
                    f"{row['measured_to_simulated']:.3f} of it ({', '.join(f'{r:.3f}' for r in ratios)})")
        results.save()


def settings_of(mode):
    if mode == "joint":
        return {"repair.schedule": "joint"}
    return {"repair.schedule": "greedy", "repair.shape": mode}


def measure(network, lab, cell, mode, rate, hosts, run_number):
    code, chunk = Code.parse(cell["code"]), cell["chunk_mib"] * MIB
    settings = {"metaserver": {"repair.delay": "0s", "chunk_bytes": chunk},
                "repair-manager": settings_of(mode)}
    network.shape_all(None)
    with Cluster(network, lab.binaries, lab.directory / f"{mode}-{run_number}", cell["servers"], settings,
                 link_rates={host: (rate, rate) for host in hosts}) as cluster:
        source, target = lab.directory / "source", lab.directory / "target"
        digest = write_random(source, cell["stripes"] * code.k * chunk)
        cluster.cli("put", "--policy", cell["code"], source, "/file")
        network.shape_all(cell["rate_mbit"])
        states = wait_for_counts(cluster, cell["stripes"] * code.chunks)
        victim = max(states, key=lambda server: states[server]["chunks"])
        lost = states[victim]["chunks"]
        numbers = {server: i for i, server in enumerate(sorted(states, key=int))}
        placement = placement_of(cluster, numbers, victim)
        cluster.stop_chunkserver(states[victim]["number"])
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
    return {"mode": mode, "lost": lost, "seconds": end - begin, "ratio": (end - begin) / bound, "placement": placement,
            "repairs": [repair_text(r, begin, numbers) for r in records]}


def repair_text(record, begin, numbers):
    """As repair_simulation_bench prints them with KINTSUGI_SIM_RECORDS=1."""
    helpers = " ".join(str(numbers[h]) for h in record["helpers"])
    return (f"{record['started_ns'] * 1e-9 - begin:.3f} +{record['seconds']:.3f} s, {record['outcome']}, {record['shape']} in "
            f"slices of {record['slice_bytes']}, to {numbers[record['destination']]}, from {helpers}")


def placement_of(cluster, numbers, victim):
    """The lines that repair_simulation_bench --placement reads."""
    lines = [f"lost {numbers[victim]}"]
    for stripe in dict.fromkeys(e["stripe_id"] for e in cluster.cli_json("stat", "/file")["extents"]):
        chunks = sorted(cluster.cli_json("stripe", "show", stripe)["chunks"], key=lambda c: c["index"])
        lines.append("stripe " + " ".join(str(numbers[c["server_id"]]) for c in chunks))
    return lines


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
        history = cluster.cli_json("repair", "history", "--limit", 1000)["repairs"]
        records = [r for r in history if r["outcome"] == "done" and r["kind"] == "repair"]
        if len(records) >= lost:
            return records
        if time.monotonic() > deadline:
            raise LabError(f"{len(records)} of {lost} repairs were done in {LIMIT_SECONDS} s")
        time.sleep(0.5)


def simulate(lab, cell, row, rate):
    """The same chunks on the same servers, the same one lost."""
    placement = lab.directory / "placement"
    placement.write_text("\n".join(row["placement"]) + "\n")
    arguments = ["--servers", cell["servers"], "--policy", cell["code"], "--chunk-mib", cell["chunk_mib"],
                 "--rate-mbit", rate * 8 / 1e6, "--modes", row["mode"], "--placement", placement]
    done = subprocess.run([str(lab.binaries / "repair_simulation_bench"), *map(str, arguments)], capture_output=True, text=True)
    if done.returncode != 0:
        raise LabError(f"repair_simulation_bench: {done.stderr.strip()}")
    return json.loads(done.stdout)["results"][0]
