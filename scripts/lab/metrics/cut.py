#!/usr/bin/env python3
"""Cuts a small table out of a recording, for tests: a row a second of some servers, with what the kernel says of them and a few counters of their own.

    kintsugi-monitor judge --cut WHOLE.csv TRACE@FROM..TO
    scripts/lab/metrics/cut.py WHOLE.csv OUT.csv.gz SERVER... [--every 4] [--only fds rss ...]

Names of machines and paths are left out.
"""

import argparse
import csv
import gzip
import io

OWN = ["kintsugi_chunkserver_chunks", "kintsugi_chunkserver_read_bytes_total", "kintsugi_chunkserver_written_bytes_total",
       "kintsugi_chunkserver_link_bytes_total", "kintsugi_rpc_connections", "kintsugi_loop_lag_seconds"]
LEFT_OUT = ["VmStk", "VmSwap", "cancelled_write_bytes", "ListenDrops", "tcp_mem", "majflt"]


def wanted(name, only):
    if only:
        return name in only
    return name not in LEFT_OUT and (not name.startswith(("kintsugi_", "process_")) or name.startswith(tuple(OWN)) or "calls_total" in name)


def line_of(cells):
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow(cells)
    return out.getvalue()


class Cut:
    def __init__(self, arguments):
        self.arguments = arguments
        self.sources, self.metrics, self.columns, self.out, self.row = [], [], [], [], 0

    def describe(self, cells):
        if cells[0] == "source":
            self.sources.append(cells[1])
            if cells[1] in self.arguments.servers:
                self.out.append("# " + line_of(["source", cells[1], "BUILD"]))
        elif cells[0] == "metric":
            source = self.sources[int(cells[1])]
            if source in self.arguments.servers and wanted(cells[2], self.arguments.only):
                self.columns.append(len(self.metrics))
                place = [name for name in self.sources if name in self.arguments.servers].index(source)
                self.out.append("# " + line_of(["metric", place, *cells[2:]]))
            self.metrics.append(f"{source}:{cells[2]}")
        elif cells[0] == "period_ns":
            self.out.append(f"# period_ns,{int(cells[1]) * self.arguments.every}\n")
        elif cells[0] in ("kintsugi-trace", "workload", "host"):
            self.out.append("# " + line_of([cells[0], {"host": "lab", "workload": "campaign"}.get(cells[0], cells[-1])]))

    def rows(self, cells):
        if cells[0] == "t_ns":
            self.out.append(line_of(["t_ns", *(self.metrics[column] for column in self.columns), "open", "restarts"]))
            return
        if self.row % self.arguments.every == 0:
            self.out.append(line_of([cells[0], *(cells[1 + column] for column in self.columns), "", ""]))
        self.row += 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("whole")
    parser.add_argument("out")
    parser.add_argument("servers", nargs="+")
    parser.add_argument("--every", type=int, default=4, help="rows of which one is taken")
    parser.add_argument("--only", nargs="+", help="these metrics")
    arguments = parser.parse_args()
    cut = Cut(arguments)
    with open(arguments.whole, encoding="utf-8", newline="") as lines:
        for cells in csv.reader(lines):
            if cells[0].startswith("# "):
                cut.describe([cells[0][2:], *cells[1:]])
            else:
                cut.rows(cells)
    with open(arguments.out, "wb") as out:
        out.write(gzip.compress("".join(cut.out).encode(), 9, mtime=0))


if __name__ == "__main__":
    main()
