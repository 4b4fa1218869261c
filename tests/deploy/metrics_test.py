#!/usr/bin/env python3
"""Every metric that an alert or a dashboard of deploy/monitoring names is on some page of a live cluster, with the labels and values
that are used.

    metrics_test.py BIN

Starts a cluster of three servers with the programs in BIN, stores and reads a file, has one server compute for six seconds (so that
there is an alarm and a long turn), and reads the pages of all daemons that the metaserver lists at /sd. Where Prometheus is installed,
it scrapes them with deploy/monitoring/prometheus.yml, has to find every target up, and every panel has to show something.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

import yaml

sys.dont_write_bytecode = True
sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parents[2] / "scripts/lab")]

from expressions import Expression, labels_of_template  # noqa: E402
from own_addresses import own_address  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
MONITORING = ROOT / "deploy/monitoring"
PATIENCE_SECONDS = 120
SERVERS = 3
# What these show is not there now: no alert, alarm or error, and no program that runs.
QUIET_PANELS = {"Alerts", "Alarms of the monitor", "Alarms on clients", "Silent for", "Event loop blocked for",
                "Open operations and waits", "Requests that failed", "Turns above 20 ms"}
# Made by Prometheus itself.
MADE_BY_PROMETHEUS = {"up": {}, "ALERTS": {"alertname": "KintsugiDiskFailed", "alertstate": "firing", "severity": "warning"}}


def fetch(address, path="/metrics"):
    with urllib.request.urlopen(f"http://{address}{path}", timeout=10) as answer:
        return answer.read().decode()


def wait_for(what, condition):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.3)
    raise AssertionError(f"{what}: not within {PATIENCE_SECONDS} s")


def answer_of(prometheus, expression):
    """What Prometheus finds for the expression of a panel; nothing while it starts."""
    for variable, value in (("$cluster", "blue"), ("$servers", ".*"), ("$__rate_interval", "1m")):
        expression = expression.replace(variable, value)
    try:
        return json.loads(fetch(prometheus, "/api/v1/query?query=" + urllib.request.quote(expression)))["data"]["result"]
    except OSError:
        return []


def series_of(page):
    """The name and the labels of each series of a page."""
    for line in page.splitlines():
        if found := re.match(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})? ", line):
            labels = re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', found[2] or "")
            yield found[1], dict(labels)


class Cluster:
    def __init__(self, binaries, directory):
        self.binaries, self.directory = binaries, directory
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("KINTSUGI_")}
        self.manager = self.mounted = None

    def run(self, *arguments):
        done = subprocess.run([self.binaries / "kintsugi", *arguments], env=self.environment, capture_output=True, text=True)
        if done.returncode != 0:
            raise AssertionError(f"kintsugi {' '.join(map(str, arguments))}: {done.stderr.strip()}")
        return done.stdout

    def start(self):
        self.run("cluster", "start", "--dir", self.directory, "--chunkservers", str(SERVERS), "--racks", str(SERVERS), "--policy", "replication-3-1024k")
        described = json.loads((self.directory / "cluster.json").read_text())
        self.metaserver, self.monitor = described["metaserver_http"], described["monitor_http"]
        self.environment |= {"KINTSUGI_META": described["metaserver"], "KINTSUGI_SECRET_FILE": str(self.directory / "secret")}
        # This one has certificates.
        hosts = self.directory / "hosts.toml"
        hosts.write_text('policy = "replication-2-1024k"\n[hosts.here]\naddress = "10.0.0.1"\nroles = ["metaserver"]\n')
        self.run("cluster", "init", hosts, "--out", self.directory / "keys")
        tls = self.directory / "keys/hosts/here/tls"
        self.manager = subprocess.Popen(
            [self.binaries / "kintsugi-repair-manager", "--metaserver", described["metaserver"], "--secret-file", self.directory / "secret",
             "--http-listen", "127.0.0.1:0", "--log-file", self.directory / "log/asked-manager.log",
             "--tls-certificate", tls / "host.crt", "--tls-key", tls / "host.key", "--tls-authority", tls / "authority.crt"], env=self.environment)

    def stop(self):
        if self.mounted:
            subprocess.run(["umount", "-l", self.mounted], check=False)
        if self.manager:
            self.manager.terminate()
            self.manager.wait()
        self.run("cluster", "stop", "--dir", self.directory)

    def mount(self):
        """The cluster as a directory, with a file that is written and read there."""
        mounted = self.directory.parent / "mounted"
        mounted.mkdir()
        done = subprocess.run([self.binaries / "kintsugi-mount", mounted, "--log-file", self.directory / "log/mount.log"],
                              env=self.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        if done.returncode != 0:
            raise AssertionError(f"kintsugi-mount: {done.stderr.strip()}")
        self.mounted = mounted
        (mounted / "note").write_text("hello")
        (mounted / "note").read_text()

    def use(self):
        """Files are stored, read and not found; a server computes for six seconds, which is an alarm and a turn above 20 ms. Returns a
        program that reads a file and whose output nobody reads, so that it goes on."""
        data = self.directory / "file"
        data.write_bytes(os.urandom(3 << 20))
        self.run("mkdir", "/things")
        self.run("put", data, "/things/first")
        self.run("get", "--replace", "/things/first", self.directory / "copy")
        subprocess.run([self.binaries / "kintsugi", "stat", "/nothing"], env=self.environment, capture_output=True)
        self.run("server", "maintain", "chunkserver-2", "--for", "1h")
        self.run("fault", "set", "chunkserver-1", "disk-write", "cpu-loop", "--delay", "6", "--times", "1")
        self.run("put", data, "/things/second")
        return subprocess.Popen([self.binaries / "kintsugi", "cat", "/things/first"], env=self.environment, stdout=subprocess.PIPE)

    def targets(self):
        return json.loads(fetch(self.metaserver, "/sd"))


def rules():
    for group in yaml.safe_load((MONITORING / "kintsugi.rules.yml").read_text())["groups"]:
        yield from group["rules"]


def expressions():
    """Where each expression stands, itself, and the labels that the texts beside it show."""
    for rule in rules():
        shown = set().union(*(labels_of_template(text) for text in rule["annotations"].values()))
        yield rule["alert"], rule["expr"], shown
    for path in sorted((MONITORING / "grafana").glob("*.json")):
        for panel in json.loads(path.read_text())["panels"]:
            for target in panel.get("targets", []):
                yield f"{path.name}: {panel['title']}", target["expr"], labels_of_template(target["legendFormat"])


class LiveMetrics(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = pathlib.Path(tempfile.mkdtemp(prefix="kintsugi-metrics-"))
        cls.cluster = Cluster(BINARIES, cls.directory / "cluster")
        try:
            cls.cluster.start()
            cls.cluster.mount()
            program = cls.cluster.use()
            try:
                cls.passing = wait_for("the monitor has an alarm, and a program reports to it", cls.passing_now)
            finally:
                program.kill()
                program.communicate()
            cls.targets = wait_for("all daemons are targets", cls.all_targets)
            cls.series = cls.passing + [series for each in cls.targets for series in cls.series_at(each)]
        except BaseException:
            cls.tearDownClass()
            raise

    @classmethod
    def tearDownClass(cls):
        cls.cluster.stop()
        shutil.rmtree(cls.directory)

    @classmethod
    def all_targets(cls):
        """Those of the cluster, with two repair managers, once they have registered."""
        targets = cls.cluster.targets()
        return targets if len(targets) >= SERVERS + len(["metaserver", "monitor", "repair manager", "repair manager"]) else None

    @classmethod
    def series_at(cls, target):
        added = target["labels"] | {"job": "kintsugi", "cluster": "blue"}
        yield from ((name, made | added) for name, made in MADE_BY_PROMETHEUS.items())
        yield from ((name, labels | added) for name, labels in series_of(fetch(target["targets"][0])))

    @classmethod
    def passing_now(cls):
        """Series of the monitor that come and go, once there are an alarm, a mount and a program of a user at the same time."""
        monitor = {"targets": [cls.cluster.monitor], "labels": {"daemon": "monitor", "instance": "monitor"}}
        found = list(cls.series_at(monitor))
        has_alarm = any(name == "kintsugi_alarm" for name, _ in found)
        has_mount = any(name == "kintsugi_mount_requests_total" for name, _ in found)
        return found if has_alarm and has_mount and any(labels.get("kind") == "client" for _, labels in found) else None

    def is_there(self, selector):
        if selector.name == "kintsugi_alarm":
            # Which alarms there may be is said in a document; those that can be had within seconds are few.
            kinds = re.findall(r"^\| ([a-z ]+) \|", (ROOT / "docs/diagnosis.md").read_text(), re.M)
            allowed = {"kind": kinds, "confidence": ["certain", "likely", "unsure"], "masked": ["true", "false"]}
            selector = selector.without({name for name, values in allowed.items() if selector.literals.get(name) in values})
        return any(name == selector.name and selector.matches(labels) for name, labels in self.series)

    def test_every_daemon_is_a_target_and_answers(self):
        instances = [re.sub("@.*", "", each["labels"]["instance"]) for each in self.targets]
        self.assertEqual(sorted(instances), ["chunkserver-1", "chunkserver-2", "chunkserver-3", "metaserver", "monitor",
                                             "repair-manager", "repair-manager"])
        self.assertEqual(len({each["targets"][0] for each in self.targets}), len(self.targets))
        for each in self.targets:
            with self.subTest(instance=each["labels"]["instance"]):
                info = [labels for name, labels in series_of(fetch(each["targets"][0])) if name == "kintsugi_server_info"]
                self.assertEqual([labels["kind"] for labels in info], [each["labels"]["daemon"]])
                self.assertEqual(each["labels"].get("rack", ""), each["labels"]["instance"].replace("chunkserver-", "rack-")
                                 if each["labels"]["daemon"] == "chunkserver" else "")

    def test_every_daemon_says_what_it_was_built_from(self):
        said = [labels for name, labels in self.series if name == "kintsugi_build_info"]
        # The page of the monitor was read twice.
        self.assertEqual({labels["instance"] for labels in said}, {each["labels"]["instance"] for each in self.targets})
        version = subprocess.run([BINARIES / "kintsugi", "--version"], capture_output=True, text=True, check=True).stdout
        for labels in said:
            self.assertEqual(f"kintsugi {labels['version']}\n", version)
            self.assertRegex(labels["compiler"], r"^(clang|gcc) \d+\.")
            self.assertTrue(labels["commit"])

    def test_every_selector_finds_series(self):
        for where, expression, _ in expressions():
            for selector in Expression(expression).selectors:
                with self.subTest(where=where):
                    self.assertTrue(self.is_there(selector), f"no series of the cluster is {selector}")

    def test_every_label_that_is_shown_or_grouped_by_is_there(self):
        for where, text, shown in expressions():
            expression = Expression(text)
            metrics = {selector.name for selector in expression.selectors}
            known = {label for name, labels in self.series if name in metrics for label in labels}
            with self.subTest(where=where):
                self.assertFalse((expression.labels | shown) - known, f"labels that no series of {metrics} has")
                if expression.grouped is not None:
                    self.assertFalse(shown - expression.grouped, f"grouped by {expression.grouped}, so the others are empty")

    def test_a_daemon_that_died_stays_a_target(self):
        before = self.cluster.targets()
        manager = subprocess.Popen([BINARIES / "kintsugi-repair-manager", "--metaserver", self.cluster.environment["KINTSUGI_META"],
                                    "--secret-file", self.cluster.environment["KINTSUGI_SECRET_FILE"], "--http-listen", "127.0.0.1:0",
                                    "--log-file", self.directory / "third.log"], env=self.cluster.environment)
        try:
            after = wait_for("it is a target", lambda: len(now := self.cluster.targets()) > len(before) and now)
        finally:
            manager.kill()
            manager.wait()
        [new] = [each for each in after if each not in before]
        managers = r"^kintsugi_repair_managers (\d+)$"
        wait_for("the metaserver forgets it", lambda: re.search(managers, fetch(self.cluster.metaserver), re.M)[1] == "2")
        self.assertIn(new, self.cluster.targets())

    def test_prometheus_reaches_all_daemons_and_the_panels_show_something(self):
        if not shutil.which("prometheus"):
            self.skipTest("no Prometheus here: scripts/install_deps.sh --check installs it")
        directory, address = self.directory / "prometheus", own_address()
        directory.mkdir()
        (directory / "prometheus.yml").write_text((MONITORING / "prometheus.yml").read_text().replace("_interval: 15s", "_interval: 1s")
                                                .replace("10.0.0.1:9601", self.cluster.metaserver)
                                                .replace("replacement: kintsugi", "replacement: blue"))
        shutil.copy(MONITORING / "kintsugi.rules.yml", directory)
        with open(directory / "log", "w") as log:
            prometheus = subprocess.Popen(["prometheus", f"--config.file={directory}/prometheus.yml", f"--storage.tsdb.path={directory}/data",
                                           f"--web.listen-address={address}"], stdout=log, stderr=log)
        try:
            wait_for("all targets are up", lambda: len(answer_of(address, "up == 1")) == len(self.targets))
            self.cluster.run("put", self.cluster.directory / "file", "/things/third")
            panels = [(where, text) for where, text, _ in expressions() if ": " in where and where.split(": ")[1] not in QUIET_PANELS]
            wait_for("all panels show something", lambda: all(answer_of(address, text) for _, text in panels))
        except AssertionError as error:
            self.fail(f"{error}; empty: {[where for where, text, _ in expressions() if not answer_of(address, text)]}")
        finally:
            prometheus.terminate()
            prometheus.wait()


if __name__ == "__main__":
    BINARIES = pathlib.Path(sys.argv[1]).resolve()
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
