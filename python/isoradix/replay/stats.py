"""Latency samples and their summary."""

from array import array
from dataclasses import asdict, dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

# the operations of an embedding on the cache, in the order in which one request makes them
OPERATIONS: Final = ("match", "slots", "lock", "evict", "insert", "unlock")
# the operations on the slot pool: reported, not counted in requests per second
POOL_OPERATIONS: Final = ("free", "alloc")

Nanoseconds = npt.NDArray[np.int64]


@dataclass(frozen=True)
class OperationStats:
    """Count, median, 99th percentile and total of one operation."""

    count: int
    median_us: float
    p99_us: float
    max_us: float
    total_ms: float

    @classmethod
    def of(cls, samples: Nanoseconds) -> "OperationStats":
        if len(samples) == 0:
            return cls(0, 0.0, 0.0, 0.0, 0.0)
        ordered = np.sort(samples)
        return cls(
            count=len(ordered),
            median_us=round(float(ordered[len(ordered) // 2]) / 1e3, 3),
            p99_us=round(float(ordered[int(len(ordered) * 0.99)]) / 1e3, 3),
            max_us=round(float(ordered[-1]) / 1e3, 3),
            total_ms=round(float(ordered.sum()) / 1e6, 3),
        )

    def as_json(self) -> dict[str, float]:
        return asdict(self)


class SampleLog:
    """One growing run of nanoseconds for each operation; eight bytes a sample, no objects kept."""

    def __init__(self) -> None:
        self._samples = {name: array("q") for name in (*OPERATIONS, *POOL_OPERATIONS)}

    def __getitem__(self, operation: str) -> "array[int]":
        return self._samples[operation]

    def arrays(self) -> dict[str, Nanoseconds]:
        return {name: np.array(samples, dtype=np.int64) for name, samples in self._samples.items()}
