"""The faults of the campaign: how each is drawn, done to a running cluster, undone, and what a right answer names.

A fault knows nothing of the monitor, and the monitor nothing of it. Those of the class "outside" use no fault point: surroundings.py does them to the
process, its control group or its packets. Regions are those that enclose the place in the code.
"""

import json
import subprocess

import surroundings

# point, what it is narrowed to, where it is found, the parts of a region's name one of which a right answer has, and the file of the place or of the regions
# right around it
POINTS = [
    ("serve-stream", "WriteChunk", "chunkserver", ["write_chunk", "WriteChunk"], "common/rpc/server_connection.cc"),
    ("serve-stream", "ReadChunk", "chunkserver", ["read_chunk", "ReadChunk"], "common/rpc/server_connection.cc"),
    ("serve-stream", "PartialSum", "chunkserver", ["partial_sum", "PartialSum"], "common/rpc/server_connection.cc"),
    ("serve-call", "RepairChunk", "chunkserver", ["repair_chunk", "RepairChunk"], "common/rpc/server_connection.cc"),
    ("serve-call", "WriteSmallChunk", "chunkserver", ["small", "WriteSmallChunk"], "common/rpc/server_connection.cc"),
    ("send-chunk", "", "chunkserver", ["read_chunk", "ReadChunk"], "chunkserver/service/read_chunk.cc"),
    ("disk-read", "", "chunkserver", ["read_blocks", "open_chunk", "segment"], "chunkserver/store/"),
    ("disk-write", "", "chunkserver", ["append", "commit", "segment"], "chunkserver/store/"),
    ("disk-sync", "", "chunkserver", ["commit", "segment"], "chunkserver/store/"),
    ("own-sum", "", "chunkserver", ["partial_sum_own"], "chunkserver/repair/own_sum.cc"),
    ("forward-sum", "", "chunkserver", ["partial_sum", "PartialSum"], "chunkserver/repair/partial_sum.cc"),
    ("rebuild", "", "chunkserver", ["repair_chunk", "rebuil", "RepairChunk"], "chunkserver/repair/re"),
    ("store-commit", "", "metaserver", ["metaserver."], "metaserver/service/"),
    ("serve-call", "AllocateStripe", "metaserver", ["AllocateStripe", "allocate_stripe"], "common/rpc/server_connection.cc"),
    ("serve-call", "Stat", "metaserver", ["Stat", "stat"], "common/rpc/server_connection.cc"),
    ("start-repair", "", "metaserver", ["repair"], "repair_manager/manager/repair_runner.cc"),
]
# Answers that are lost or come twice. An answer that comes twice holds nobody up: then no verdict is the right one.
ANSWERS = [("RepairChunk", "chunkserver"), ("AllocateStripe", "metaserver"), ("Stat", "metaserver")]
# Passes that go first are drawn below this; fewer where few come by in the time that there is.
SKIP, SKIP_RARE = 12, {"RepairChunk": 1, "WriteSmallChunk": 4, "own-sum": 4}

OUTSIDE = {"stop": 4, "pause": 3, "freeze": 4, "starve": 4, "disk": 5, "cut-off": 3, "deaf": 3, "dead-link": 4}
INSIDE = {"hang": 11, "cpu-loop": 4, "delay": 4, "drop": 2, "repeat": 1}
OUTSIDE_SHARE = 0.48
LOOP_SECONDS, DELAY_SECONDS, PAUSE_SECONDS = 12, 10, 10
SERVERS = 10


def draw(rng, shares):
    return rng.choices(list(shares), list(shares.values()))[0]


class Fault:
    """One of them, drawn from `rng`. `server`, `peer` and `regions` say what a right answer names: all of the former, and one of the latter (none: any)."""

    def __init__(self, rng, cluster):
        self.cluster = cluster
        self.outside = rng.random() < OUTSIDE_SHARE
        self.kind = draw(rng, OUTSIDE if self.outside else INSIDE)
        self.point, self.detail, self.peer, self.regions, self.file = "", "", "", [], ""
        one, other = (f"chunkserver-{number}" for number in rng.sample(range(1, SERVERS + 1), 2))
        at_metaserver = rng.random() < 0.1
        if self.outside:
            self.server = "metaserver" if at_metaserver and self.kind in ("stop", "pause", "freeze", "starve", "disk") else one
            self.peer = other if self.kind == "dead-link" else ""
            self.means = self.from_outside()
        else:
            if self.kind in ("drop", "repeat"):
                self.point = "answer"
                self.detail, where = rng.choice(ANSWERS)
            else:
                self.point, self.detail, where, self.regions, self.file = rng.choice(POINTS)
            self.server = "metaserver" if where == "metaserver" else one
        self.skip = rng.randrange(0, SKIP_RARE.get(self.detail, SKIP_RARE.get(self.point, SKIP)))

    def from_outside(self):
        pid = self.cluster.pid(self.server)
        directory = self.cluster.directory
        return {"stop": lambda: surroundings.Stopped(pid),
                "pause": lambda: surroundings.Stopped(pid, PAUSE_SECONDS),
                "freeze": lambda: surroundings.frozen(pid),
                "starve": lambda: surroundings.starved(pid),
                "disk": lambda: surroundings.hanging_disk(pid, directory),
                "cut-off": lambda: surroundings.cut_off(self.cluster, self.server),
                "deaf": lambda: surroundings.deaf(self.cluster, self.server),
                "dead-link": lambda: surroundings.dead_pair(self.cluster, self.server, self.peer)}[self.kind]()

    @property
    def harmless(self):
        return self.kind == "repeat"

    def describe(self):
        return {"class": "outside" if self.outside else "point", "kind": self.kind, "point": self.point, "detail": self.detail, "server": self.server,
                "peer": self.peer, "skip": self.skip, "regions": self.regions, "file": self.file, "harmless": self.harmless}

    def _fault(self, *words):
        return json.loads(self.cluster.output("fault", *words, "--json", limit=3))

    def begin(self):
        if self.outside:
            self.means.begin()
            return
        words = [self.server, self.point, self.kind, "--skip", str(self.skip), "--times", "1"]
        words += ["--detail", self.detail] if self.detail else []
        if self.kind in ("cpu-loop", "delay"):
            words += ["--delay", str(LOOP_SECONDS if self.kind == "cpu-loop" else DELAY_SECONDS)]
        self._fault("set", *words)

    def happened(self):
        """Whether it has done something; None: that cannot be asked now."""
        if self.outside:
            return self.means.happened()
        try:
            return any(fault["happened"] > 0 for fault in self._fault("list", self.server)["faults"])
        except (subprocess.SubprocessError, ValueError):
            return None

    def end(self):
        if self.outside:
            self.means.end()
            return
        for _ in range(40):
            try:
                self._fault("clear", self.server)
                return
            except (subprocess.SubprocessError, ValueError):
                pass
