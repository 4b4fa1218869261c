"""Repairs of a chunk, one at a time: `kintsugi repair run`. What the record says goes into the row as medians."""

from bounds import Code, repair_floor
from cluster import MIB
from sweep import Sweep, median_of, times

PHASES = ("plan", "network", "read", "compute", "write")


def measure(cluster, stripe, cell, series, index):
    slice_bytes = cell.slice_bytes(series)
    cpu_before = cluster.cpu_seconds()
    record = cluster.cli_json("repair", "run", "--chunk", f"{stripe}:{index}", "--shape", series["shape"],
                              *(["--slice", slice_bytes] if slice_bytes else []))
    record["cpu_seconds"] = cluster.cpu_seconds() - cpu_before
    record["critical_compute_seconds"] = critical_compute(record)
    record["largest_compute_seconds"] = max(s["compute_seconds"] for s in record["servers"])
    record["most_received"] = max(s["bytes_in"] for s in record["servers"]) / record["chunk_bytes"]
    record["peak_bytes"] = max((s.get("peak_bytes", 0) for s in record["servers"]), default=0)
    return record


def describe(cell, series, samples, rate):
    code = Code.parse(cell.code(series))
    unit = cell.chunk_mib * MIB / rate
    row = times(samples, unit)
    floor = repair_floor(series["shape"], code, series.get("slice") == "chunk")
    row |= {"floor_times_c_over_b": floor, "ratio_to_floor": row["times_c_over_b"] / floor,
            "chosen": sorted({s["shape"] for s in samples}), "slice_bytes": samples[-1]["slice_bytes"],
            "helpers": len(samples[-1]["helpers"])}
    for key in ("most_received", "peak_bytes", "critical_compute_seconds", "largest_compute_seconds", "cpu_seconds"):
        row[key] = median_of(samples, key)
    row |= phases(samples)
    return row


def phases(samples):
    """Seconds of each phase and its share of the whole. Phases overlap, so shares need not add up to 100."""
    row = {}
    for phase in PHASES:
        row[f"{phase}_seconds"] = median_of(samples, f"{phase}_seconds")
        row[f"{phase}_percent"] = median_of([{"share": 100 * s.get(f"{phase}_seconds", 0) / s["seconds"]} for s in samples],
                                            "share")
    return row


def critical_compute(record):
    """Seconds of multiplying and adding on the longest way from a leaf to the destination. The servers are listed with
    every node before its children, and a node received one chunk from each child, which gives the tree back. Where that
    does not fit (parts of chunks, several trees): the destination's own and the largest of the others."""
    servers = record["servers"]
    degrees = [round(s["bytes_in"] / record["chunk_bytes"]) for s in servers]

    def longest(at):
        below, after = 0.0, at + 1
        for _ in range(degrees[at]):
            seconds, after = longest(after)
            below = max(below, seconds)
        return servers[at]["compute_seconds"] + below, after

    if sum(degrees) == len(servers) - 1:
        try:
            return longest(0)[0]
        except IndexError:
            pass
    return servers[0]["compute_seconds"] + max((s["compute_seconds"] for s in servers[1:]), default=0)


def run(spec, results, lab):
    Sweep(spec, results, lab, measure, describe).run()
    for row in results.document["rows"]:
        if "bound_single_set" in row:
            rate = row["chunk_mib"] * MIB / row["median_seconds"]
            row["ratio_to_single_set_bound"] = row["bound_single_set"] / rate
            row["ratio_to_any_split_bound"] = row["bound_any_split"] / rate
