#!/usr/bin/env python3
"""What sampling metrics, or the activity log, costs: the same operations of one cluster with it and without it, in turns.

    scripts/build.sh release kintsugi kintsugi-metaserver kintsugi-chunkserver kintsugi-repair-manager kintsugi-monitor
    scripts/lab/sampler_overhead.py build/release/bin [--pairs 10] [--mib 256] [--interval 100ms] [--dir /dev/shm] [--out FILE] [--activity]

With `--activity` the log of all daemons is turned on and off instead, for which all of them are started anew. The cluster has ten chunkservers, a metaserver, a repair manager and a monitor on one machine. A pair is put, get and repair with `metrics.record` off and
with it on, right after each other; pairs go ABBA. The monitor is started anew between them. Printed are, for each operation, the medians of time and of the
pairs' ratios (sampled / not sampled: above 1, it costs) with the interval in which that lies with 95 % (of order statistics). Run it alone on the machine.
"""

import argparse
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

from compare import Cluster, write_sources
from paired import order_of, report
from sight_overhead import transfers

OPERATIONS = ("put", "get", "repair")
WARM_SECONDS = 3  # a new monitor hears every process within this time


def set_sampler(cluster, interval):
    """Starts the monitor anew; `interval`: "" for no sampling."""
    config = cluster.directory / "etc" / "monitor.toml"
    kept = config.read_text().split("\n[metrics]")[0]
    metrics = f'record = true\ninterval = "{interval}"\n' if interval else "record = false\n"
    config.write_text(f"{kept}\n[metrics]\n{metrics}")
    pid = int((cluster.directory / "run" / "monitor.pid").read_text().split()[0])
    os.kill(pid, signal.SIGTERM)
    while pathlib.Path(f"/proc/{pid}").exists():
        time.sleep(0.02)
    subprocess.run([cluster.kintsugi, "cluster", "start", "--dir", cluster.directory], check=True, stdout=subprocess.DEVNULL)
    time.sleep(WARM_SECONDS)


def set_activity(cluster, on):
    """Starts all daemons anew, with their activity logs or without."""
    for config in (cluster.directory / "etc").glob("*.toml"):
        if config.name == "monitor.toml":  # it writes none
            continue
        kept = config.read_text().replace("activity_log = false\n", "")
        config.write_text(kept if on else "activity_log = false\n" + kept)
    subprocess.run([cluster.kintsugi, "cluster", "stop", "--dir", cluster.directory], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([cluster.kintsugi, "cluster", "start", "--dir", cluster.directory], check=True, stdout=subprocess.DEVNULL)
    time.sleep(WARM_SECONDS)


def sampler_state(cluster):
    """Rows, missed rows, and processor seconds of the sampler's thread since the monitor began."""
    address = json.loads((cluster.directory / "cluster.json").read_text())["monitor_http"]
    text = urllib.request.urlopen(f"http://{address}/metrics", timeout=10).read().decode()
    values = dict(line.rsplit(" ", 1) for line in text.splitlines() if line and not line.startswith("#"))
    return [float(values[f"kintsugi_monitor_{name}"])
            for name in ("metric_rows_total", "metric_rows_missed_total", "sampler_cpu_seconds_total", "metrics_recorded")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binaries")
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--mib", type=int, default=256)
    parser.add_argument("--interval", default="100ms")
    parser.add_argument("--dir", default="/dev/shm", help="where the cluster and files are (default: memory)")
    parser.add_argument("--activity", action="store_true", help="the activity log instead of the sampler")
    parser.add_argument("--out", help="write the results here as JSON")
    arguments = parser.parse_args()

    load = os.getloadavg()
    rows = {name: [] for name in OPERATIONS}
    sampled = []
    with tempfile.TemporaryDirectory(prefix="kintsugi-sampler-", dir=arguments.dir) as name:
        root = pathlib.Path(name)
        source, scratch = root / "source", root / "scratch"
        source.mkdir()
        scratch.mkdir()
        write_sources(source, arguments.mib, 0)
        cluster = Cluster(arguments.binaries, root / "cluster")
        cluster.daemons = []  # only wall time is wanted, and the monitor changes
        try:
            transfers(cluster, source, scratch, "warm")
            for pair in range(arguments.pairs):
                both = [None, None]
                for side in order_of(pair):
                    if arguments.activity:
                        set_activity(cluster, bool(side))
                        transfers(cluster, source, scratch, f"{pair}-{side}-warm")
                    else:
                        set_sampler(cluster, arguments.interval if side else "")
                    before, began = sampler_state(cluster), time.monotonic()
                    both[side] = transfers(cluster, source, scratch, f"{pair}-{side}")
                    if side:
                        after, took = sampler_state(cluster), time.monotonic() - began
                        sampled.append({"share": (after[2] - before[2]) / took, "rows": after[0] - before[0], "missed": after[1] - before[1],
                                        "columns": after[3]})
                for operation in OPERATIONS:
                    rows[operation].append((both[0][operation], both[1][operation]))
                print(f"pair {pair + 1} of {arguments.pairs}: put {both[1]['put'] / both[0]['put']:.3f}", file=sys.stderr, flush=True)
        finally:
            cluster.stop()
    document = {"interval": arguments.interval, "sampler": sampled, "load": load, **report(rows, ("without", "logged" if arguments.activity else "sampled"))}
    print(f"load of the machine before it began, over one and five minutes: {load[0]:.2f}, {load[1]:.2f}")
    share = statistics.median(one["share"] for one in sampled)
    print(f"the sampler's thread under load: {100 * share:.2f} % of a processor, {sampled[0]['columns']:.0f} columns, "
          f"{sum(one['rows'] for one in sampled):.0f} rows, {sum(one['missed'] for one in sampled):.0f} missed")
    if arguments.out:
        pathlib.Path(arguments.out).write_text(json.dumps(document, indent=2) + "\n")


if __name__ == "__main__":
    main()
