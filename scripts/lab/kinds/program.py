"""Wraps a benchmark that prints JSON: its results become rows.

A cell: binary, arguments (a list), and whatever is to be added to each row. `results` names the list in the document.
"""

import json
import subprocess

from cluster import check_binaries
from network import LabError


def run(spec, results, lab):
    for table in spec.cells:
        cell = {key: value for key, value in table.items() if key not in ("binary", "arguments", "results")}
        check_binaries(lab.binaries, [table["binary"]])
        command = [str(lab.binaries / table["binary"]), *map(str, table.get("arguments", []))]
        lab.say(" ".join(command[:1] + command[1:]))
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise LabError(f"{table['binary']}: {done.stderr.strip() or done.stdout.strip()}")
        document = json.loads(done.stdout)
        shared = {key: value for key, value in document.items() if not isinstance(value, (list, dict))}
        for row in document[table.get("results", "results")]:
            results.add({**shared, **cell, **row, "series": row.get("mode", row.get("name"))})
            lab.say("  " + ", ".join(f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}"
                                     for key, value in row.items() if not isinstance(value, (list, dict)))[:200])
        results.save()
