#!/usr/bin/env python3
"""One step forward, and the way back: a cluster in the format of the previous release works with the programs of now, which write to it
what that release reads, until it is finalized. What is kept of that release is made by scripts/lab/previous_fixture.py; previous.json says
which commit wrote the cluster: the release's, or an earlier one with the same format.

    previous_release_test.py BIN

The same with the programs of that release, under load and in all orders: scripts/lab/upgrade.py, which needs minutes to build them.
"""

import hashlib
import hmac
import json
import os
import pathlib
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import tomllib
import unittest

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE))

from daemons import CHUNKSERVERS, Daemons, stored_chunks  # noqa: E402
from messages import agreed  # noqa: E402

PREVIOUS = json.loads((HERE / "previous.json").read_text())
FORMAT, NEWEST = 3, 4  # of that release, and of this one (common/proto/formats.h)
MAGIC, PROTOCOL = 0x4753544B, 2  # of its handshake


class WhatBothSay(unittest.TestCase):
    def test_it_is_of_the_release_that_is_named(self):
        self.assertEqual((ROOT / "scripts/previous_release").read_text().strip(), PREVIOUS["commit"], "run scripts/lab/previous_fixture.py")

    def test_messages_calls_and_keys_are_only_added_to(self):
        now = set(agreed(ROOT))
        gone = [line for line in (HERE / "previous_agreed.txt").read_text().splitlines() if line not in now]
        self.assertEqual(gone, [], "the previous release sends and stores these")

    def test_its_settings_are_still_known(self):
        for program, settings in PREVIOUS["settings"].items():
            self.assertGreater(len(settings), 5, program)
            described = subprocess.run([BINARIES / program, "--describe"], check=True, capture_output=True, text=True).stdout
            known = {setting["key"] for setting in tomllib.loads(described)["settings"]}
            self.assertEqual(sorted(set(settings) - known), [], program)


def proof_of(secret, purpose, message):
    return hmac.digest(hmac.digest(secret, purpose, "sha256"), message, "sha256")


class Cluster(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = pathlib.Path(tempfile.mkdtemp(prefix="kintsugi-previous-"))
        cls.addClassCleanup(shutil.rmtree, cls.directory, ignore_errors=True)
        subprocess.run(["tar", "-C", cls.directory, "-xJf", HERE / "previous.tar.xz"], check=True)
        (cls.directory / "secret").chmod(0o600)
        cls.daemons = Daemons(BINARIES, cls.directory)
        cls.addClassCleanup(cls.daemons.kill)
        cls.daemons.start()
        # Files of chunks got another name once, which a start gives them.
        cls.written_then = stored_chunks(cls.directory)

    def content(self, path):
        return self.daemons.does_bytes("cat", path)

    def format_of_metadata(self):
        return json.loads(self.daemons.does("metadata", "status", "--json"))["format"]

    def formats_of_disks(self):
        """What the owner's file of each disk says, behind magic, CRC, server, cluster, mark and number (identity.cc)."""
        found = set()
        for name in CHUNKSERVERS:
            text = (self.directory / name / "server_id").read_bytes()
            at = 16 + 1 + text[16] + 16 + 4
            found.add(int.from_bytes(text[at:at + 4], "little"))
        return found

    def all_is_there(self):
        for path, digest in PREVIOUS["cluster_sha256"].items():
            self.assertEqual(hashlib.sha256(self.content(path)).hexdigest(), digest, path)
        self.assertEqual(self.daemons.does("ls", "/d/.snapshots/monday").count("ü"), 1)
        self.assertEqual(len(self.content("/d/.snapshots/monday/ü")), 40_000)
        self.assertIn("1000", self.daemons.does("quota", "show", "/d").replace(",", ""))
        self.assertIn("removed", self.daemons.does("trash", "list", "/gone"))
        self.daemons.does("fsck", "--deep", "/")

    def a_client_of_that_release_is_let_in(self):
        """Its handshake: magic, version, two zero bytes and a nonce; then proofs of the secret."""
        secret = bytes.fromhex((self.directory / "secret").read_text().strip())
        host, port = self.daemons.addresses["metaserver"][0].split(":")
        with socket.create_connection((host, int(port)), timeout=10) as connection:
            hello = struct.pack("<IHH", MAGIC, PROTOCOL, 0) + os.urandom(16)
            connection.sendall(hello)
            stream = connection.makefile("rb")
            answer, proof = stream.read(24), stream.read(32)
            self.assertEqual(struct.unpack("<IHH", answer[:8]), (MAGIC, PROTOCOL, 0))
            self.assertEqual(proof, proof_of(secret, b"handshake", b"server" + hello + answer))
            connection.sendall(proof_of(secret, b"handshake", b"client" + hello + answer))
            self.assertEqual(stream.read(1), b"\x01", "proven")

    def test_alarms_snapshots_and_metrics_that_its_monitor_kept_are_read(self):
        history = json.loads(self.daemons.does("diagnose", "--history", "--json"))["history"]
        self.assertIn(PREVIOUS["alarm"], [{key: raised[key] for key in PREVIOUS["alarm"]} for raised in history])
        with tempfile.TemporaryDirectory() as kept:
            subprocess.run(["tar", "-C", kept, "-xJf", HERE / "previous.tar.xz", "monitor"], check=True)
            def said(word):
                return subprocess.run([BINARIES / "kintsugi-monitor", word, f"{kept}/monitor"], check=True, capture_output=True, text=True).stdout
            snapshots = [json.loads(line) for line in said("analyse").splitlines()]
            self.assertGreater(max(each["processes"] for each in snapshots), len(CHUNKSERVERS))
            metrics = said("metrics").splitlines()
            self.assertGreater(int(re.match(r"(\d+) rows from ", metrics[0])[1]), 5)
            self.assertLessEqual({"metaserver", *CHUNKSERVERS}, set(metrics))

    def test_it_works_is_written_to_as_before_and_can_be_finalized(self):
        self.assertEqual(self.format_of_metadata(), FORMAT)
        self.all_is_there()
        self.a_client_of_that_release_is_let_in()

        # The same bytes again are the same chunks on disks, but for where they are. Each stripe that was written then has a twin.
        for path in PREVIOUS["cluster_sha256"]:
            (self.directory / "copy").write_bytes(self.content(path))
            self.daemons.does("put", self.directory / "copy", path + " again")
        refused = self.daemons.kintsugi("token", "create", "ann", "--role", "read", "--out", self.directory / "token")
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("kintsugi cluster finalize", refused.stderr)
        self.daemons.stop()
        written_now = stored_chunks(self.directory)
        self.assertGreater(len(self.written_then), 6)
        for chunk, texts in self.written_then.items():
            self.assertEqual(written_now[chunk], texts, f"chunk {chunk} was written in another form")
        self.assertLessEqual(self.formats_of_disks(), {0, FORMAT})

        self.daemons.start()
        self.assertEqual(self.format_of_metadata(), FORMAT, "a restart changes nothing")
        self.daemons.wait_until("finalized", lambda: self.daemons.kintsugi("cluster", "finalize").returncode == 0)
        self.assertEqual(self.format_of_metadata(), NEWEST)
        self.daemons.does("token", "create", "ann", "--role", "read", "--out", self.directory / "token")
        self.all_is_there()
        self.daemons.wait_until("disks have the format", lambda: self.formats_of_disks() == {NEWEST})


if __name__ == "__main__":
    BINARIES = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()
