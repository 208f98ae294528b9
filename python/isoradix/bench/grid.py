"""What to measure, and the form in which every benchmark answers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import perf_counter_ns

import numpy as np

from isoradix.replay.stats import Nanoseconds, OperationStats

CaseValue = str | int | float


@dataclass(frozen=True)
class Grid:
    """The axes of the cases; each benchmark reads those that concern it."""

    policies: Sequence[str] = ("lru",)
    page_sizes: Sequence[int] = (1, 64)
    leaves: Sequence[int] = (10_000, 100_000)
    locked_fractions: Sequence[float] = (0.0,)
    lengths: Sequence[int] = (1024, 32_768)
    repeat: int = 200
    requests: int = 1000
    seed: int = 0


@dataclass(frozen=True)
class Measurement:
    """One measured operation: the case by name, and its figures by name with the unit last."""

    operation: str
    case: dict[str, CaseValue]
    figures: dict[str, float] = field(default_factory=dict)

    def as_json(self) -> dict[str, object]:
        return {"operation": self.operation, **self.case, **self.figures}


def timed(operation: str, case: dict[str, CaseValue], tokens: int, samples: Nanoseconds) -> Measurement:
    """Median, p99 and slowest of the samples, and tokens a second at the median."""
    stats = OperationStats.of(samples)
    rate = round(tokens / stats.median_us * 1e6, 1) if stats.median_us else 0.0
    figures = {
        "median_us": stats.median_us,
        "p99_us": stats.p99_us,
        "max_us": stats.max_us,
        "tokens_per_s": rate,
    }
    return Measurement(operation, case, figures)


def sample(repeat: int, call: Callable[[], object]) -> Nanoseconds:
    """Times `call` again and again; the first tenth warms up and does not count."""
    warm_up = max(1, repeat // 10)
    samples = np.empty(repeat + warm_up, dtype=np.int64)
    for index in range(len(samples)):
        start = perf_counter_ns()
        call()
        samples[index] = perf_counter_ns() - start
    return samples[warm_up:]
