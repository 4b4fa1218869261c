"""The bugs that are planted: the four classes of chapter 6 of the text (Mirgorodskiy 2006), each half of the time without a fault point.

| class | in the text | here |
| --- | --- | --- |
| blocked | SCore: a node blocks in a write of its log | the disk of one server stands still for seconds |
| loop | SCore: a node that runs in a circle | a thread of one server does, in a function drawn by seed |
| dead | Condor: a job's process dies after its work and before it says so | a server dies after it has written, and before the answer |
| silent | Condor: a wrong directory, and nobody complains | one server takes another path than the others; every operation succeeds |

"massive": all servers are slow. "clean", "normal": nothing is done. Each knows before it begins whom a right answer accuses, and which functions it may name.
"""

import json
import os
import pathlib
import re
import signal
import subprocess
import time

import patched_code
import surroundings

CLASSES = ["blocked", "loop", "dead", "silent"]
LASTS = 3.0  # seconds
NOTHING = ("clean", "normal")

# Where a server waits for its disk: the call itself, who waits for that, and who waits for a group of records to be written.
WAITS_FOR_DISK = ["LimitedDisk::LimitedFile::read", "LimitedDisk::LimitedFile::write", "LimitedDisk::LimitedFile::sync", "DiskCalls::wait_for", "DiskCalls::carry_out",
                  "SegmentAppender::wait", "ChunkFileWriter::drain"]
POINTS = {"disk-read": WAITS_FOR_DISK, "disk-write": WAITS_FOR_DISK, "disk-sync": WAITS_FOR_DISK, "send-chunk": ["ReadChunkHandler::send_frame"],
          "heartbeat": ["MetaserverLink::heartbeat", "MetaserverLink::run"]}
SKIP = 6  # passes that go first are drawn below this
# A crash happens in one of these: the bytes of a chunk have come, and the answer has not been sent.
AFTER_THE_WORK = re.compile(r"chunkserver::(ChunkChanges|ChunkWriter|StoredChunks|ChunkIndex|SegmentAppender|SegmentIndex|ChunkFileWriter)::")
DROPS = ["StoredChunks::drop_corrupt", "ChunkReader::read_from_disk", "ChunkStore::open"]
SETTINGS = {"paced": ('disk.bandwidth = "4GiB"\n', ["LimitedDisk::pace"]),
            "cached": ('cache.memory = "256MiB"\n', ["ChunkReader::read_from_disk", "ChunkReader::cached_block", "ChunkReader::copy_cached", "ChunkCache::use"])}


class Bug:
    """One of them, drawn from `rng`. `functions` (short names without "chunkserver::") and `server` say what a right answer has."""

    def __init__(self, rng, cluster, load, what, outside, met_functions):
        self.cluster, self.load, self.what, self.outside = cluster, load, what, outside
        self.server = "" if what in (*NOTHING, "massive") else f"chunkserver-{rng.randrange(1, cluster.servers + 1)}"
        self.kind, self.functions, self.means, self.victim, self.words, self.function = what, [], None, None, [], ""
        self.after = 1.0 + rng.random()  # seconds of load before it
        if what == "blocked":
            self._draw_point(rng, ["disk-read", "disk-write", "disk-sync", "send-chunk"], rng.choice(["hang", "delay"])) if not outside else self._set("disk", WAITS_FOR_DISK)
        elif what == "loop":
            self._draw_point(rng, ["disk-read", "disk-write", "send-chunk"], "cpu-loop") if not outside else self._draw_function(rng, "looping-function", met_functions)
        elif what == "dead":
            late = [name for name in met_functions if AFTER_THE_WORK.match(name)]
            self._draw_point(rng, ["disk-sync", "disk-write"], "cpu-loop") if not outside else self._draw_function(rng, "crash", late)
        elif what == "silent":
            self._draw_silent(rng)
        elif what == "massive":
            self.kind = "slow-disks" if outside else "slow-points"

    def _set(self, kind, functions):
        self.kind, self.functions = kind, functions

    def _draw_point(self, rng, points, action):
        point = rng.choice(points)
        self._set(f"{point} {action}", POINTS[point])
        self.words = [point, action, "--times", 1, "--skip", rng.randrange(SKIP), "--delay", LASTS]

    def _draw_function(self, rng, kind, names):
        self.function = rng.choice(sorted(names))
        self._set(kind, [self.function])

    def _draw_silent(self, rng):
        if not self.outside:
            self.victim = rng.choice([number for number in range(24) if number % 3 == 0])
            action, functions = rng.choice([("corrupt", ["LimitedDisk::LimitedFile::read_wrongly"]), ("error", DROPS)])
            self._set(f"disk-read {action}", functions)
            self.words = ["disk-read", action, "--times", 2, "--skip", rng.randrange(SKIP)] + (["--error", "medium error"] if action == "error" else [])
        else:
            kind = rng.choice(["rotten", "cut-off", *SETTINGS])
            self._set(kind, SETTINGS[kind][1] if kind in SETTINGS else DROPS)
            if kind not in SETTINGS:
                self.victim = rng.choice([number for number in range(24) if number % 3 == 0])

    def describe(self):
        return {"class": self.what, "way": "outside" if self.outside else "point", "kind": self.kind, "server": self.server, "functions": self.functions,
                "function": self.function, "victim": self.victim, "words": [str(word) for word in self.words], "after": round(self.after, 2)}

    def prepare(self):
        """What has to be so before the recording begins: settings, and files of chunks. Returns what is known only now of the truth."""
        if self.kind in SETTINGS:
            settings = self.cluster.settings_of(self.server)
            self.before = settings.read_text()
            settings.write_text(SETTINGS[self.kind][0] + self.before.replace('cache.memory = 0\n', "" if self.kind == "cached" else 'cache.memory = 0\n'))
            self.cluster.restart(self.server)
        elif self.kind in ("rotten", "cut-off"):
            self._damage()
        return {"pid": self.cluster.pid(self.server) if self.server else 0, "server": self.server}

    def _damage(self):
        """Damages a data chunk of the victim. Its server is whoever has that chunk."""
        stripe = json.loads(self.cluster.run("stat", self.load.kept(self.victim), "--json")[1])["stripes"][0]
        chunks = [chunk for chunk in stripe["chunks"] if chunk["index"] < self.cluster.data_chunks and chunk["available"]]
        chunk = next((one for one in chunks if one["server_name"] == self.server), chunks[0])
        self.server = chunk["server_name"]
        pattern = f"chunks/*/{int(stripe['stripe_id']):016x}-{chunk['index']}-*"
        (path,) = self.cluster.disk_of(self.server).glob(pattern)
        size = path.stat().st_size
        with open(path, "r+b") as file:
            if self.kind == "cut-off":
                file.truncate(size // 2 // 4096 * 4096)
            else:
                file.seek(size // 2)
                byte = file.read(1)
                file.seek(size // 2)
                file.write(bytes([byte[0] ^ 1]))

    def begin(self):
        if self.what in NOTHING or self.kind in SETTINGS:
            return
        if self.kind in ("rotten", "cut-off"):
            self.load.get(self.victim, "victim")
            return
        if self.what == "massive":
            self._begin_massive()
            return
        if not self.outside:
            self._fault("set", self.server, *self.words)
            if self.victim is not None:
                self.load.get(self.victim, "victim")
            return
        pid = self.cluster.pid(self.server)
        if self.kind == "disk":
            self.means = surroundings.hanging_disk(pid, self.cluster.directory)
        else:
            binary = self.cluster.binaries / "kintsugi-chunkserver"
            self.means = patched_code.Patched(pid, binary, patched_code.functions_of(binary)[self.function],
                                              patched_code.CRASH if self.kind == "crash" else patched_code.LOOP)
        self.means.begin()

    def _begin_massive(self):
        if self.outside:
            self.means = Several([surroundings.slow_disk(self.cluster.pid(name), self.cluster.directory, 1 << 18) for name in self.cluster.names])
            self.means.begin()
        else:
            for name in self.cluster.names:
                for point in ("disk-read", "disk-write", "disk-sync"):
                    self._fault("set", name, point, "delay", "--delay", 0.3)

    def _fault(self, *words, limit=15):
        try:
            status, out = self.cluster.run("fault", *words, "--json", limit=limit)
            return json.loads(out) if status == 0 else None
        except subprocess.TimeoutExpired:
            return None

    def watch(self):
        """Lets it do its work. Returns whether it met anything."""
        if self.what == "dead":
            return self._watch_death()
        began = time.time()
        met = False
        while time.time() - began < LASTS:
            time.sleep(0.25)
        if self.outside:
            met = self.means.met() if self.kind == "looping-function" else True
        elif self.what != "massive":
            listed = self._fault("list", self.server)
            met = listed is not None and any(fault["happened"] > 0 for fault in listed["faults"])
        return met or self.what in (*NOTHING, "massive")

    def _watch_death(self):
        """A crash comes by itself. At a fault point the server turns in a circle, answers no more, and is killed."""
        pid = self.cluster.pid(self.server)
        for _ in range(60 if self.outside else 10):
            time.sleep(0.1)
            if not self.cluster.lives(self.server):
                return True
            if not self.outside and turns_in_a_circle(pid):
                os.kill(pid, signal.SIGKILL)
                return True
        return False

    def end(self):
        if self.means is not None:
            self.means.end()
        if not self.outside and self.what not in NOTHING:
            for name in self.cluster.names if self.what == "massive" else [self.server]:
                self._fault("clear", name)

    def undo(self):
        """After the recording: settings as they were, and servers that died."""
        if self.kind in SETTINGS:
            self.cluster.settings_of(self.server).write_text(self.before)
            self.cluster.restart(self.server)
        self.cluster.start_again()


def turns_in_a_circle(pid):
    """The thread of the event loop always wants the processor."""
    states = []
    for _ in range(20):
        try:
            states.append(pathlib.Path(f"/proc/{pid}/task/{pid}/stat").read_text().rpartition(")")[2].split()[0])
        except OSError:
            return False
        time.sleep(0.03)
    return states.count("R") >= len(states) - 1


class Several:
    def __init__(self, means):
        self.means = means

    def begin(self):
        for one in self.means:
            one.begin()

    def end(self):
        for one in self.means:
            one.end()
