"""The names, types and labels of all that is exported. They are API: docs/metrics.md has the same table."""

from dataclasses import dataclass
from typing import Literal

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, SummaryMetricFamily

AnyFamily = CounterMetricFamily | GaugeMetricFamily | SummaryMetricFamily

_DOMAIN = ("domain",)
_RANK = ("domain", "rank", "stage")


@dataclass(frozen=True)
class Family:
    """One exported name. A summary is exported as `name_count` and `name_sum`."""

    name: str
    type: Literal["counter", "gauge", "summary"]
    labels: tuple[str, ...]
    help: str

    @property
    def per_rank(self) -> bool:
        """Whether every rank exports it; else the leader of each domain, since all its ranks have the same numbers."""
        return "rank" in self.labels

    def empty(self) -> AnyFamily:
        """The family, without samples yet."""
        match self.type:
            case "counter":
                return CounterMetricFamily(self.name.removesuffix("_total"), self.help, labels=self.labels)
            case "gauge":
                return GaugeMetricFamily(self.name, self.help, labels=self.labels)
            case "summary":
                return SummaryMetricFamily(self.name, self.help, labels=self.labels)


def add_sample(family: AnyFamily, labels: tuple[str, ...], values: tuple[float, ...]) -> None:
    """Adds a sample to a family: its value, or count and sum of a summary."""
    if isinstance(family, SummaryMetricFamily):
        count, total = values
        family.add_metric(labels, int(count), total)
    else:
        (value,) = values
        family.add_metric(labels, value)


def _counter(name: str, help: str, *labels: str) -> Family:
    return Family(name, "counter", (*_DOMAIN, *labels), help)


def _gauge(name: str, help: str, *labels: str) -> Family:
    return Family(name, "gauge", (*_DOMAIN, *labels), help)


def _of_rank(name: str, help: str, *labels: str) -> Family:
    return Family(name, "counter", (*_RANK, *labels), help)


def _age(name: str, help: str) -> Family:
    return Family(name, "summary", _RANK, help)


FAMILIES: tuple[Family, ...] = (
    # requests, as the scheduler reports them
    _counter("isoradix_prompt_tokens_total", "Prompt tokens of admitted requests."),
    _counter("isoradix_hit_tokens_total", "Of these, tokens that were cached, by the tier that had them.", "tier"),
    # tokens that move and leave
    _counter("isoradix_evicted_tokens_total", "Tokens that evictions freed, by tier and fate.", "tier", "fate"),
    _counter("isoradix_reclaimed_tokens_total", "Tokens whose host copies were given up for room."),
    _counter("isoradix_backed_up_tokens_total", "Tokens that came from the device to host."),
    _counter("isoradix_loaded_back_tokens_total", "Tokens that came from host to the device."),
    _counter("isoradix_prefetched_tokens_total", "Tokens that came from storage to host."),
    _counter("isoradix_stored_tokens_total", "Tokens that came from host to storage."),
    _counter("isoradix_given_up_tokens_total", "Tokens that were to be stored and are given up."),
    # operations
    _counter("isoradix_operations_total", "Operations between tiers, by outcome.", "kind", "outcome"),
    _counter("isoradix_aborted_reservations_total", "Operations that ended early, by reason.", "kind", "reason"),
    _counter("isoradix_retried_operations_total", "Operations that storage failed and that were tried again.", "kind"),
    _counter("isoradix_storage_breaker_changes_total", "Times that storage was left alone, or used again.", "to"),
    _gauge("isoradix_storage_breaker_open", "1 while storage is left alone, 0.5 while it is tried, else 0."),
    # sizes
    _gauge("isoradix_cached_tokens", "Tokens that the tree holds.", "tier"),
    _gauge("isoradix_protected_tokens", "Tokens on the device that locks or pins protect."),
    _gauge("isoradix_evictable_tokens", "Tokens on the device that an eviction could free."),
    _gauge("isoradix_occupied_tokens", "Room that is taken in a pool, in tokens: cached, in use or under way.", "tier"),
    _gauge("isoradix_capacity_tokens", "Room of a pool, in tokens: of host, what all ranks can back now.", "tier"),
    _gauge("isoradix_limbo_tokens", "Room that a reset keeps back until copies have ended, in tokens.", "tier"),
    # this rank's plane
    _of_rank("isoradix_votes_total", "Votes that this rank has taken part in."),
    _of_rank("isoradix_frames_total", "Frames that this rank has applied."),
    _age("isoradix_vote_age_seconds", "From the completion of a vote to the frame that carried it."),
    _age("isoradix_vote_age_steps", "Steps from what a vote knew of to the frame that carried it."),
    _of_rank("isoradix_waits_total", "Waits of the scheduler's thread that were not over at once.", "operation"),
    _of_rank("isoradix_wait_seconds_total", "Seconds that the scheduler's thread spent in them.", "operation"),
    _of_rank("isoradix_divergence_total", "Divergences that this rank has raised or observed."),
)
