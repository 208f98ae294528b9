"""Hit rate against capacity: every policy at every capacity, and the offline-optimal line."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from isoradix.replay.blocks import Tokens
from isoradix.replay.optimal import OfflineOptimal
from isoradix.replay.runner import ReplayConfig, Replayer
from isoradix.replay.units import unit_policy

OPTIMAL = "offline-optimal"


@dataclass(frozen=True)
class SweepPoint:
    """One policy at one capacity, in tokens."""

    policy: str
    capacity: int
    tokens: int
    hit_tokens: int
    evicted_tokens: int | None
    uncached: int | None

    @property
    def hit_rate(self) -> float:
        return self.hit_tokens / self.tokens if self.tokens else 0.0


@dataclass(frozen=True)
class Sweep:
    """A sequence of requests as units, and what to try on it."""

    units: Iterable[Tokens]
    page_size: int
    capacities: Sequence[int]
    policies: Sequence[str]
    optimal: bool = True

    @property
    def runs(self) -> int:
        return len(self.capacities) * (len(self.policies) + self.optimal)

    def points(self, progress: Callable[[str, int], None]) -> Iterator[SweepPoint]:
        """One point after the other; `progress` hears what is about to run and how many runs are done."""
        plan = product(self.policies, self.capacities)
        for done, (policy, capacity) in enumerate(plan):
            progress(f"{policy} at {capacity:,}", done)
            yield self._replay(policy, capacity)
        if self.optimal:
            progress(OPTIMAL, len(self.policies) * len(self.capacities))
            yield from self._optimal_points()

    def _replay(self, policy: str, capacity: int) -> SweepPoint:
        page = self.page_size
        config = ReplayConfig(page_size=1, capacity=capacity // page, policy=unit_policy(policy, page))
        result = Replayer(config).run(self.units)
        return SweepPoint(
            policy,
            capacity,
            result.tokens * page,
            result.hit_tokens * page,
            result.evicted_tokens * page,
            result.uncached,
        )

    def _optimal_points(self) -> Iterator[SweepPoint]:
        page = self.page_size
        plan = OfflineOptimal(self.units)
        for capacity in self.capacities:
            hits = plan.hits(capacity // page)
            yield SweepPoint(OPTIMAL, capacity, plan.total * page, hits * page, None, None)
