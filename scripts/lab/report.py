#!/usr/bin/env python3
"""Prints the table of docs/benchmarks.md from the JSON that run.py wrote: experiment, the text's value, ours, the limit.

    scripts/lab/report.py DIR [--rows]      --rows: also every row of every experiment
"""

import argparse
import json
import pathlib
import sys


def number(value, unit=""):
    if value is None:
        return "not measured"
    digits = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return digits + (f" {unit}" if unit else "")


def ours(claim):
    text = number(claim["value"], claim.get("unit", ""))
    if claim["value"] is not None and claim["rows"] > 1 and claim["low"] != claim["high"]:
        text += f" ({number(claim['low'])} to {number(claim['high'])})"
    return f"**{text}**" if claim["ok"] is False else text


def limit(claim):
    parts = ([f"≥ {number(claim['min'])}"] if "min" in claim else []) + ([f"≤ {number(claim['max'])}"] if "max" in claim else [])
    return " ".join(parts)


def paper(claim):
    value = claim.get("paper")
    return value if isinstance(value, str) else "" if value is None else number(value, claim.get("unit", ""))


def table(documents):
    lines = ["| experiment | what | text | ours | limit |", "| --- | --- | --- | --- | --- |"]
    for document in documents:
        for claim in document["claims"]:
            lines.append(f"| {document['experiment']} | {claim['what']} | {paper(claim)} | {ours(claim)} | {limit(claim)} |")
    return lines


COLUMNS = (("series", "series", "{}"), ("code", "code", "{}"), ("links", "links", "{}"), ("chunk_mib", "MiB", "{}"),
           ("rate_mbit", "Mbit/s", "{}"), ("median_seconds", "seconds", "{:.3f}"), ("times_c_over_b", "× C/B", "{:.3f}"),
           ("floor_times_c_over_b", "floor", "{:g}"), ("ratio_to_floor", "ratio", "{:.3f}"),
           ("percent_less_than_star", "less than star, %", "{:.1f}"), ("first_byte_ms", "first byte, ms", "{:.1f}"),
           ("cpu_seconds", "daemons' CPU-s", "{:.2f}"))


def rows(document):
    columns = [c for c in COLUMNS if any(row.get(c[0]) is not None for row in document["rows"])]
    yield f"\n### {document['experiment']}: {document['title']}\n"
    yield "| " + " | ".join(title for _, title, _ in columns) + " |"
    yield "| " + " | ".join("---" for _ in columns) + " |"
    for row in document["rows"]:
        yield "| " + " | ".join(form.format(row[key]) if row.get(key) is not None else "" for key, _, form in columns) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory")
    parser.add_argument("--rows", action="store_true")
    parser.add_argument("--quick", action="store_true", help="from the results of --quick")
    arguments = parser.parse_args()
    paths = sorted(pathlib.Path(arguments.directory).glob("*.json"))
    documents = [json.loads(path.read_text()) for path in paths]
    documents = [d for d in documents if d.get("complete") and d["quick"] == arguments.quick]
    if not documents:
        print(f"report.py: no finished experiment in {arguments.directory}", file=sys.stderr)
        return 1
    documents.sort(key=lambda d: (d["settings"].get("order", 50), d["experiment"]))
    print("\n".join(table(documents)))
    rates = {c["rate_mbit"]: c["bytes_per_second"] for d in documents for c in d["calibrations"]}
    if rates:
        print("\nB, TCP payload measured on the links: " + ", ".join(
            f"{rate} Mbit/s: {b * 8 / 1e6:.1f} Mbit/s" for rate, b in sorted(rates.items())))
    if arguments.rows:
        for document in documents:
            print("\n".join(rows(document)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
