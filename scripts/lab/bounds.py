"""What no repair can beat: the floors that are printed beside every result. Times in units of C/B unless they say seconds."""

import dataclasses
import math


@dataclasses.dataclass(frozen=True)
class Code:
    family: str  # "rs", "lrc", "rrs"
    k: int
    parities: int
    groups: int = 0  # LRC: local groups

    @staticmethod
    def parse(policy):
        """rs-12-4-1024k, lrc-12-2-2-1024k (k, local, global), rrs-12-4-1024k."""
        family, *numbers = policy.split("-")
        counts = [int(n) for n in numbers if n.isdigit()]
        if family == "lrc":
            return Code(family, counts[0], counts[1] + counts[2], counts[1])
        return Code(family, counts[0], counts[1])

    @property
    def chunks(self):
        return self.k + self.parities

    def label(self):
        if self.family == "lrc":
            return f"LRC({self.k},{self.groups},{self.parities - self.groups})"
        return f"{'RRS' if self.family == 'rrs' else 'RS'}({self.k},{self.parities})"

    def chunks_read(self):
        """Chunks' worth of data that the repair of one data chunk reads, as the text has it (4.7.7)."""
        if self.family == "lrc":
            return self.k / self.groups
        if self.family == "rrs":
            return (self.k + math.ceil(self.k / self.parities)) / 2
        return self.k


def repair_floor(shape, code, unsliced):
    """Chunk transfer times that the shape needs at least. None: no floor is stated for it."""
    read = code.chunks_read()
    if shape in ("star", "local", "staggered"):
        return read
    if shape == "ppr" and unsliced:
        return math.ceil(math.log2(math.ceil(read) + 1))
    if shape == "ppr":  # sliced: the root's links carry as many sums as it has children
        return math.ceil(math.log2(math.ceil(read) + 1))
    return 1


def single_set_rate(k, up_rates, root_down):
    """Bytes per second of the best pipeline that any one choice of k helpers allows: that of its slowest link."""
    return min(sorted(up_rates, reverse=True)[k - 1], root_down)


def any_split_rate(k, up_rates, root_down):
    """The same when each part of the chunk may choose its own k helpers. At rate r every helper sends at most r, and k
    sums' worth must leave the helpers for each byte: the largest r with sum(min(r, up)) >= k r."""
    low, high = 0.0, float(root_down)
    for _ in range(100):
        middle = (low + high) / 2
        if sum(min(middle, up) for up in up_rates) >= k * middle:
            low = middle
        else:
            high = middle
    return low


def server_loss_seconds(k, lost_bytes, largest_chunk, up_rates, down_rates):
    """A whole server's chunks: every lost byte needs k sums sent and received by the survivors; a chunk needs its link."""
    spread = k * lost_bytes / min(sum(up_rates), sum(down_rates))
    return max(spread, largest_chunk / max(down_rates))
