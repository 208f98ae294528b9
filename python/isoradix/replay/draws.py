"""Random draws that stay the same for a seed on every machine and numpy release.

numpy promises stable streams for its bit generators, not for its distributions. So every draw here starts from
`Generator(PCG64).random()`, 53 bits of the stream, and shapes them by itself.
"""

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

_TWO_PI: Final = 2.0 * math.pi


class Draws:
    """One seeded stream of draws."""

    def __init__(self, *entropy: int) -> None:
        self._random = np.random.Generator(np.random.PCG64(entropy)).random

    def share(self) -> float:
        """Uniform over 0 to 1, 1 left out."""
        return self._random()

    def chance(self, probability: float) -> bool:
        return self._random() < probability

    def integer(self, low: int, high: int) -> int:
        """Uniform over low..=high."""
        return low + int(self._random() * (high - low + 1))

    def geometric(self, probability: float) -> int:
        """Failures before the first success; mean (1 - p) / p."""
        return int(math.log1p(-self._random()) / math.log1p(-probability))

    def lognormal(self, median: int, sigma: float, low: int, high: int) -> int:
        """Log-normal with that median and log-scale, cut to low..=high; Box-Muller, one of the pair."""
        radius = math.sqrt(-2.0 * math.log1p(-self._random()))
        normal = radius * math.cos(_TWO_PI * self._random())
        return min(max(round(median * math.exp(sigma * normal)), low), high)

    def pick(self, table: "Zipf") -> int:
        return table.rank(self._random())


class Zipf:
    """Ranks 0..count with weights 1 / (rank + 1)^exponent."""

    def __init__(self, count: int, exponent: float) -> None:
        weights = [(rank + 1) ** -exponent for rank in range(count)]
        self._bounds = np.array(_running_share(weights))

    def rank(self, uniform: float) -> int:
        return int(np.searchsorted(self._bounds, uniform, side="right"))


def _running_share(weights: Sequence[float]) -> list[float]:
    total, running, shares = math.fsum(weights), 0.0, []
    for weight in weights:
        running += weight
        shares.append(running / total)
    shares[-1] = 1.0
    return shares
