"""Judges the faults of `campaign.py record --faults phases`: in which window was it, at which server, at which transition?

These are the three questions of AutomaDeD (Laguna et al. 2012). A run begins when the cluster was healthy after the fault before, and ends when the fault did; the
windows of all servers in it, ten seconds each, come from `kintsugi-monitor analyse --windows`, which sees no journal. A method's answer is the window with its highest
score, and that window's server. It is right when the fault was going on at some time of the window; `chance` is how often a window of the run that was picked blindly
would be. Transitions are those of the named server's odd windows, the five largest.

What holds nobody's time up is not to be seen in times: when no window is odd, ours takes what stood among the monitor's verdicts. The method `windows` is without that.
Of a link that such a verdict names either end counts, and it counts as in the right window, for it was raised while the fault was going on.
"""

import collections
import json
import subprocess

from judge import read, share

LATE = 12.0  # seconds after a fault's end in which a window ends that may show it: processes report totals every ten seconds
ODD = 4.0    # as in monitoring/similarity/odd_windows.h
METHODS = ["ours", "windows", "semi", "text"]
FORMS = ["hac", "hac-noise-weights", "medoids", "scalable", "mirkin"]  # tests/benchmarks/window_forms.cc
CLASSES = {"cpu-loop": "loop", "delay": "stall", "hog": "processor", "memory-walk": "memory", "leak": "memory", "slow-disk": "slow disk"}
CAUSES = {"processor": ["processor"], "memory": ["memory"]}


def class_of(injection):
    return CLASSES.get(injection["kind"], "message")


def windows_of(arguments, snapshots):
    out = subprocess.run([arguments.bin / "kintsugi-monitor", "analyse", "--windows", snapshots], check=True, capture_output=True, text=True).stdout
    return [json.loads(line) for line in out.splitlines()]


def score(window, method):
    return window["ours" if method == "windows" else method]["score"]


def parts(injection):
    """One of them is in the name of a right transition's region."""
    if injection["place"]:
        return [injection["place"]["region"]]
    return [injection["detail"]] if injection["detail"] else ["ReadChunk"] if injection["point"] == "send-chunk" else []


def is_right_transition(injection, transition):
    if class_of(injection) == "slow disk":  # what the metaserver writes, its key-value store's thread does
        return transition["wait"] in ("disk", "store")
    return any(part.lower() in transition["region"].lower() for part in parts(injection))


def transitions(run, server, method):
    """The five largest of a server; of the baselines, which know no odd windows, those of its one with the highest score."""
    own = [window for window in run if window["server"] == server]
    if method in ("ours", "windows"):
        own = [window for window in own if score(window, method) > ODD] or own
        found = [one for window in own for one in window["ours"]["top"]]
        return sorted(found, key=lambda one: -one["magnitude"])[:5]
    return max(own, key=lambda window: score(window, method))[method]["top"][:5]


class Run:
    def __init__(self, injection, windows, begin):
        self.injection = injection
        self.fault = injection["unix"] + injection["reached"], injection["unix"] + injection["ended"]
        self.windows = [one for one in windows if one["began"] >= begin and one["began"] <= self.fault[1] and one["ended"] <= self.fault[1] + LATE]

    def shows_fault(self, window):
        return window["began"] <= self.fault[1] and window["ended"] >= self.fault[0]

    def chance(self):
        return sum(map(self.shows_fault, self.windows)) / len(self.windows)

    def answer(self, method):
        """(whether the window is right, whether the server is, whether a transition is, and what it is put down to)."""
        best = max(self.windows, key=lambda window: score(window, method))
        server, right = best["server"], self.shows_fault(best)
        named = [verdict for verdict in self.injection["verdicts"] if verdict["kind"] != "host"]
        if method == "ours" and score(best, method) <= ODD and named:
            right, ends = True, (named[0]["server"], named[0]["peer"])
            server = self.injection["server"] if self.injection["server"] in ends else ends[0]
            if server not in {window["server"] for window in self.windows}:
                return right, False, False, ""
            tops = [{"region": named[0]["region"], "wait": "disk" if named[0]["kind"] == "device" else ""}]
        else:
            tops = transitions(self.windows, server, method)
        is_server = server == self.injection["server"]
        return right, is_server, is_server and any(is_right_transition(self.injection, one) for one in tops), best["ours"]["because"]


def runs_of(arguments, windows_of=windows_of):
    for journal, snapshots in zip(arguments.journal, arguments.snapshots, strict=True):
        windows, begin = windows_of(arguments, snapshots), 0.0
        for injection in read([journal]):
            healthy_from, begin = begin, injection["unix"] + injection["took"]
            if injection.get("set") != "phases" or injection["reached"] is None:
                continue
            if arguments.only and injection["kind"] not in arguments.only:
                continue
            run = Run(injection, windows, max(healthy_from, injection["unix"] - 60))
            if run.windows:
                yield run


def judge(arguments):
    judged = collections.defaultdict(list)
    for run in runs_of(arguments):
        judged[class_of(run.injection)].append(run)
    for method in METHODS:
        print(f"\n{method}\n\n| class | runs | window (by chance) | server | transition in the first five | put down to its cause |\n| --- | --- | --- | --- | --- | --- |")
        for name, runs in sorted(judged.items()):
            answers = [run.answer(method) for run in runs]
            chance = sum(run.chance() for run in runs) / len(runs)
            causes = CAUSES.get(name)
            cause = share(sum(server and because in causes for _, server, _, because in answers), len(runs)) if causes and method == "ours" else "-"
            with_transition = [answer for run, answer in zip(runs, answers) if parts(run.injection) or name == "slow disk"]
            transition = share(sum(answer[2] for answer in with_transition), len(with_transition)) if with_transition else "-"
            print(f"| {name} | {len(runs)} | {share(sum(answer[0] for answer in answers), len(runs))} ({100 * chance:.0f} %) | "
                  f"{share(sum(answer[1] for answer in answers), len(runs))} | {transition} | {cause} |")
    print("\nNot right by ours:")
    for runs in judged.values():
        for run in runs:
            window, server, transition, _ = run.answer("ours")
            wants = bool(parts(run.injection)) or class_of(run.injection) == "slow disk"
            if not window or not server or (wants and not transition):
                one = run.injection
                what = " ".join(filter(None, [one["kind"], one["point"], one["detail"], f"{one['seconds']} s" if one["seconds"] else ""]))
                wrong = ", ".join(name for name, right in (("window", window), ("server", server), ("transition", transition or not wants)) if not right)
                print(f"- {one['seed']}/{one['number']}: {what} at {one['server']}: {wrong}")


def rounds_of(arguments, snapshots):
    """What the texts' groupings say of each ten seconds of all chunkservers."""
    out = subprocess.run([arguments.bin / "window_forms", snapshots], check=True, capture_output=True, text=True).stdout
    return [json.loads(line) for line in out.splitlines()]


def judge_forms(arguments):
    """Of each run, the ten seconds with a form's highest score: whether the fault was going on, and whether the odd server is the fault's."""
    runs = [run for run in runs_of(arguments, rounds_of) if run.injection["server"].startswith("chunkserver")]
    chance = sum(map(Run.chance, runs)) / max(1, len(runs))
    print(f"| form | window (by chance {100 * chance:.0f} %) | server (by chance 10 %) |\n| --- | --- | --- |")
    for form in FORMS:
        best = [(run, max(run.windows, key=lambda window: window[form]["score"])) for run in runs]
        servers = "-" if form == "mirkin" else share(sum(window[form]["server"] == run.injection["server"] for run, window in best), len(best))
        print(f"| {form} | {share(sum(run.shows_fault(window) for run, window in best), len(best))} | {servers} |")
