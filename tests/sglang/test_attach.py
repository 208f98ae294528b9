"""External storage that is attached and detached while a server serves: on all ranks or none, and nothing is lost."""

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from .engines import Engines
from .outcomes import sound, uncached
from .scenario import Outcome, Scenario, waves

pytestmark = pytest.mark.sglang

RANKS: Final[dict[str, dict[str, Any]]] = {"tp2": {"tp": 2}, "pp2": {"pp": 2}, "tp2xpp2": {"tp": 2, "pp": 2}}
ATTACH, DETACH = 4, 13
many = pytest.mark.parametrize(
    "ranks", [*(pytest.param(ranks, marks=pytest.mark.slow) for ranks in RANKS if ranks != "tp2"), "tp2"]
)


def scenario(backend: str, folder: Path, ranks: str, run: str) -> Scenario:
    return Scenario(backend=backend, l2=True, storage=f"file:{folder}", run=run, **RANKS[ranks])


def right(engines: Engines, asked: Scenario) -> Outcome:
    """With the tokens of a server without a cache."""
    plain = replace(asked, storage="", run="", attach_at=0, detach_at=0, faults="", environment={})
    outcome = sound(engines.run(asked))
    assert outcome.tokens == sound(engines.run(uncached(plain))).tokens
    return outcome


def storage_hits(asked: Scenario, outcome: Outcome) -> tuple[int, int, int]:
    """Tokens from storage before it is attached, while it is, and after it was detached."""
    sizes = [len(wave) for wave in waves(asked)]
    first, last = sum(sizes[: asked.attach_at - 1]), sum(sizes[: asked.detach_at])
    hits = [tiers["storage"] for tiers in outcome.tiers]
    return sum(hits[:first]), sum(hits[first:last]), sum(hits[last:])


@many
def test_storage_comes_and_goes_while_requests_are_served(
    engines: Engines, backend: str, tmp_path: Path, ranks: str
) -> None:
    asked = scenario(backend, tmp_path, ranks, "left")
    fills = replace(asked, attach_at=ATTACH, detach_at=DETACH)
    left = right(engines, fills)
    assert left.storage_changes == ["done", "done"]
    finds = replace(fills, run="found")
    found = right(engines, finds)
    before, meanwhile, after = storage_hits(finds, found)
    assert before == after == 0
    assert meanwhile > storage_hits(fills, left)[1], "what the first has left, and it has detached it"


def test_where_one_rank_cannot_open_it_none_attaches(engines: Engines, backend: str, tmp_path: Path) -> None:
    asked = replace(scenario(backend, tmp_path, "tp2", "refused"), attach_at=ATTACH, detach_at=DETACH)
    outcome = right(engines, replace(asked, faults="storage-unopened:rank=1"))
    refused, done = outcome.storage_changes
    assert "another rank could not open" in refused
    assert done == "done", "there is nothing to detach, and the server takes that for success"
    assert outcome.cached_by_tier["storage"] == 0
