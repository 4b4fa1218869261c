"""Experiments as TOML files: loading, the --quick variant, and errors that name the key.

    title, figure, kind     what it is; `kind` is a module of kinds/
    about                   what the text does, and what differs here
    runs                    medians are over so many; series are interleaved within each
    [[cells]]               what is swept: lists become one cell for each combination
    [[series]]              name, shape, slice ("chunk": unsliced, or bytes), variant
    [variants.NAME]         metaserver = {...}, chunkserver = {...}: settings of a cluster of its own
    [[claims]]              lines of the table: what, metric, where = {...}, paper, min or max, pick
    [plot]                  see plots.py
    [quick]                 keys that replace those above under --quick
"""

import itertools
import pathlib
import tomllib

from network import LabError

EXPERIMENTS = pathlib.Path(__file__).resolve().parent / "experiments"
KEYS = {"title", "figure", "kind", "about", "runs", "cells", "series", "variants", "claims", "plot", "quick", "options",
        "order"}
DEFAULTS = {"about": "", "runs": 3, "cells": [{}], "series": [], "variants": {}, "claims": [], "plot": {}, "options": {},
            "order": 50}


KEPT_LISTS = ("lost", "only", "slow_chunks")  # of a cell: values as they are, nothing to sweep


class Spec:
    def __init__(self, path, quick=False):
        self.path = pathlib.Path(path)
        try:
            values = tomllib.loads(self.path.read_text())
        except FileNotFoundError:
            known = " ".join(p.stem for p in all_paths())
            raise LabError(f"{path}: no such experiment; there are: {known}") from None
        except tomllib.TOMLDecodeError as error:
            raise LabError(f"{path}: {error}") from None
        unknown = set(values) - KEYS
        if unknown:
            raise LabError(f"{path}: unknown key {', '.join(sorted(unknown))}")
        for key in ("title", "figure", "kind"):
            if key not in values:
                raise LabError(f"{path}: {key} is missing")
        self.values = {**DEFAULTS, **values}
        self.quick = quick
        if quick:
            replaced = dict(values.get("quick", {}))
            self.values["options"] = {**self.values["options"], **replaced.pop("options", {})}
            self.values.update(replaced)
        self.values.pop("quick", None)

    @property
    def name(self):
        return self.path.stem

    def __getattr__(self, key):
        try:
            return self.values[key]
        except KeyError:
            raise AttributeError(key) from None

    def option(self, key, default=None):
        return self.options.get(key, default)

    def expanded_cells(self):
        """Every combination of the lists in each [[cells]] table, as flat dictionaries."""
        for table in self.cells:
            lists = {key: value if isinstance(value, list) and key not in KEPT_LISTS else [value]
                     for key, value in table.items()}
            for combination in itertools.product(*lists.values()):
                yield dict(zip(lists, combination))


def all_paths():
    return sorted(EXPERIMENTS.glob("*.toml"), key=_natural)


def _natural(path):
    return (tomllib.loads(path.read_text()).get("order", DEFAULTS["order"]), path.stem)


def find(name):
    """By path or by the name of a file in experiments/."""
    return pathlib.Path(name) if name.endswith(".toml") else EXPERIMENTS / f"{name}.toml"
