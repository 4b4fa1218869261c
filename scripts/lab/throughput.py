#!/usr/bin/env python3
"""CPU cost and time of put and get on one machine, over all processes together.

    scripts/lab/throughput.py [--mib 1024] [--runs 3] [--chunkservers 10] [--policy rs-6-3-1024k] [--out results.json]

CPU seconds are user and system time of the client and of every daemon, read from /proc before and after each transfer;
client memory is its peak resident set. Checksums are on and data is synced before put returns.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def run_measured(command, environment, daemons):
    """(wall seconds, CPU seconds of all processes, CPU seconds of the client, client peak MiB)."""
    before = sum(cpu_seconds(pid) for pid in daemons)
    start = time.monotonic()
    process = subprocess.Popen(command, env=environment)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.monotonic() - start
    if status != 0:
        raise RuntimeError(f"{' '.join(map(str, command))} failed with status {status}")
    client = usage.ru_utime + usage.ru_stime
    return seconds, client + sum(cpu_seconds(pid) for pid in daemons) - before, client, usage.ru_maxrss / 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--chunkservers", type=int, default=10)
    parser.add_argument("--policy", default="rs-6-3-1024k")
    parser.add_argument("--binaries", default=str(pathlib.Path(__file__).resolve().parents[2] / "build/release/bin"))
    parser.add_argument("--out", help="write the results here as JSON")
    arguments = parser.parse_args()
    kintsugi = str(pathlib.Path(arguments.binaries) / "kintsugi")

    with tempfile.TemporaryDirectory(prefix="kintsugi-throughput-") as directory:
        cluster = pathlib.Path(directory) / "cluster"
        subprocess.run([kintsugi, "cluster", "start", "--dir", cluster, "--chunkservers", str(arguments.chunkservers),
                        "--policy", arguments.policy], check=True, stdout=subprocess.DEVNULL)
        try:
            lines = subprocess.run(["sh", "-c", f". {cluster}/env; echo $KINTSUGI_META; echo $KINTSUGI_SECRET_FILE"],
                                   check=True, capture_output=True, text=True).stdout.split()
            environment = dict(os.environ, KINTSUGI_META=lines[0], KINTSUGI_SECRET_FILE=lines[1])
            daemons = [int(p.read_text().split()[0]) for p in sorted((cluster / "run").glob("*.pid"))]
            source = pathlib.Path(directory) / "source"
            with open(source, "wb") as out:
                for _ in range(arguments.mib):
                    out.write(os.urandom(1 << 20))
            results = {"put": [], "get": []}
            for run in range(arguments.runs):
                target = pathlib.Path(directory) / "target"
                results["put"].append(run_measured([kintsugi, "put", source, f"/file-{run}"], environment, daemons))
                results["get"].append(run_measured([kintsugi, "get", f"/file-{run}", target], environment, daemons))
                subprocess.run(["cmp", source, target], check=True)
                target.unlink()
                subprocess.run([kintsugi, "rm", f"/file-{run}"], env=environment, check=True)
        finally:
            subprocess.run([kintsugi, "cluster", "stop", "--dir", cluster], check=False, stdout=subprocess.DEVNULL)

    gib = arguments.mib / 1024
    document = {"policy": arguments.policy, "chunkservers": arguments.chunkservers, "mib": arguments.mib}
    for what, rows in results.items():
        wall, cpu, client, memory = (statistics.median(column) for column in zip(*rows))
        document[what] = {"seconds_per_gib": wall / gib, "cpu_seconds_per_gib": cpu / gib,
                          "client_cpu_seconds_per_gib": client / gib, "client_peak_mib": max(r[3] for r in rows),
                          "runs": rows}
        print(f"{what}: {wall / gib:.2f} s/GiB, {cpu / gib:.2f} CPU-s/GiB over all processes "
              f"({client / gib:.2f} in the client), client peak {max(r[3] for r in rows):.0f} MiB "
              f"(medians of {len(rows)}, CPU {min(r[1] for r in rows) / gib:.2f} to {max(r[1] for r in rows) / gib:.2f})")
    if arguments.out:
        pathlib.Path(arguments.out).write_text(json.dumps(document, indent=2) + "\n")


if __name__ == "__main__":
    main()
