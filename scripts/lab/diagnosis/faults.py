"""The faults of the campaign: how each is drawn, done to a running cluster, undone, and what a right answer names.

Places in the code are drawn from all that the daemons passed while the load ran (places_of), and what a right answer has to say of them is told by the
daemon when the fault happens: the file, line and function, and the region that ran.

A fault knows nothing of the monitor, and the monitor nothing of it. Those of the class "outside" use no fault point: surroundings.py does them to the
process, its control group or its packets.

There are three sets. Hangs stop something at once, and are named within seconds. Interference makes it slower, or takes what it needs: it is watched for
longer, for what is slow is judged by several windows of ten seconds. Phases are the faults of Laguna et al. 2012 and 2015, one class after the other: each
lasts for a window or two after some without a fault, and what is judged is in which window it was, at which server, and at which transition.
"""

import collections
import json
import subprocess

import surroundings

# Nothing is drawn there: calls that wait on purpose for as long as nothing is new, and those by which the campaign itself speaks.
NOT_DRAWN = ["AwaitRecalls", "FetchRepairWork", "ChangeFaults", "RegisterMonitor", "FindMonitor"]
# Points that stop, delay or hold the loop of what passes them. (At call a caller waits that is no server; answer and heartbeat lose messages.)
STOPS = ["serve-stream", "serve-call", "send-chunk", "disk-read", "disk-write", "disk-sync", "own-sum", "forward-sum", "rebuild", "store-commit", "start-repair"]
# What is lost there is a wakeup, a permit that is given back, or a result; or two coroutines wait for each other.
LOST = {"lost-wakeup": "wake", "leaked-permits": "release", "never-completed": "complete", "deadlock": "deadlock"}
POINTS = [*STOPS, *LOST.values()]
# How many there are of what is never given back: fewer losses hold nobody up. Chunkservers get as many buffers as the least that they take.
PERMITS, BUFFERS = {"buffer": 16}, "16MiB"


class Place:
    """Where a fault may be set: a point, one method of it, the role of the daemons there, and how often one of them passes it in twenty seconds."""

    def __init__(self, point, detail, role, passes):
        self.point, self.detail, self.role, self.passes = point, detail, role, passes


def places_of(role, daemons, passed, seconds):
    """What may be drawn: places that the load reaches at one daemon more than once in twenty seconds. `passed`: the points of `fault list` of the role's daemons."""
    counts = collections.Counter()
    for one in passed:
        counts[one["point"], one["method"]] += one["passes"]
    with_methods = {point for point, method in counts if method}
    return [Place(point, method, role, count * 20 / seconds / daemons) for (point, method), count in sorted(counts.items())
            if point in POINTS and method not in NOT_DRAWN and (method or point not in with_methods) and count * 20 / seconds / daemons > 1]


# Answers that are lost or come twice. An answer that comes twice holds nobody up: then no verdict is the right one.
ANSWERS = [("RepairChunk", "chunkserver"), ("AllocateStripe", "metaserver"), ("Stat", "metaserver")]
SKIP = 12  # passes that go first are drawn below this; fewer where few come by in the time that there is

OUTSIDE = {"stop": 4, "pause": 3, "freeze": 4, "starve": 4, "disk": 5, "cut-off": 3, "deaf": 3, "dead-link": 4, "stopped-mount": 2}
INSIDE = {"hang": 11, "cpu-loop": 4, "delay": 4, "drop": 2, "repeat": 1, "lost-wakeup": 1, "leaked-permits": 2, "never-completed": 2, "deadlock": 1}
OUTSIDE_SHARE = 0.48
# Interference: a processor's competitor in the daemon's control group or beside all daemons, a slow link or disk; and at fault points memory that is walked
# through or never given back, messages that each take a while, and such that are lost, damaged or come twice where somebody makes up for it.
INTERFERENCE_OUTSIDE = {"hog": 4, "machine-hog": 3, "slow-link": 4, "slow-disk": 4}
INTERFERENCE_INSIDE = {"memory-walk": 3, "leak": 3, "slow-messages": 4, "lost-frames": 1, "damaged-frames": 1, "repeat": 1}
# Gray failures: what works most of the time, or for most purposes. Only the errors use a fault point: all streams of one server fail at once.
GRAY = {"flapping": 3, "no-new-connections": 3, "large-packets": 3, "stalling-disk": 3, "lossy-link": 3, "instant-errors": 3}
FLAPS = [(1.5, 2.0), (2.6, 3.0), (0.8, 1.0)]  # seconds that it stands still, of so many
STALL_SECONDS, STALL_PERIOD = 1.2, 8.0
SLOW_MESSAGES = [("serve-call", "Stat", "metaserver"), ("serve-call", "AllocateStripe", "metaserver"), ("serve-stream", "ReadChunk", "chunkserver"),
                 ("serve-stream", "WriteChunk", "chunkserver"), ("send-chunk", "", "chunkserver"), ("serve-call", "WriteSmallChunk", "chunkserver")]
# What a right verdict is called, where naming the server is not all of the answer.
RIGHT_KINDS = {"hog": ["resource"], "machine-hog": ["host"], "memory-walk": ["resource"], "leak": ["resource"], "slow-disk": ["slow", "device"],
               "slow-link": ["slow", "link"], "slow-messages": ["slow"], "flapping": ["pauses"], "no-new-connections": ["unreached"],
               "large-packets": ["unreached"], "stalling-disk": ["pauses", "device"], "lossy-link": ["losses"], "instant-errors": ["errors"]}
# Phases: loops and stalls of a place that end by themselves, competitors for the processor, memory, a slow disk, messages.
PHASES = ["loop", "stall", "hog", "memory", "slow-disk", "message"]
PHASE_SECONDS = [1, 5, 10]
PHASE_WALK_SECONDS = 15
PHASE_MEMORY = ["memory-walk", "leak"]
PHASE_MESSAGES = {"drop": 2, "repeat": 2, "slow-messages": 2, "lost-frames": 2, "damaged-frames": 2}
# Bytes a second: the metaserver writes so little that it hardly notices what makes a chunkserver slow.
SLOW_DISK, SLOW_METADATA = 1 << 20, 32 << 10
MEMORY_BYTES, WALK_SECONDS, LEAKS, MESSAGE_SECONDS = 512 << 20, 60, 12, 0.3
LOOP_SECONDS, DELAY_SECONDS, PAUSE_SECONDS = 12, 10, 10
SERVERS = 10


def draw(rng, shares):
    return rng.choices(list(shares), list(shares.values()))[0]


class Fault:
    """One of them, drawn from `rng`. `server`, `peer` and `regions` say what a right answer names: all of the former, and one of the latter (none: any)."""

    def __init__(self, rng, cluster, faults="hangs", number=0):
        self.cluster, self.set = cluster, faults
        self.point, self.detail, self.peer, self.place = "", "", "", None
        self.avoided = None  # seconds until others went around it
        self.action, self.times, self.seconds, self.bytes, self.skip = "", 1, 0, 0, 0
        self.outside = rng.random() < OUTSIDE_SHARE
        if faults == "phases":
            self.draw_phase(rng, PHASES[number % len(PHASES)])
        elif faults == "gray":
            self.draw_gray(rng, draw(rng, GRAY))
        elif faults == "interference":
            self.draw_interference(rng, draw(rng, INTERFERENCE_OUTSIDE if self.outside else INTERFERENCE_INSIDE))
        else:
            self.draw_hang(rng, draw(rng, OUTSIDE if self.outside else INSIDE))
        if self.outside:
            self.means = self.from_outside()

    def draw_hang(self, rng, kind):
        self.kind = kind
        one, other = (f"chunkserver-{number}" for number in rng.sample(range(1, SERVERS + 1), 2))
        at_metaserver = rng.random() < 0.1
        if self.outside:
            self.server = "metaserver" if at_metaserver and self.kind in ("stop", "pause", "freeze", "starve", "disk") else one
            self.server = "mount" if self.kind == "stopped-mount" else self.server
            self.peer = other if self.kind == "dead-link" else ""
        else:
            self.action = "hang" if self.kind in LOST else self.kind
            self.times = 0 if self.kind == "leaked-permits" else 1  # one permit less holds nobody up
            self.seconds = {"cpu-loop": LOOP_SECONDS, "delay": DELAY_SECONDS}.get(self.kind, 0)
            if self.kind in ("drop", "repeat"):
                self.point = "answer"
                self.detail, where = rng.choice(ANSWERS)
            else:
                points = [LOST[self.kind]] if self.kind in LOST else STOPS
                place = rng.choice([place for place in self.cluster.places if place.point in points])
                self.point, self.detail, where = place.point, place.detail, place.role
                self.skip = rng.randrange(0, max(1, min(SKIP, int(place.passes / 2))))
            self.server = {"metaserver": "metaserver", "repair manager": self.cluster.repair_manager}.get(where, one)

    def draw_phase(self, rng, what):
        self.outside = what in ("hog", "slow-disk")
        if what in ("loop", "stall"):
            self.draw_hang(rng, "cpu-loop" if what == "loop" else "delay")
            self.seconds = rng.choice(PHASE_SECONDS)
        elif what == "message" and (kind := draw(rng, PHASE_MESSAGES)) == "drop":
            self.draw_hang(rng, kind)
        else:
            self.draw_interference(rng, kind if what == "message" else rng.choice(PHASE_MEMORY) if what == "memory" else what)
            self.seconds = PHASE_WALK_SECONDS if self.kind == "memory-walk" else self.seconds

    def draw_gray(self, rng, kind):
        self.kind, self.outside = kind, kind != "instant-errors"
        self.server = f"chunkserver-{rng.randrange(1, SERVERS + 1)}"
        if not self.outside:
            self.point, self.action, self.times = "serve-stream", "error", 0
        self.on, self.period = rng.choice(FLAPS) if kind == "flapping" else (STALL_SECONDS, STALL_PERIOD)

    def draw_interference(self, rng, kind):
        self.kind = kind
        self.server = f"chunkserver-{rng.randrange(1, SERVERS + 1)}"
        if self.kind == "machine-hog":
            self.server = ""
        elif self.kind in ("hog", "slow-link", "slow-disk") and rng.random() < 0.2:
            self.server = "metaserver"
        if self.outside:
            return
        self.action = {"slow-messages": "delay", "lost-frames": "drop", "damaged-frames": "corrupt"}.get(self.kind, self.kind)
        if self.kind == "repeat":
            self.point, self.times = "answer", 5
            self.detail, where = rng.choice(ANSWERS)
        elif self.kind == "slow-messages":
            self.point, self.detail, where = rng.choice(SLOW_MESSAGES)
            self.times, self.seconds = 0, MESSAGE_SECONDS
        elif self.kind in ("lost-frames", "damaged-frames"):
            self.point, where, self.times = "send-chunk", "chunkserver", 5
        else:
            self.point, where = rng.choice([("disk-write", "chunkserver"), ("serve-call", "metaserver"), ("serve-stream", "chunkserver")])
            self.bytes, self.seconds = (MEMORY_BYTES, WALK_SECONDS) if self.kind == "memory-walk" else (MEMORY_BYTES // 8, 0)
            self.times = 2 if self.kind == "memory-walk" else LEAKS
        if where == "metaserver":
            self.server = "metaserver"

    def from_outside(self):
        pid = self.cluster.pid(self.server) if self.server and self.kind != "stopped-mount" else 0
        directory = self.cluster.directory
        return {"stop": lambda: surroundings.Stopped(pid),
                "pause": lambda: surroundings.Stopped(pid, PAUSE_SECONDS),
                "stopped-mount": lambda: surroundings.StoppedMount(self.cluster.load),
                "freeze": lambda: surroundings.frozen(pid),
                "starve": lambda: surroundings.starved(pid),
                "disk": lambda: surroundings.hanging_disk(pid, directory),
                "cut-off": lambda: surroundings.cut_off(self.cluster, self.server),
                "deaf": lambda: surroundings.deaf(self.cluster, self.server),
                "dead-link": lambda: surroundings.dead_pair(self.cluster, self.server, self.peer),
                "hog": lambda: surroundings.Crowded(pid),
                "machine-hog": surroundings.crowded_machine,
                "slow-disk": lambda: surroundings.slow_disk(pid, directory, SLOW_METADATA if self.server == "metaserver" else SLOW_DISK),
                "flapping": lambda: surroundings.Repeated(surroundings.Stopped(pid), self.on, self.period),
                "stalling-disk": lambda: surroundings.Repeated(surroundings.hanging_disk(pid, directory), self.on, self.period),
                "no-new-connections": lambda: surroundings.no_new_connections(self.cluster, self.server),
                "lossy-link": lambda: surroundings.lossy(self.cluster, self.server),
                "large-packets": lambda: surroundings.LargePacketsLost(self.cluster.port(self.server)),
                "slow-link": lambda: surroundings.SlowLink(self.cluster.port(self.server))}[self.kind]()

    @property
    def slow(self):
        """Nothing stops: it takes windows of ten seconds to see it."""
        return self.set in ("interference", "gray") and not self.harmless

    @property
    def harmless(self):
        """Nobody is held up by it, so that no verdict is right."""
        return self.kind in ("repeat", "lost-frames", "damaged-frames")

    @property
    def avoidable(self):
        """Others should go around it."""
        return self.kind in ("slow-link", "slow-disk") and self.server.startswith("chunkserver")

    def describe(self):
        return {"set": self.set, "class": "outside" if self.outside else "point", "kind": self.kind, "point": self.point, "detail": self.detail, "server": self.server,
                "peer": self.peer, "seconds": self.seconds, "skip": self.skip, "place": self.place, "harmless": self.harmless, "avoidable": self.avoidable, "avoided": self.avoided,
                "right_kinds": RIGHT_KINDS.get(self.kind, [])}

    def address(self):
        """What the command takes: a server's name; of a repair manager, whose name contains it, its address."""
        return self.server.split()[-1]

    def _fault(self, *words):
        return json.loads(self.cluster.output("fault", *words, "--json", limit=3))

    def begin(self):
        if self.outside:
            self.means.begin()
            return
        words = [self.address(), self.point, self.action, "--skip", str(self.skip), "--times", str(self.times)]
        words += ["--detail", self.detail] if self.detail else []
        words += ["--delay", str(self.seconds)] if self.seconds else []
        words += ["--bytes", str(self.bytes)] if self.bytes else []
        self._fault("set", *words)

    def happened(self):
        """Whether it has done something; None: that cannot be asked now."""
        if self.outside:
            return self.means.happened()
        try:
            for fault in self._fault("list", self.address())["faults"]:
                if fault["happened"] >= (PERMITS.get(self.detail, 1) if self.kind == "leaked-permits" else 1):
                    self.place = self.place or {name: fault[name] for name in ("file", "line", "function", "region")}
                    return True
            return False
        except (subprocess.SubprocessError, ValueError):
            return None

    def end(self):
        if self.outside:
            self.means.end()
            return
        for _ in range(40):
            try:
                self._fault("clear", self.address())
                break
            except (subprocess.SubprocessError, ValueError):
                pass
        if self.kind == "leak" and self.set == "phases":
            self.cluster.restart(self.server)  # it would have too much memory for ever
