"""Shares of runs with their intervals, and whether two detectors differ."""

import math


def share(right, of):
    if of == 0:
        return "-"
    z, p = 1.96, right / of
    middle, half = (p + z * z / (2 * of)) / (1 + z * z / of), z * math.sqrt(p * (1 - p) / of + z * z / (4 * of * of)) / (1 + z * z / of)
    return f"{right} of {of} ({100 * p:.0f} %, {100 * (middle - half):.0f} to {100 * (middle + half):.0f})"


def mcnemar(one, other):
    """The probability that so unlike a split of the runs in which only one of both is right comes by chance."""
    few, both = min(one, other), one + other
    return min(1.0, 2 * sum(math.comb(both, i) for i in range(few + 1)) / 2 ** both)


def balanced(right, of, quiet, of_quiet):
    return (right / of + quiet / of_quiet) / 2 if of and of_quiet else float("nan")
