"""What an expression of Prometheus names: its metrics with their matchers, and the labels that it groups or joins by. It finds
less than Prometheus would, and says so when it does not understand a word."""

import dataclasses
import re

SELECTOR = re.compile(r"\b((?:kintsugi|process)_\w+|up|ALERTS)\b\s*(?:\{([^}]*)\})?")
MATCHER = re.compile(r'\s*(\w+)\s*(=~|!~|!=|=)\s*"((?:[^"\\]|\\.)*)"\s*,?')
LABELS = re.compile(r"\b(by|on|without|ignoring|group_left|group_right)\s*\(([^)]*)\)")
STRING = re.compile(r"\"[^\"]*\"|'[^']*'")
RANGE = re.compile(r"\[[^\]]*\]")
WORDS = {"and", "or", "unless", "sum", "min", "max", "avg", "count", "topk", "rate", "increase", "resets", "abs", "absent", "vector",
         "histogram_quantile", "label_replace", "predict_linear", "min_over_time", "max_over_time"}


@dataclasses.dataclass(frozen=True)
class Selector:
    name: str
    matchers: tuple  # of (label, operator, value)

    @property
    def literals(self):
        return {label: value for label, operator, value in self.matchers if operator in ("=", "!=")}

    def without(self, labels):
        """It without what it says of the labels' values, which must be there all the same."""
        return Selector(self.name, tuple((label, "=~", ".*") if label in labels else (label, operator, value)
                                         for label, operator, value in self.matchers))

    def matches(self, labels):
        return all(label in labels and self._holds(operator, value, labels[label]) for label, operator, value in self.matchers)

    @staticmethod
    def _holds(operator, wanted, value):
        if wanted.startswith("$"):  # a variable of a dashboard: whatever there is
            return True
        if operator in ("=", "!="):
            return (wanted == value) == (operator == "=")
        return bool(re.fullmatch(wanted, value)) == (operator == "=~")

    def __str__(self):
        return self.name + "{" + ", ".join(f'{label}{operator}"{value}"' for label, operator, value in self.matchers) + "}"


class Expression:
    def __init__(self, text):
        self.selectors = []
        rest = SELECTOR.sub(self._take, text)
        groups = [found[1] for found in LABELS.finditer(rest) if found[1] == "by"]
        listed = [(found[1], self._names(found[2])) for found in LABELS.finditer(rest)]
        self.labels = set().union(*(names for _, names in listed))
        # What the outermost grouping leaves, where every part is grouped; None: all labels are left.
        by = [names for word, names in listed if word == "by"]
        self.grouped = set.union(*by) if by and len(groups) >= len(self.selectors) else None
        rest = RANGE.sub("", STRING.sub("", LABELS.sub("", rest)))
        unknown = set(re.findall(r"[A-Za-z_]\w*", re.sub(r"\b\d+(\.\d+)?(e\d+)?[smhd]?\b", "", rest))) - WORDS
        if unknown:
            raise ValueError(f"{text}: neither a metric nor a word of PromQL that tests/deploy/expressions.py knows: {unknown}")

    def _take(self, found):
        matchers = tuple(MATCHER.findall(found[2] or ""))
        if MATCHER.sub("", found[2] or "").strip():
            raise ValueError(f"{found[0]}: matchers that cannot be read")
        self.selectors.append(Selector(found[1], matchers))
        return " "

    @staticmethod
    def _names(text):
        return {name for name in re.split(r"[\s,]+", text) if name}


def labels_of_template(text):
    """Labels that an annotation ({{ $labels.disk }}) or a legend of a panel ({{disk}}) shows."""
    return set(re.findall(r"\{\{\s*(?:\$labels\.)?(\w+)\s*\}\}", re.sub(r"\{\{\s*\$value[^}]*\}\}", "", text)))
