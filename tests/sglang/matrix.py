"""A pairwise covering set of scenarios: each two values of different settings meet in a run, each value in three.

    python -m tests.sglang.matrix

prints it as a table. What the server refuses, or changes by itself, is in no run.
"""

from collections import Counter
from dataclasses import replace
from itertools import combinations, product
from typing import Any, Final

from .scenario import Scenario

Row = tuple[str, ...]

SETTINGS: Final[dict[str, dict[str, dict[str, Any]]]] = {
    "ranks": {
        "tp1": {},
        "tp2": {"tp": 2},
        "pp2": {"pp": 2},
        "tp2xpp2": {"tp": 2, "pp": 2},
    },
    "page": {
        "1": {"page_size": 1},
        "16": {"page_size": 16},
        "64": {"page_size": 64, "max_total_tokens": 2048},  # short conversations fill few pages of this size
    },
    "memory": {
        "L1": {},
        "L2-through": {"l2": True, "write_policy": "write_through"},
        "L2-back": {"l2": True, "write_policy": "write_back"},
    },
    "overlap": {"on": {"overlap": True}, "off": {"overlap": False}},
    "chunk": {
        "off": {"chunked_prefill_size": -1},
        "128": {"chunked_prefill_size": 128},
        "32": {"chunked_prefill_size": 32},
    },
    "policy": {name: {"schedule_policy": name} for name in ("lpm", "dfs-weight", "fcfs")},
}
RUNS_MIN: Final = 3


def rows() -> list[Row]:
    """One value of each setting. Each time the row that is most needed, and the first of those."""
    allowed = [row for row in product(*SETTINGS.values()) if possible(row)]
    uncovered = {pair for row in allowed for pair in _pairs(row)}
    runs: Counter[tuple[int, str]] = Counter()
    chosen: list[Row] = []
    values = {one for row in allowed for one in enumerate(row)}

    def need(row: Row) -> tuple[int, int, int]:
        missing = sum(max(0, RUNS_MIN - runs[one]) for one in enumerate(row))
        return len(uncovered & _pairs(row)), missing, -sum(runs[one] for one in enumerate(row))

    while uncovered or any(runs[one] < RUNS_MIN for one in values):
        best = max(allowed, key=need)
        chosen.append(best)
        uncovered.difference_update(_pairs(best))
        runs.update(enumerate(best))
    return chosen


def possible(row: Row) -> bool:
    """Whether a server can run so: no overlap with pipeline stages, no chunk that is shorter than a page."""
    ranks, page, _, overlap, chunk, _ = row
    return not ("pp2" in ranks and overlap == "on") and not (page == "64" and chunk == "32")


def _pairs(row: Row) -> set[tuple[tuple[int, str], ...]]:
    return set(combinations(enumerate(row), 2))


def scenario(row: Row) -> Scenario:
    """The row's settings, with the server's own cache."""
    changed: dict[str, Any] = {}
    for (_, values), value in zip(SETTINGS.items(), row, strict=True):
        changed |= values[value]
    return replace(Scenario(), **changed)


def name(row: Row) -> str:
    return "-".join(f"{setting}:{value}" for setting, value in zip(SETTINGS, row, strict=True))


def main() -> None:
    chosen = rows()
    table = [tuple(SETTINGS), *chosen]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        print("  ".join(value.ljust(width) for value, width in zip(row, widths, strict=True)).rstrip())
    runs = Counter(value for row in chosen for value in zip(SETTINGS, row, strict=True))
    print(f"\n{len(chosen)} rows; fewest runs of a value: {min(runs.values())}")


if __name__ == "__main__":
    main()
