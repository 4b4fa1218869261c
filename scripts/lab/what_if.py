#!/usr/bin/env python3
"""What `kintsugi repair what-if` says of a loss, beside what the loss then takes: a cluster in network namespaces with links of a limited rate.

    sudo scripts/lab/what_if.py [--servers 12] [--racks 4] [--lose rack] [--rate-mbit 100] [--policy rs-4-2-1024k] [--chunk-mib 8] [--stripes 50]
                                [--runs 3] [--dir DIRECTORY] [--binaries build/release/bin] [--other KINTSUGI] [--out FILE]

Each run makes a cluster, writes one file, asks what would be if a rack (or a server: --lose server) died now, kills its servers at once by their
process ids, and waits until all is redundant again. Times count from the kill; "repair" counts from the begin of the first repair. When half, 90 %
and all of the lost bytes are rebuilt follows from the repair history, with the bytes of a repair spread evenly over its time, as the forecast does.
The forecast is of the cluster as it is: it knows where all chunks lie. `--other` asks a second `kintsugi` for its forecast at the same moment, so that
two versions are compared on the same losses.
Needs root and iproute2. A machine that is short of processor makes repairs slower than their links: see `processor`, the share of the machine that
was busy meanwhile.
"""

import argparse
import json
import pathlib
import statistics
import time

from calibration import calibrate
from cluster import MIB, Cluster, check_binaries, digest_of, server_host, write_random
from disks import directory_for_disks
from kinds.loss import repair_text, wait_for_counts
from network import LabError, Network

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIMIT_SECONDS = 600
IDLE_SHARE = 0.002  # of a link
PARTS = {"half": 0.5, "most": 0.9}
SHOWN = {"begins": "first repair", "half": "half", "most": "90 %", "all": "all", "repair": "repair alone"}


def busy_and_all():
    """Processor time of the machine since its start: what was used, and all."""
    fields = [int(word) for word in pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return sum(fields) - fields[3] - fields[4], sum(fields)


def forecast(cluster, arguments, lost, program=None):
    words = ["--rack", lost] if arguments.lose == "rack" else ["--server", lost]
    answer = cluster.cli_json("repair", "what-if", *words, "--budget", "0", program=program)
    times = {name: answer[f"{name}_seconds"] for name in ("begins", "half", "most", "all")}
    if None in times.values():
        raise LabError(f"the forecast has no end: {answer['waiting_chunks']:.0f} chunks wait")
    times["repair"] = times["all"] - times["begins"]
    return times, answer


def wait_until_idle(cluster, rate):
    """Servers, once their heartbeats tell of no users any more: a forecast leaves those their part of the links."""
    deadline = time.monotonic() + LIMIT_SECONDS
    while True:
        states = cluster.servers()
        if all(s["user_bytes_per_second"] < IDLE_SHARE * rate for s in states.values()):
            return states
        if time.monotonic() > deadline:
            raise LabError("the servers tell of users still")
        time.sleep(1)


def wait_for_repairs(cluster, chunks):
    deadline = time.monotonic() + LIMIT_SECONDS
    while True:
        history = cluster.cli_json("repair", "history", "--limit", 1000)["repairs"]
        records = [r for r in history if r["outcome"] == "done" and r["kind"] == "repair"]
        done = sum(len(r["indexes"]) for r in records)
        if done >= chunks:
            return records, len([r for r in history if r["outcome"] == "failed"])
        if time.monotonic() > deadline:
            raise LabError(f"{done} of {chunks} chunks were rebuilt in {LIMIT_SECONDS} s")
        time.sleep(1)


def bytes_at(records, when):
    """Bytes that were rebuilt by then."""
    done = 0
    for record in records:
        begin = record["started_ns"] * 1e-9
        part = min(1, max(0, (when - begin) / max(1e-9, record["seconds"])))
        done += part * record["chunk_bytes"] * len(record["indexes"])
    return done


def measured(records, killed):
    begin = min(r["started_ns"] for r in records) * 1e-9
    end = max(r["started_ns"] * 1e-9 + r["seconds"] for r in records)
    times = {"begins": begin - killed, "all": end - killed, "repair": end - begin}
    whole = bytes_at(records, end)
    for name, part in PARTS.items():
        low, high = begin, end
        while high - low > 1e-3:
            middle = (low + high) / 2
            low, high = (middle, high) if bytes_at(records, middle) < part * whole else (low, middle)
        times[name] = high - killed
    return times


def run_once(network, arguments, directory, number, rate):
    k = int(arguments.policy.split("-")[1])
    chunk = arguments.chunk_mib * MIB
    hosts = [server_host(n) for n in range(arguments.servers)]
    settings = {"metaserver": {"repair.delay": "0s", "chunk_bytes": chunk}}
    network.shape_all(None)
    with Cluster(network, arguments.binaries, directory / f"cluster-{number}", arguments.servers, settings,
                 link_rates={host: (rate, rate) for host in hosts}, racks=arguments.racks) as cluster:
        source, target = directory / "source", directory / "target"
        digest = write_random(source, arguments.stripes * k * chunk)
        cluster.cli("put", "--policy", arguments.policy, source, "/file")
        source.unlink()
        network.shape_all(arguments.rate_mbit)
        stripes = len(dict.fromkeys(e["stripe_id"] for e in cluster.cli_json("stat", "/file")["extents"]))
        states = wait_for_counts(cluster, stripes)
        states = wait_until_idle(cluster, rate)
        racks = sorted({state["rack"] for state in states.values()})
        lost = racks[number % len(racks)]
        dying = [state for state in states.values() if state["rack"] == lost]
        if arguments.lose == "server":
            dying = dying[:1]
            lost = dying[0]["name"]
        foretold, answer = forecast(cluster, arguments, lost)
        foretold_by_other = forecast(cluster, arguments, lost, arguments.other)[0] if arguments.other else None
        used, all_used = busy_and_all()
        killed = time.time()
        for state in dying:
            cluster.processes[f"chunkserver-{state['number']}"].kill()
        for state in dying:
            cluster.stop_chunkserver(state["number"])
        records, failed = wait_for_repairs(cluster, answer["chunks"])
        times = measured(records, killed)
        busy = busy_and_all()
        network.shape_all(None)
        if cluster.cli("fsck", "/", check=False).returncode != 0:
            raise LabError("fsck finds chunks that are missing after the repairs")
        cluster.cli("get", "/file", target)
        if digest_of(target) != digest:
            raise LabError("the file differs after the repairs")
        target.unlink()
    begin = min(r["started_ns"] for r in records) * 1e-9
    numbers = {server: state["number"] for server, state in states.items()}
    return {"repairs": [repair_text(r, begin, numbers) for r in records], "lost": lost, "chunks": answer["chunks"], "bytes": answer["bytes"], "method": answer["method"],
            "placement": answer["assumptions"]["placement"], "foretold": foretold, "foretold_by_other": foretold_by_other, "measured": times, "failed_attempts": failed,
            "rate_bytes_per_second": rate, "processor": (busy[0] - used) / (busy[1] - all_used)}


def say(run):
    other = run["foretold_by_other"]
    both = ", ".join(f"{SHOWN[name]} {run['measured'][name]:.1f} ({run['foretold'][name]:.1f} foretold" +
                     (f", {other[name]:.1f} by the other)" if other else ")") for name in SHOWN)
    print(f"{run['lost']}: {run['chunks']:.0f} chunks, {run['bytes'] / MIB:.0f} MiB, {run['method']}, places {run['placement']}: {both}; "
          f"processor {100 * run['processor']:.0f} %, {run['failed_attempts']} attempts failed", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--servers", type=int, default=12)
    parser.add_argument("--racks", type=int, default=4)
    parser.add_argument("--lose", choices=("rack", "server"), default="rack")
    parser.add_argument("--rate-mbit", type=int, default=100)
    parser.add_argument("--policy", default="rs-4-2-1024k")
    parser.add_argument("--chunk-mib", type=int, default=8)
    parser.add_argument("--stripes", type=int, default=50)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--dir", help="where the disks of the hosts are put (default: in 12 GiB of memory)")
    parser.add_argument("--binaries", default=str(ROOT / "build/release/bin"))
    parser.add_argument("--other", help="another kintsugi, whose forecast is compared, too")
    parser.add_argument("--out", help="file for the runs, as JSON")
    arguments = parser.parse_args()
    try:
        check_binaries(arguments.binaries)
        runs = []
        with directory_for_disks(arguments.dir) as directory, Network(2 + arguments.servers) as network:
            network.shape_all(arguments.rate_mbit)
            hosts = [server_host(n) for n in range(arguments.servers)]
            rate = calibrate(network, arguments.rate_mbit, hosts)["bytes_per_second"]
            for number in range(arguments.runs):
                runs.append(run_once(network, arguments, pathlib.Path(directory), number, rate))
                say(runs[-1])
                if arguments.out:
                    pathlib.Path(arguments.out).write_text(json.dumps({"arguments": vars(arguments), "runs": runs}, indent=1))
    except LabError as error:
        raise SystemExit(f"what_if: {error}") from None
    for name, text in SHOWN.items():
        measured_seconds = statistics.median(run["measured"][name] for run in runs)
        for which in ("foretold", "foretold_by_other") if arguments.other else ("foretold",):
            ratios = [run["measured"][name] / run[which][name] for run in runs]
            print(f"{text:<14} {measured_seconds:7.2f} s measured, {statistics.median(run[which][name] for run in runs):7.2f} s {which}; "
                  f"measured / {which} {statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})")


if __name__ == "__main__":
    main()
