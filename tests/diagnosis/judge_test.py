#!/usr/bin/env python3
"""What the judge of campaigns (scripts/lab/diagnosis/judge.py) counts: worked examples of journals, without any cluster."""

import contextlib
import io
import json
import pathlib
import random
import sys
import tempfile
import types
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts" / "lab" / "diagnosis"))

import faults  # noqa: E402
import judge  # noqa: E402
import phases  # noqa: E402
import simulated  # noqa: E402


PLACE = {"file": "/src/store/a.cc", "line": 100, "function": "awaitable<Status> ns::Reader::read(int)", "region": "chunkserver.read_chunk"}


def verdict(server, peer="", kind="stuck", region="chunkserver.read_chunk", confidence="certain", after=4.0, file="store/a.cc", line=90, function="Reader::read",
            line_of_text=None, places=()):
    return {"server": server, "peer": peer, "kind": kind, "region": region, "confidence": confidence, "after": after, "file": file, "line": line,
            "function": function, "slice": [{"file": where[0], "line": where[1], "function": where[2]} for where in places], "line_of_text": line_of_text or f"{server} {kind}"}


def injection(kind="hang", server="chunkserver-3", peer="", verdicts=(), before=(), aftermath=(), number=0, reached=1.0, **more):
    return {"seed": 1, "number": number, "class": "point", "kind": kind, "point": "disk-read", "detail": "", "server": server, "peer": peer,
            "place": PLACE, "harmless": False, "right_kinds": [], "reached": reached, "ended": 10.0, "unix": 100.0,
            "before": list(before), "verdicts": list(verdicts), "aftermath": list(aftermath), **more}


class Right(unittest.TestCase):
    def test_the_server_is_named(self):
        one = injection(verdicts=[verdict("chunkserver-3")])
        self.assertTrue(judge.is_named(one))
        self.assertFalse(judge.is_named(injection(verdicts=[verdict("chunkserver-4")])))

    def test_of_a_link_both_ends_are_named_in_whatever_order(self):
        link = {"kind": "dead-link", "server": "chunkserver-3", "peer": "chunkserver-5"}
        self.assertTrue(judge.is_named(injection(**link, verdicts=[verdict("chunkserver-5", "chunkserver-3")])))
        self.assertFalse(judge.is_named(injection(**link, verdicts=[verdict("chunkserver-3"), verdict("chunkserver-5")])), "two verdicts, one end each")

    def test_a_healthy_end_of_a_link_is_a_wrong_server_though_the_other_one_is_named(self):
        one = injection(kind="deaf", verdicts=[verdict("chunkserver-3", "chunkserver-5", kind="link")])
        self.assertTrue(judge.is_named(one))
        self.assertEqual([right for _, right in judge.judged_verdicts(one)], [False])
        self.assertEqual(judge.reported_servers(one), [("chunkserver-3", True), ("chunkserver-5", False)])

    def test_a_verdict_on_a_client_accuses_no_server(self):
        one = injection(verdicts=[verdict("an unknown client", "chunkserver-3", kind="client")])
        self.assertFalse(judge.is_named(one))
        self.assertEqual(judge.judged_verdicts(one), [])
        self.assertEqual(judge.reported_servers(one), [])

    def test_a_mount_that_is_stopped_is_named_by_a_verdict_on_a_mount_and_by_no_other(self):
        one = {"kind": "stopped-mount", "server": "mount"}
        self.assertTrue(judge.is_named(injection(**one, verdicts=[verdict("mount 4711 on here", kind="client")])))
        for other in (verdict("chunkserver-3"), verdict("client 7", kind="client"), verdict("metaserver", "mount 4711 on here", kind="link")):
            self.assertFalse(judge.is_named(injection(**one, verdicts=[other])))
        self.assertEqual(judge.reported_servers(injection(**one, verdicts=[verdict("metaserver", "mount 4711", kind="link")])), [("metaserver", False)])

    def test_that_no_repair_manager_is_registered_is_said_of_the_one_there_is(self):
        one = injection(kind="cpu-loop", server="repair manager 127.0.0.1:7010", verdicts=[verdict("repair manager", kind="silent")])
        self.assertEqual(judge.reported_servers(one), [("repair manager 127.0.0.1:7010", True)])
        self.assertEqual(judge.reported_servers(injection(verdicts=[verdict("repair manager", kind="silent")])), [("repair manager", False)])

    def test_servers_count_once_however_many_verdicts_name_them(self):
        one = injection(before=[verdict("chunkserver-7")], verdicts=[verdict("chunkserver-3"), verdict("chunkserver-3", kind="slow")],
                        aftermath=[verdict("chunkserver-4")])
        self.assertEqual(judge.reported_servers(one), [("chunkserver-3", True), ("chunkserver-4", False), ("chunkserver-7", False)])

    def test_what_holds_nobody_up_has_no_right_verdict(self):
        one = injection(kind="repeat", harmless=True, verdicts=[verdict("chunkserver-3")])
        self.assertEqual([right for _, right in judge.judged_verdicts(one)], [False])

    def test_whose_messages_come_twice_or_damaged_may_be_said(self):
        one = injection(kind="repeat", harmless=True, verdicts=[verdict("chunkserver-3", kind="messages"), verdict("chunkserver-4", kind="messages")])
        self.assertEqual([right for _, right in judge.judged_verdicts(one)], [True, False])

    def test_what_stood_before_is_wrong_and_what_comes_late_is_right_when_it_names_the_server(self):
        one = injection(before=[verdict("chunkserver-3")], verdicts=[], aftermath=[verdict("chunkserver-3"), verdict("chunkserver-4")])
        self.assertEqual([right for _, right in judge.judged_verdicts(one)], [False, True, False])
        self.assertFalse(judge.is_named(one), "it was to be named while the fault lasted")

    def test_that_a_machine_is_short_of_processor_accuses_nobody(self):
        host = verdict("machine a", kind="host")
        one = injection(before=[host], verdicts=[host, verdict("chunkserver-3")], aftermath=[host])
        self.assertEqual([right for _, right in judge.judged_verdicts(one)], [True])

    def test_a_machine_whose_processors_are_taken_is_named_by_that_and_by_nothing_else(self):
        host, slow = verdict("machine a", kind="host"), verdict("metaserver", kind="slow")
        self.assertTrue(judge.is_named(injection(kind="machine-hog", server="", verdicts=[host])))
        wrong = injection(kind="machine-hog", server="", verdicts=[slow])
        self.assertFalse(judge.is_named(wrong))
        self.assertEqual([right for _, right in judge.judged_verdicts(wrong)], [False])

    def test_interference_is_called_what_it_is(self):
        hog = {"kind": "hog", "right_kinds": ["resource"]}
        self.assertTrue(judge.names_kind(injection(**hog, verdicts=[verdict("chunkserver-3", kind="resource")])))
        self.assertFalse(judge.names_kind(injection(**hog, verdicts=[verdict("chunkserver-3", kind="slow")])))
        self.assertFalse(judge.names_kind(injection(**hog, verdicts=[verdict("chunkserver-4", kind="resource")])), "of another server")


class Places(unittest.TestCase):
    def test_region_at_first_place_and_among_the_first(self):
        one = injection(verdicts=[verdict("chunkserver-3", region="chunkserver.read_chunk > disk.read"),
                                  verdict("chunkserver-3", region="serve.ReadChunk > chunkserver.read_chunk")])
        self.assertFalse(judge.right_at(one, 1), "the innermost region counts, and no part of a name does")
        self.assertTrue(judge.right_at(one, 3))

    def test_the_right_region_at_the_wrong_server_does_not_count(self):
        self.assertFalse(judge.right_at(injection(verdicts=[verdict("chunkserver-4")]), 3))

    def test_the_function_that_the_first_verdict_on_the_server_names(self):
        other = {"file": "b.cc", "line": 1, "function": "other"}
        self.assertTrue(judge.in_first_function(injection(verdicts=[verdict("chunkserver-4", **other), verdict("chunkserver-3")])))
        self.assertFalse(judge.in_first_function(injection(verdicts=[verdict("chunkserver-3", **other), verdict("chunkserver-3")])))
        self.assertFalse(judge.in_first_function(injection(verdicts=[verdict("chunkserver-3", function="Reader::re")])))
        self.assertFalse(judge.in_first_function(injection(verdicts=[])))

    def test_the_slice_holds_the_place_within_ten_lines_and_a_file_alone_is_not_enough(self):
        def sliced(*where):
            return judge.in_slice(injection(verdicts=[verdict("chunkserver-3", file="b.cc", line=1, function="f", places=[("x.cc", 5, "g"), where])]))
        self.assertTrue(sliced("store/a.cc", 110, "g"))
        self.assertTrue(sliced("store/a.cc", 300, "Reader::read"))
        self.assertFalse(sliced("store/a.cc", 111, "g"))
        self.assertFalse(sliced("a.h", 100, "g"))

    def test_seconds_count_from_when_it_was_reached_and_are_never_negative(self):
        one = injection(reached=3.0, verdicts=[verdict("chunkserver-4", after=3.5), verdict("chunkserver-3", after=7.5)])
        self.assertAlmostEqual(judge.seconds_to_right(one), 4.5)
        self.assertEqual(judge.seconds_to_right(injection(reached=5.0, verdicts=[verdict("chunkserver-3", after=4.0)])), 0.0)


class Numbers(unittest.TestCase):
    def test_wilson_intervals(self):
        low, high = judge.wilson(44, 50)
        self.assertAlmostEqual(low, 0.762, places=3)
        self.assertAlmostEqual(high, 0.944, places=3)
        self.assertEqual(judge.wilson(0, 0), (0.0, 1.0))
        self.assertEqual(judge.share(251, 258), "251 of 258 (97.3 %, 94.5 to 98.7)")

    def test_mcnemar_is_exact_and_two_sided(self):
        self.assertAlmostEqual(judge.mcnemar(20, 5), 0.00408, places=5)
        self.assertEqual(judge.mcnemar(0, 0), 1.0)
        self.assertEqual(judge.mcnemar(3, 3), 1.0)

    def test_methods_are_asked_for_the_time_of_the_fault_only(self):
        rounds = [{"unix_s": second, "verdicts": [{"server": f"s{second}", "peer": "", "kind": "stuck"}, {"server": "c", "peer": "", "kind": "client"}]} for second in (100, 101, 105, 110, 111)]
        self.assertEqual(judge.servers_named(rounds, injection()), {"s101", "s105", "s110"})


class Report(unittest.TestCase):
    def printed(self, injections):
        with tempfile.TemporaryDirectory() as directory:
            journal = pathlib.Path(directory) / "journal"
            journal.write_text("".join(json.dumps(one) + "\n" for one in injections))
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                judge.report(types.SimpleNamespace(journal=[journal]))
            return out.getvalue()

    def test_counts_redraws_misses_and_wrong_verdicts(self):
        out = self.printed([injection(number=0, verdicts=[verdict("chunkserver-3")]),
                            injection(number=1, verdicts=[verdict("chunkserver-4", line_of_text="chunkserver-4 is wrong")]),
                            injection(number=2, reached=None)])
        self.assertIn("2 injections, 0 of them without a fault point; 1 redraws", out)
        self.assertIn("among those named | 1 of 2 (50.0 %", out)
        self.assertIn("right of those called certain | 1 of 2", out)
        self.assertIn("- 1/1: hang disk-read at chunkserver-3: missed; chunkserver-4 is wrong", out)

    def test_nothing_at_all_is_a_report_too(self):
        self.assertIn("0 injections", self.printed([]))


class Simulated(unittest.TestCase):
    def test_a_healthy_end_of_a_link_is_wrong_unless_a_message_was_lost_between_the_two(self):
        link = verdict("chunkserver-3", "chunkserver-5", kind="link")
        self.assertFalse(simulated.is_named(injection(kind="isolate", verdicts=[link])))
        self.assertTrue(simulated.is_named(injection(kind="lost-message", verdicts=[link])))
        self.assertTrue(simulated.is_named(injection(kind="cut", peer="chunkserver-5", verdicts=[link])))

    def test_a_journal_of_the_simulator_is_judged_by_the_same_rules(self):
        self.assertIs(simulated.has_region, judge.has_region)
        self.assertIs(simulated.share, judge.share)


class NoCluster:
    directory = "/"
    places = [faults.Place("disk-read", "", "chunkserver", 400.0), faults.Place("serve-call", "Stat", "metaserver", 2.0),
              faults.Place("start-repair", "", "repair manager", 9.0), faults.Place("wake", "record", "chunkserver", 40.0),
              faults.Place("release", "buffer", "chunkserver", 40.0), faults.Place("complete", "commit", "metaserver", 40.0),
              faults.Place("deadlock", "read", "chunkserver", 40.0)]
    repair_manager = "repair manager 127.0.0.1:7010"
    load = None
    groups = {f"chunkserver-{number}": "group" for number in range(1, faults.SERVERS + 1)}

    def pid(self, _name):
        return 1

    def port(self, _name):
        return 7000


class Draws(unittest.TestCase):
    def test_a_seed_and_a_number_draw_the_same_fault_again(self):
        for which in ("hangs", "interference", "phases"):
            one, again = (faults.Fault(random.Random("5 17"), NoCluster(), which).describe() for _ in range(2))
            self.assertEqual(one, again)

    def test_every_place_that_was_passed_is_drawn_at_a_daemon_of_its_role_and_at_a_pass_that_comes(self):
        drawn = [faults.Fault(random.Random(f"8 {number}"), NoCluster()) for number in range(400)]
        places = {(one.point, one.detail, one.server.split("-")[0]) for one in drawn if one.kind in ("hang", "delay", "cpu-loop")}
        self.assertEqual(places, {("disk-read", "", "chunkserver"), ("serve-call", "Stat", "metaserver"),
                                  ("start-repair", "", "repair manager 127.0.0.1:7010")})
        self.assertEqual({one.skip for one in drawn if one.point == "serve-call" and one.detail == "Stat"}, {0})
        self.assertGreater(len({one.skip for one in drawn if one.point == "disk-read"}), 8)

    def test_what_is_lost_is_drawn_at_its_own_places_once_or_for_good_where_one_less_holds_nobody_up(self):
        drawn = {one.kind: one for one in (faults.Fault(random.Random(f"9 {number}"), NoCluster()) for number in range(600)) if one.kind in faults.LOST}
        self.assertEqual({kind: (one.point, one.detail, one.action, one.times) for kind, one in drawn.items()},
                         {"lost-wakeup": ("wake", "record", "hang", 1), "leaked-permits": ("release", "buffer", "hang", 0),
                          "never-completed": ("complete", "commit", "hang", 1), "deadlock": ("deadlock", "read", "hang", 1)})

    def test_places_are_those_that_a_daemon_passes_more_than_once_in_twenty_seconds(self):
        passed = [{"point": "disk-read", "method": "", "passes": 100}, {"point": "disk-sync", "method": "", "passes": 10},
                  {"point": "serve-call", "method": "", "passes": 500}, {"point": "serve-call", "method": "EndRepair", "passes": 400},
                  {"point": "serve-call", "method": "ChangeFaults", "passes": 100}, {"point": "answer", "method": "EndRepair", "passes": 400}]
        found = faults.places_of("chunkserver", 10, passed, 20.0)
        self.assertEqual([(one.point, one.detail, one.passes) for one in found], [("disk-read", "", 10.0), ("serve-call", "EndRepair", 40.0)])

    def test_every_kind_of_interference_is_drawn_and_every_harmful_one_has_a_name(self):
        drawn = [faults.Fault(random.Random(f"1 {number}"), NoCluster(), "interference") for number in range(400)]
        self.assertEqual({one.kind for one in drawn}, set(faults.INTERFERENCE_OUTSIDE) | set(faults.INTERFERENCE_INSIDE))
        for one in drawn:
            self.assertNotEqual(one.harmless, one.kind in faults.RIGHT_KINDS, one.kind)
            self.assertEqual(one.outside, one.point == "", one.kind)

    def test_the_classes_of_phases_are_drawn_in_turns(self):
        drawn = [faults.Fault(random.Random(f"6 {number}"), NoCluster(), "phases", number) for number in range(300)]
        counts = {name: sum(phases.class_of(one.describe()) == name for one in drawn) for name in ("loop", "stall", "processor", "memory", "slow disk", "message")}
        self.assertEqual(set(counts.values()), {50})
        self.assertEqual({one.seconds for one in drawn if one.kind in ("cpu-loop", "delay")}, set(faults.PHASE_SECONDS))


def window(server, began, score=0.0, tops=(), because="time"):
    top = [{"region": region, "wait": wait, "file": "", "magnitude": 1.0} for region, wait in tops]
    ours = {"score": score, "because": because, "excess_s": score, "top": top}
    return {"server": server, "kind": "chunkserver", "began": began, "ended": began + 10, "ours": ours, "text": {"score": -score, "top": []},
            "semi": {"score": 0.0, "top": []}}


class Phases(unittest.TestCase):
    """The fault of injection() is from 101 to 110, healthy since 60."""

    def answer(self, windows, method="ours", **more):
        return phases.Run(injection(kind="delay", **more), windows, 60.0).answer(method)[:3]

    def test_the_window_with_the_highest_score_its_server_and_its_transitions(self):
        windows = [window("chunkserver-3", 70, 1), window("chunkserver-4", 95, 2), window("chunkserver-3", 98, 9, [("a > chunkserver.read_chunk", "")])]
        self.assertEqual(self.answer(windows), (True, True, True))
        self.assertEqual(self.answer(windows, "text"), (False, True, False), "its scores are the other way round")

    def test_a_window_before_the_fault_is_wrong_and_one_after_the_run_is_none(self):
        windows = [window("chunkserver-3", 70, 9), window("chunkserver-3", 98, 5), window("chunkserver-3", 111, 99), window("chunkserver-3", 50, 99)]
        self.assertEqual(self.answer(windows), (False, True, False))
        self.assertEqual(phases.Run(injection(), windows, 60.0).chance(), 0.5)

    def test_where_no_window_is_odd_the_monitors_verdict_counts(self):
        windows = [window("chunkserver-4", 70, 2), window("chunkserver-3", 98, 1)]
        said = [verdict("chunkserver-3", kind="messages", region="")]
        self.assertEqual(self.answer(windows, verdicts=said), (True, True, False))
        self.assertEqual(self.answer(windows, verdicts=said, method="windows"), (False, False, False))
        self.assertEqual(self.answer(windows, verdicts=[verdict("chunkserver-5", kind="messages")]), (True, False, False))


if __name__ == "__main__":
    unittest.main()
