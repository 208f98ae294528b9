"""The ratios that isoradix is held to, in one run, through the Python API."""

from dataclasses import dataclass

from .adapters import ISORADIX, SGLANG
from .rows import HIGHER_IS_BETTER, Table, best, quotient


@dataclass(frozen=True)
class Gate:
    """Our value of `row` against the best of `theirs`, as a ratio that has a limit."""

    text: str
    row: str
    limit: float
    theirs: tuple[str, ...] = SGLANG
    against: str | None = None  # another row of isoradix itself

    @property
    def at_least(self) -> bool:
        """A lower limit, on rows of which more is better."""
        return self.row in HIGHER_IS_BETTER

    def ratio(self, table: Table) -> float | None:
        names = self.theirs if self.against is None else (ISORADIX,)
        theirs = best(self.row, table.get(self.against or self.row, {}), names)
        return quotient(table.get(self.row, {}).get(ISORADIX), theirs)

    def holds(self, ratio: float) -> bool:
        return ratio >= self.limit if self.at_least else ratio <= self.limit


@dataclass(frozen=True)
class Ceiling(Gate):
    """A plain upper limit on our own value."""

    def ratio(self, table: Table) -> float | None:
        return table.get(self.row, {}).get(ISORADIX)


GATES = (
    Gate("replay in 4M tokens, requests/s", "replay", 3.0),
    Gate("match 32k tokens, deep", "match deep", 15 / 43),
    Gate("match 1k tokens, flat", "match flat", 1 / 2),
    Gate("insert 512 new tokens behind 32k, deep", "insert tail", 1 / 8),
    Gate("insert 128k new tokens, against sgl-py-radix", "insert new", 1.0, theirs=("sgl-py-radix",)),
    Gate("lock a path of 256 nodes", "lock path", 1 / 5),
    Gate("unlock a path of 256 nodes", "unlock path", 1 / 5),
    Gate("evict 1 token, 10k leaves", "evict 1, 10k leaves", 1 / 40),
    Gate("evict 1 token, 1M leaves against 10k", "evict 1, 1M leaves", 3.0, against="evict 1, 10k leaves"),
    Gate("evict 64k tokens, 100k leaves", "evict 64k, 100k leaves", 1 / 50),
    Ceiling("resident bytes a token, 64-token leaves", "bytes a token", 15.0),
)
