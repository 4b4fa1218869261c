#!/usr/bin/env python3
"""What random overwrites cost a file's readers, and what compaction gives back.

    scripts/lab/compaction.py [--rounds 3] [--mib 1024] [--writes 100000] [--bin build/release/bin] [--dir DIRECTORY]

A cluster of ten chunkservers (rs-6-3-1024k) and its mount are made below DIRECTORY. A file is written and read cold; so many random
blocks of 4 KiB are overwritten, and it is read cold again at once, and once compaction has come to rest. Printed are rates, extents, and
how long it took until the space of overwritten bytes was back. Every read is compared with what was written.
"""

import argparse
import hashlib
import json
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import tempfile
import time

from compare import Cluster
from mount import drop_caches

PART = 1 << 20


def read_cold(path):
    """(MB/s, digest)"""
    drop_caches()
    digest, count = hashlib.blake2b(), 0
    parts = []
    began = time.time()
    f = os.open(path, os.O_RDONLY)
    while part := os.read(f, PART):
        parts.append(part)
        count += len(part)
    took = time.time() - began
    os.close(f)
    for part in parts:
        digest.update(part)
    return count / 1e6 / took, digest.hexdigest()


def layout(cluster, path):
    return len(json.loads(cluster.output("stat", path, "--json"))["extents"])


def stored(cluster):
    return json.loads(cluster.output("df", "--json"))["stored_bytes"]


def one_round(cluster, mount, number, arguments):
    path, name = mount / f"file-{number}", f"/file-{number}"
    content = bytearray(os.urandom(arguments.mib << 20))
    with open(path, "wb", buffering=0) as out:
        for at in range(0, len(content), PART):
            out.write(content[at:at + PART])
        os.fsync(out.fileno())
    whole, _ = read_cold(path)
    before = stored(cluster)
    rng = random.Random(number)
    began = time.time()
    f = os.open(path, os.O_WRONLY)
    for _ in range(arguments.writes):
        at = rng.randrange(len(content) // 4096) * 4096
        block = rng.randbytes(4096)
        content[at:at + 4096] = block
        os.pwrite(f, block, at)
    os.fsync(f)
    os.close(f)
    wrote = time.time()
    wanted = hashlib.blake2b(content).hexdigest()
    extents = layout(cluster, name)
    scattered, digest = read_cold(path)
    if digest != wanted:
        raise SystemExit("the scattered file has other bytes than were written")
    peak, last, back = stored(cluster), None, None
    while time.time() - wrote < 180:
        now = stored(cluster)
        peak = max(peak, now)
        if back is None and now <= before * 1.02:
            back = time.time() - wrote
        count = layout(cluster, name)
        if last == count and back is not None and count < extents / 10:
            break
        last = count
        time.sleep(2)
    compacted, digest = read_cold(path)
    if digest != wanted:
        raise SystemExit("the compacted file has other bytes than were written")
    path.unlink()
    if last is None:
        last = extents
    return {"written": whole, "scattered": scattered, "compacted": compacted, "extents": extents, "extents after": last,
            "writes/s": arguments.writes / (wrote - began), "peak": peak / before, "space back, s": back}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--writes", type=int, default=100_000)
    parser.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("build/release/bin"))
    parser.add_argument("--dir", type=pathlib.Path, default=pathlib.Path("."))
    arguments = parser.parse_args()
    work = pathlib.Path(tempfile.mkdtemp(prefix="compaction-", dir=arguments.dir)).resolve()
    cluster = Cluster(arguments.bin.resolve(), work / "cluster")
    (work / "mnt").mkdir()
    rounds = []
    try:
        subprocess.run([arguments.bin.resolve() / "kintsugi-mount", work / "mnt", "--log-file", work / "mount.log"],
                       env=cluster.environment, check=True)
        for number in range(arguments.rounds):
            rounds.append(one_round(cluster, work / "mnt", number, arguments))
            print(json.dumps(rounds[-1]), flush=True)
    finally:
        subprocess.run(["umount", work / "mnt"], check=False)
        cluster.stop()
        shutil.rmtree(work, ignore_errors=True)
    print("\n| | median |\n| --- | --- |")
    for name in ("written", "scattered", "compacted"):
        share = statistics.median(each[name] / each["written"] for each in rounds)
        print(f"| read cold, {name}, MB/s | {statistics.median(each[name] for each in rounds):.0f} ({share:.2f}) |")
    for name in ("extents", "extents after", "space back, s"):
        values = [each[name] for each in rounds if each[name] is not None]
        print(f"| {name} | {statistics.median(values):.0f} |" if values else f"| {name} | never |")


if __name__ == "__main__":
    main()
