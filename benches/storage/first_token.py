"""Time to the first token in a real SGLang server on a CPU: of requests that storage has, beside computing them."""

import statistics
import tempfile
from dataclasses import dataclass, replace
from typing import Final

from tests.sglang.engines import Engines
from tests.sglang.scenario import Outcome, Scenario

REQUESTS: Final = 8
TOKENS: Final = 3072


@dataclass(frozen=True)
class FirstToken:
    """Median milliseconds."""

    ranks: str
    computed: float
    from_storage: float
    storage_tokens: int
    """Of a request, out of `TOKENS`."""


def first_token(engines: Engines, tp: int, pp: int) -> FirstToken:
    """Three servers: one fills a folder, a fresh one reads it, and one has no storage."""
    usual = Scenario(
        backend="isoradix",
        l2=True,
        tp=tp,
        pp=pp,
        page_size=64,
        layers=8,
        max_total_tokens=32768,
        host_ratio=1.5,
        chunked_prefill_size=-1,
        requests=REQUESTS,
        turns=1,
        sequential=True,
        turn_tokens=TOKENS,
        new_tokens=1,
        consensus_checker=False,
    )
    with tempfile.TemporaryDirectory(prefix="isoradix-bench-") as folder:
        stored = replace(usual, storage=f"file:{folder}", storage_policy="wait_complete", run="first")
        _sound(engines.run(stored))
        warm = _sound(engines.run(replace(stored, run="second")))
    cold = _sound(engines.run(usual))
    assert warm.tokens == cold.tokens
    found = int(statistics.median(tiers["storage"] for tiers in warm.tiers[:REQUESTS]))
    return FirstToken(f"TP {tp} x PP {pp}", _median(cold), _median(warm), found)


def _sound(outcome: Outcome) -> Outcome:
    assert outcome.status == "ok", outcome.errors
    return outcome


def _median(outcome: Outcome) -> float:
    return statistics.median(outcome.seconds[1:REQUESTS]) * 1e3  # the first of a server pays for more than itself
