#!/usr/bin/env python3
"""The pages of the console in a real browser. Exits with 77 when there is no Chromium."""

import json
import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from console_rig import alarm, documents, page, process, run_tests, server  # noqa: E402

PAGES = ["#overview", "#servers", "#servers/server-10", "#disks", "#clients", "#repairs", "#alarms", "#files", "#developers", "#traces"]


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


if __name__ == "__main__":
    run_tests()
