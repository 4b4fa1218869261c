#!/usr/bin/env python3
"""The alerts and dashboards of deploy/monitoring.

    rules_test.py Targets     the list of daemons
    rules_test.py Texts       every alert has a unit test, a runbook and a line in the document; dashboards are what their script says
    rules_test.py Promtool    promtool accepts all expressions, and the unit tests pass; exits with 77 when promtool is not installed
"""

import http.server
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest

import yaml

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
MONITORING = ROOT / "deploy/monitoring"
sys.path[:0] = [str(MONITORING / "grafana"), str(ROOT / "tests/documents")]

import documents_test  # noqa: E402
import make_dashboards  # noqa: E402

RULES = MONITORING / "kintsugi.rules.yml"
TESTS = MONITORING / "kintsugi.rules_test.yml"
FEWEST_ALERTS = 20


def alerts():
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def promtool(*arguments):
    return subprocess.run(["promtool", *map(str, arguments)], capture_output=True, text=True)


class Promtool(unittest.TestCase):
    def test_alerts_are_accepted_and_they_are_raised_when_they_should_be(self):
        for arguments in (("check", "rules", RULES), ("test", "rules", TESTS)):
            done = promtool(*arguments)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_panels_are_accepted(self):
        rules = []
        for made in make_dashboards.dashboards().values():
            for panel in made["panels"]:
                for target in panel.get("targets", []):
                    expression = target["expr"].replace("$__rate_interval", "1m")
                    rules.append({"record": f"panel:{len(rules)}", "expr": expression})
        with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
            yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}, file)
            file.flush()
            done = promtool("check", "rules", file.name)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


class Texts(unittest.TestCase):
    def test_each_alert_has_a_time_at_which_it_is_raised_and_one_at_which_it_is_not(self):
        raised, quiet = set(), set()
        for case in yaml.safe_load(TESTS.read_text())["tests"]:
            for query in case.get("promql_expr_test", []):
                alert = re.match(r'ALERTS\{alertname="(\w+)", alertstate="firing"\}$', query["expr"])[1]
                self.assertEqual(alert, case["name"])
                (raised if query.get("exp_samples") else quiet).add(alert)
        names = {rule["alert"] for rule in alerts()}
        self.assertGreaterEqual(len(names), FEWEST_ALERTS)
        self.assertEqual(names, raised)
        self.assertEqual(names, quiet)

    def test_each_alert_leads_to_a_runbook_and_stands_in_the_document(self):
        document = (ROOT / "docs/monitoring.md").read_text()
        for rule in alerts():
            with self.subTest(alert=rule["alert"]):
                place, _, anchor = rule["annotations"]["runbook_url"].partition("#")
                self.assertTrue((ROOT / place).is_file(), place)
                if anchor:
                    self.assertIn(anchor, documents_test.anchors_of(ROOT / place))
                self.assertIn(rule["labels"]["severity"], ("critical", "warning"))
                row = f"| `{rule['alert']}` | {rule['labels']['severity']} |"
                self.assertIn(row, document)
        self.assertEqual(len(re.findall(r"^\| `Kintsugi\w+` \|", document, re.M)), len(alerts()), "docs/monitoring.md names others")

    def test_dashboards_are_what_their_script_says(self):
        for name, made in make_dashboards.dashboards().items():
            self.assertEqual(json.loads((MONITORING / f"grafana/{name}.json").read_text()), made,
                             "run deploy/monitoring/grafana/make_dashboards.py, and change panels only there")

    def test_panels_have_numbers_of_their_own_and_do_not_overlap(self):
        for made in make_dashboards.dashboards().values():
            taken = set()
            for panel in made["panels"]:
                place = panel["gridPos"]
                cells = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}
                self.assertFalse(taken & cells, panel["title"])
                self.assertLessEqual(place["x"] + place["w"], make_dashboards.WIDTH)
                taken |= cells
            self.assertEqual(len({panel["id"] for panel in made["panels"]}), len(made["panels"]))


class Targets(unittest.TestCase):
    """What kintsugi_targets.py makes of what a monitor says, without a cluster: tests/deploy/metrics_test.py has one."""

    def targets_of(self, servers):
        class Answer(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200)
                self.end_headers()
                self.wfile.write(json.dumps({"servers": servers}).encode())

            def log_message(self, *unused):
                pass

        with http.server.HTTPServer(("127.0.0.1", 0), Answer) as monitor:
            threading.Thread(target=monitor.serve_forever, daemon=True).start()
            done = subprocess.run([MONITORING / "kintsugi_targets.py", "--monitor", f"127.0.0.1:{monitor.server_port}", "--metaserver", "10.0.0.1:9601"],
                                  capture_output=True, text=True, check=True)
            monitor.shutdown()
        found = {each["labels"]["instance"]: each["targets"] for each in json.loads(done.stdout) if each["labels"]["daemon"] == "chunkserver"}
        return found, done.stderr

    def test_two_servers_of_one_name_are_told_apart_by_their_numbers(self):
        found, _ = self.targets_of([{"name": "blue-3", "number": 3, "address": "10.0.0.3:9602", "http": "10.0.0.3:9603"},
                                    {"name": "blue-3", "number": 7, "address": "10.0.0.4:9602", "http": "10.0.0.4:9603"},
                                    {"name": "blue-4", "number": 4, "address": "10.0.0.5:9602", "http": "10.0.0.5:9603"}])
        self.assertEqual(found, {"blue-3#3": ["10.0.0.3:9603"], "blue-3#7": ["10.0.0.4:9603"], "blue-4": ["10.0.0.5:9603"]})

    def test_pages_on_all_interfaces_are_fetched_where_the_server_is(self):
        found, _ = self.targets_of([{"name": "a", "number": 1, "address": "store-1:9602", "http": "0.0.0.0:9603"},
                                    {"name": "b", "number": 2, "address": "[fd00::2]:9602", "http": "[::]:9603"}])
        self.assertEqual(found, {"a": ["store-1:9603"], "b": ["[fd00::2]:9603"]})

    def test_a_server_without_pages_is_left_out_and_named(self):
        found, said = self.targets_of([{"name": "a", "number": 1, "address": "10.0.0.3:9602", "http": ""}])
        self.assertEqual(found, {})
        self.assertEqual(said, "kintsugi_targets: a has no http_listen and is left out: set it in its chunkserver.toml\n")


if __name__ == "__main__":
    if "Promtool" in sys.argv and not shutil.which("promtool"):
        print("promtool is not installed, so nobody has tried the alerts: scripts/install_deps.sh --check installs it")
        sys.exit(77)
    unittest.main()
