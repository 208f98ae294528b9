"""The right tokens with external storage below, and a fresh server that finds there what another has left."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from .engines import Engines
from .outcomes import sound, uncached
from .scenario import Outcome, Scenario

pytestmark = pytest.mark.sglang

RANKS: Final = {"tp1": (1, 1), "tp2": (2, 1), "pp2": (1, 2), "tp2xpp2": (2, 2)}
EXTRA: Final = json.dumps({"prefetch_threshold": 16})


def scenario(backend: str, folder: Path, ranks: str, policy: str, run: str) -> Scenario:
    """Servers that differ in `run` alone do not stand for each other."""
    tp, pp = RANKS[ranks]
    flags = {"hicache_storage_prefetch_policy": policy, "hicache_storage_backend_extra_config": EXTRA}
    environment = {"ISORADIX_STORAGE": folder.as_uri(), "ISORADIX_TEST_RUN": run}
    return Scenario(backend=backend, l2=True, tp=tp, pp=pp, environment=environment, engine_args=flags)


def run(engines: Engines, asked: Scenario) -> Outcome:
    plain = replace(asked, environment={}, engine_args={}, faults="")
    none = sound(engines.run(uncached(plain)))
    outcome = sound(engines.run(asked))
    assert outcome.tokens == none.tokens
    return outcome


@pytest.mark.parametrize(
    ("ranks", "policy"),
    [
        ("tp2", "wait_complete"),
        *(pytest.param(ranks, "timeout", marks=pytest.mark.slow) for ranks in RANKS),
        pytest.param("tp2", "best_effort", marks=pytest.mark.slow),
    ],
)
def test_a_fresh_server_finds_what_another_has_left(
    engines: Engines, backend: str, tmp_path: Path, ranks: str, policy: str
) -> None:
    first = run(engines, scenario(backend, tmp_path, ranks, policy, "first"))
    second = run(engines, scenario(backend, tmp_path, ranks, policy, "second"))
    if policy == "best_effort":
        return
    assert second.tiers[0]["storage"] > 0, "its first request hits already"
    assert second.cached_by_tier["storage"] > first.cached_by_tier["storage"]
    assert second.cached_tokens >= first.cached_tokens


@pytest.mark.slow
@pytest.mark.parametrize("ranks", ["tp2", "pp2", "tp2xpp2"])
def test_all_faults_of_one_rank_at_once(engines: Engines, backend: str, tmp_path: Path, ranks: str) -> None:
    run(engines, scenario(backend, tmp_path, ranks, "timeout", "first"))
    asked = scenario(backend, tmp_path, ranks, "timeout", "faulty")
    last = asked.ranks - 1
    kinds = ("ack-delay:rank={},ms=5..50", "alloc-fail:rank={},p=0.1", "sleep:rank={},p=0.1,ms=20..40")
    run(engines, replace(asked, consensus_checker=False, faults=" ".join(kind.format(last) for kind in kinds)))
