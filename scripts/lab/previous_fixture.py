#!/usr/bin/env python3
"""Makes what tests/upgrade keeps of the previous release: a small cluster that it wrote, and what it says of messages and settings.

    scripts/lab/previous_fixture.py SOURCE    its work tree with its programs, as scripts/build_previous.sh makes it

To be run when scripts/previous_release names another commit; the outcome is committed.
"""

import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
UPGRADE = ROOT / "tests/upgrade"
sys.path.insert(0, str(UPGRADE))

from daemons import CHUNKSERVERS, NAMES, Daemons, flags_of, kind  # noqa: E402
from messages import agreed  # noqa: E402


def pattern(name, size):
    """Bytes that are the same each time, and compress well enough."""
    piece = b"".join(hashlib.sha256(f"{name} {number}".encode()).digest() for number in range(128))
    return (piece * (size // len(piece) + 1))[:size]


# One of each way in which bytes are kept: in the metadata, in segments, in files of their own, in several stripes.
FILES = {"/empty": 0, "/inline": 700, "/small": 30_000, "/d/one stripe": 5_000_000, "/d/ü": 40_000, "/two stripes": 150_000_000 // 8}


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


def main():
    source = pathlib.Path(sys.argv[1]).resolve()
    binaries = source / "build/release/bin"
    commit = subprocess.run(["git", "-C", source, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        directory = pathlib.Path(directory)
        (directory / "secret").write_text(hashlib.sha256(b"previous release").hexdigest() + "\n")
        (directory / "secret").chmod(0o600)
        for name in ("metaserver", *CHUNKSERVERS, "monitor"):
            (directory / name).mkdir()
        daemons = Daemons(binaries, directory)
        try:
            daemons.start()
            files = fill(daemons, directory)
            daemons.stop()
        finally:
            daemons.kill()
        settings = {kind(name): sorted(flags_of(binaries / f"kintsugi-{kind(name)}")) for name in (*NAMES, "mount")}
        (UPGRADE / "previous.json").write_text(json.dumps({"commit": commit, "sha256": files, "settings": settings}, indent=1, ensure_ascii=False) + "\n")
        (UPGRADE / "previous_agreed.txt").write_text("\n".join(agreed(source)) + "\n")
        subprocess.run(["tar", "--sparse", "--sort=name", "--owner=0", "--group=0", "--exclude=LOG*", "--exclude=OPTIONS-*", "-C", directory, "-cJf", UPGRADE / "previous.tar.xz",
                        "secret", "metaserver", *CHUNKSERVERS, "monitor"], check=True, env=os.environ | {"XZ_OPT": "-9e"})


if __name__ == "__main__":
    if len(sys.argv) != 2:
        print(__doc__.strip(), file=sys.stderr)
        sys.exit(2)
    main()
