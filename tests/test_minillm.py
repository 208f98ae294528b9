"""Real attention over real cached bytes: with any tiers, on any ranks, under faults, the engine says the same."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

from benches.minillm import ROOM, ROUNDS, pipeline

from minillm.deployment import Outcome, run
from minillm.requests import Workload
from minillm.settings import Settings

MOST_KL = 1e-6
WORKLOAD = Workload(users=8, rounds=3, system=48, question=40, answer=12)
TIGHT: dict[str, Any] = {"slots": 448, "batch": 2, "chunk": 96}
"""A third of what the conversations hold: most of it has to leave the device."""
FAULTS = (
    "copy-slow:ms=1..10",
    "ack-delay:rank=0,ms=1..20",
    "alloc-fail:rank=0,p=0.3",
    "sleep:rank=0,ms=1..10,p=0.1",
)
TOPOLOGIES = [(1, 1), (2, 2), (1, 4)]


@cache
def without_cache(drafts: int = 0) -> Outcome:
    """One rank that computes everything anew."""
    return run(Settings(cache="off", drafts=drafts, record=True, **TIGHT), WORKLOAD)


def worst_divergence(outcome: Outcome, truth: Outcome) -> float:
    """The greatest Kullback-Leibler divergence of a token's distribution from the one that is right."""
    assert outcome.distributions.keys() == truth.distributions.keys()
    worst = 0.0
    for name, rows in truth.distributions.items():
        for right, found in zip(rows, outcome.distributions[name], strict=False):
            worst = max(worst, float(np.sum(np.exp(right) * (right - found))))
    return worst


def serve(tmp_path: Path, tp: int, pp: int, tiers: Any, **options: Any) -> Outcome:
    storage = f"file://{tmp_path}/kv" if tiers == "l3" else None
    pages = 64 if tiers == "l3" else 512
    settings = Settings(tp=tp, pp=pp, cache=tiers, host_pages=pages, storage=storage, record=True, **TIGHT, **options)
    return run(settings, WORKLOAD)


def same(outcome: Outcome, truth: Outcome) -> None:
    assert outcome.answers == truth.answers
    assert worst_divergence(outcome, truth) < MOST_KL


@pytest.mark.parametrize("tiers", ["l1", "l2", "l3"])
def test_one_rank_says_the_same_with_every_tier(tmp_path: Path, tiers: str) -> None:
    outcome = serve(tmp_path, 1, 1, tiers)
    same(outcome, without_cache())
    assert outcome.hit_rates()[-1] > (0.1 if tiers == "l1" else 0.4)


def test_four_ranks_under_faults_say_the_same_with_all_tiers(tmp_path: Path) -> None:
    outcome = serve(tmp_path, 2, 2, "l3", faults=(*FAULTS, "storage-short:rank=1,p=0.3"))
    same(outcome, without_cache())
    device, host, storage = (sum(request.hits[tier] for request in outcome.requests) for tier in range(3))
    assert min(device, host, storage) > 0, "every tier was hit"


@pytest.mark.slow
@pytest.mark.parametrize("faults", [(), FAULTS], ids=["quiet", "faults"])
@pytest.mark.parametrize("tiers", ["off", "l1", "l2", "l3"])
@pytest.mark.parametrize(("tp", "pp"), TOPOLOGIES)
def test_all_say_the_same(tmp_path: Path, tp: int, pp: int, tiers: str, faults: tuple[str, ...]) -> None:
    same(serve(tmp_path, tp, pp, tiers, faults=faults if tiers in ("l2", "l3") else ()), without_cache())


def test_a_wrong_page_is_noticed(tmp_path: Path) -> None:
    outcome = serve(tmp_path, 1, 1, "l2", faults=("corrupt:rank=0,step=2",))
    assert worst_divergence(outcome, without_cache()) > 1000 * MOST_KL


def test_guessing_ahead_changes_no_answer(tmp_path: Path) -> None:
    """Also where the draft's own KV comes back from host, by pairs of tokens."""
    outcome = serve(tmp_path, 1, 2, "l2", drafts=3)
    same(outcome, without_cache())
    accepted = max(report.accepted for report in outcome.reports)
    assert accepted > 20
    assert accepted == max(report.accepted for report in without_cache(3).reports), "cached drafts guess as fresh ones"


def test_dynamic_chunks_change_no_answer(tmp_path: Path) -> None:
    outcome = serve(tmp_path, 1, 2, "l1", dynamic=True)
    same(outcome, without_cache())


_TWO: tuple[Any, Any] = ("l1", "l3")


@pytest.mark.slow
def test_lower_tiers_keep_what_the_device_cannot(tmp_path: Path) -> None:
    """Conversations of seven rounds, of which the device holds a sixth."""
    kept = [run(Settings(cache=tiers, storage=f"file://{tmp_path}/kv", **ROOM), ROUNDS) for tiers in _TWO]
    device, all_tiers = (outcome.hit_rates()[3:] for outcome in kept)
    assert max(device) < 0.35
    assert min(all_tiers) > 0.70
    assert kept[0].answers == kept[1].answers


def test_a_pipeline_waits_for_its_longest_chunks() -> None:
    seconds, bubbles = pipeline([[1, 1], [1, 1]])
    assert seconds == 3
    assert bubbles == pytest.approx(1 / 3)
    assert pipeline([[1, 3], [1, 3]])[0] == 7
    assert pipeline([[2.0]]) == (2, 0)


def test_the_example_is_short_enough_to_read() -> None:
    import minillm

    files = list(Path(minillm.__file__).parent.glob("*.py"))
    assert sum(len(file.read_text().splitlines()) for file in files) < 800
