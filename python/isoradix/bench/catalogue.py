"""All benchmarks by name."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from isoradix.bench import evict, insert, lock, match, memory, replay
from isoradix.bench.grid import Grid, Measurement


@dataclass(frozen=True)
class Bench:
    """A benchmark: the axes of the grid that it reads, its cases on them, and what one case measures."""

    axes: frozenset[str]
    cases: Callable[[Grid], Sequence[Any]]
    measure: Callable[[Any], Iterator[Measurement]]


BENCHES: Final[dict[str, Bench]] = {
    "match": Bench(match.AXES, match.cases, match.measure),
    "insert": Bench(insert.AXES, insert.cases, insert.measure),
    "lock": Bench(lock.AXES, lock.cases, lock.measure),
    "evict": Bench(evict.AXES, evict.cases, evict.measure),
    "replay": Bench(replay.AXES, replay.cases, replay.measure),
    "memory": Bench(memory.AXES, memory.cases, memory.measure),
}
