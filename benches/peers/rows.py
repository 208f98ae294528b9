"""The rows of the results: what they are called, and how two values of one row compare."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from .adapters import ISORADIX, SGLANG

Medians: TypeAlias = Mapping[str, float]  # by implementation
Table: TypeAlias = Mapping[str, Medians]  # by row

FLOOR = "floor"

LABELS = {
    "match flat": "match, 1k tokens, one node (µs)",
    "match deep": "match, 32k tokens, 64 nodes (µs)",
    "match deep + slots": "match and slots as int64, 32k tokens, 64 nodes (µs)",
    "insert tail": "insert 512 new behind 32k, whole key (µs)",
    "insert tail, prefix known": "insert 512 new behind 32k, prefix known (µs)",
    "insert new": "insert 128k new (µs)",
    "lock path": "lock, 256 nodes (µs)",
    "unlock path": "unlock, 256 nodes (µs)",
    "evict 1, 10k leaves": "evict 1 token, 10k leaves (µs)",
    "evict 1, 100k leaves": "evict 1 token, 100k leaves (µs)",
    "evict 1, 1M leaves": "evict 1 token, 1M leaves (µs)",
    "evict 64k, 100k leaves": "evict 64k tokens, 100k leaves (µs)",
    "bytes a token": "resident bytes a token, 100k leaves of 64",
    "replay": "replay (requests/s)",
    "replay: match": "… match (µs a request)",
    "replay: slots": "… slots (µs a request)",
    "replay: lock": "… lock (µs a request)",
    "replay: evict": "… evict (µs a request)",
    "replay: insert": "… insert (µs a request)",
    "replay: unlock": "… unlock (µs a request)",
}
PLAIN = {"bytes a token", "replay"}  # neither is a time
HIGHER_IS_BETTER = {"replay"}


def best(row: str, cells: Medians, names: Sequence[str] = SGLANG) -> float | None:
    """The best value among `names`, as far as they were measured."""
    values = [cells[name] for name in names if name in cells]
    return (max if row in HIGHER_IS_BETTER else min)(values, default=None)


def quotient(ours: float | None, theirs: float | None) -> float | None:
    return ours / theirs if ours is not None and theirs else None


def times_floor(row: str, cells: Medians) -> float | None:
    """How many times the floor's cost; a rate is turned round."""
    ours, floor = cells.get(ISORADIX), cells.get(FLOOR)
    return quotient(floor, ours) if row in HIGHER_IS_BETTER else quotient(ours, floor)
