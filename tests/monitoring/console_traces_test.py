#!/usr/bin/env python3
"""The console's page of recordings of traces in a real browser. Exits with 77 when there is no Chromium."""

import json
import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from console_rig import documents, page, run_tests  # noqa: E402


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
    run_tests()
