"""The frame of experiments on one stripe: for each cell links are shaped and calibrated, files written, and every series
measured in turn within each run, so that what neighbours do to the machine hits all alike.

A cell: code, chunk_mib, rate_mbit, lost (indexes that take turns, [0]), only (series of this cell), runs, and for unequal
links slow_chunks (the hosts of these chunks) with slow_mbit.
"""

import contextlib
import itertools
import statistics
import time

from bounds import Code, any_split_rate, single_set_rate
from calibration import calibrate, calibrate_hosts
from cluster import MIB, Cluster, CommandFailed, digest_of, server_host, write_random
from network import LabError, Network

ATTEMPTS = 5  # a repair may meet a server that is still to delete its old copy
PAUSE_SECONDS = 1.0
RATE_WAIT_SECONDS = 180
DEFAULT_VARIANT = "default"


def slug(name):
    return name.lower().replace(" ", "_").replace("+", "_with_")


class Cell:
    """One combination: its files on the clusters, its links, and the samples of every series."""

    def __init__(self, spec, values):
        self.spec = spec
        self.values = values
        self.chunk_mib = values.get("chunk_mib", 64)
        self.rate_mbit = values["rate_mbit"]
        self.lost = values.get("lost", [0])
        self.runs = values.get("runs", spec.runs)
        only = values.get("only")
        self.series = [s for s in spec.series if only is None or s["name"] in only]
        self.files = {}  # (variant, code) -> (path, stripe, digest)

    def code(self, series):
        return series.get("code", self.values.get("code"))

    def codes(self):
        return sorted({self.code(s) for s in self.series})

    def slice_bytes(self, series):
        return self.chunk_mib * MIB if series.get("slice") == "chunk" else series.get("slice", 0)

    def key(self, series):
        return {"series": series["name"], "code": Code.parse(self.code(series)).label(), "chunk_mib": self.chunk_mib,
                "rate_mbit": self.rate_mbit, **({"links": self.values["links"]} if "links" in self.values else {})}


class Sweep:
    """`measure(cluster, stripe, cell, series, index)` gives the sample of one run, a dictionary with at least "seconds";
    `describe(cell, series, samples, rate)` the row of a series."""

    def __init__(self, spec, results, lab, measure, describe):
        self.spec, self.results, self.lab = spec, results, lab
        self.measure, self.describe = measure, describe
        self.cells = [Cell(spec, values) for values in spec.expanded_cells()]
        chunks = max(Code.parse(code).chunks for cell in self.cells for code in cell.codes())
        self.servers = spec.option("chunkservers", chunks + 2)
        self.variants = spec.variants or {DEFAULT_VARIANT: {}}

    def run(self):
        todo = [c for c in self.cells if not all(self.results.has(**c.key(s)) for s in c.series)]
        if not todo:
            return
        with Network(2 + self.servers) as network:
            self.network = network
            for rate_mbit, cells in itertools.groupby(todo, key=lambda cell: cell.rate_mbit):
                network.shape_all(rate_mbit)
                hosts = [server_host(n) for n in range(self.servers)]
                calibration = calibrate(network, rate_mbit, [2, *hosts])
                rate = self.results.calibrated(calibration)
                self.lab.say(f"{rate_mbit} Mbit/s: {rate * 8 / 1e6:.1f} Mbit/s of TCP payload "
                             f"({len(calibration['pairs'])} pairs)")
                with contextlib.ExitStack() as stack:
                    clusters = {}
                    for number, (name, settings) in enumerate(self.variants.items()):
                        clusters[name] = stack.enter_context(
                            Cluster(network, self.lab.binaries, self.lab.directory / name, self.servers, settings,
                                    7400 + 10 * number, {host: (rate, rate) for host in hosts}))
                    for cell in cells:
                        self._run_cell(cell, clusters, rate)

    def _run_cell(self, cell, clusters, rate):
        began = time.monotonic()
        self.network.shape_all(None)
        self._put(cell, clusters)
        links = self._shape(cell, clusters, rate)
        samples = {s["name"]: [] for s in cell.series}
        for run in range(cell.runs):
            index = cell.lost[run % len(cell.lost)]
            order = cell.series if run % 2 == 0 else cell.series[::-1]
            for series in order:
                if run < series.get("max_runs", cell.runs):
                    samples[series["name"]].append(self._sample(cell, clusters, series, index))
        self.network.shape_all(None)
        self._verify(cell, clusters)
        rows = [dict(cell.key(s), shape=s["shape"], runs=len(samples[s["name"]]), **links,
                     **self.describe(cell, s, samples[s["name"]], rate)) for s in cell.series]
        compare(rows, self.spec.option("baselines", ["star"]), samples)
        for row in rows:
            self.results.add(row)
            self.lab.say(row_text(row))
        self.results.save(seconds=time.monotonic() - began)

    def _put(self, cell, clusters):
        for code in cell.codes():
            source = self.lab.directory / "source"
            digest = write_random(source, cell.chunk_mib * Code.parse(code).k * MIB)
            variants = {s.get("variant", next(iter(clusters))) for s in cell.series if cell.code(s) == code}
            for variant in sorted(variants):
                cluster = clusters[variant]
                path = f"/{code}-{cell.chunk_mib}-{cell.rate_mbit}"
                cluster.cli("put", "--replace", "--policy", code, source, path)
                extents = cluster.cli_json("stat", path)["extents"]
                if len({e["stripe_id"] for e in extents}) != 1:
                    raise LabError(f"{path} should be one stripe")
                cell.files[variant, code] = (path, extents[0]["stripe_id"], digest)
                for _ in range(self.variants[variant].get("warm", 0)):
                    self._warm(cluster, path, extents[0]["stripe_id"], cell.lost)
            source.unlink()

    def _warm(self, cluster, path, stripe, lost):
        """Every chunk is read, by a user and by a repair."""
        target = self.lab.directory / "target"
        cluster.cli("get", "--replace", path, target)
        target.unlink()
        patient(lambda: cluster.cli("repair", "run", "--chunk", f"{stripe}:{lost[0]}", "--json"))

    def _shape(self, cell, clusters, rate):
        """Links of the cell; for unequal ones they are measured one by one, and what they allow is computed."""
        slow_chunks = cell.values.get("slow_chunks")
        if not slow_chunks:
            self.network.shape_all(cell.rate_mbit)
            return {}
        (variant, code), (path, stripe, _) = next(iter(cell.files.items()))
        cluster = clusters[variant]
        servers = cluster.servers()
        places = {c["index"]: servers[c["server_id"]]["host"]
                  for c in cluster.cli_json("stripe", "show", stripe)["chunks"]}
        slow = {places[index]: cell.values["slow_mbit"] for index in slow_chunks}
        hosts = [server_host(n) for n in range(self.servers)]
        self.network.shape_all(cell.rate_mbit, slow)
        measured = calibrate_hosts(self.network, {h: slow.get(h, cell.rate_mbit) for h in hosts})
        told = {h: (m["up"], m["down"]) for h, m in measured.items()}
        if self.spec.option("link_rates", "told") == "told":
            cluster.restart_chunkservers(told)
        else:
            self._wait_for_rates(cluster, told)
        k = Code.parse(code).k
        ups = [measured[host]["up"] for index, host in places.items() if index not in cell.lost]
        root = max(measured[host]["down"] for host in hosts if host not in slow)
        return {"host_rates": {str(h): m for h, m in measured.items()}, "slow_helpers": len(slow),
                "bound_single_set": single_set_rate(k, ups, root), "bound_any_split": any_split_rate(k, ups, root)}

    def _wait_for_rates(self, cluster, told):
        """Until the heartbeats of every server tell what its link carries, as it measured that itself."""
        deadline = time.monotonic() + RATE_WAIT_SECONDS
        while True:
            wrong = [s for s in cluster.servers().values()
                     for known, real in zip((s.get("up_bytes_per_second", 0), s.get("down_bytes_per_second", 0)), told[s["host"]])
                     if not 0.7 * real < known < 1.3 * real]
            if not wrong:
                return
            if time.monotonic() > deadline:
                raise LabError(f"{len(wrong)} link rates are still wrong after {RATE_WAIT_SECONDS} s")
            time.sleep(PAUSE_SECONDS)

    def _sample(self, cell, clusters, series, index):
        variant = series.get("variant", next(iter(clusters)))
        cluster = clusters[variant]
        _, stripe, _ = cell.files[variant, cell.code(series)]
        sample = patient(lambda: self.measure(cluster, stripe, cell, series, index))
        self.lab.say(f"  {series['name']}: {sample['seconds']:.3f} s")
        return sample

    def _verify(self, cell, clusters):
        for (variant, _), (path, _, digest) in cell.files.items():
            target = self.lab.directory / "target"
            clusters[variant].cli("get", "--replace", path, target)
            if digest_of(target) != digest:
                raise LabError(f"{path} differs from what was written")
            target.unlink()
            clusters[variant].cli("rm", path)


def patient(action):
    for attempt in range(ATTEMPTS):
        try:
            return action()
        except CommandFailed:
            if attempt + 1 == ATTEMPTS:
                raise
            time.sleep(PAUSE_SECONDS)


def compare(rows, baselines, samples):
    """Each row against the baselines of its cell: percent less time, times as fast."""
    medians = {row["series"]: row["median_seconds"] for row in rows}
    for row in rows:
        for name in baselines:
            if name in medians and name != row["series"]:
                ratio = medians[name] / row["median_seconds"]
                row[f"percent_less_than_{slug(name)}"] = 100 * (1 - 1 / ratio)
                row[f"times_{slug(name)}"] = ratio


def times(samples, unit):
    """What all rows say about their time: seconds, and multiples of `unit` = C/B."""
    seconds = [s["seconds"] for s in samples]
    median = statistics.median(seconds)
    return {"seconds": seconds, "median_seconds": median, "min_seconds": min(seconds), "max_seconds": max(seconds),
            "c_over_b_seconds": unit, "times_c_over_b": median / unit}


def median_of(samples, key):
    values = [s[key] for s in samples if s.get(key) is not None]
    return statistics.median(values) if values else None


def row_text(row):
    floor = row.get("floor_times_c_over_b")
    text = f"{row['series']:<22} {row['code']:<12} {row['chunk_mib']:>3} MiB {row['rate_mbit']:>5} Mbit/s  " \
           f"{row['median_seconds']:8.3f} s = {row['times_c_over_b']:6.3f} C/B"
    return text + (f"  floor {floor:g} C/B, {row['ratio_to_floor']:.3f} x" if floor else "")
