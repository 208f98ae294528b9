"""The built-in workloads replayed through a bounded cache: requests a second in the cache's operations."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from isoradix.bench.grid import CaseValue, Grid, Measurement
from isoradix.replay.runner import ReplayConfig, Replayer
from isoradix.replay.source import WorkloadSource
from isoradix.replay.workloads import WORKLOADS

_CAPACITY = 262_144
AXES: Final = frozenset({"policies", "page_sizes", "requests", "seed"})


@dataclass(frozen=True)
class ReplayCase:
    workload: str
    policy: str
    page_size: int
    requests: int
    seed: int

    def __str__(self) -> str:
        return f"replay {self.workload}, {self.policy}, pages of {self.page_size}"


def cases(grid: Grid) -> list[ReplayCase]:
    return [
        ReplayCase(workload, policy, page, grid.requests, grid.seed)
        for workload in WORKLOADS
        for policy in grid.policies
        for page in grid.page_sizes
    ]


def measure(case: ReplayCase) -> Iterator[Measurement]:
    replayer = Replayer(ReplayConfig(page_size=case.page_size, capacity=_CAPACITY, policy=case.policy))
    result = replayer.run(WorkloadSource(case.workload, case.requests, case.seed))
    named: dict[str, CaseValue] = {
        "workload": case.workload,
        "policy": case.policy,
        "page_size": case.page_size,
    }
    figures = {
        "requests_per_s": round(result.requests_per_second, 1),
        "tokens_per_s": round(result.tokens / result.cache_seconds, 1),
        "hit_rate": round(result.hit_rate, 4),
    }
    yield Measurement("replay", named, figures)
