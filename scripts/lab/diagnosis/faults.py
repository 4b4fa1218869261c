"""The faults of the campaign: how each is drawn, done to a running cluster, undone, and what a right answer names.

A fault knows nothing of the monitor, and the monitor nothing of it. Those of the class "outside" use no fault point: they are done to the process
or its control group. Regions are those that enclose the place in the code.
"""

import json
import os
import pathlib
import signal
import subprocess

# point, where it is found, the parts of a region's name one of which a right answer has
POINTS = [
    ("serve-stream", "WriteChunk", "chunkserver", ["write_chunk", "WriteChunk"]),
    ("serve-stream", "ReadChunk", "chunkserver", ["read_chunk", "ReadChunk"]),
    ("serve-stream", "PartialSum", "chunkserver", ["partial_sum", "PartialSum"]),
    ("serve-call", "RepairChunk", "chunkserver", ["repair_chunk", "RepairChunk"]),
    ("serve-call", "WriteSmallChunk", "chunkserver", ["small", "WriteSmallChunk"]),
    ("send-chunk", "", "chunkserver", ["read_chunk", "ReadChunk"]),
    ("disk-read", "", "chunkserver", ["disk", "read_blocks", "open"]),
    ("disk-write", "", "chunkserver", ["disk", "append", "segment"]),
    ("disk-sync", "", "chunkserver", ["disk", "sync", "commit", "segment"]),
    ("own-sum", "", "chunkserver", ["partial_sum_own"]),
    ("forward-sum", "", "chunkserver", ["partial_sum", "PartialSum"]),
    ("rebuild", "", "chunkserver", ["repair_chunk", "rebuil", "RepairChunk"]),
    ("store-commit", "", "metaserver", ["metaserver."]),
    ("serve-call", "AllocateStripe", "metaserver", ["AllocateStripe", "allocate_stripe"]),
    ("serve-call", "Stat", "metaserver", ["Stat", "stat"]),
    ("start-repair", "", "metaserver", ["repair"]),
]
LOOP_SECONDS = 25
CGROUP = pathlib.Path("/sys/fs/cgroup")


class Fault:
    """One of them, drawn from `rng`. `place` says what a right answer names: a server, and parts of regions (none: any)."""

    def __init__(self, rng, cluster):
        self.cluster = cluster
        self.outside = rng.random() < 0.4
        if self.outside:
            self.kind = rng.choice(["stop", "freeze", "starve"])
            self.point = self.detail = ""
            self.server = f"chunkserver-{rng.randrange(1, 11)}" if rng.random() < 0.9 else "metaserver"
            self.regions = []
        else:
            self.kind = rng.choices(["hang", "cpu-loop"], [3, 1])[0]
            self.point, self.detail, where, self.regions = rng.choice(POINTS)
            self.server = "metaserver" if where == "metaserver" else f"chunkserver-{rng.randrange(1, 11)}"
        self.skip = rng.randrange(0, 12)

    def describe(self):
        return {"class": "outside" if self.outside else "point", "kind": self.kind, "point": self.point, "detail": self.detail, "server": self.server,
                "skip": self.skip, "regions": self.regions}

    def _fault(self, *words):
        return json.loads(self.cluster.output("fault", *words, "--json"))

    def begin(self):
        if self.kind == "stop":
            os.kill(self.cluster.pid(self.server), signal.SIGSTOP)
        elif self.kind in ("freeze", "starve"):
            controller = "freezer" if self.kind == "freeze" else "cpu"
            group = CGROUP / controller / f"kintsugi-{self.cluster.pid(self.server)}"
            group.mkdir(exist_ok=True)
            if self.kind == "starve":  # a thousandth of a processor
                (group / "cpu.cfs_period_us").write_text("1000000")
                (group / "cpu.cfs_quota_us").write_text("1000")
            (group / "cgroup.procs").write_text(str(self.cluster.pid(self.server)))
            if self.kind == "freeze":
                (group / "freezer.state").write_text("FROZEN")
        else:
            words = [self.server, self.point, self.kind, "--skip", str(self.skip)]
            words += ["--detail", self.detail] if self.detail else []
            words += ["--times", "1", "--delay", str(LOOP_SECONDS)] if self.kind == "cpu-loop" else ["--times", "1"]
            self._fault("set", *words)

    def happened(self):
        """Whether it has done something; None: that cannot be asked now."""
        if self.outside:
            return True
        try:
            return any(fault["happened"] > 0 for fault in self._fault("list", self.server)["faults"])
        except (subprocess.SubprocessError, ValueError):
            return None

    def end(self):
        pid = self.cluster.pid(self.server)
        if self.kind == "stop":
            os.kill(pid, signal.SIGCONT)
        elif self.kind in ("freeze", "starve"):
            controller = "freezer" if self.kind == "freeze" else "cpu"
            group = CGROUP / controller / f"kintsugi-{pid}"
            if self.kind == "freeze":
                (group / "freezer.state").write_text("THAWED")
            (CGROUP / controller / "cgroup.procs").write_text(str(pid))
            group.rmdir()
        else:
            for _ in range(40):
                try:
                    self._fault("clear", self.server)
                    return
                except (subprocess.SubprocessError, ValueError):
                    pass
