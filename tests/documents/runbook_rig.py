"""What tests of runbooks are made of: the pages, with their commands, and clusters of real processes that are broken on purpose."""

import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
RUNBOOKS = ROOT / "docs/runbooks"
PATIENCE_SECONDS = 120
# Words with which a command begins that stands within a sentence.
COMMAND = re.compile(r"(kintsugi|systemctl|journalctl|dmesg|smartctl|fuser|df|curl|ldb|truncate) .*|dmesg")
# How a block is run, by the line before it: by this program, by processes_test (no such line), or not at all.
HERE, BY_ANOTHER, NOT_AT_ALL = "here", "by processes_test", "not at all"


def how_it_is_run(line_before):
    if line_before.strip().startswith("<!-- not run: tests/documents/runbooks_test.py "):
        return HERE
    return NOT_AT_ALL if "<!-- not run" in line_before else BY_ANOTHER


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


class Page:
    """A runbook: its blocks by heading, and the commands within its sentences. It notes which of them were taken."""

    def __init__(self, path):
        self.name, self.text = path.name, path.read_text()
        self.blocks, self.taken = [], set()  # of a block: its heading, its commands, how it is run
        heading, before, block, run = "", "", None, None
        for line in self.text.splitlines():
            if line.lstrip().startswith("```"):
                if block is not None:
                    self.blocks.append((heading, "\n".join(block), run))
                block = [] if block is None and line.strip() == "```sh" else None
                run = how_it_is_run(before)
            elif block is not None:
                block.append(line.strip())
            elif line.startswith("## "):
                heading = line[3:]
            before = line
        prose = re.sub(r"^ *```.*?^ *```$", "", self.text, flags=re.M | re.S)
        codes = (" ".join(code.split()) for code in re.findall(r"`([^`]+)`", prose))
        self.sentences = {code for code in codes if COMMAND.fullmatch(code)}

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
        try:
            self.start("--chunkservers", str(self.servers), "--policy", "rs-2-1-64k", "--repair-delay", "0")
        except Failed:
            self.__exit__()
            raise
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
        done = subprocess.run(["bash", "-ec", script], cwd=self.directory.parent, env=self.environment, capture_output=True, text=True,
                              timeout=PATIENCE_SECONDS)
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
