"""A browser that opens pages of the console, over documents that a test makes up."""

import contextlib
import html.parser
import http.server
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONSOLE = ROOT / "monitoring/console"
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
# What a page is asked besides, and then what a reader does. `visit` looks at several pages one after the other.
PROBE = """<script>
addEventListener("error", (event) => { document.body.dataset.error = event.message; });
addEventListener("unhandledrejection", (event) => { document.body.dataset.error = String(event.reason); });
const pause = (ms) => new Promise((done) => setTimeout(done, ms));
async function visit(pages) {
  const seen = {};
  for (const page of pages) {
    location.hash = page;
    await pause(1500);
    seen[page] = { text: document.querySelector("main").innerText.replace(/\\s+/g, " "), overflow: document.documentElement.scrollWidth - innerWidth };
  }
  document.body.dataset.seen = JSON.stringify(seen);
}
const begun = setInterval(() => {
  if (!document.body?.dataset.ready) return;
  clearInterval(begun);
  %s
}, 100);
</script>"""


def server(number, **changes):
    name = f"server-{number}"
    disk = {"path": f"/data/{number}", "health": "well", "reason": "", "total_bytes": 1 << 40, "free_bytes": 1 << 39, "chunks": 7, "full": False}
    return {"server_id": str(100 + number), "number": number, "name": name, "address": f"10.0.0.{number}:1", "http": f"10.0.0.{number}:2", "rack": "rack-1",
            "liveness": "alive", "draining": False, "maintenance_s": 0, "slow_factor": 0, "held_back": "", "heartbeat_s_ago": 0.4, "total_bytes": 1 << 40, "free_bytes": 1 << 39,
            "chunks": 7, "disks": 1, "failed_disks": 0, "disk_states": [disk], "busy": 0.25, "repairs": 0, "user_rate": 1 << 20, "repair_rate": 0, "alarms": [],
            "silent_s": 0.5, "open": 0, "loop_lag_s": 0, "stalled_s": 0, **changes}


def process(kind, name, **changes):
    return {"process": f"{abs(hash(name)):016x}"[:16], "kind": kind, "name": name, "host": "left", "address": "", "silent_s": 0.2, "ended": False, "uptime_s": 90,
            "open": 2, "oldest_s": 1.5, "tasks_begun": 5, "tasks_failed": 0, "loop_lag_s": 0, "stalled_s": 0, "dropped": 0, "truncated": False, "refused": 0, "mount": None, **changes}


MOUNT = {"directory": "/mnt/anna", "operations_per_second": 1234.5, "errors_per_second": 0.2, "latency_s": 0.0035, "read_rate": 3 << 20,
         "write_rate": 0, "dirty_bytes": 4096}


def alarm(**changes):
    return {"id": 1, "kind": "silent", "server": "server-2", "server_id": "102", "process": "x", "process_kind": "chunkserver", "region": "", "waiters": 0,
            "servers_waiting": [], "operations": [], "since_s": 30, "confidence": "certain", "measured_right": 0, "measured_of": 0, "why": ["no heartbeat"], "masked": False,
            "factor": 0, "stack": [], "chain": [], "file": "", "line": 0, "function": "", "device": "", "raised_unix_s": 1795880000, "cleared_unix_s": 0,
            "line_of_text": "server-2: does not report", "advice": "server-2 does not answer; no operation waits for it now. Start it again.", **changes}


def documents():
    """A healthy cluster of three servers."""
    return {
        "overview": {
            "monitor": {"address": "10.0.0.9:1", "uptime_s": 500, "last_round_s": 0.1, "kept_bytes": 1000, "replaced": False},
            "metaserver": {"address": "10.0.0.8:1", "answers": True, "answered_s_ago": 0.3},
            "servers": {"all": 3, "alive": 3, "suspect": 0, "dead": 0, "reporting": 3},
            "data": {"level": "good", "sentence": "All 1,204 stripes are whole.", "action": ""},
            "stripes": {"all": 1204, "degraded": 0, "without_spare": 0, "unreadable": 0, "missing_chunks": 0, "servers_not_reported": 0},
            "space": {"total_bytes": 3 << 40, "free_bytes": 2 << 40, "stored_bytes": 1 << 40, "storable_bytes": 1 << 40, "policy": "rs-6-3-1024k", "files": 77},
            "processes": 5, "alarms": 0, "masked_alarms": 0, "holding_alarms": 0, "ending_alarms": 0,
            "repairs": {"running": 0, "queued": 0, "delayed": 0, "unrepairable": 0},
            "reports": {"accepted": 10, "bytes": 10, "refused": 0, "repeated": 0, "too_many": 0}},
        "servers": {"parts": [{"kind": "metaserver", "name": "metaserver", "alarms": []}, {"kind": "monitor", "name": "monitor"}],
                    "servers": [server(10), server(2), server(1)]},
        "alarms": {"now_unix_s": 1795886076.8, "standing": [], "history": []},
        "processes": {"processes": [process("repair-manager", "repair manager a"), process("mount", "/mnt/anna", mount=MOUNT), process("chunkserver", "server-1")]},
        "repairs": {"queued": 0, "delayed": 0, "done": 5, "failed": 0, "unrepairable": 0, "bytes_repaired": 1 << 30, "delay_s": 900, "limit_rate": 0, "left_s": None, "running": []},
        "names": {"known": True, "quotas": [{"path": "/home/anna", "bytes": 95, "most_bytes": 100, "files": 3, "most_files": None, "counting": False}],
                  "snapshots": [{"path": "/home", "name": "monday", "created_unix_s": 1795880000, "kept_bytes": 5, "deleting": False}]},
        "devices": {"devices": [{"process": "x", "name": "server-1", "kind": "disk", "device": "/data/1", "latency_s": 0.012, "factor": 4, "requests_per_s": 3,
                                 "rate_in": 0, "rate_out": 0, "oldest_pending_s": 0, "pending": 0}]},
        "regions": {"regions": [{"region": "disk.read", "count": 4, "per_second": 2, "typical_s": 0.001, "p99_s": 0.1, "processes": 3, "slowest": "server-2",
                                 "slowest_s": 0.1, "slowest_factor": 1}]},
        "models": {"models": []},
        "metrics": {"now_unix_s": 1795886076, "since_unix_s": 1795882476, "step_s": 12, "restarts": [], "recording": {"on": True, "period_s": 1, "bytes": 5, "stopped": ""},
                    "servers": [], "series": [
                        {"server": "", "metric": 'kintsugi_requests_total{operation="read"}', "kind": "counter", "limit": None, "points": [[1795884000, 4, 4, 4], [1795884012, 4, 4, 4]]},
                        {"server": "", "metric": 'kintsugi_request_seconds_total{operation="read"}', "kind": "counter", "limit": None,
                         "points": [[1795884000, 1, 1, 1], [1795884012, 1, 1, 1]]}]},
    }


class Page(html.parser.HTMLParser):
    """The text that a reader sees, by the id of what holds it, and the body's attributes."""

    VOID = {"meta", "link", "img", "input", "br"}

    def __init__(self, text):
        super().__init__()
        self.stack, self.pieces, self.body, self.classes = [], [], {}, {}
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if tag == "body":
            self.body = attributes
        if "id" in attributes:
            self.classes[attributes["id"]] = attributes.get("class", "")
        if tag not in self.VOID:
            self.stack.append((tag, attributes.get("id"), "hidden" in attributes or tag in ("script", "style", "title")))

    def handle_endtag(self, tag):
        while self.stack and self.stack.pop()[0] != tag:
            pass

    def handle_data(self, text):
        if text.strip() and not any(hidden for _, _, hidden in self.stack):
            self.pieces.append(([name or tag for tag, name, _ in self.stack], text.strip()))

    def text(self, within="main"):
        return " ".join(text for path, text in self.pieces if within in path)


class Served:
    """`posts` gets what the page asks to change; `answer_of_post`: the status and the line that it is told. After so many
    `answers_of_api` the API answers `then`, or, without it, says nothing."""

    def __init__(self, documents, do="", answers_of_api=None, then=None, posts=None, answer_of_post=(200, "")):
        self.documents, self.do, self.left, self.then = documents, do, answers_of_api, then
        self.posts, self.answer_of_post = posts if posts is not None else [], answer_of_post

    def answer_change(self, path, headers):
        # What the HTTP server compares.
        assert headers["Origin"] == f'http://{headers["Host"]}', headers["Origin"]
        self.posts.append((path, headers["Authorization"], headers["Cookie"]))
        status, line = self.answer_of_post
        return status, "text/plain", f"{line}\n".encode()

    def answer(self, path):
        name = path.split("?")[0]
        if name.startswith("/api/v1/"):
            if self.left is not None:
                self.left -= 1
                if self.left < 0:
                    return self.then and (self.then[0], "text/plain", f"{self.then[1]}\n".encode())
            return 200, "application/json", json.dumps(self.documents[name.removeprefix("/api/v1/")]).encode()
        file = CONSOLE / (name[1:] or "index.html")
        body = file.read_bytes()
        if file.name == "index.html":
            body = body.replace(b"</head>", (PROBE % self.do).encode() + b"</head>")
        return 200, TYPES[file.suffix], body


@contextlib.contextmanager
def serving(served):
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            if (answer := served.answer(self.path)) is None:
                self.close_connection = True
                return
            self.send(*answer)

        def do_POST(self):
            self.send(*served.answer_change(self.path, self.headers))

        def send(self, status, kind, body):
            self.send_response(status)
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            # As the HTTP server does (kOnlyOwnScripts in http_server.cc), but for the script of the test.
            self.send_header("Content-Security-Policy", "default-src 'self'; script-src 'self' 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        threading.Thread(target=listening.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{listening.server_address[1]}/"
        listening.shutdown()


def page(documents, where="", size="1280,900", fails=False, **what):
    """What is there some seconds after the page was opened."""
    with serving(Served(documents, **what)) as address, tempfile.TemporaryDirectory() as profile:
        done = subprocess.run([BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--lang=en-US", f"--user-data-dir={profile}", f"--window-size={size}",
                               "--virtual-time-budget=20000", "--dump-dom", address + where],
                              capture_output=True, text=True, timeout=120, env={"TZ": "UTC", "HOME": profile, "PATH": "/usr/bin:/bin"})
    shown = Page(done.stdout)
    assert ("data-error" in shown.body) == fails, f"{where}: {shown.body.get('data-error')}"
    return shown


def run_tests():
    """Exits with 77 when there is no Chromium."""
    if not BROWSER:
        print("there is no Chromium here")
        sys.exit(77)
    unittest.main()
