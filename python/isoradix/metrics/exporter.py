"""Reads the counts of this process's ranks when somebody asks for them."""

from collections.abc import Iterable, Iterator

from prometheus_client import REGISTRY, CollectorRegistry
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from isoradix import InvalidInputError
from isoradix.driver import Driver
from isoradix.metrics.families import FAMILIES, add_sample
from isoradix.metrics.hits import HitCounter
from isoradix.metrics.samples import RankSamples


class Exporter(Collector):
    """A Prometheus collector over the ranks of this process.

    What is equal on all ranks of a domain is exported by its leader alone; what is a rank's own, by every rank. Nothing
    runs on the scheduler's thread: a scrape reads, from its own thread, and holds a cache's lock while it copies some
    numbers.

    Args:
        driver: this rank's; more of them with `add`.
        hits: what its scheduler reports; None where nobody counts hits.
        registry: where to register; None for the library's own.

    Raises:
        ValueError: the registry has an exporter. A process has one, with all of its ranks.
    """

    def __init__(
        self, driver: Driver, hits: HitCounter | None = None, *, registry: CollectorRegistry | None = None
    ) -> None:
        self._ranks: tuple[RankSamples, ...] = (RankSamples(driver, hits),)
        self._registry = REGISTRY if registry is None else registry
        self._registry.register(self)

    def add(self, driver: Driver, hits: HitCounter | None = None) -> None:
        """Exports one more rank of this process.

        Raises:
            InvalidInputError: it is exported already.
        """
        if any(rank.driver is driver for rank in self._ranks):
            raise InvalidInputError("a driver is exported twice, limit 1\nhint: add each rank of the process once")
        # Replaced as a whole: a scrape under way goes on with what it began with.
        self._ranks = (*self._ranks, RankSamples(driver, hits))

    def diverged(self, driver: Driver) -> None:
        """Counts a `DivergenceError` that this rank has raised. To be called where it is caught, before the rank ends.

        Raises:
            InvalidInputError: the driver is not exported here.
        """
        for rank in self._ranks:
            if rank.driver is driver:
                rank.divergences += 1
                return
        raise InvalidInputError("a driver that is not exported here\nhint: pass one that was given to the exporter")

    def close(self) -> None:
        """Exports nothing any more, and lets the drivers go."""
        self._registry.unregister(self)
        self._ranks = ()

    def describe(self) -> Iterable[Metric]:
        """All families, without samples: registering reads nothing."""
        return [family.empty() for family in FAMILIES]

    def collect(self) -> Iterator[Metric]:
        """All families with their samples, as of now."""
        families = {family.name: family.empty() for family in FAMILIES}
        for rank in self._ranks:
            for name, labels, values in rank.all():
                add_sample(families[name], labels, values)
        yield from families.values()
