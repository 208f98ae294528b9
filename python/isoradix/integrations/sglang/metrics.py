"""This package's metrics on the server's own page, beside the server's.

The server collects over processes (`PROMETHEUS_MULTIPROC_DIR`), where nothing can be read when it is scraped: counts
are written now and then, on the scheduler's thread. Names and labels are those of `isoradix.metrics.FAMILIES`;
summaries, which cannot be written so, are left out.
"""

import time
from typing import Any, Final

from prometheus_client import Counter, Gauge

from isoradix import TieredCache
from isoradix.driver import Driver
from isoradix.metrics import FAMILIES, Family, HitCounter
from isoradix.metrics.samples import RankSamples

PERIOD_S: Final = 1.0
_POOL: Final = "kv"
_DROPPED: Final = {"write_back": "host_pressure", "write_through": "write_through_unbacked_eviction"}
"""The server's own words for why tokens were lost; under `write_through_selective` it counts none."""


class ServerMetrics:
    """The metrics of one rank.

    Args:
        driver: this rank's.
    """

    def __init__(self, driver: Driver) -> None:
        self.hits = HitCounter()
        self._samples = RankSamples(driver, self.hits)
        self._families = {family.name: _metric(family) for family in FAMILIES if family.type != "summary"}
        self._written: dict[tuple[str, tuple[str, ...]], float] = {}
        self._due = 0.0
        self._transfers: TransferCounts | None = None

    def count_transfers(self, transfers: "TransferCounts") -> None:
        """Writes these as well, from now on."""
        self._transfers = transfers

    def write(self) -> None:
        """Writes all counts, if a second has passed since they were written last."""
        now = time.monotonic()
        if now < self._due:
            return
        self._due = now + PERIOD_S
        if self._transfers is not None:
            self._transfers.write()
        for name, labels, values in self._samples.all():
            match self._families.get(name):
                case Counter() as counter:
                    counter.labels(*labels).inc(values[0] - self._written.get((name, labels), 0.0))
                    self._written[name, labels] = values[0]
                case Gauge() as gauge:
                    gauge.labels(*labels).set(values[0])


class TransferCounts:
    """The server's own counts of what moves between the tiers. How long copies take is not counted: none is waited for.

    Args:
        tree: of this rank.
        collector: the server's `RadixCacheMetricsCollector`.
        bytes_per_token: of this rank's KV.
        write_policy: the server's name of it.
    """

    def __init__(self, tree: TieredCache, collector: Any, bytes_per_token: int, write_policy: str) -> None:
        self._tree, self._collector, self._bytes_per_token = tree, collector, bytes_per_token
        self._reason = _DROPPED.get(write_policy)
        self._backed = self._loaded = self._dropped = 0

    def write(self) -> None:
        """Adds what has come since the last time."""
        totals, collector = self._tree.totals, self._collector
        backed, self._backed = totals.backed_up_tokens - self._backed, totals.backed_up_tokens
        loaded, self._loaded = totals.loaded_back_tokens - self._loaded, totals.loaded_back_tokens
        lost = totals.evicted_tokens - totals.demoted_tokens
        dropped, self._dropped = lost - self._dropped, lost
        collector.increment_backup_num_tokens(backed, pool=_POOL)
        collector.increment_backup_num_bytes(backed * self._bytes_per_token)
        collector.increment_load_back_num_tokens(loaded, pool=_POOL)
        collector.increment_load_back_num_bytes(loaded * self._bytes_per_token)
        if self._reason is not None:
            collector.increment_dropped_tokens(dropped, reason=self._reason, pool=_POOL)


def _metric(family: Family) -> Counter | Gauge:
    if family.type == "counter":
        return Counter(family.name, family.help, family.labels)
    return Gauge(family.name, family.help, family.labels, multiprocess_mode="mostrecent")
