"""The right tokens and no error, whatever one rank's copies, host memory and scheduler do."""

from dataclasses import replace
from typing import Final

import pytest

from .engines import Engines
from .outcomes import sound, uncached
from .scenario import Outcome, Scenario

pytestmark = pytest.mark.sglang

RANKS: Final = {"tp2": (2, 1), "pp2": (1, 2), "tp2xpp2": (2, 2)}
FAULTS: Final = {
    "ack-delay": "ack-delay:rank={last},ms=5..50",
    "copy-slow": "copy-slow:rank={last},ms=5..20",
    "alloc-fail": "alloc-fail:rank={last},p=0.1",
    "short-pool": "short-pool:rank={last},pages=30",
    "sleep": "sleep:rank={last},p=0.1,ms=20..40",
}


def scenario(ranks: str, *kinds: str) -> Scenario:
    tp, pp = RANKS[ranks]
    usual = Scenario(l2=True, consensus_checker=False, tp=tp, pp=pp)
    return replace(usual, faults=" ".join(FAULTS[kind].format(last=usual.ranks - 1) for kind in kinds))


def run(engines: Engines, backend: str, faulty: Scenario) -> Outcome:
    """What came of it; the tokens are those of an engine without cache or faults."""
    none = sound(engines.run(uncached(replace(faulty, faults=""))))
    outcome = sound(engines.run(replace(faulty, backend=backend)))
    assert outcome.tokens == none.tokens
    return outcome


@pytest.mark.parametrize("ranks", [*(pytest.param(two, marks=pytest.mark.slow) for two in ("tp2", "pp2")), "tp2xpp2"])
def test_all_faults_of_one_rank_at_once(engines: Engines, backend: str, ranks: str) -> None:
    outcome = run(engines, backend, scenario(ranks, *FAULTS))
    assert set(outcome.injected) == set(FAULTS), "each took place"
    assert outcome.cached_by_tier["host"] > 0, "host memory still serves"


@pytest.mark.slow
@pytest.mark.parametrize("kind", FAULTS)
@pytest.mark.parametrize("ranks", RANKS)
def test_each_fault_alone(engines: Engines, backend: str, ranks: str, kind: str) -> None:
    outcome = run(engines, backend, scenario(ranks, kind))
    assert set(outcome.injected) == {kind}
