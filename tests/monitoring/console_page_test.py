#!/usr/bin/env python3
"""The pages of the console in a real browser, over documents that a test makes up. Exits with 77 when there is no Chromium."""

import contextlib
import copy
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
PAGES = ["#overview", "#servers", "#servers/server-10", "#disks", "#clients", "#repairs", "#alarms", "#files", "#developers", "#traces"]


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


def visited(documents, size="1280,900"):
    """The text of every page and how far it is too wide."""
    return json.loads(page(documents, size=size, do=f"visit({json.dumps(PAGES)})").body["data-seen"])


def degraded():
    changed = documents()
    changed["overview"]["data"] = {"level": "bad", "sentence": "12 of 1,204 stripes cannot lose another chunk; they are being repaired, about 40 s left.", "action": "Wait."}
    changed["overview"]["servers"] |= {"alive": 2, "dead": 1}
    changed["overview"] |= {"alarms": 1}
    changed["servers"]["servers"][1] = server(2, liveness="dead", alarms=[1], silent_s=None)
    changed["alarms"]["standing"] = [alarm()]
    return changed


class Console(unittest.TestCase):
    def test_it_begins_with_the_health_of_data(self):
        shown = page(documents())
        self.assertTrue(shown.text().startswith("✓ All 1,204 stripes are whole."), shown.text()[:200])
        self.assertEqual(shown.classes["verdict"], "verdict good")
        self.assertIn("No operation is held up.", shown.text())

    def test_every_page_shows_what_it_is_for(self):
        wanted = {"#overview": ["Throughput of users", "Files 77", "rs-6-3-1024k", "260 ms"], "#servers": ["server-10", "rack-1", "50 % of 1.0 TiB"],
                  "#servers/server-10": ["10.0.0.10:1", "Disks busy"], "#disks": ["/data/1", "12 ms", "4.0 ×"], "#clients": ["/mnt/anna", "1 mount", "1,235 3.0 MiB/s 0 B/s 3.5 ms"],
                  "#repairs": ["Done 5, 1.0 GiB", "15 min", "Rebuilt by repairs"], "#alarms": ["No alarm is active."],
                  "#files": ["/home/anna", "95 % of 100 B", "monday", "2026-11-28 15:33:20 UTC"], "#developers": ["disk.read", "repair manager a"],
                  "#traces": ["Open a recording", "kintsugi trace export FILE... --format chrome --out slow.json"]}
        seen = visited(documents())
        self.assertEqual(set(seen), set(wanted))
        for where, texts in wanted.items():
            for text in ["✓ All 1,204 stripes are whole.", *texts]:
                self.assertIn(text, seen[where]["text"], where)

    def test_on_every_page_the_health_of_data_and_what_to_do_stand_first_and_no_page_is_wider_than_a_telephone(self):
        seen = visited(degraded(), size="500,844")
        for where in PAGES:
            self.assertTrue(seen[where]["text"].startswith("✕ 12 of 1,204 stripes cannot lose another chunk; they are being repaired, about 40 s left. Wait."), where)
            self.assertLessEqual(seen[where]["overflow"], 0, where)
        alarms = seen["#alarms"]["text"]
        self.assertIn("server-2 does not answer; no operation waits for it now. Start it again.", alarms)
        self.assertIn("docs/failures.md", alarms)

    def test_the_arrows_go_to_the_next_page_where_a_dead_server_is_named_and_stands_first(self):
        shown = page(degraded(), do='document.querySelector("nav a").focus(); '
                                    'document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true }));')
        self.assertEqual(shown.body["data-ready"], "servers")
        self.assertIn("2 of 3 alive, server-2 dead", shown.text("parts"))
        names = [text for path, text in shown.pieces if "server-list" in path and text.startswith("server-")]
        self.assertEqual(names, ["server-2", "server-1", "server-10"])

    def test_a_silent_metaserver_is_a_part_of_the_cluster_that_is_gone(self):
        changed = documents()
        changed["overview"]["data"] = {"level": "bad", "sentence": "The metaserver does not answer.", "action": "Start it."}
        changed["overview"]["metaserver"] |= {"answers": False, "answered_s_ago": 12}
        shown = page(changed, "#servers")
        self.assertIn("✕ silent for 12 s", shown.text("parts"))
        self.assertNotIn("✓ alive", shown.text("server-list"), "what the metaserver said of servers may be old")

    def test_a_monitor_that_goes_away_takes_the_place_of_the_sentence(self):
        for answers in (0, 9):
            shown = page(documents(), answers_of_api=answers)
            self.assertTrue(shown.text().startswith("✕ The monitor does not answer: what is shown may be old."), shown.text()[:200])
            self.assertIn("data-old", shown.body)

    def test_what_the_monitor_answers_in_place_of_documents_is_shown(self):
        action = "Load the page again, with a token of the role admin."
        for then, sentence, more in (((401, "the token desk has expired"), "✕ The monitor refuses to show more: the token desk has expired.", action),
                                     ((403, "<b>no</b>"), "✕ The monitor refuses to show more: <b>no</b>.", action),
                                     ((503, "starting"), "✕ The monitor is not ready: starting.", "The page asks again"),
                                     ((500, ""), "✕ The monitor answers with an error: HTTP 500.", "log of kintsugi-monitor")):
            for answers in (0, 9):
                shown = page(documents(), answers_of_api=answers, then=then)
                self.assertTrue(shown.text().startswith(sentence), shown.text()[:200])
                self.assertIn(more, shown.text()[:400])
                self.assertNotIn("does not answer", shown.text()[:400])
                self.assertIn("data-old", shown.body)

    def test_a_link_that_was_cut_off_shows_the_first_page(self):
        shown = page(documents(), "#servers/%")
        self.assertEqual(shown.body["data-ready"], "overview")
        self.assertTrue(shown.text().startswith("✓ All 1,204 stripes are whole."), shown.text()[:200])

    def test_documents_that_it_does_not_understand_are_no_good_health(self):
        changed = documents()
        del changed["alarms"]["standing"]
        shown = page(changed, fails=True)
        self.assertTrue(shown.text().startswith("✕ This page cannot show what the monitor answers"), shown.text()[:200])
        self.assertIn("data-old", shown.body)

    def test_search_finds_by_a_part_of_the_name_and_texts_of_reports_are_shown_as_they_are(self):
        changed = documents()
        changed["processes"]["processes"].append(process("mount", "<img src=x onerror=alert(1)>"))
        find = 'const f = document.getElementById("search"); f.value = "%s"; f.dispatchEvent(new Event("input"));'
        self.assertIn("server-10", page(changed, do=find % "ver-10").text("found"))
        self.assertIn("<img src=x onerror=alert(1)>", page(changed, do=find % "onerror mount").text("found"))
        self.assertIn("Nothing has that name.", page(changed, do=find % "ghost").text("found"))


# Presses the button of an action, as the keyboard does; then `rest`.
ASK = """(async () => {
  const press = (name) => { const button = document.querySelector(`[data-focus="action ${name} server-10"]`); button.focus(); button.click(); };
  const type = (token) => { document.getElementById("action-token").value = token; };
  const submit = async () => { document.getElementById("action-form").requestSubmit(); await pause(500); };
  await pause(300);
  %s
  document.body.dataset.focused = document.activeElement.dataset.focus ?? document.activeElement.id;
  document.body.dataset.open = document.getElementById("action").open;
  document.body.dataset.beyond = document.documentElement.scrollWidth - innerWidth;
})();"""


class Actions(unittest.TestCase):
    def asked(self, rest, changed=None, where="#servers/server-10", **what):
        posts = []
        shown = page(changed or documents(), where, do=ASK % rest, posts=posts, **what)
        return shown, posts

    def test_a_drain_says_what_will_happen_and_is_asked_for_with_the_token_that_was_typed_and_nothing_else(self):
        shown, posts = self.asked('press("drain"); type(" kintsugi-token "); await submit();', answer_of_post=(200, "Server server-10 gets nothing new."))
        self.assertEqual(posts, [("/api/v1/actions/drain?server=110", "Bearer kintsugi-token", None)])
        self.assertIn("Drain: server-10", shown.text("action"))
        self.assertIn("server-10 gets no new chunks, and its 7 chunks will be moved to other servers; reads and writes continue meanwhile.", shown.text("action-what"))
        self.assertEqual(shown.text("action-outcome"), "✓ Done. Server server-10 gets nothing new.")
        self.assertEqual(shown.body["data-focused"], "action-close", "the next key closes it")

    def test_a_refusal_is_shown_as_it_is_and_another_token_may_be_typed(self):
        line = "DrainServer needs the right to administer the cluster, which the token <b>worker</b> does not give"
        shown, posts = self.asked('press("drain"); type("x"); await submit(); type("y"); await submit();', answer_of_post=(403, line))
        self.assertEqual(shown.text("action-outcome"), f"✕ Not done: {line}")
        self.assertEqual([authorization for _, authorization, _ in posts], ["Bearer x", "Bearer y"])
        self.assertEqual(shown.body["data-focused"], "action-token")

    def test_nothing_is_asked_without_a_token_or_once_it_is_cancelled_and_the_keyboard_goes_on_where_it_was(self):
        # The page is drawn again meanwhile, with other buttons.
        shown, posts = self.asked('press("drain"); await submit(); dispatchEvent(new Event("resize")); await pause(500);'
                                  'const closed = new Promise((done) => document.getElementById("action").addEventListener("close", done));'
                                  'document.getElementById("action-close").click(); await closed;')
        self.assertEqual(posts, [])
        self.assertEqual(shown.body["data-open"], "false")
        self.assertEqual(shown.body["data-focused"], "action drain server-10")

    def test_an_answer_that_comes_late_is_not_shown_in_the_dialog_about_another_server(self):
        late = ('let answer; const real = window.fetch; window.fetch = (url, how) => how?.method !== "POST" ? real(url, how) : new Promise((done) => {'
                ' answer = () => done(new Response("Server server-10 gets nothing new.")); });'
                'press("drain"); type("x"); await submit(); document.getElementById("action-close").click();'
                'location.hash = "#servers/server-2"; await pause(1500);'
                'document.querySelector(`[data-focus="action drain server-2"]`).click(); answer(); await pause(300);'
                'document.body.dataset.disabled = document.getElementById("action-do").disabled;'
                'document.body.dataset.hidden = document.getElementById("action-fields").hidden;')
        shown, _ = self.asked(late)
        self.assertIn("Drain: server-2", shown.text("action"))
        self.assertEqual(shown.text("action-outcome"), "")
        self.assertEqual((shown.body["data-disabled"], shown.body["data-hidden"]), ("false", "false"))

    def test_a_token_is_forgotten_also_when_nothing_was_done_with_it(self):
        typed = ('const timers = []; const later = window.setTimeout; window.setTimeout = (f, ms) => ms === 600000 ? timers.push(f) : later(f, ms);'
                 'press("drain"); type("x"); document.getElementById("action-token").dispatchEvent(new Event("input"));'
                 'document.getElementById("action-close").click(); for (const timer of timers) timer();'
                 'document.body.dataset.token = document.getElementById("action-token").value;')
        shown, _ = self.asked(typed)
        self.assertEqual(shown.body["data-token"], "")

    def test_a_drained_server_is_taken_back_or_removed_and_its_page_says_how_far_it_is(self):
        changed = documents()
        changed["servers"]["servers"][0] = server(10, draining=True, chunks=3)
        shown, posts = self.asked('press("undrain"); type("x"); await submit();', changed)
        self.assertIn("Drain 3 chunks still to be moved", shown.text("server-facts"))
        self.assertNotIn("Remove", shown.text("server-facts"), "it has chunks still")
        self.assertEqual(posts[0][0], "/api/v1/actions/undrain?server=110")
        changed["servers"]["servers"][0] = server(10, draining=True, chunks=0)
        shown, posts = self.asked('press("remove"); type("x"); await submit();', changed, size="500,844")
        self.assertIn("→ drained", shown.text("server-title"))
        self.assertIn("Drain done: nothing is on it any more", shown.text("server-facts"))
        self.assertEqual(posts[0][0], "/api/v1/actions/remove?server=110")
        self.assertLessEqual(int(shown.body["data-beyond"]), 0)

    def test_maintenance_is_for_the_hours_that_were_typed_and_its_end_is_offered_while_it_lasts(self):
        hours = 'document.getElementById("action-value").value = "%s";'
        shown, posts = self.asked('press("maintain"); type("x"); ' + hours % "1.5" + " await submit();", answer_of_post=(200, "Server server-10 is in maintenance."))
        self.assertEqual(posts, [("/api/v1/actions/maintain?server=110&seconds=5400", "Bearer x", None)])
        self.assertIn("Maintenance: server-10", shown.text("action"))
        self.assertIn("rebuilt only where one more loss would make data unreadable", shown.text("action-what"))
        for wrong in ("0", "25", ""):
            _, posts = self.asked('press("maintain"); type("x"); ' + hours % wrong + " await submit();")
            self.assertEqual(posts, [], wrong)
        # The field of one action is not in the way of another one.
        _, posts = self.asked('press("maintain"); ' + hours % "77" + ' document.getElementById("action-close").click(); press("drain"); type("x"); await submit();')
        self.assertEqual(posts[0][0], "/api/v1/actions/drain?server=110")
        changed = documents()
        changed["servers"]["servers"][0] = server(10, liveness="dead", maintenance_s=5400)
        shown, posts = self.asked('press("end-maintenance"); type("x"); await submit();', changed, size="500,844")
        self.assertIn("⏸ away, in maintenance", shown.text("server-title"))
        self.assertIn("for 90 min still", shown.text("server-facts"))
        self.assertEqual(posts[0][0], "/api/v1/actions/end-maintenance?server=110")
        self.assertLessEqual(int(shown.body["data-beyond"]), 0)

    def test_repairs_are_limited_to_the_rate_that_was_typed_and_the_limit_is_shown_and_taken_away(self):
        press = 'const press_repairs = (name) => { const button = document.querySelector(`[data-focus="action ${name} repairs"]`); button.focus(); button.click(); };'
        shown, posts = self.asked(press + 'press_repairs("limit-repairs"); type("x"); document.getElementById("action-value").value = "20"; await submit();', where="#repairs")
        self.assertEqual(posts, [(f"/api/v1/actions/limit-repairs?rate={20 << 20}", "Bearer x", None)])
        self.assertIn("Repairs of stripes that cannot lose another chunk are not slowed.", shown.text("action-what"))
        self.assertNotIn("Take the limit away", shown.text("repair-numbers"))
        changed = documents()
        changed["repairs"]["limit_rate"] = 20 << 20
        shown, posts = self.asked(press + 'press_repairs("unlimit-repairs"); type("x"); await submit();', changed, where="#repairs", size="500,844")
        self.assertIn("20.0 MiB/s at each server, each way", shown.text("repair-numbers"))
        self.assertEqual(posts[0][0], "/api/v1/actions/unlimit-repairs")
        self.assertLessEqual(int(shown.body["data-beyond"]), 0)

    def test_a_monitor_that_goes_away_meanwhile_is_told(self):
        shown, _ = self.asked('window.fetch = () => Promise.reject(new TypeError("Failed to fetch")); press("drain"); type("x"); await submit();')
        self.assertTrue(shown.text("action-outcome").startswith("✕ It is not known whether this was done: the monitor does not answer"), shown.text("action-outcome"))


def recording():
    """What `kintsugi trace export --format chrome` writes of a get that asked a metaserver and a chunkserver, a heartbeat, and a timer."""
    events = [{"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": name}} for pid, name in enumerate(
        ["kintsugi 70 (slow/trace)", "kintsugi-metaserver 71 (slow/trace.127.0.0.1:9000)", "kintsugi-chunkserver 72 (slow/trace.127.0.0.1:9001)"])]
    get, beat, timer = {"flow": 5}, {"flow": 9}, {"flow": 11}

    def lane(pid, tid, *calls):
        for call in calls:
            events.append({"ph": "E", "pid": pid, "tid": tid, "ts": call[0]} if len(call) == 1 else
                          {"ph": "B", "pid": pid, "tid": tid, "ts": call[0], "name": call[1], "args": call[2]})

    def frame(number, call, name, flow, sender, receiver):
        for ph, (pid, tid, ts) in (("s", sender), ("f", receiver)):
            events.append({"ph": ph, "bp": "e", "cat": "frame", "id": number, "pid": pid, "tid": tid, "ts": ts, "name": name, "args": {**flow, "call": call}})

    lane(0, 0, (100, "cli::get", get), (200, "client::Reader::read", get), (1000, "(waits)", get), (8000,), (8500,), (9000,))
    lane(1, 0, (400, "metaserver::Files::open_read", get), (900,), (20000, "metaserver::Servers::heard_of", beat), (20010,))
    lane(2, 0, (2000, "chunkserver::ReadChunkHandler::serve", get), (2100.5, "crc::checksum", get), (2101.75,), (3000.25, "crc::checksum", get), (3002.25,), (7000,))
    lane(2, 1, (50, "runtime::Timer::tick", timer), (40000,), (41000, "runtime::Timer::tick", timer), (42000,))
    frame(0, "a1", "OpenRead", get, (0, 0, 300), (1, 0, 450))
    frame(1, "a1", "OpenRead (goes on)", get, (1, 0, 850), (0, 0, 950))
    frame(2, "b2", "ReadChunk", get, (0, 0, 1000), (2, 0, 2000))
    frame(3, "b2", "ReadChunk (goes on)", get, (2, 0, 6900), (0, 0, 7900))
    frame(4, "c3", "Heartbeat", beat, (2, 1, 19000), (1, 0, 20005))
    return {"displayTimeUnit": "ns", "traceEvents": events}


# Opens a file as the chooser does; then `rest`, in which `seen()` is what of the time is shown.
OPEN = """(async () => {
  const at = (id) => document.getElementById(id), seen = () => at("trace-seen").textContent;
  const open = async (name, text) => {
    const chosen = new DataTransfer();
    chosen.items.add(new File([text], name));
    at("trace-file").files = chosen.files;
    at("trace-file").dispatchEvent(new Event("change"));
    // The browser's time goes on while it reads a file, but not while it asks a server.
    for (let i = 0; i < 500 && at("trace-problem").textContent.startsWith("Reading"); ++i) await fetch("icon.svg");
    await pause(100);
  };
  const key = (key, where = "trace-scroll", more = {}) => at(where).dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true, ...more }));
  const type = async (text) => { at("trace-search").value = text; at("trace-search").dispatchEvent(new Event("input")); await pause(400); };
  const choose = async (title) => { [...document.querySelectorAll("#trace-flows td button")].find((one) => one.textContent === title).click(); await pause(200); };
  const note = (name, value) => { document.body.dataset[name] = value; };
  const real = %s;
  await pause(300);
  await open("slow.json", real);
  %s
  note("beyond", document.documentElement.scrollWidth - innerWidth);
})();"""


class Traces(unittest.TestCase):
    def opened(self, rest="", events=None, **what):
        text = json.dumps(recording() if events is None else events)
        return page(documents(), "#traces", do=OPEN % (json.dumps(text), rest), **what)

    def names(self, shown):
        """The texts in the list of requests that name one."""
        return [text for path, text in shown.pieces if "trace-flows" in path and "td" in path and path[-1] == "button"]

    def test_a_recording_shows_its_requests_the_longest_first_and_nothing_of_it_is_sent(self):
        posts = []
        shown = self.opened(posts=posts)
        self.assertEqual(shown.text("trace-summary"), "slow.json: 3 processes, 2 requests of 3 flows, 42.000 ms, 10 calls, 5 frames (33 events)")
        self.assertEqual(self.names(shown), ["OpenRead, ReadChunk", "Heartbeat"])
        self.assertIn("OpenRead, ReadChunk command 70 0.100 ms 8.900 ms 3 7", shown.text("trace-flows"))
        self.assertEqual(shown.text("trace-problem"), "")
        self.assertEqual(posts, [])

    def test_flows_that_are_no_requests_are_listed_when_asked_for_and_the_list_is_sorted_by_its_titles(self):
        shown = self.opened('document.querySelector("[data-kind=flows]").click(); document.querySelector(`[data-focus="sort 2"]`).click(); await pause(200);')
        self.assertEqual(self.names(shown), ["runtime::Timer::tick", "OpenRead, ReadChunk", "Heartbeat"])
        shown = self.opened('document.querySelector(`[data-focus="sort 3"]`).click(); await pause(200);')
        self.assertEqual(self.names(shown), ["Heartbeat", "OpenRead, ReadChunk"], "pressed again: the shortest first")

    def test_the_timeline_is_drawn_and_zoomed_to_microseconds_by_keys_buttons_and_the_wheel(self):
        # Row 2 of the request has a call in the middle, and none at the right edge.
        shown = self.opened('await choose("OpenRead, ReadChunk"); const canvas = at("trace-canvas"), colour = (x) => canvas.getContext("2d").getImageData(x, 24 + 22 + 17 + 3, 1, 1).data.join();'
                            'await new Promise(requestAnimationFrame); note("call", colour(canvas.width / 2)); note("beside", colour(canvas.width - 2)); at("trace-all").click();'
                            'note("whole", seen()); key("+"); note("nearer", seen()); key("ArrowRight"); note("moved", seen()); at("trace-farther").click(); at("trace-whole").click(); note("back", seen());'
                            'at("trace-scroll").focus(); at("trace-canvas").dispatchEvent(new WheelEvent("wheel", { deltaY: -300, bubbles: true, cancelable: true })); note("wheel", seen());'
                            'for (let i = 0; i < 40; ++i) at("trace-nearer").click(); note("nearest", seen());')
        self.assertNotEqual(shown.body["data-call"], shown.body["data-beside"])
        whole = shown.body["data-whole"]
        self.assertTrue(whole.endswith("(43.680 ms)"), whole)
        self.assertTrue(shown.body["data-nearer"].endswith("(21.840 ms)"), shown.body["data-nearer"])
        self.assertTrue(shown.body["data-moved"].endswith("(21.840 ms)"), shown.body["data-moved"])
        self.assertNotEqual(shown.body["data-moved"], shown.body["data-nearer"])
        self.assertEqual(shown.body["data-back"], whole)
        self.assertTrue(shown.body["data-wheel"].endswith("(16.069 ms)"), shown.body["data-wheel"])
        self.assertTrue(shown.body["data-nearest"].endswith("(0.100 µs)"), shown.body["data-nearest"])

    def test_search_leaves_the_requests_that_have_it_and_goes_from_one_call_to_the_next(self):
        shown = self.opened('await type("CHECKSUM"); note("found", at("trace-found").textContent); key("Enter", "trace-search"); note("first", at("trace-found").textContent + " " + seen());'
                            'note("detail", at("trace-detail").innerText.replace(/\\s+/g, " ")); key("n"); note("second", at("trace-found").textContent + " " + seen());'
                            'key("Enter", "trace-search"); note("around", at("trace-found").textContent);')
        self.assertEqual(self.names(shown), ["OpenRead, ReadChunk"])
        self.assertEqual(shown.body["data-found"], "2 found")
        self.assertEqual(shown.body["data-first"], "1 of 2 2,095.50 µs – 2,106.75 µs (11.250 µs)")
        self.assertIn("crc::checksum Duration 1.250 µs", shown.body["data-detail"])
        self.assertIn("Called by chunkserver::ReadChunkHandler::serve", shown.body["data-detail"])
        self.assertTrue(shown.body["data-second"].startswith("2 of 2 2,99"), shown.body["data-second"])
        self.assertEqual(shown.body["data-around"], "1 of 2")
        nothing = self.opened('await type("ghost");')
        self.assertIn("Nothing has that name.", nothing.text("trace-flows"))
        self.assertEqual(nothing.text("trace-found"), "no such function here")

    def test_a_click_tells_what_a_call_took_itself_and_its_frames_lead_to_the_other_process(self):
        # The first row: the heading of the first process, and before it the axis, are above it.
        shown = self.opened('await choose("OpenRead, ReadChunk"); const canvas = at("trace-canvas"), box = canvas.getBoundingClientRect();'
                            'for (const kind of ["pointerdown", "pointerup"]) canvas.dispatchEvent(new PointerEvent(kind, { clientX: box.left + box.width / 2, clientY: box.top + 24 + 22 + 8 + 17, button: 0, bubbles: true }));'
                            'note("detail", at("trace-detail").innerText.replace(/\\s+/g, " ")); [...document.querySelectorAll("#trace-detail .frames button")].find((one) => one.textContent.includes("sent OpenRead")).click();')
        self.assertIn("client::Reader::read Duration 8.300 ms Itself 1.300 ms, without the 1 call that it made", shown.body["data-detail"])
        self.assertIn("metaserver::Files::open_read", shown.text("trace-detail"))
        self.assertIn("received OpenRead from command 70", shown.text("trace-detail"))

    def test_who_follows_a_frame_or_shows_a_request_alone_by_keys_stays_in_the_detail(self):
        shown = self.opened('await type("open_read"); key("Enter", "trace-search"); const press = (text) => { const button = [...document.querySelectorAll("#trace-detail button")].find((one) => one.textContent.includes(text));'
                            'button.focus(); button.click(); return document.activeElement; };'
                            'note("followed", press("received OpenRead from").textContent); note("back", press("sent OpenRead to").textContent);'
                            'note("alone", press("Show it alone").id); note("of", at("trace-of").textContent); note("still", at("trace-detail").innerText.replace(/\\s+/g, " "));')
        self.assertTrue(shown.body["data-followed"].startswith("sent OpenRead to metaserver 71"), shown.body["data-followed"])
        self.assertTrue(shown.body["data-back"].startswith("received OpenRead from command 70"), shown.body["data-back"])
        self.assertEqual(shown.body["data-alone"], "trace-detail")
        self.assertEqual(shown.body["data-of"], "OpenRead, ReadChunk (flow 5)")
        self.assertIn("metaserver::Files::open_read", shown.body["data-still"])

    def test_the_graph_of_a_request_says_who_called_whom_how_often_and_how_long_it_took(self):
        shown = self.opened('await choose("OpenRead, ReadChunk"); note("graph", document.querySelector("#trace-graph svg").getAttribute("aria-label"));')
        self.assertEqual(shown.body["data-graph"], "Who called whom: command 70 OpenRead of metaserver 71, 1 times; command 70 ReadChunk of chunkserver 72, 1 times")
        self.assertIn("command 70 OpenRead metaserver 71 1 150.000 µs 650.000 µs", shown.text("trace-graph"))
        self.assertIn("1 × 6.9 ms", shown.text("trace-graph"))
        self.assertNotIn("Heartbeat", shown.text("trace-graph"))
        self.assertIn("Heartbeat", self.opened().text("trace-graph"))

    def test_a_recording_of_one_process_names_requests_by_frames_whose_senders_are_not_recorded(self):
        events = [one for one in recording()["traceEvents"] if one["pid"] == 2 and one["ph"] in "MBE"]
        events.append({"ph": "i", "s": "t", "cat": "frame", "pid": 2, "tid": 0, "ts": 2000, "name": "ReadChunk", "args": {"flow": 5, "frame": "received"}})
        shown = self.opened(events={"displayTimeUnit": "ns", "traceEvents": events})
        self.assertEqual(self.names(shown), ["ReadChunk"])
        self.assertIn("not recorded ReadChunk chunkserver 72 1", shown.text("trace-graph"))

    def test_what_is_no_recording_is_one_line_and_the_page_stays_as_it_was(self):
        text = json.dumps(recording())
        other = {"traceEvents": [{"ph": "X", "pid": 1, "tid": 1, "ts": 5, "dur": 3, "name": "Paint"}]}
        foreign = {"traceEvents": [{"ph": "B", "pid": 1, "tid": 1, "ts": 5, "name": "Paint"}]}
        broken, far = recording(), recording()
        broken["traceEvents"][5]["ts"], far["traceEvents"][5]["ts"] = "9e9", 1e300
        deep = {"traceEvents": [{"ph": "B", "pid": 1, "tid": 1, "ts": 5, "name": "f", "args": {"flow": 1}}] * 10001}
        files = []
        ends = {"traceEvents": [*recording()["traceEvents"], {"ph": "E", "pid": 0, "tid": 0, "ts": 99}]}
        for name, content, line in (
                ("cat.png", "\x89PNG", "cat.png is no JSON. Open what `kintsugi trace export FILE... --format chrome --out slow.json` wrote."),
                ("slow.trace", "KTRACE1\n\x00", "slow.trace is a recording as daemons make it. Open what `kintsugi trace export"),
                ("half.json", text.replace(" ", "")[:900], "half.json was cut off: it does not end as it should. Export it again."),
                ("empty.json", "", "empty.json is empty."),
                ("list.json", "[1, 2]", "list.json is JSON of something else."),
                ("spans.json", '{"resourceSpans": []}', "spans.json was exported with `--format otlp`. Export it with `--format chrome`."),
                ("none.json", '{"traceEvents": []}', "none.json holds no calls: nothing was recorded."),
                ("web.json", json.dumps(other), "web.json is a trace of another program."),
                ("foreign.json", json.dumps(foreign), "foreign.json is a trace of another program, or was changed: event 1 has no number of a flow."),
                ("changed.json", json.dumps(broken), "changed.json is a trace of another program, or was changed: event 6 says no process, thread or time."),
                ("far.json", json.dumps(far), "far.json is a trace of another program, or was changed: event 6 says no process, thread or time."),
                ("deep.json", json.dumps(deep), "deep.json is a trace of another program, or was changed: more than 10000 calls are in one another."),
                ("ends.json", json.dumps(ends), "ends.json is a trace of another program, or was changed: a call ends that did not begin.")):
            files.append((name, content, line))
        shown = self.opened(f"const seen_then = []; for (const [name, text] of {json.dumps([file[:2] for file in files])}) {{ await open(name, text);"
                            'seen_then.push([at("trace-problem").textContent, at("trace-summary").textContent, at("trace-flows").textContent]); }'
                            'note("then", JSON.stringify(seen_then));')
        then = json.loads(shown.body["data-then"])
        self.assertEqual(len(then), len(files))
        for (name, _, line), (problem, summary, flows) in zip(files, then):
            self.assertTrue(problem.startswith(line), f"{name}: {problem}")
            self.assertTrue(summary.startswith("slow.json: 3 processes"), name)
            self.assertIn("OpenRead, ReadChunk", flows, name)
        large = self.opened('const chosen = new File(["{}"], "large.json"); Object.defineProperty(chosen, "size", { value: 1 << 29 });'
                            'const drop = new Event("drop", { cancelable: true }); drop.dataTransfer = { files: [chosen] }; dispatchEvent(drop); await pause(300);')
        self.assertEqual(large.text("trace-problem"), "large.json has 512 MiB, and this page reads 256 MiB at most. Record for a shorter time, or open it in Perfetto.")

    def test_a_recording_of_more_chains_than_a_call_has_arguments_is_shown(self):
        shown = self.opened('const events = []; for (let i = 0; i < 130000; ++i) events.push({ ph: "B", pid: 0, tid: i, ts: i, name: "client::Reader::read", args: { flow: 5 } },'
                            '{ ph: "E", pid: 0, tid: i, ts: 200000 + i }); await open("many.json", JSON.stringify({ traceEvents: events }));')
        self.assertEqual(shown.text("trace-problem"), "")
        self.assertEqual(shown.text("trace-summary"), "many.json: 1 process, 0 requests of 1 flow, 329.999 ms, 130,000 calls, 0 frames (260,000 events)")

    def more(self, flow, steps):
        """The recording with more in a chain of the chunkserver: (ts, function), or (ts,) where one ends, or (ts, "sent" or "received", frame)."""
        events = recording()
        for ts, *what in steps:
            event = {"pid": 2, "tid": 3, "ts": ts, "args": {"flow": flow}}
            if len(what) == 2:
                event |= {"ph": "i", "s": "t", "cat": "frame", "name": what[1], "args": {"flow": flow, "call": "d4", "frame": what[0]}}
            events["traceEvents"].append(event | ({"ph": "E"} if not what else {"ph": "B", "name": what[0]} if len(what) == 1 else {}))
        return events

    def test_a_request_that_is_not_answered_lasts_as_long_as_its_server_waits(self):
        asked = [(100, "rpc::serve_requests"), (110, "received", "WriteChunk"), (111, "chunkserver::WriteChunkHandler::serve")]
        part, answer = (115, "sent", "WriteChunk (goes on)"), (140, "sent", "WriteChunk (goes on)")
        for steps, duration in (([*asked, (120, "(waits)")], "41.900 ms"), ([*asked, part, (120, "(waits)")], "41.900 ms"),
                                ([*asked, (120, "(waits)"), (130,), answer, (150,), (160, "(waits)")], "60.000 µs")):
            self.assertIn(f"WriteChunk chunkserver 72 0.100 ms {duration}", self.opened(events=self.more(7, steps)).text("trace-flows"))

    def test_what_a_server_sleeps_between_heartbeats_is_not_counted(self):
        # Two heartbeats of 0.5 ms each.
        link, sleep = "chunkserver::MetaserverLink::send_heartbeat", "runtime::TaskGroup::sleep_until"
        steps = [(1000, "chunkserver::MetaserverLink::run")]
        for ts in (1000, 11500):
            steps += [(ts, link), (ts + 10, "sent", "Heartbeat"), (ts + 20, "(waits)"), (ts + 480,), (ts + 500,), (ts + 500, sleep), (ts + 500, "(waits)"), (ts + 10500,), (ts + 10500,)]
        self.assertIn("Heartbeat chunkserver 72 1.000 ms 1.000 ms", self.opened(events=self.more(8, steps[:-2])).text("trace-flows"))

    def test_what_says_what_a_process_is_and_what_the_page_does_not_know_has_no_time(self):
        events = recording()
        events["traceEvents"][0] |= {"ts": "9e9", "dur": 1e300}
        events["traceEvents"] += [{"ph": "M", "name": "waiting", "pid": 0, "tid": 0, "ts": 9e9}, {"ph": "X", "pid": 1, "tid": 1, "ts": 9e9, "dur": 9e9, "name": "Paint"}]
        self.assertIn(", 42.000 ms, 10 calls,", self.opened(events=events).text("trace-summary"))

    def test_what_was_done_long_after_the_first_event_is_zoomed_to_as_near(self):
        events = recording()
        events["traceEvents"] += [{"ph": "B", "pid": 2, "tid": 1, "ts": 3e14, "name": "runtime::Timer::late", "args": {"flow": 12}}, {"ph": "E", "pid": 2, "tid": 1, "ts": 3e14 + 1}]
        shown = self.opened('await type("late"); document.querySelector("[data-kind=flows]").click(); await choose("runtime::Timer::late");'
                            'for (let i = 0; i < 9; ++i) at("trace-nearer").click(); await pause(200); note("seen", seen());', events)
        self.assertIn("300,000,000,000,000", shown.body["data-seen"])

    def test_it_fits_a_telephone_and_names_are_shown_as_they_are(self):
        events = recording()
        events["traceEvents"][3]["name"] = "<img src=x onerror=alert(1)>" + "::nested" * 40
        shown = self.opened('await choose("OpenRead, ReadChunk"); await type("onerror"); key("Enter", "trace-search");', events, size="500,844")
        self.assertLessEqual(int(shown.body["data-beyond"]), 0)
        self.assertIn("<img src=x onerror=alert(1)>::nested", shown.text("trace-detail"))


if __name__ == "__main__":
    if not BROWSER:
        print("there is no Chromium here")
        sys.exit(77)
    unittest.main()
