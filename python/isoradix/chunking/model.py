"""The time of a prompt as a function of its length."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

import numpy as np

from isoradix import InvalidInputError

SAMPLES_MIN: Final = 8


@dataclass(frozen=True)
class ChunkModel:
    """Milliseconds of a prompt of l tokens: a l**2 + b l + c.

    Args:
        a: of attention, above 0.
        b: of everything that grows with the tokens, 0 or above.
        c: of everything else. It has no part in the length of a chunk.

    Raises:
        InvalidInputError: a coefficient is out of its range.
    """

    a: float
    b: float
    c: float = 0.0

    def __post_init__(self) -> None:
        if not 0 < self.a < float("inf"):
            raise InvalidInputError(
                f"a is {self.a!r}, expected a number above 0\nhint: chunks keep their size without a model"
            )
        if not 0 <= self.b < float("inf"):
            raise InvalidInputError(
                f"b is {self.b!r}, expected a number from 0 on\nhint: a fit below 0 is noise, take 0"
            )

    def milliseconds(self, length: int) -> float:
        """The time of a prompt of so many tokens."""
        return self.a * length * length + self.b * length + self.c

    @classmethod
    def fit(cls, lengths: Sequence[int], milliseconds: Sequence[float]) -> Self | None:
        """The model nearest to what was measured, by least squares; None if the times do not curve upwards: then
        chunks had better keep their size.

        The first sample is left out: it was measured on a cold device.

        Args:
            lengths: tokens.
            milliseconds: measured, one for each length.

        Raises:
            InvalidInputError: fewer than 8 different lengths are left, or the numbers do not match, or are not finite.
        """
        length, time = (np.asarray(values, dtype=np.float64) for values in (lengths, milliseconds))
        if length.shape != time.shape or length.ndim != 1:
            raise InvalidInputError(
                f"{length.size} lengths and {time.size} times were given\nhint: one time for each length"
            )
        length, time = length[1:], time[1:]
        different = len(np.unique(length))
        if different < SAMPLES_MIN:
            raise InvalidInputError(
                f"{different} lengths are left after the first, limit {SAMPLES_MIN}\n"
                "hint: measure those of profile_lengths"
            )
        if not (np.isfinite(length).all() and np.isfinite(time).all()):
            raise InvalidInputError("a length or a time is not finite\nhint: leave out what could not be measured")
        # by the longest length, so that the columns are of one size
        scale = np.abs(length).max()
        part = length / scale
        columns = np.stack([part * part, part, np.ones_like(part)], axis=1)
        (square, linear, constant), *_ = np.linalg.lstsq(columns, time, rcond=None)
        a, b = float(square / scale / scale), float(linear / scale)
        return cls(a, max(b, 0.0), float(constant)) if a > 0 else None
