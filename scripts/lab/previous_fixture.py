#!/usr/bin/env python3
"""Makes what tests/upgrade keeps of the previous release: a small cluster that it wrote, and what it says of messages and settings.

    scripts/lab/previous_fixture.py SOURCE [CLUSTER]   its work tree, as scripts/build_previous.sh makes it

CLUSTER: a work tree whose programs write the cluster, when those of SOURCE are not built: of an earlier commit with the same format. To be
run when scripts/previous_release names another commit; the outcome is committed.
"""

import hashlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
UPGRADE = ROOT / "tests/upgrade"
sys.path.insert(0, str(UPGRADE))

from daemons import CHUNKSERVERS, NAMES, Daemons, kind  # noqa: E402
from messages import agreed  # noqa: E402


def pattern(name, size):
    """Bytes that are the same each time, and compress well enough."""
    piece = b"".join(hashlib.sha256(f"{name} {number}".encode()).digest() for number in range(128))
    return (piece * (size // len(piece) + 1))[:size]


# One of each way in which bytes are kept: in the metadata, in segments, in files of their own.
FILES = {"/empty": 0, "/inline": 700, "/small": 30_000, "/d/in files": 3_000_000, "/d/ü": 40_000, "/large one": 12_345_678}


def fill(daemons, source):
    daemons.does("mkdir", "/d")
    daemons.does("mkdir", "/gone")
    for path, size in FILES.items():
        (source / "file").write_bytes(pattern(path, size))
        daemons.does("put", source / "file", path)
    daemons.does("snapshot", "create", "/d", "monday")
    daemons.does("rm", "/d/ü")
    daemons.does("quota", "set", "/d", "--files", "1000")
    daemons.does("trash", "set", "/gone", "--retention", "7d")
    daemons.does("put", source / "file", "/gone/removed")
    daemons.does("rm", "/gone/removed")
    return {path: hashlib.sha256(pattern(path, size)).hexdigest() for path, size in FILES.items() if path != "/d/ü"}


# Of an alarm, what a later release still has to say.
KEPT_OF_ALARM = ("id", "kind", "server", "process_kind", "confidence", "why", "raised_unix_s", "cleared_unix_s")


def alarm(daemons):
    """Has the monitor raise an alarm and clear it, so that it keeps what it does then; returns what it says of it."""
    manager = daemons.processes["repair-manager"]
    manager.send_signal(signal.SIGSTOP)
    try:
        daemons.wait_until("an alarm", lambda: json.loads(daemons.kintsugi("diagnose", "--json").stdout)["verdicts"])
    finally:
        manager.send_signal(signal.SIGCONT)
    def history():
        return json.loads(daemons.kintsugi("diagnose", "--history", "--json").stdout)["history"]
    daemons.wait_until("it is cleared", history)
    [raised] = history()
    return {key: raised[key] for key in KEPT_OF_ALARM}


def commit_of(source):
    return subprocess.run(["git", "-C", source, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()


def settings_of(source):
    """The keys of each program's settings, by its document of them."""
    found, program = {}, None
    for line in (source / "docs/reference/settings.md").read_text().splitlines():
        if heading := re.fullmatch(r"## .*\b(kintsugi-[a-z-]+)`?", line):
            program = found.setdefault(heading[1], [])
        elif key := re.match(r"\| `([a-z0-9_.]+)` \|", line):
            program.append(key[1])
    return found


def write_cluster(source):
    """Has the programs of `source` write the cluster that is kept; returns which files it has, and its alarm."""
    binaries = source / "build/release/bin"
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        directory = pathlib.Path(directory)
        (directory / "secret").write_text(hashlib.sha256(b"previous release").hexdigest() + "\n")
        (directory / "secret").chmod(0o600)
        stored = ("metaserver", *CHUNKSERVERS, "monitor")
        for name in stored:
            (directory / name).mkdir()
        daemons = Daemons(binaries, directory, [name for name in NAMES if (binaries / f"kintsugi-{kind(name)}").exists()], activity_logs=True)
        try:
            daemons.start()
            files = fill(daemons, directory)
            raised = alarm(daemons)
            daemons.stop()
        finally:
            daemons.kill()
        logs = sorted(path.name for path in directory.glob("*.activity.log"))
        # Files of RocksDB that it does without, and that say where the cluster was.
        subprocess.run(["tar", "--sparse", "--sort=name", "--owner=0", "--group=0", "--exclude=LOG*", "--exclude=OPTIONS-*", "-C", directory,
                        "-cJf", UPGRADE / "previous.tar.xz", "secret", *stored, *logs], check=True, env=os.environ | {"XZ_OPT": "-9e"})
    return files, raised


def main():
    source = pathlib.Path(sys.argv[1]).resolve()
    writer = pathlib.Path(sys.argv[-1]).resolve()
    files, raised = write_cluster(writer)
    said = {"commit": commit_of(source), "settings": settings_of(source), "cluster_commit": commit_of(writer), "cluster_sha256": files, "alarm": raised}
    (UPGRADE / "previous.json").write_text(json.dumps(said, indent=1, ensure_ascii=False) + "\n")
    (UPGRADE / "previous_agreed.txt").write_text("\n".join(agreed(source)) + "\n")


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        print(__doc__.strip(), file=sys.stderr)
        sys.exit(2)
    main()
