#!/usr/bin/env python3
"""The steps of docs/getting-started-several-machines.md on network namespaces: keys, checks, the first file, a host more, new certificates.

    several_machines_test.py BIN    exits with 77 without root or `ip`
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts/lab"))

from network import Network  # noqa: E402

GUIDE = ROOT / "docs/getting-started-several-machines.md"
ETC = pathlib.Path("/etc/kintsugi")
STATE = pathlib.Path("/var/lib/kintsugi")
PATIENCE_SECONDS = 30
BINARIES = None
# Reads the page /sd at an address as Prometheus does, with a token, and the metrics of every target.
SCRAPE = """
import base64, json, ssl, sys, urllib.error, urllib.request
address, etc = sys.argv[1:]
context = ssl.create_default_context(cafile=f"{etc}/tls/authority.crt")
token = open(f"{etc}/token").read().strip()
def status(url, context, authorization, method="GET"):
    request = urllib.request.Request(url, headers={"Authorization": authorization} if authorization else {}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=10, context=context) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode()
def read(url):
    code, text = status(url, context, "Bearer " + token)
    assert code == 200, (url, code, text)
    return text
# A token is enough and needed, whether or not there is a certificate; a client's opens nothing but the clock and the health.
with_certificate = ssl.create_default_context(cafile=f"{etc}/tls/authority.crt")
with_certificate.load_cert_chain(f"{etc}/tls/host.crt", f"{etc}/tls/host.key")
basic = "Basic " + base64.b64encode(b"anybody:" + token.encode()).decode()
changed = "Bearer " + token[:-1] + ("0" if token[-1] != "0" else "1")
for page, shown, authorization, code in (("/metrics", context, "", 401), ("/metrics", with_certificate, "", 401), ("/metrics", context, basic, 200),
                                         ("/healthz", context, "", 401), ("/healthz", with_certificate, "", 200), ("/debug/settings", with_certificate, "", 401),
                                         ("/debug/settings", context, basic, 200), ("/debug/settings", context, changed, 401)):
    got = status(f"https://{address}{page}", shown, authorization)
    assert got[0] == code, (page, authorization, got)
targets = json.loads(read(f"https://{address}/sd"))
for each in targets:
    assert "kintsugi_build_info" in read(each["labels"]["__scheme__"] + "://" + each["targets"][0] + "/metrics")
# What the console changes is asked for over TLS with a token of the role admin, which the metaserver takes from the monitor's host.
monitor = next(each["targets"][0] for each in targets if each["labels"]["daemon"] == "monitor")
for authorization, code in (("", 401), (basic, 401), (changed, 401), ("Bearer " + token, 404)):
    got = status(f"https://{monitor}/api/v1/actions/drain?server=1", context, authorization, "POST")
    assert got[0] == code, (authorization, got)
print(json.dumps([each["labels"] for each in targets]))
"""


def described_hosts():
    """The hosts of the guide."""
    return tomllib.loads(re.search(r"```toml\n(# hosts.toml.*?)```", GUIDE.read_text(), re.S)[1])


def toml_of(hosts):
    lines = [f'policy = "{hosts["policy"]}"']
    for name, host in hosts["hosts"].items():
        lines += [f"[hosts.{name}]", *(f"{key} = {json.dumps(value)}" for key, value in host.items())]
    return "\n".join(lines) + "\n"


class SeveralMachines(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.made = [path for path in (ETC, STATE) if not path.exists()]
        for path in cls.made:
            path.mkdir()
        cls.directory = pathlib.Path(tempfile.mkdtemp(prefix="kintsugi-machines-"))
        cls.processes = {}
        cls.network = Network(6)
        cls.network.__enter__()
        cls.hosts = described_hosts()
        cls.numbers = {name: number for number, name in enumerate(cls.hosts["hosts"], 1)}
        for name, host in cls.hosts["hosts"].items():
            host["address"] = cls.network.address(cls.numbers[name])
            host["disks"] = cls.disks_of(name, host)
            if not host["disks"]:
                del host["disks"]
        cls.file = cls.directory / "hosts.toml"
        cls.keys = cls.directory / "keys"

    @classmethod
    def tearDownClass(cls):
        for process in cls.processes.values():
            process.kill()
            process.wait()
        cls.network.__exit__(None, None, None)
        shutil.rmtree(cls.directory, ignore_errors=True)
        for path in cls.made:
            path.rmdir()

    @classmethod
    def disks_of(cls, name, host):
        disks = [cls.directory / name / pathlib.Path(disk).name for disk in host.get("disks", ())]
        for disk in disks:
            disk.mkdir(parents=True)
        return [str(disk) for disk in disks]

    def init(self, *options):
        self.file.write_text(toml_of(self.hosts))
        done = subprocess.run([BINARIES / "kintsugi", "cluster", "init", self.file, "--out", self.keys, *options], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def on(self, name, *command):
        """The command line that runs on a host, with its files and its state where the guide has them."""
        state = self.directory / name / "state"
        state.mkdir(parents=True, exist_ok=True)
        script = f'mount --bind {self.keys}/hosts/{name} {ETC} && mount --bind {state} {STATE} && . {ETC}/env && exec "$@"'
        return self.network.command(self.numbers[name], "sh", "-c", script, "sh", BINARIES / command[0], *command[1:])

    def run_on(self, name, *command):
        return subprocess.run(self.on(name, *command), capture_output=True, text=True, timeout=120)

    def start(self, name, daemon):
        program = "kintsugi-" + daemon.removesuffix("-1")
        with open(self.directory / f"{name}-{daemon}.log", "ab") as log:
            self.processes[name, daemon] = subprocess.Popen(self.on(name, program, "--config", f"{ETC}/{daemon}.toml"), stdout=log, stderr=log)

    def findings(self, name):
        done = self.run_on(name, "kintsugi", "cluster", "check", "--json")
        found = json.loads(done.stdout)["findings"]
        self.assertEqual([each for each in found if each["verdict"] == "problem"], [], done.stderr)
        self.assertEqual(done.returncode, 0, done.stderr)
        return " ".join(each["says"] for each in found)

    def makes_a_token_for_the_client(self):
        """Which has no secret, and is told what it lacks."""
        of_desk = self.keys / "hosts/desk-1"
        self.assertFalse((of_desk / "secret").exists())
        checked = self.run_on("desk-1", "kintsugi", "cluster", "check")
        self.assertEqual(checked.returncode, 1)
        self.assertIn("make one on the metaserver's host, kintsugi token create", checked.stdout)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            made = self.run_on("meta-1", "kintsugi", "token", "create", "desk-1", "--role", "admin", "--no-squash", "--out", STATE / "desk-1.token")
            if made.returncode == 0:
                break
            self.assertLess(time.monotonic(), deadline, made.stderr)
            time.sleep(0.2)
        (self.directory / "meta-1/state/desk-1.token").rename(of_desk / "token")
        self.assertIn("the metaserver's clock is 0.0 s", self.findings("desk-1"))

    def wait_for_stores(self, count):
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            done = self.run_on("desk-1", "kintsugi", "server", "list", "--json")
            alive = [server for server in json.loads(done.stdout)["servers"] if server["liveness"] == "alive"] if done.returncode == 0 else []
            if len(alive) >= count:
                return
            if time.monotonic() > deadline:
                logs = "\n".join(f"{path.name}: {path.read_text()[-400:]}" for path in sorted(self.directory.glob("*.log")))
                self.fail(f"{len(alive)} of {count} chunkservers came up: {done.stderr}\n{logs}")
            time.sleep(0.2)

    def certificate_on(self, name):
        """Whose certificate a host shows at the port of its chunkserver, and since when it is valid."""
        address = self.hosts["hosts"][name]["address"]
        # Without a certificate of its own the client is refused afterwards.
        done = subprocess.run(self.network.command(self.numbers["desk-1"], "openssl", "s_client", "-connect", f"{address}:9602"),
                              input="", capture_output=True, text=True, timeout=30)
        certificate = re.search(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", done.stdout, re.S)
        self.assertTrue(certificate, done.stderr)
        return certificate[0]

    def monitoring_finds_all(self, stores):
        meta = self.network.address(self.numbers["meta-1"])
        done = subprocess.run(self.network.command(self.numbers["desk-1"], sys.executable, "-c", SCRAPE, f"{meta}:9601",
                                                   self.keys / "hosts/desk-1"), capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        labels = json.loads(done.stdout)
        self.assertEqual(sorted(each["daemon"] for each in labels), ["chunkserver"] * len(stores) + ["metaserver", "monitor", "repair-manager"])
        racks = {each["instance"]: each["rack"] for each in labels if each["daemon"] == "chunkserver"}
        self.assertEqual(racks, {name: self.hosts["hosts"][name]["rack"] for name in stores})

    def doctor_finds_nothing_wrong(self):
        """And what it collects has neither secret nor key."""
        out = self.directory / "doctor.tar.gz"
        done = self.run_on("meta-1", "kintsugi", "doctor", "--json", "--out", out)
        found = json.loads(done.stdout)["findings"]
        self.assertEqual([each for each in found if each["verdict"] == "problem"], [], done.stderr)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(any(each["says"].startswith("all daemons run 0.") for each in found), found)
        with tarfile.open(out) as archive:
            texts = {each.name: archive.extractfile(each).read() for each in archive}
        self.assertIn(b"kintsugi_chunkserver_chunks", texts["kintsugi-doctor/daemons/store-1/metrics"])
        of_host = self.keys / "hosts/meta-1"
        secrets = (of_host / "secret").read_bytes().split() + (of_host / "tls/host.key").read_bytes().split(b"\n")[1:-2]
        self.assertGreaterEqual(len(secrets), 2)
        for name, text in texts.items():
            self.assertFalse([each for each in secrets if each in text], name)

    def port_zero_is_refused(self):
        """Which nobody could know: it is another one after each start."""
        for name, daemon, key in (("store-2", "chunkserver-1", "listen"), ("store-2", "chunkserver-1", "http_listen"),
                                  ("store-2", "chunkserver-1", "metaserver"), ("meta-1", "metaserver", "listen")):
            path = self.keys / f"hosts/{name}/{daemon}.toml"
            good = path.read_text()
            changed, count = re.subn(rf'^({key} *= *".*:)\d+"', r'\g<1>0"', good, flags=re.M)
            self.assertEqual(count, 1, good)
            path.write_text(changed)
            done = self.run_on(name, "kintsugi", "cluster", "check", "--json")
            path.write_text(good)
            problems = [each for each in json.loads(done.stdout)["findings"] if each["verdict"] == "problem"]
            self.assertEqual([(each["on"], each["says"].split(":")[0]) for each in problems], [(daemon, key)])
            self.assertIn("port 0" if key == "metaserver" else "is another port after each start", problems[0]["says"])

    def test_the_steps_of_the_guide(self):
        self.init()
        stores = [name for name in self.hosts["hosts"] if name.startswith("store")]
        self.assertIn("does not answer, which is in order before it is started", self.findings("store-1"))
        for daemon in ("metaserver", "repair-manager", "monitor"):
            self.start("meta-1", daemon)
        for name in stores:
            self.start(name, "chunkserver-1")
        self.makes_a_token_for_the_client()
        self.wait_for_stores(len(stores))
        after = self.findings("store-1")
        self.assertIn("the metaserver's clock is 0.0 s", after)
        self.assertIn("is in use: the daemon runs", after)

        source = self.directory / "source"
        source.write_bytes(os.urandom(5 << 20))
        stored = self.run_on("desk-1", "kintsugi", "put", source, "/file")
        self.assertEqual(stored.returncode, 0, stored.stderr)
        fetched = self.run_on("store-2", "kintsugi", "get", "/file", self.directory / "fetched")
        self.assertEqual(fetched.returncode, 0, fetched.stderr)
        self.assertEqual((self.directory / "fetched").read_bytes(), source.read_bytes())

        self.monitoring_finds_all(stores)
        self.doctor_finds_nothing_wrong()

        # A host more.
        self.numbers["store-4"] = len(self.numbers) + 1
        host = {"address": self.network.address(self.numbers["store-4"]), "rack": "rack-d", "disks": ["/disk-1"]}
        host["disks"] = self.disks_of("store-4", host)
        self.hosts["hosts"]["store-4"] = host
        self.assertIn("of 1 host:", self.init("--add"))
        self.findings("store-4")
        self.start("store-4", "chunkserver-1")
        self.wait_for_stores(len(stores) + 1)

        # New certificates, without a restart.
        before = self.certificate_on("store-1")
        self.init("--renew")
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self.certificate_on("store-1") == before:
            self.assertLess(time.monotonic(), deadline, "the daemon still shows the former certificate")
            time.sleep(1)
        self.assertEqual(self.run_on("desk-1", "kintsugi", "fsck", "/").returncode, 0)

        self.port_zero_is_refused()

        # Two daemons of a host with one address.
        host = self.keys / "hosts/store-2"
        shutil.copy(host / "chunkserver-1.toml", host / "chunkserver-2.toml")
        done = self.run_on("store-2", "kintsugi", "cluster", "check")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("listen: chunkserver-1 listens at", done.stdout)
        (host / "chunkserver-2.toml").unlink()

        # A host of another cluster is told why it is refused.
        foreign = self.directory / "foreign"
        subprocess.run([BINARIES / "kintsugi", "cluster", "init", self.file, "--out", foreign], check=True, stdout=subprocess.DEVNULL)
        shutil.rmtree(self.keys / "hosts/desk-1/tls")
        shutil.copytree(foreign / "hosts/desk-1/tls", self.keys / "hosts/desk-1/tls")
        refused = self.run_on("desk-1", "kintsugi", "ls", "/")
        self.assertEqual(refused.returncode, 1)
        self.assertIn("is of another authority than this cluster's", refused.stderr)
        self.assertEqual(refused.stderr.count("\n"), 1)


if __name__ == "__main__":
    BINARIES = pathlib.Path(sys.argv.pop(1)).resolve()
    if os.geteuid() != 0 or not shutil.which("ip"):
        print("needs root and `ip`")
        sys.exit(77)
    unittest.main()
