"""All benchmarks by name."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from isoradix.bench import evict, insert, lock, match, memory, replay
from isoradix.bench.grid import Grid, Measurement


@dataclass(frozen=True)
class Bench:
    """A benchmark: its cases, and what one case measures."""

    cases: Callable[[Grid], Sequence[Any]]
    measure: Callable[[Any], Iterator[Measurement]]


BENCHES: Final[dict[str, Bench]] = {
    "match": Bench(match.cases, match.measure),
    "insert": Bench(insert.cases, insert.measure),
    "lock": Bench(lock.cases, lock.measure),
    "evict": Bench(evict.cases, evict.measure),
    "replay": Bench(replay.cases, replay.measure),
    "memory": Bench(memory.cases, memory.measure),
}
