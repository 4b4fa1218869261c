"""Reads of a chunk that has to be rebuilt for the reader: `kintsugi bench degraded-read`. The client is the repair site."""

from bounds import Code, repair_floor
from cluster import MIB
from kinds.repair import PHASES, phases
from sweep import Sweep, median_of, times


def measure(cluster, stripe, cell, series, index):
    slice_bytes = cell.slice_bytes(series)
    document = cluster.cli_json("bench", "degraded-read", "--chunk", f"{stripe}:{index}", "--shape", series["shape"],
                                "--runs", 1, *(["--slice", slice_bytes] if slice_bytes else []))
    sample = document["runs"][0] if isinstance(document.get("runs"), list) else document
    return dict(sample, chosen=sample.get("shape") or document.get("shape"))


def describe(cell, series, samples, rate):
    unit = cell.chunk_mib * MIB / rate
    row = times(samples, unit)
    floor = repair_floor(series["shape"], Code.parse(cell.code(series)), series.get("slice") == "chunk")
    row |= {"floor_times_c_over_b": floor, "ratio_to_floor": row["times_c_over_b"] / floor,
            "chosen": sorted({str(s["chosen"]) for s in samples}),
            "megabytes_per_second": cell.chunk_mib * MIB / row["median_seconds"] / 1e6}
    first = median_of(samples, "first_byte_seconds")
    if first is not None:
        row["first_byte_ms"] = 1000 * first
        row["first_byte_ms_all"] = [1000 * s["first_byte_seconds"] for s in samples]
    if all(f"{phase}_seconds" in sample for sample in samples for phase in PHASES):
        row |= phases(samples)
    return row


def run(spec, results, lab):
    Sweep(spec, results, lab, measure, describe).run()
