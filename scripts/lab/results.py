"""The JSON of an experiment: rows, calibrations, claims. Saved after each cell, so that an interrupted run can go on."""

import datetime
import json
import os
import pathlib
import statistics
import subprocess
import sys


def summary(values):
    return {"median": statistics.median(values), "min": min(values), "max": max(values), "values": list(values)}


class Results:
    def __init__(self, spec, directory, resume=False):
        self.path = pathlib.Path(directory) / f"{spec.name}{'.quick' if spec.quick else ''}.json"
        self.document = {"experiment": spec.name, "title": spec.title, "figure": spec.figure, "about": spec.about,
                         "quick": spec.quick, "complete": False, "made": None, "seconds": 0.0, "machine": machine(),
                         "runs": spec.runs, "settings": spec.values, "calibrations": [], "rows": [], "claims": []}
        if resume and self.path.exists():
            old = json.loads(self.path.read_text())
            if old["settings"] == json.loads(json.dumps(spec.values)):
                self.document = old

    @property
    def complete(self):
        return self.document["complete"]

    def has(self, **cell):
        return any(all(row.get(key) == value for key, value in cell.items()) for row in self.document["rows"])

    def calibrated(self, calibration):
        self.document["calibrations"].append(calibration)
        return calibration["bytes_per_second"]

    def add(self, row):
        self.document["rows"].append(row)
        return row

    def save(self, complete=False, seconds=0.0):
        self.document["complete"] = complete
        self.document["seconds"] += seconds
        self.document["made"] = datetime.datetime.now().isoformat(timespec="seconds")
        if complete:
            self.document["claims"] = [judge(claim, self.document["rows"]) for claim in self.document["settings"]["claims"]]
        self.path.parent.mkdir(parents=True, exist_ok=True)
        temporary = self.path.with_suffix(".tmp")
        temporary.write_text(json.dumps(self.document, indent=1) + "\n")
        temporary.rename(self.path)


def machine():
    model = next((line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "?")
    root = pathlib.Path(__file__).resolve().parents[2]
    commit = subprocess.run(["git", "-C", root, "describe", "--always", "--dirty"], capture_output=True, text=True).stdout
    return {"cpus": os.cpu_count(), "model": model, "kernel": os.uname().release, "load": os.getloadavg()[0],
            "python": sys.version.split()[0], "commit": commit.strip()}


def matches(row, where):
    return all(row.get(key) in value if isinstance(value, list) else row.get(key) == value for key, value in where.items())


def judge(claim, rows):
    """A line of the table: the worst of the rows it is about, with their range, beside the text's value and the limit."""
    found = [row for row in rows if matches(row, claim.get("where", {})) and row.get(claim["metric"]) is not None]
    values = sorted(row[claim["metric"]] for row in found)
    result = dict(claim, rows=len(values))
    if not values:
        return dict(result, value=None, ok=None)
    result["low"], result["high"] = values[0], values[-1]
    pick = claim.get("pick") or ("min" if "min" in claim else "max")
    result["value"] = {"min": values[0], "max": values[-1], "median": statistics.median(values)}[pick]
    limits = [result["value"] >= claim["min"]] if "min" in claim else []
    limits += [result["value"] <= claim["max"]] if "max" in claim else []
    result["ok"] = all(limits) if limits else None
    return result
