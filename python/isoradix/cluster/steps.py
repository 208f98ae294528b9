"""What one rank measures of its steps: when each began, and where its time went."""

from array import array
from collections.abc import Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

# in the order in which a step comes to them; what is left of a step is its faults
PHASES: Final = ("input", "plane", "cache", "close", "copies", "forward")
COLUMNS: Final = ("start", *PHASES, "step")

Column = npt.NDArray[np.int64]


class StepLog:
    """Nanoseconds of every step: eight bytes for each of them and each phase.

    input reads or hears which requests arrive; plane is inside `Driver.enter`; cache among the verbs; close turns
    wishes into operations and starts copies; copies is the forward pass waiting for what is loaded; forward its work on
    bytes, and its sleep. `start` is this machine's monotonic clock.
    """

    def __init__(self) -> None:
        self._columns = {name: array("q") for name in COLUMNS}

    def add(self, *values: int) -> None:
        """One step, in the order of `COLUMNS`."""
        for column, value in zip(self._columns.values(), values, strict=True):
            column.append(value)

    def packed(self) -> dict[str, bytes]:
        return {name: column.tobytes() for name, column in self._columns.items()}


def unpacked(columns: Mapping[str, bytes]) -> dict[str, Column]:
    return {name: np.frombuffer(data, dtype=np.int64) for name, data in columns.items()}
