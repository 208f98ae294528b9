"""What one rank's counts say, as samples of the exported families."""

from collections.abc import Iterator
from typing import Final

from isoradix import TieredCache, TierTotals
from isoradix.driver import Driver
from isoradix.metrics.hits import HitCounter

# name, values of the family's labels, value; of a summary, count and sum
Sample = tuple[str, tuple[str, ...], tuple[float, ...]]
# what all ranks of a domain have alike: without the label of the domain
Shared = tuple[str, tuple[str, ...], float]

_DEVICE: Final = ("device",)
_HOST: Final = ("host",)
_OPEN: Final = {"open": 1.0, "trial": 0.5}


class RankSamples:
    """One rank: whom to ask, and what only its embedding program can tell."""

    def __init__(self, driver: Driver, hits: HitCounter | None) -> None:
        self.driver = driver
        self.divergences = 0
        self._hits = hits

    def all(self) -> Iterator[Sample]:
        """Of the leader everything, of any other rank what is its own."""
        place = self.driver.plane.place
        domain = (str(place.domain),)
        if place.leads:
            for name, labels, value in self._of_domain():
                yield name, (*domain, *labels), (value,)
        of_rank = (*domain, str(place.rank), str(place.stage))
        for name, labels, values in self._of_rank():
            yield name, (*of_rank, *labels), values

    def _of_domain(self) -> Iterator[Shared]:
        cache = self.driver.cache
        totals = cache.totals
        yield from self._of_requests()
        yield from _moved(totals, cache.page_size)
        yield from _operations(totals)
        yield "isoradix_storage_breaker_open", (), _OPEN.get(cache.breaker or "closed", 0.0)
        yield from self._sizes(cache)

    def _of_requests(self) -> Iterator[Shared]:
        if self._hits is None:
            return
        hits = self._hits.hits
        yield "isoradix_prompt_tokens_total", (), hits.prompt
        for tier in ("device", "host", "storage"):
            yield "isoradix_hit_tokens_total", (tier,), getattr(hits, tier)

    def _sizes(self, cache: TieredCache) -> Iterator[Shared]:
        sizes, ledger, slots, page = cache.sizes, cache.host_ledger, self.driver.slots, cache.page_size
        yield "isoradix_cached_tokens", _DEVICE, sizes.total
        yield "isoradix_cached_tokens", _HOST, sizes.host_total
        yield "isoradix_protected_tokens", (), sizes.protected
        yield "isoradix_evictable_tokens", (), sizes.evictable
        yield "isoradix_occupied_tokens", _DEVICE, slots.total - slots.available
        yield "isoradix_occupied_tokens", _HOST, ledger.occupied * page
        yield "isoradix_capacity_tokens", _DEVICE, slots.total
        yield "isoradix_capacity_tokens", _HOST, ledger.capacity * page

    def _of_rank(self) -> Iterator[Sample]:
        counts = self.driver.plane.counts
        yield "isoradix_votes_total", (), (counts.votes,)
        yield "isoradix_frames_total", (), (counts.frames,)
        yield "isoradix_vote_age_seconds", (), (counts.votes_framed, counts.vote_age_ms / 1000)
        yield "isoradix_vote_age_steps", (), (counts.votes_framed, counts.vote_age_steps)
        # The plane's thread may add an operation meanwhile: a copy is taken in one go.
        for operation, waits in counts.waits.copy().items():
            yield "isoradix_waits_total", (operation,), (waits,)
        for operation, seconds in counts.wait_seconds.copy().items():
            yield "isoradix_wait_seconds_total", (operation,), (seconds,)
        observed = int(self.driver.divergence is not None)
        yield "isoradix_divergence_total", (), (self.divergences + observed,)


def _moved(totals: TierTotals, page: int) -> Iterator[Shared]:
    dropped = totals.evicted_tokens - totals.demoted_tokens - totals.dropped_dirty_tokens
    yield "isoradix_evicted_tokens_total", ("device", "demoted"), totals.demoted_tokens
    yield "isoradix_evicted_tokens_total", ("device", "dropped"), dropped
    yield "isoradix_evicted_tokens_total", ("device", "dropped_dirty"), totals.dropped_dirty_tokens
    yield "isoradix_evicted_tokens_total", ("host", "dropped"), totals.host_evicted_tokens
    yield "isoradix_reclaimed_tokens_total", (), totals.reclaimed_tokens
    yield "isoradix_backed_up_tokens_total", (), totals.backed_up_tokens
    yield "isoradix_loaded_back_tokens_total", (), totals.loaded_back_tokens
    yield "isoradix_prefetched_tokens_total", (), totals.prefetched_tokens
    yield "isoradix_stored_tokens_total", (), totals.stored_tokens
    yield "isoradix_given_up_tokens_total", (), totals.given_up_tokens
    yield "isoradix_limbo_tokens", _DEVICE, totals.limbo_slots
    yield "isoradix_limbo_tokens", _HOST, totals.limbo_pages * page


def _operations(totals: TierTotals) -> Iterator[Shared]:
    aborted = totals.aborted
    ended_early = {kind: sum(count for (of, _), count in aborted.items() if of == kind) for kind in totals.issued}
    outcomes = {"issued": totals.issued, "done": totals.done, "declined": totals.declined, "aborted": ended_early}
    for outcome, counts in outcomes.items():
        for kind, count in counts.items():
            yield "isoradix_operations_total", (kind, outcome), count
    for kind, count in totals.retried.items():
        yield "isoradix_retried_operations_total", (kind,), count
    yield "isoradix_storage_breaker_changes_total", ("open",), totals.breaker_opened
    yield "isoradix_storage_breaker_changes_total", ("closed",), totals.breaker_closed
    for (kind, reason), count in aborted.items():
        yield "isoradix_aborted_reservations_total", (kind, reason), count
