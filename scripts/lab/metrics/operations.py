"""When a fault became visible to clients: the first operation that failed, or took longer than mean + 3 deviations of its kind in the healthy time."""

import json
import statistics


class Operations:
    def __init__(self, directory):
        journal = directory / "operations.jsonl"
        self.all = [json.loads(line) for line in journal.read_text().splitlines()] if journal.exists() else []
        self.limits = {}  # by the beginning of the healthy time

    def limits_of(self, begin, end):
        if begin not in self.limits:
            took = {}
            for one in self.all:
                if begin <= one["began"] < end and not one["failed"]:
                    took.setdefault(one["what"], []).append(one["s"])
            self.limits[begin] = {what: statistics.mean(s) + 3 * statistics.stdev(s) for what, s in took.items() if len(s) > 1}
        return self.limits[begin]

    def first_failure(self, begin, end, healthy):
        """None: no client noticed anything. A round of operations is late from the moment on at which it should have ended."""
        limits = self.limits_of(*healthy[-1][1:])
        noticed = []
        for one in self.all:
            finished, limit = one["began"] + one["s"], limits.get(one["what"], float("inf"))
            if finished < begin or one["began"] > end:
                continue
            late = one["began"] + limit if one["s"] > limit else None
            at = min(filter(None, [late, finished if one["failed"] else None]), default=None)
            if at is not None and at <= end:
                noticed.append(max(at, begin))
        return min(noticed, default=None)
