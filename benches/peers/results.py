"""RESULTS.md and RESULTS.json."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import quantiles
from typing import Any

from .adapters import ISORADIX, SGLANG
from .gates import GATES, Gate
from .reasons import REASONS
from .rows import FLOOR, LABELS, PLAIN, Table, best, quotient, times_floor

FAR = 3.0  # times the floor


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


def limit(gate: Gate) -> str:
    return f"{'≥' if gate.at_least else '≤'} {number(gate.limit)}"


def gate_lines(results: Results) -> Iterator[list[str]]:
    for gate, ratio in results.gates():
        verdict = "not measured" if ratio is None else "yes" if gate.holds(ratio) else "**no**"
        floor = times_floor(gate.row, results.medians.get(gate.row, {}))
        yield [gate.text, number(ratio), limit(gate), verdict, number(floor)]


def row_lines(results: Results, names: list[str]) -> Iterator[list[str]]:
    for row in (row for row in LABELS if row in results.medians):
        cells = results.medians[row]
        values = (number(unit(row, cells.get(name))) for name in names)
        ratio, floor = quotient(cells.get(ISORADIX), best(row, cells)), times_floor(row, cells)
        yield [LABELS[row], *values, number(ratio), number(floor)]


def missed(results: Results) -> list[tuple[Gate, float]]:
    """Gates that were measured and do not hold."""
    return [(gate, ratio) for gate, ratio in results.gates() if ratio is not None and not gate.holds(ratio)]


def explained(results: Results) -> Iterator[str]:
    """A line for each row that misses a ratio or is far from the floor."""
    for row in (row for row in LABELS if row in results.medians):
        far = times_floor(row, results.medians[row])
        facts = [f"{number(ratio)}, not {limit(gate)}" for gate, ratio in missed(results) if gate.row == row]
        if far is not None and far > FAR:
            facts.append(f"{number(far)} times the floor")
        if facts:
            yield f"- **{LABELS[row]}**: {', '.join(facts)}. {REASONS.get(row, 'No reason is on record.')}"


QUICK = """
**Tiny sizes (`--quick`): the labels name the full sizes, and the figures mean nothing.**
"""


def markdown(results: Results, *, quick: bool) -> str:
    names = sorted({name for cells in results.rows.values() for name in cells}, key=_column)
    notes = results.notes
    evidence = ([f"{share:.1%}", part] for part, share in notes["evidence"].items())
    return f"""# isoradix beside SGLang's caches

Written by `make bench-peers`; how it is measured stands in `benches/README.md`.
Ranks in processes have figures of their own, written by hand: planes, deployments, copies and a soak of 15 minutes in
[RANKS.md](RANKS.md), a server's scheduler in [SGLANG.md](SGLANG.md), storage in [STORAGE.md](STORAGE.md).
{QUICK if quick else ""}
{table(("", ""), ([key, value] for key, value in results.machine.items()))}

Command: `{results.command}`, {results.seconds} s.
Replay: {notes["replay"]}; hit rate {notes["hit rate"]}, hit digest `{notes["hitseq"]}`, the same from every cache.

## Ratios

isoradix against the best of SGLang's four caches on that row, medians of one run. Page size 64. The floor is
`floor.c`.

{table(("", "ratio", "limit", "met", "times the floor"), gate_lines(results))}

## Not met, or over three times the floor, and why

{chr(10).join(explained(results)) or "No row."}

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
