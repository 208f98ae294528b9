"""The server's own counts, as this package keeps them for it."""

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("prometheus_client")

from isoradix.integrations.sglang.metrics import TransferCounts


class Collector:
    """The server's collector, as far as it is told here."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def increment_backup_num_tokens(self, num_tokens: int, pool: str) -> None:
        self.counts[f"backed {pool}"] += num_tokens

    def increment_backup_num_bytes(self, num_bytes: int) -> None:
        self.counts["backed bytes"] += num_bytes

    def increment_load_back_num_tokens(self, num_tokens: int, pool: str) -> None:
        self.counts[f"loaded {pool}"] += num_tokens

    def increment_load_back_num_bytes(self, num_bytes: int) -> None:
        self.counts["loaded bytes"] += num_bytes

    def increment_dropped_tokens(self, num_tokens: int, reason: str, pool: str) -> None:
        self.counts[f"{reason} {pool}"] += num_tokens


@pytest.mark.parametrize(
    ("policy", "reason"),
    [
        ("write_through", "write_through_unbacked_eviction kv"),
        ("write_back", "host_pressure kv"),
        ("write_through_selective", None),
    ],
)
def test_what_moved_between_the_tiers_is_counted_once(policy: str, reason: str | None) -> None:
    names = ("backed_up_tokens", "loaded_back_tokens", "evicted_tokens", "demoted_tokens")
    tree: Any = SimpleNamespace(totals=None)
    collector = Collector()
    counts = TransferCounts(tree, collector, bytes_per_token=6, write_policy=policy)
    for values in [(0, 0, 0, 0), (16, 0, 4, 4), (32, 8, 20, 12), (32, 8, 20, 12)]:
        tree.totals = SimpleNamespace(**dict(zip(names, values, strict=True)))
        counts.write()
    lost = {} if reason is None else {reason: 8}
    assert collector.counts == {"backed kv": 32, "backed bytes": 192, "loaded kv": 8, "loaded bytes": 48, **lost}
