#!/usr/bin/env python3
"""What the daemons of a local cluster hold in memory: fresh, after a put, under load, and once they rest.

    scripts/lab/memory.py [--binaries build/release/bin] [--gib 4] [--chunkservers 10] [--rest 130] [--out results.json]

Resident memory (RSS) and private dirty memory from /proc/PID/smaps_rollup, MiB: of the chunkservers (median and most), the
metaserver and the repair manager. RSS counts the program and its libraries, which all processes share, for each of them. "During"
is the most that was seen. Memory goes back in steps of a minute, and what is in the cache of chunks after `cache.keep`, which is
--rest seconds here instead of ten minutes; --no-keep-setting leaves that out, for builds that do not have the setting.
"""

import argparse
import json
import os
import pathlib
import resource
import statistics
import subprocess
import tempfile
import threading
import time

MIB = 1 << 20


def memory(pid):
    """(RSS, private dirty) in MiB."""
    fields = {}
    for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]:
        name, value = line.split(":")
        fields[name] = int(value.split()[0]) / 1024
    return fields["Rss"], fields["Private_Dirty"]


def median_and_most(rows):
    return statistics.median(rows), max(rows)


class Peak(threading.Thread):
    """The most that each process was seen to hold while the block ran."""

    def __init__(self, pids):
        super().__init__(daemon=True)
        self.most = {pid: (0, 0) for pid in pids}
        self.ended = threading.Event()

    def run(self):
        while not self.ended.wait(0.05):
            for pid, most in self.most.items():
                self.most[pid] = tuple(map(max, most, memory(pid)))

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.join()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binaries", default=str(pathlib.Path(__file__).resolve().parents[2] / "build/release/bin"))
    parser.add_argument("--gib", type=int, default=4)
    parser.add_argument("--chunkservers", type=int, default=10)
    parser.add_argument("--rest", type=int, default=130, help="seconds of rest before the figures that are called so")
    parser.add_argument("--creates", type=int, default=100_000, help="of empty files, for the metaserver")
    parser.add_argument("--keep-setting", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--dir", help="where the cluster and the files are; default: a temporary directory")
    parser.add_argument("--out", help="write the results here as JSON")
    arguments = parser.parse_args()
    kintsugi = str(pathlib.Path(arguments.binaries) / "kintsugi")
    rows = []

    with tempfile.TemporaryDirectory(prefix="kintsugi-memory-", dir=arguments.dir) as name:
        root = pathlib.Path(name)
        cluster = root / "cluster"
        start = [kintsugi, "cluster", "start", "--dir", cluster, "--chunkservers", str(arguments.chunkservers)]
        stop = [kintsugi, "cluster", "stop", "--dir", cluster]
        subprocess.run(start, check=True, stdout=subprocess.DEVNULL)
        try:
            if arguments.keep_setting:
                subprocess.run(stop, check=True, stdout=subprocess.DEVNULL)
                for config in (cluster / "etc").glob("chunkserver-*.toml"):
                    config.write_text(config.read_text() + f'cache.keep = "{arguments.rest}s"\n')
                subprocess.run(start, check=True, stdout=subprocess.DEVNULL)
            values = subprocess.run(["sh", "-c", f". {cluster}/env; echo $KINTSUGI_META; echo $KINTSUGI_SECRET_FILE"],
                                    check=True, capture_output=True, text=True).stdout.split()
            environment = dict(os.environ, KINTSUGI_META=values[0], KINTSUGI_SECRET_FILE=values[1])
            pids = {p.stem: int(p.read_text().split()[0]) for p in (cluster / "run").glob("*.pid")}

            def take(what, figures=None):
                figures = figures or {pid: memory(pid) for pid in pids.values()}
                servers = [figures[pid] for daemon, pid in pids.items() if daemon.startswith("chunkserver")]
                (rss, most_rss), (dirty, most_dirty) = (median_and_most(column) for column in zip(*servers))
                meta, manager = figures[pids["metaserver"]], figures[pids["repair-manager-1"]]
                rows.append({"when": what, "chunkserver_rss": rss, "chunkserver_rss_most": most_rss, "chunkserver_dirty": dirty,
                             "chunkserver_dirty_most": most_dirty, "metaserver_rss": meta[0], "metaserver_dirty": meta[1],
                             "repair_manager_rss": manager[0], "repair_manager_dirty": manager[1]})
                print(f"{what:30} chunkserver {rss:5.1f} (most {most_rss:5.1f}), private dirty {dirty:5.1f}; "
                      f"metaserver {meta[0]:5.1f}, {meta[1]:5.1f}; repair manager {manager[0]:4.1f}, {manager[1]:4.1f}",
                      flush=True)

            def run(*words):
                with Peak(pids.values()) as peak:
                    subprocess.run([kintsugi, *map(str, words)], env=environment, check=True, stdout=subprocess.DEVNULL)
                return peak.most

            source = root / "source"
            with open(source, "wb") as out:
                for _ in range(256):
                    out.write(os.urandom(MIB))
            time.sleep(3)
            take("fresh")
            take("during a put of 256 MiB", run("put", source, "/first"))
            take("right after it")
            time.sleep(arguments.rest)
            take(f"{arguments.rest} s later")
            with open(source, "ab") as out:
                for _ in range(1024 - 256):
                    out.write(os.urandom(MIB))
            most = {pid: (0, 0) for pid in pids.values()}
            for i in range(arguments.gib):
                seen = run("put", source, f"/file-{i}")
                most = {pid: tuple(map(max, most[pid], seen[pid])) for pid in most}
            for i in range(arguments.gib):
                seen = run("get", f"/file-{i}", root / "target")
                most = {pid: tuple(map(max, most[pid], seen[pid])) for pid in most}
                (root / "target").unlink()
            take(f"during put and get of {arguments.gib} GiB", most)
            take("right after it")
            take(f"during {arguments.creates} creates", run("bench", "metadata", "--operations", arguments.creates))
            time.sleep(2 * arguments.rest)
            take(f"{2 * arguments.rest} s later")
        finally:
            subprocess.run(stop, check=False, stdout=subprocess.DEVNULL)
    print(f"client, the most of all calls: {resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024:.0f}")
    if arguments.out:
        pathlib.Path(arguments.out).write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
