"""This package's metrics on the server's own page, beside the server's.

The server collects over processes (`PROMETHEUS_MULTIPROC_DIR`), where nothing can be read when it is scraped: counts
are written now and then, on the scheduler's thread. Names and labels are those of `isoradix.metrics.FAMILIES`;
summaries, which cannot be written so, are left out.
"""

import time
from typing import Final

from prometheus_client import Counter, Gauge

from isoradix.driver import Driver
from isoradix.metrics import FAMILIES, Family, HitCounter
from isoradix.metrics.samples import RankSamples

PERIOD_S: Final = 1.0


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

    def write(self) -> None:
        """Writes all counts, if a second has passed since they were written last."""
        now = time.monotonic()
        if now < self._due:
            return
        self._due = now + PERIOD_S
        for name, labels, values in self._samples.all():
            match self._families.get(name):
                case Counter() as counter:
                    counter.labels(*labels).inc(values[0] - self._written.get((name, labels), 0.0))
                    self._written[name, labels] = values[0]
                case Gauge() as gauge:
                    gauge.labels(*labels).set(values[0])


def _metric(family: Family) -> Counter | Gauge:
    if family.type == "counter":
        return Counter(family.name, family.help, family.labels)
    return Gauge(family.name, family.help, family.labels, multiprocess_mode="mostrecent")
