#!/usr/bin/env python3
"""How long a cluster takes to notice a killed server and to repair what it held, on one machine.

    scripts/lab/recovery.py [--mib 512] [--chunkservers 10] [--policy rs-6-3-1024k]

Prints, in seconds: from kill -9 to the metaserver's verdict "dead" (as its log has it), from the verdict to the start of the first
repair (as the repair history has it), and from the verdict until every stripe is whole.
"""

import argparse
import datetime
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time


def time_of_verdict(log):
    """Seconds since 1970; None: no server is dead so far."""
    for line in log.read_text().splitlines():
        if line.endswith(" is dead"):
            return datetime.datetime.strptime(line.split()[0], "%Y-%m-%dT%H:%M:%S.%f%z").timestamp()
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mib", type=int, default=512)
    parser.add_argument("--chunkservers", type=int, default=10)
    parser.add_argument("--policy", default="rs-6-3-1024k")
    parser.add_argument("--binaries", default=str(pathlib.Path(__file__).resolve().parents[2] / "build/release/bin"))
    arguments = parser.parse_args()
    kintsugi = str(pathlib.Path(arguments.binaries) / "kintsugi")

    with tempfile.TemporaryDirectory(prefix="kintsugi-recovery-") as directory:
        cluster = pathlib.Path(directory) / "cluster"
        subprocess.run([kintsugi, "cluster", "start", "--dir", cluster, "--chunkservers", str(arguments.chunkservers),
                        "--policy", arguments.policy, "--repair-delay", "0"], check=True, stdout=subprocess.DEVNULL)
        try:
            lines = subprocess.run(["sh", "-c", f". {cluster}/env; echo $KINTSUGI_META; echo $KINTSUGI_SECRET_FILE"],
                                   check=True, capture_output=True, text=True).stdout.split()
            environment = dict(os.environ, KINTSUGI_META=lines[0], KINTSUGI_SECRET_FILE=lines[1])

            def cli(*words, check=True):
                return subprocess.run([kintsugi, *words], env=environment, capture_output=True, text=True, check=check)

            source = pathlib.Path(directory) / "source"
            source.write_bytes(os.urandom(arguments.mib << 20))
            cli("put", str(source), "/source")
            victim = int((cluster / "run" / "chunkserver-2.pid").read_text().split()[0])
            os.kill(victim, signal.SIGKILL)
            killed = time.time()
            while (dead := time_of_verdict(cluster / "log" / "metaserver.log")) is None:
                time.sleep(0.02)
            while cli("fsck", "/", check=False).returncode != 0:
                time.sleep(0.05)
            whole = time.time()
            records = json.loads(cli("repair", "history", "--json").stdout)["repairs"]
            first = min(record["started_ns"] for record in records) / 1e9 - dead
            moved = sum(record["chunk_bytes"] for record in records)
        finally:
            subprocess.run([kintsugi, "cluster", "stop", "--dir", cluster], check=False, stdout=subprocess.DEVNULL)
    print(f"dead after {dead - killed:.1f} s; first repair {first * 1000:.1f} ms later; {len(records)} chunks, "
          f"{moved / (1 << 20):.0f} MiB whole again {whole - dead:.2f} s after the verdict")


if __name__ == "__main__":
    main()
