"""Pairs of measurements with and without something: in which order they are taken, and what is printed of them."""

import math
import statistics


def order_of(pair):
    """A B, B A, A B, ...: a machine that becomes slower or faster with time favours neither side."""
    return (0, 1) if pair % 2 == 0 else (1, 0)


def interval_of_median(values):
    """The order statistics between which the median lies with at least 95 %, or the extremes of too few values."""
    ordered, count = sorted(values), len(values)
    tail, below = 0.0, 0
    while below < count // 2:
        tail += math.comb(count, below) / 2 ** count
        if tail > 0.025:
            break
        below += 1
    return ordered[max(0, below - 1)], ordered[min(count - 1, count - below)]


def report(rows, sides):
    """Prints a line an operation: the median of each side and of the ratios, with its interval. Returns them for a file.
    `rows`: for each operation its pairs, in seconds; `sides`: the names of the two."""
    document = {}
    print(f"{'':8} {sides[0]:>11} {sides[1]:>11} {'ratio':>7}   95 % interval of the median ratio, pairs")
    for operation, pairs in rows.items():
        ratios = [second / first for first, second in pairs]
        low, high = interval_of_median(ratios)
        first, second = (statistics.median(side) for side in zip(*pairs))
        document[operation] = {sides[0]: first, sides[1]: second, "ratio": statistics.median(ratios), "low": low, "high": high, "pairs": pairs}
        print(f"{operation:8} {first:9.4g} s {second:9.4g} s {statistics.median(ratios):7.3f}   {low:.3f} to {high:.3f}, {len(pairs)}")
    return document
