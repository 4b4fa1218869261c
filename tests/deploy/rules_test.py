#!/usr/bin/env python3
"""The alerts and dashboards of deploy/monitoring.

    rules_test.py Texts       every alert has a unit test, a runbook and a line in the document; dashboards are what their script says
    rules_test.py Promtool    promtool accepts all expressions, and the unit tests pass; exits with 77 when promtool is not installed
"""

import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
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

    def test_the_configuration_is_accepted_with_and_without_tls(self):
        text = (MONITORING / "prometheus.yml").read_text()
        secure = re.sub(r"# ( *(?:tls_config|ca_file|authorization|credentials_file):)", r"\1", text).replace("http://", "https://")
        self.assertEqual((secure.count("*authority"), secure.count("*token")), (1, 1))
        with tempfile.TemporaryDirectory() as directory:
            where = pathlib.Path(directory)
            shutil.copy(RULES, where)
            for name in ("authority.crt", "token"):
                (where / name).touch()
            for each in (text, secure.replace("/etc/prometheus/kintsugi/", f"{directory}/")):
                (where / "prometheus.yml").write_text(each)
                self.assertEqual("tls_config" in str(yaml.safe_load(each)["scrape_configs"]), each != text)
                done = promtool("check", "config", where / "prometheus.yml")
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


if __name__ == "__main__":
    if "Promtool" in sys.argv and not shutil.which("promtool"):
        print("promtool is not installed, so nobody has tried the alerts: scripts/install_deps.sh --check installs it")
        sys.exit(77)
    unittest.main()
