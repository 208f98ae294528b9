"""How many steps a prefetch takes, and whether steps wait for it."""

import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benches.storage.ranks import GAP, Plan, Seen, run

OVERLAPPED: Final = 8192
"""Tokens of the prefetch that is drawn."""


@dataclass(frozen=True)
class Latency:
    """Steps of the leader."""

    ranks: str
    wish_to_use: list[int]
    bytes_to_use: list[int]
    """From the step in which the last rank has read its pages."""
    limit: int
    """Stages less one, and two more."""


def steps(tp: int, pp: int, prefetches: int, step_ms: float) -> Latency:
    """Prefetches of 1,024 tokens on so many ranks."""
    with tempfile.TemporaryDirectory(prefix="isoradix-bench-") as folder:
        ranks = run(Plan(Path(folder), tp, pp, 1024, prefetches, 4, step_ms))
    leader = ranks[0]
    assert all(one.over == leader.over for one in ranks), "a prefetch is over in one step, on all ranks"
    last = [max(one.read[turn][1] for one in ranks) for turn in range(prefetches)]
    whole = [over - wished for over, wished in zip(leader.over, leader.wished, strict=True)]
    late = [over - leader.step_at(moment) for over, moment in zip(leader.over, last, strict=True)]
    return Latency(f"TP {tp} x PP {pp}", whole, late, pp - 1 + 2)


@dataclass(frozen=True)
class Overlap:
    """Medians, in milliseconds, of the leader's steps, and a picture of one prefetch."""

    mib: float
    step_alone: float
    step_beside: float
    prefetch: float
    picture: str


def overlap(prefetches: int, step_ms: float) -> Overlap:
    """Prefetches of 8,192 tokens on two ranks, and the same steps without."""
    layers = 16
    with tempfile.TemporaryDirectory(prefix="isoradix-bench-") as folder:
        ranks = run(Plan(Path(folder), 2, 1, OVERLAPPED, prefetches, layers, step_ms))
    leader = ranks[0]
    spans = [after - before for before, after in zip(leader.steps, leader.steps[1:], strict=False)]
    turns = list(zip(leader.wished, leader.over, strict=True))
    beside = [span for wished, over in turns for span in spans[wished:over]]
    alone = [span for wished, _ in turns for span in spans[wished - GAP + 2 : wished]]
    reads = [max(one.read[turn][1] for one in ranks) - leader.steps[leader.wished[turn]] for turn in range(prefetches)]
    return Overlap(
        OVERLAPPED * 2 * 2 * 64 * 2 * layers / 2**20,
        statistics.median(alone) / 1e6,
        statistics.median(beside) / 1e6,
        statistics.median(reads) / 1e6,
        _picture(ranks, prefetches // 2),
    )


def _picture(ranks: Sequence[Seen], turn: int) -> str:
    """A column is so many milliseconds: `|` where a step begins, `?` questions, `#` pages."""
    leader = ranks[0]
    begin = leader.steps[leader.wished[turn] - 2]
    end = leader.steps[min(leader.over[turn] + 2, len(leader.steps) - 1)]
    column = max(1, (end - begin) // 90)
    lines = []
    for one in ranks:
        steps = [" "] * 91
        for moment in one.steps:
            if begin <= moment <= end:
                steps[(moment - begin) // column] = "|"
        storage = [" "] * 91
        for mark, spans in (("?", one.asked), ("#", one.read)):
            for first, last in spans:
                if begin <= first <= end:
                    at, to = (first - begin) // column, (min(last, end) - begin) // column
                    storage[at : to + 1] = mark * (to + 1 - at)
        lines += [f"rank {one.rank} steps    {''.join(steps)}", f"rank {one.rank} storage  {''.join(storage)}"]
    usable = " " * ((leader.steps[leader.over[turn]] - begin) // column) + "^ of use from here on"
    return "\n".join(
        [*(line.rstrip() for line in lines), f"                {usable}", f"a column is {column / 1e6:.1f} ms"]
    )
