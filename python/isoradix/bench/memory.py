"""Resident memory of a forest of 64-token leaves, slots shuffled page by page; each case in a process of its own."""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Final

from isoradix.bench.grid import CaseValue, Grid, Measurement

AXES: Final = frozenset({"page_sizes", "leaves", "seed"})


@dataclass(frozen=True)
class MemoryCase:
    page_size: int
    leaves: int
    seed: int

    def __str__(self) -> str:
        return f"memory, pages of {self.page_size}, {self.leaves:,} leaves"


def cases(grid: Grid) -> list[MemoryCase]:
    return [MemoryCase(page, leaves, grid.seed) for page in grid.page_sizes for leaves in grid.leaves]


def measure(case: MemoryCase) -> Iterator[Measurement]:
    command = [sys.executable, "-m", "isoradix.bench.resident", json.dumps(asdict(case))]
    answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    named: dict[str, CaseValue] = {"page_size": case.page_size, "leaves": case.leaves}
    yield Measurement("memory", named, json.loads(answer.stdout))
