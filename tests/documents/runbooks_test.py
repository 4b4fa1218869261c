#!/usr/bin/env python3
"""The commands of docs/runbooks are run on clusters that are broken as the runbooks say, and show what the runbooks say.

    runbooks_test.py BIN [SCENARIO...]

BIN has the programs, with fault points. Blocks that run on a healthy cluster are run by processes_test (Of/Page); this program runs
those whose line before says "not run: tests/documents/runbooks_test.py ...", and the commands within sentences. Without a
SCENARIO it also fails when a runbook has a command that is neither run nor excused (EXCUSED).
"""

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
RUNBOOKS = ROOT / "docs/runbooks"
PATIENCE_SECONDS = 120
# Words with which a command begins that stands within a sentence.
COMMAND = re.compile(r"(kintsugi|systemctl|journalctl|dmesg|smartctl|fuser|df|curl|ldb|truncate) .*|dmesg")
# Commands that no test can run, and why. Those of systemd are held against deploy/systemd.
EXCUSED = {
    "dmesg": "shows the kernel's log, which has no fault of a test in it",
    "smartctl -a": "needs a real disk",
    "systemctl status kintsugi-chunkserver@1": "needs systemd",
    "journalctl -u kintsugi-chunkserver@1": "needs systemd",
}
HERE = "<!-- not run: tests/documents/runbooks_test.py"


class Failed(Exception):
    pass


def expect(holds, what):
    if not holds:
        raise Failed(what)


def wait_for(what, condition):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.2)
    raise Failed(f"{what}: not within {PATIENCE_SECONDS} s")


def indent_of(line):
    return len(line) - len(line.lstrip())


class Page:
    """A runbook: its blocks by heading, and the commands within its sentences. It notes which of them were taken."""

    def __init__(self, path):
        self.name, self.text = path.name, path.read_text()
        self.blocks, self.sentences, self.taken = [], set(), set()  # (heading, script, whether this program runs it)
        heading, before, block, here = "", "", None, False
        for line in self.text.splitlines():
            if line.lstrip().startswith("```"):
                if block is not None:
                    self.blocks.append((heading, "\n".join(block), here))
                block = [] if block is None and line.strip() == "```sh" else None
                here = before.strip().startswith(HERE)
            elif block is not None:
                block.append(line.strip())
            elif line.startswith("## "):
                heading = line[3:]
            before = line
        prose = re.sub(r"^ *```.*?^ *```$", "", self.text, flags=re.M | re.S)
        self.sentences = {" ".join(code.split()) for code in re.findall(r"`([^`]+)`", prose)
                          if COMMAND.fullmatch(" ".join(code.split()))}

    def block(self, heading, begins):
        """The block below a heading whose first command begins so."""
        for block in self.blocks:
            if block[0] == heading and block[1].startswith(begins):
                self.taken.add(block[1])
                return block[1]
        raise Failed(f"{self.name}: no block below '{heading}' begins with '{begins}'")

    def command(self, text):
        """A command that stands within a sentence."""
        expect(text in self.sentences, f"{self.name}: does not name `{text}` any more")
        self.taken.add(text)
        return text

    def says(self, text):
        """What the page says that one sees; spaces and line ends count alike."""
        expect(text in " ".join(self.text.split()), f"{self.name}: does not say '{text}' any more")
        return text


PAGES = {path.stem: Page(path) for path in sorted(RUNBOOKS.glob("*.md"))}


class Cluster:
    """Real processes in a temporary directory."""

    def __init__(self, binaries, directory, servers):
        self.binaries, self.directory, self.servers = binaries, directory, servers
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("KINTSUGI_")}
        self.environment["PATH"] = f"{binaries}:{self.environment['PATH']}"
        self.began = []

    def __enter__(self):
        self.start("--chunkservers", str(self.servers), "--policy", "rs-2-1-64k", "--repair-delay", "0")
        described = json.loads((self.directory / "cluster.json").read_text())
        self.environment |= {"KINTSUGI_META": described["metaserver"], "KINTSUGI_SECRET_FILE": str(self.directory / "secret"),
                             "KINTSUGI_MONITOR": described["monitor"]}
        return self

    def __exit__(self, *_):
        for process in self.began:
            process.kill()
            process.wait()
        self.run(f"kintsugi cluster stop --dir {self.directory}", fails=None)

    def start(self, *options, fails=False):
        """Starts what does not run. Returns what it prints."""
        return self.run(f"kintsugi cluster start --dir {self.directory} {' '.join(options)}", fails=fails)

    def run(self, script, fails=False, replace=()):
        """Runs commands as they are printed but for what is replaced, and returns all that they print. `fails`: whether the last one
        has to fail; None: it may."""
        for old, new in replace:
            expect(old in script, f"the block does not have {old} any more: {script}")
            script = script.replace(old, str(new))
        done = subprocess.run(["bash", "-ec", script], cwd=self.directory.parent, env=self.environment, capture_output=True, text=True, timeout=120)
        said = done.stdout + done.stderr
        expect(fails is None or fails == (done.returncode != 0), f"{script}: ended with {done.returncode}: {said}")
        return said

    def begin(self, *command):
        process = subprocess.Popen(command, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.began.append(process)
        return process

    def pid(self, daemon):
        return int((self.directory / f"run/{daemon}.pid").read_text().split()[0])

    def stop_daemon(self, daemon, by=signal.SIGTERM):
        pid = self.pid(daemon)
        os.kill(pid, by)
        wait_for(f"{daemon} ends", lambda: not self.runs(pid))

    def runs(self, pid):
        with contextlib.suppress(OSError):
            return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
        return False

    def log_of(self, daemon):
        return (self.directory / f"log/{daemon}.log").read_text()

    def metrics_of(self, daemon):
        return self.fetch(daemon, "/metrics")

    def fetch(self, daemon, page):
        with urllib.request.urlopen(f"http://{self.http_of(daemon)}{page}", timeout=10) as answer:
            return answer.read().decode()

    def http_of(self, daemon):
        return re.search(r'http_listen = "(.*)"', (self.directory / f"etc/{daemon}.toml").read_text())[1]

    def put(self, name):
        file = self.directory / "file"
        file.write_bytes(os.urandom(300_000))
        self.run(f"kintsugi put {file} {name}")

    def server(self, name):
        """What `server list` says of it."""
        return next(one for one in json.loads(self.run("kintsugi server list --json"))["servers"] if one["name"] == name)

    def wait_until(self, command, says):
        """Asks again until a command prints this; returns what it printed."""
        return wait_for(f"{command}: {says}", lambda: (said := self.run(command, fails=None)) and re.search(says, said) and said)


# ---- scenarios: each breaks a cluster of its own

def asks_a_healthy_cluster(cluster):
    """The commands with which runbooks begin, and those of repairs."""
    index, repairs, daemons, full = (PAGES[name] for name in ("README", "repairs", "daemons", "full_cluster"))
    cluster.put("/file")
    for page, command in ((index, "kintsugi diagnose"), (index, "kintsugi server list"), (daemons, "kintsugi diagnose"),
                          (daemons, "kintsugi server list"), (full, "kintsugi server list"), (full, "kintsugi diagnose"),
                          (repairs, "kintsugi server list"), (repairs, "kintsugi df"), (repairs, "kintsugi fsck"),
                          (repairs, "kintsugi repair history"), (repairs, "kintsugi diagnose"), (full, "df -i")):
        cluster.run(page.command(command), fails=None if command == "kintsugi diagnose" else False)
    for page in (daemons, repairs):
        json.loads(subprocess.run(["bash", "-c", page.command("kintsugi diagnose --json")], env=cluster.environment, capture_output=True).stdout)
    said = cluster.run(index.command("kintsugi diagnose --metrics"), fails=None)
    expect("rror" not in said, said)
    said = cluster.run(index.command("kintsugi doctor") + f" --etc {cluster.directory}/etc --out {cluster.directory}/help.tar.gz", fails=None)
    expect("help.tar.gz" in said, said)
    page = cluster.run(daemons.block("A daemon does not answer", "curl"), replace=[("127.0.0.1:9801", cluster.http_of("chunkserver-1"))])
    expect("ok" in page, page)
    # Its first advice: no repair manager runs.
    status = repairs.command("kintsugi repair status")
    cluster.run(status)
    cluster.stop_daemon("repair-manager-1", signal.SIGKILL)
    cluster.wait_until(status, "none is registered|no repair manager")
    cluster.run(status, fails=True)
    cluster.start()
    wait_for("a repair manager", lambda: "none is registered" not in cluster.run(status, fails=None))


def loses_disks_and_servers(cluster):
    """dead_disk: a disk that goes away, a second daemon on a directory, a drain, a dead server that is forgotten, a copied disk."""
    page = PAGES["dead_disk"]
    server = "chunkserver-3"
    disk = cluster.directory / f"data/{server}-b"
    disk.mkdir()
    cluster.stop_daemon(server)
    settings = cluster.directory / f"etc/{server}.toml"
    settings.write_text(re.sub(r'disks = \["(.*)"\]', rf'disks = ["\1", "{disk}"]', settings.read_text()))
    cluster.start()
    for number in range(12):
        cluster.put(f"/file{number}")

    said = cluster.begin(cluster.binaries / "kintsugi-chunkserver", "--config", settings, "--log-file", "", "--listen", "127.0.0.1:0",
                         "--http-listen", "127.0.0.1:0").communicate(timeout=PATIENCE_SECONDS)[0]
    expect("is in use by another process" in said and page.says("is in use by another process"), said)
    holder = page.command("fuser -v DIRECTORY/lock")
    if shutil.which("fuser"):
        expect(str(cluster.pid(server)) in cluster.run(holder, replace=[("DIRECTORY", disk)]), "fuser does not name the daemon")

    moved = disk.rename(cluster.directory / "data/moved")
    listed = page.command("kintsugi server list")
    cluster.wait_until(listed, "alive, 1 of 2 disks failed")
    page.says("alive, 1 of 4 disks failed")
    expect(f"disk {disk} is dropped:" in cluster.log_of(server) and page.says("is dropped:"), "the log of the server")
    expect(re.search(r"^kintsugi_chunkserver_failed_disks 1$", cluster.metrics_of(server), re.M), "kintsugi_chunkserver_failed_disks")
    page.says("kintsugi_chunkserver_failed_disks")
    page.says("all whole")
    cluster.wait_until("kintsugi fsck", "all whole")
    cluster.run(page.command("kintsugi fsck --deep"))
    page.says("Put it back at its path")
    moved.rename(disk)
    cluster.stop_daemon(server)
    cluster.start()
    wait_for("the disk counts again", lambda: cluster.server(server)["failed_disks"] == 0 and cluster.server(server)["liveness"] == "alive")

    drain, undrain = page.block("A disk reports errors but still works (SMART, kernel log)", "kintsugi server drain").splitlines()
    cluster.run(drain, replace=[("blue-3", server)])
    cluster.wait_until(listed, "drained")
    cluster.run(undrain, replace=[("blue-3", server)])
    expect("drain" not in cluster.run(listed), "the drain was not taken back")

    remove = page.block("Replace the disk", "kintsugi server remove 3")
    cluster.run(remove, fails=True)
    cluster.stop_daemon(server, signal.SIGKILL)
    cluster.wait_until(listed, "dead")
    cluster.wait_until("kintsugi fsck", "all whole")
    wait_for("the dead server is forgotten", lambda: "dead" not in cluster.run(remove, fails=None) and server not in cluster.run(listed))

    copied = cluster.directory / "data/copied"
    shutil.copytree(cluster.directory / "data/chunkserver-4", copied)
    pid = cluster.pid("chunkserver-4")
    copy = re.sub(r'disks = .*', f'disks = ["{copied}"]', (cluster.directory / "etc/chunkserver-4.toml").read_text())
    copy = re.sub(r'(listen = "127.0.0.1:)\d+', r'\g<1>0', copy).replace("chunkserver-4.log", "copied.log")
    (cluster.directory / "etc/copied.toml").write_text(copy)
    cluster.begin(cluster.binaries / "kintsugi-chunkserver", "--config", cluster.directory / "etc/copied.toml")
    wait_for("the one that came first ends", lambda: not cluster.runs(pid))
    expect("another process has registered as server" in cluster.log_of("chunkserver-4"), cluster.log_of("chunkserver-4")[-500:])
    page.says("another process has registered as server")


def has_a_sick_disk(cluster):
    """sick_disk: a disk that hangs, chunks that cannot be read, a drain."""
    page = PAGES["sick_disk"]
    server = "chunkserver-2"
    for number in range(4):
        cluster.put(f"/file{number}")
    cluster.run(f"kintsugi fault set {server} disk-read hang --times 1")
    cluster.run("for i in 0 1 2 3; do kintsugi get --replace /file$i back; done")
    cluster.run("timeout 5 kintsugi fsck --deep", fails=None)
    said = cluster.wait_until(page.command("kintsugi server list"), r"\bhung\b")
    expect(re.search(r"disk \S+: hung \(\d+ chunks?\): a call has not returned for \d+ s", said), said)
    page.says("hung (5120 chunks): a call has not returned for 34 s")
    expect(re.search(r"^kintsugi_disk_health\{.*\} 2$", cluster.metrics_of(server), re.M), "kintsugi_disk_health")
    cluster.run("kintsugi fault clear " + server)
    wait_for("the disk is well again", lambda: "hung" not in cluster.run("kintsugi server list"))
    cluster.run(page.command("kintsugi fsck --deep"))
    cluster.run(page.command("kintsugi server drain SERVER"), replace=[("SERVER", server)])
    cluster.wait_until("kintsugi server list", "drained")


def restores_older_metadata(cluster):
    """restored_metadata: an older copy serves, the newer one comes back, and the older one is accepted."""
    page = PAGES["restored_metadata"]
    meta, older, newer = (cluster.directory / "data" / name for name in ("meta", "older", "newer"))

    def use(copy):
        cluster.stop_daemon("metaserver")
        shutil.rmtree(meta)
        shutil.copytree(copy, meta)
        cluster.start()

    cluster.put("/old")
    cluster.stop_daemon("metaserver")
    shutil.copytree(meta, older)
    cluster.start()
    time.sleep(12)  # chunkservers learn where the metadata stands once the metaserver has run for a while
    cluster.put("/new")
    cluster.stop_daemon("metaserver")
    shutil.copytree(meta, newer)
    cluster.start()

    use(older)
    status = page.command("kintsugi metadata status")
    cluster.wait_until(status, "IN DOUBT")
    cluster.run(status, fails=True)
    cluster.run(page.command("kintsugi fsck"), fails=True)
    expect("the metadata is older than chunks of this cluster" in cluster.log_of("metaserver"), cluster.log_of("metaserver")[-500:])
    page.says("the metadata is older than chunks of this cluster")
    expect(re.search(r"^kintsugi_metadata_in_doubt 1$", cluster.metrics_of("metaserver"), re.M), "kintsugi_metadata_in_doubt")
    page.says("kintsugi_metadata_in_doubt")
    cluster.run("kintsugi stat /old")

    use(newer)
    cluster.wait_until("kintsugi fsck", "all whole")
    cluster.run(page.block("If newer metadata exists", "kintsugi metadata status"))
    cluster.run("kintsugi stat /new")

    use(older)
    cluster.wait_until(status, "IN DOUBT")
    cluster.run(page.block("If newer metadata is gone for good", "kintsugi metadata accept"))
    cluster.run(status)
    cluster.run(page.command("kintsugi quarantine keep"))
    cluster.run(page.command("kintsugi quarantine empty"))
    cluster.run("kintsugi stat /old")


def damages_the_metadata_store(cluster):
    """metadata_store: a damaged log is cut off, a cut-off record costs nothing, a damaged table is put back."""
    page = PAGES["metadata_store"]
    meta = cluster.directory / "data/meta"

    def newest(pattern):
        return max((file for file in meta.glob(pattern) if file.stat().st_size), key=lambda file: file.name)

    def flip(file, at):
        with open(file, "r+b") as opened:
            opened.seek(at)
            byte = opened.read(1)[0]
            opened.seek(at)
            opened.write(bytes([byte ^ 0x40]))

    for number in range(6):
        cluster.put(f"/file{number}")
    cluster.stop_daemon("metaserver", signal.SIGKILL)
    cluster.run(page.block("", "cp -a /srv/kintsugi/meta "), replace=[("/srv/kintsugi/meta", meta)])
    expect((cluster.directory / "data/meta.before/CURRENT").exists(), "the copy is not there")

    log = newest("*.log")
    flip(log, log.stat().st_size // 2)
    cluster.start(fails=True)
    told = cluster.log_of("metaserver")
    advice = re.search(rf"is damaged from byte (\d+) on, and .*\(truncate -s (\d+) {re.escape(str(log))}\)", told)
    expect(advice and advice[1] == advice[2], told[-1000:])
    page.says("is damaged from byte 48213 on")
    cluster.run(page.block("A damaged log", "truncate -s 48213"), replace=[("48213", advice[1]), ("/srv/kintsugi/meta/000012.log", log)])
    cluster.start()
    cluster.wait_until("kintsugi server list", "alive")
    cluster.run(page.command("kintsugi metadata status"), fails=None)  # chunks may be newer than what is left
    cluster.run(page.block("A damaged log", "kintsugi metadata status").partition("\n")[2].partition("kintsugi fsck")[0])
    cluster.run("kintsugi metadata accept", fails=None)
    cluster.wait_until("kintsugi metadata status", "(?s)^(?!.*IN DOUBT)")
    cluster.run(page.block("A damaged log", "kintsugi metadata status"))

    cluster.run("kintsugi mkdir /cut")
    cluster.stop_daemon("metaserver", signal.SIGKILL)
    log = newest("*.log")
    with open(log, "ab") as opened:
        opened.write(b"\x17" * 40)
    before = len(cluster.log_of("metaserver"))
    cluster.start()
    cluster.run("kintsugi stat /cut")
    expect("the last record is incomplete or broken" in cluster.log_of("metaserver")[before:], cluster.log_of("metaserver")[before:])
    page.says("the last record is incomplete or broken")

    cluster.stop_daemon("metaserver", signal.SIGKILL)
    table = newest("*.sst")
    backup = cluster.directory / "backup"
    shutil.copytree(meta, backup)
    flip(table, table.stat().st_size // 10)
    before = len(cluster.log_of("metaserver"))
    cluster.start(fails=None)
    for number in range(6):
        cluster.run(f"timeout 20 kintsugi stat /file{number}", fails=None)
    told = cluster.log_of("metaserver")[before:]
    expect("block checksum mismatch" in told and page.says("block checksum mismatch"), told[-1000:])
    with contextlib.suppress(OSError):
        os.kill(cluster.pid("metaserver"), signal.SIGKILL)
    wait_for("the metaserver ends", lambda: not cluster.runs(cluster.pid("metaserver")))
    cluster.run(page.block("A damaged table", "cp -a /backup/meta/000044.sst"),
                replace=[("/backup/meta/000044.sst", backup / table.name), ("/srv/kintsugi/meta/000044.sst", table)])
    cluster.start()
    cluster.wait_until("kintsugi server list", "alive")

    repair = page.block("A damaged table", "ldb repair")
    if shutil.which("ldb"):
        cluster.stop_daemon("metaserver")
        cluster.run(repair, replace=[("/srv/kintsugi/meta", meta)])
        cluster.start()
    cluster.wait_until("kintsugi fsck /", "all whole")
    cluster.run(page.block("A damaged table", "kintsugi metadata status"))


SCENARIOS = {scenario.__name__: (scenario, servers) for scenario, servers in (
    (asks_a_healthy_cluster, 4), (loses_disks_and_servers, 5), (has_a_sick_disk, 4), (restores_older_metadata, 4),
    (damages_the_metadata_store, 4))}


# ---- what nobody ran

def not_run():
    units = {path.name.partition(".")[0] for path in (ROOT / "deploy/systemd").glob("*.service")}
    for page in PAGES.values():
        for heading, script, here in page.blocks:
            if here and script not in page.taken:
                yield f"{page.name}: no scenario runs the block below '{heading}': {script}"
        for command in sorted(page.sentences - page.taken):
            # What is run for another runbook, or in a block; there a command that stands without its arguments has them.
            elsewhere = any(command in other.taken or re.search(rf"^{re.escape(command)}( |$)", script, re.M)
                            for other in PAGES.values() for _, script, _ in [("", "", False), *other.blocks])
            unit = re.search(r"\bkintsugi-[a-z-]+@", command)
            if unit and unit[0] not in units:
                yield f"{page.name}: `{command}`: deploy/systemd has no such unit"
            elif command not in EXCUSED and not elsewhere:
                yield f"{page.name}: no scenario runs `{command}`"
    for command in EXCUSED:
        if not any(command in page.sentences for page in PAGES.values()):
            yield f"`{command}` is excused, and no runbook has it"


def main():
    binaries, chosen = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:]
    faults = []
    for name in chosen or SCENARIOS:
        scenario, servers = SCENARIOS[name]
        with tempfile.TemporaryDirectory(prefix="kintsugi-runbooks-", ignore_cleanup_errors=True) as directory:
            began = time.monotonic()
            try:
                with Cluster(binaries, pathlib.Path(directory) / "cluster", servers) as cluster:
                    scenario(cluster)
            except (Failed, subprocess.TimeoutExpired, OSError, ValueError) as error:
                faults.append(f"{name}: {error}")
            print(f"{name}: {time.monotonic() - began:.1f} s", flush=True)
    faults += [] if chosen else not_run()
    print("\n".join(faults))
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
