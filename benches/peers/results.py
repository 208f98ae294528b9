"""RESULTS.md and RESULTS.json."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import quantiles
from typing import Any

from .adapters import ISORADIX, SGLANG
from .gates import GATES, Gate, Table

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


@dataclass(frozen=True)
class Spread:
    """One row of one implementation."""

    median: float
    low: float
    high: float
    samples: int

    @classmethod
    def of(cls, values: list[float]) -> "Spread":
        if len(values) < 2:
            return cls(values[0], values[0], values[0], len(values))
        low, middle, high = quantiles(values, n=4, method="inclusive")
        return cls(middle, low, high, len(values))


@dataclass(frozen=True)
class Results:
    """All that one run measured."""

    machine: dict[str, str]
    rows: dict[str, dict[str, Spread]]
    notes: dict[str, Any]
    command: str
    seconds: int

    @property
    def medians(self) -> Table:
        return {row: {who: spread.median for who, spread in cells.items()} for row, cells in self.rows.items()}

    def gates(self) -> list[tuple[Gate, float | None]]:
        return [(gate, gate.ratio(self.medians)) for gate in GATES]

    def all_gates_hold(self) -> bool:
        return all(ratio is not None and gate.holds(ratio) for gate, ratio in self.gates())


def number(value: float | None) -> str:
    """Two to four digits: as many as a person reads."""
    if value is None:
        return ""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 1 else f"{value:.2g}"


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = list(head)
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def unit(row: str, value: float | None) -> float | None:
    return value if value is None or row in PLAIN else value / 1e3


def best(row: str, cells: Mapping[str, float]) -> float | None:
    values = [cells[name] for name in SGLANG if name in cells]
    return (max if row in HIGHER_IS_BETTER else min)(values, default=None)


def quotient(ours: float | None, theirs: float | None) -> float | None:
    return ours / theirs if ours is not None and theirs else None


def times_floor(row: str, cells: Mapping[str, float]) -> float | None:
    """How many times the floor's cost; a rate is turned round."""
    ours, floor = cells.get(ISORADIX), cells.get(FLOOR)
    return quotient(floor, ours) if row in HIGHER_IS_BETTER else quotient(ours, floor)


def gate_lines(results: Results) -> Iterable[list[str]]:
    for gate, ratio in results.gates():
        limit = f"{'≥' if gate.at_least else '≤'} {number(gate.limit)}"
        verdict = "not measured" if ratio is None else "yes" if gate.holds(ratio) else "**no**"
        floor = times_floor(gate.row, results.medians.get(gate.row, {}))
        yield [gate.text, number(ratio), limit, verdict, number(floor)]


def row_lines(results: Results, names: list[str]) -> Iterable[list[str]]:
    for row in (row for row in LABELS if row in results.medians):
        cells = results.medians[row]
        values = (number(unit(row, cells.get(name))) for name in names)
        ratio, floor = quotient(cells.get(ISORADIX), best(row, cells)), times_floor(row, cells)
        yield [LABELS[row], *values, number(ratio), number(floor)]


QUICK = """
**Tiny sizes (`--quick`): the labels name the full sizes, and the figures mean nothing.**
"""


def markdown(results: Results, *, quick: bool) -> str:
    names = sorted({name for cells in results.rows.values() for name in cells}, key=_column)
    notes = results.notes
    evidence = ([f"{share:.1%}", part] for part, share in notes["evidence"].items())
    return f"""# isoradix beside SGLang's caches

Written by `make bench-peers`; how it is measured stands in `benches/README.md`.
{QUICK if quick else ""}
{table(("", ""), ([key, value] for key, value in results.machine.items()))}

Command: `{results.command}`, {results.seconds} s.
Replay: {notes["replay"]}; hit rate {notes["hit rate"]}, hit digest `{notes["hitseq"]}`, the same from every cache.

## Ratios

isoradix against the best of SGLang's four caches on that row, medians of one run. Page size 64. The floor is
`floor.c`.

{table(("", "ratio", "limit", "met", "times the floor"), gate_lines(results))}

## Medians

`isoradix-u32` takes its keys as numpy uint32, the others as `array('q')`; *resumed* continues inserts at the matched
node.

{table(("", *names, "isoradix / best SGLang", "times the floor"), row_lines(results, names))}

## What the evidence costs

Journal and digests are never off. Their share of the compiled module's instructions in a replay of built-in
conversations (`python -m benches.evidence`):

{table(("", ""), evidence)}
"""


def _column(name: str) -> tuple[int, str]:
    order = [*SGLANG, ISORADIX]
    return (order.index(name) if name in order else len(order) + (name == FLOOR), name)


def write(results: Results, out: Path, *, quick: bool) -> list[Path]:
    """Both files; what was written."""
    out.mkdir(parents=True, exist_ok=True)
    page, data = out / "RESULTS.md", out / "RESULTS.json"
    page.write_text(markdown(results, quick=quick), encoding="utf-8")
    ratios = {gate.text: ratio for gate, ratio in results.gates()}
    data.write_text(json.dumps({**asdict(results), "ratios": ratios}, indent=1) + "\n", encoding="utf-8")
    return [page, data]
