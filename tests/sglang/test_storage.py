"""The right tokens with external storage below, and a fresh server that finds there what another has left."""

import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest
from tests.storage.mooncake_server import CLIENT_TTL_S, MooncakeServer
from tests.storage.servers import running

from .decided import decided
from .engines import Engines
from .interruption import interrupted
from .outcomes import sound, uncached
from .scenario import Outcome, Scenario

pytestmark = pytest.mark.sglang

RANKS: Final = {"tp1": (1, 1), "tp2": (2, 1), "pp2": (1, 2), "tp2xpp2": (2, 2)}
MANY: Final = ("tp2", "pp2", "tp2xpp2")
FAULTS: Final = {
    "fail": "storage-fail:rank={last},p=0.5",
    "short": "storage-short:rank={last},p=0.5",
    "hang": "storage-hang:rank={last},step=1",
}


def scenario(backend: str, storage: str, ranks: str, policy: str, run: str) -> Scenario:
    tp, pp = RANKS[ranks]
    return Scenario(backend=backend, l2=True, tp=tp, pp=pp, storage=storage, storage_policy=policy, run=run)


def run(engines: Engines, asked: Scenario) -> Outcome:
    plain = replace(asked, storage="", run="", faults="", environment={}, leavers=0, waves_told="")
    none = sound(engines.run(uncached(plain)))
    outcome = sound(engines.run(asked))
    assert outcome.tokens == none.tokens
    return outcome


def a_fresh_server_finds_what_another_has_left(engines: Engines, first: Scenario) -> None:
    left = run(engines, first)
    found = run(engines, replace(first, run=f"{first.run}, again"))
    assert found.tiers[0]["storage"] > 0, "its first request hits already"
    assert found.cached_by_tier["storage"] > left.cached_by_tier["storage"]


@pytest.mark.slow
@pytest.mark.parametrize("ranks", RANKS)
def test_files_outlive_a_server(engines: Engines, backend: str, tmp_path: Path, ranks: str) -> None:
    policy = "wait_complete" if ranks == "tp2" else "timeout"
    a_fresh_server_finds_what_another_has_left(engines, scenario(backend, f"file:{tmp_path}", ranks, policy, "first"))


@pytest.mark.parametrize(
    "ranks", ["tp1", *(pytest.param(ranks, marks=pytest.mark.slow) for ranks in RANKS if ranks != "tp1")]
)
def test_a_mooncake_cluster_outlives_a_server(engines: Engines, backend: str, tmp_path: Path, ranks: str) -> None:
    with running(lambda: MooncakeServer(tmp_path)) as cluster:
        place = cluster.url.removeprefix("mooncake://")
        first = scenario(backend, f"mooncake:{place}", ranks, "timeout", "first")
        a_fresh_server_finds_what_another_has_left(engines, first)


@pytest.mark.slow
@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("what", ["owner", "master"])
def test_a_part_of_the_cluster_is_killed_while_it_serves(
    engines: Engines, backend: str, tmp_path: Path, ranks: str, what: str
) -> None:
    with closing(MooncakeServer(tmp_path)) as cluster:
        first = scenario(backend, f"mooncake:{cluster.url.removeprefix('mooncake://')}", ranks, "timeout", "first")
        run(engines, first)
        kill = {"owner": cluster.restart, "master": cluster.restart_master}[what]
        environment = {"ISORADIX_STORAGE_BREAKER": "1,100,1,30000", "ISORADIX_JOURNAL": str(tmp_path / "journals")}
        with interrupted(tmp_path, 8, kill):
            during = run(engines, replace(first, run="killed", waves_told=str(tmp_path), environment=environment))
        assert during.tiers[0]["storage"] > 0
        assert "open" in decided(tmp_path / "journals", first.ranks).breaker, "something has failed, and all ranks know"
        time.sleep(
            CLIENT_TTL_S
        )  # for so long the master names pages of one that is gone, and takes them from nobody else
        a_fresh_server_finds_what_another_has_left(engines, replace(first, run="after"))


@pytest.mark.slow
def test_a_request_that_waits_for_nothing(engines: Engines, backend: str, tmp_path: Path) -> None:
    asked = scenario(backend, f"file:{tmp_path}", "tp2", "best_effort", "first")
    run(engines, asked)
    run(engines, replace(asked, run="second"))


@pytest.mark.slow
def test_a_store_that_a_url_names(engines: Engines, backend: str, tmp_path: Path) -> None:
    asked = scenario(backend, "", "tp2", "timeout", "first")
    asked = replace(asked, environment={"ISORADIX_STORAGE": tmp_path.as_uri()})
    run(engines, asked)
    assert run(engines, replace(asked, run="second")).cached_by_tier["storage"] > 0


@pytest.mark.parametrize("ranks", [*(pytest.param(two, marks=pytest.mark.slow) for two in MANY if two != "tp2"), "tp2"])
def test_all_faults_of_one_ranks_storage(engines: Engines, backend: str, tmp_path: Path, ranks: str) -> None:
    """Beside aborts with prefetches under way; few requests wait here for storage that hangs.

    Without a breaker: one that is open leaves too few calls for faults of two kinds to take place.
    """
    first = scenario(backend, f"file:{tmp_path}", ranks, "timeout", "first")
    run(engines, first)
    first = replace(first, environment={"ISORADIX_STORAGE_BREAKER": "none"})
    faults = " ".join(FAULTS[kind].format(last=first.ranks - 1) for kind in ("fail", "short"))
    faulty = run(engines, replace(first, run="faulty", consensus_checker=False, faults=faults, leavers=2))
    assert set(faulty.injected) == {"storage-fail", "storage-short"}
    assert faulty.cached_by_tier["storage"] > 0, "what all ranks have is served"


@pytest.mark.slow
@pytest.mark.parametrize("ranks", MANY)
@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_of_one_ranks_storage(
    engines: Engines, backend: str, tmp_path: Path, ranks: str, fault: str
) -> None:
    first = scenario(backend, f"file:{tmp_path}", ranks, "timeout", "first")
    run(engines, first)
    faults = FAULTS[fault].format(last=first.ranks - 1)
    faulty = run(engines, replace(first, run="faulty", consensus_checker=False, faults=faults))
    assert list(faulty.injected) == [f"storage-{fault}"]


@pytest.mark.slow
@pytest.mark.parametrize("ranks", MANY)
def test_the_breaker_opens_and_closes_at_one_step_on_all_ranks(
    engines: Engines, backend: str, tmp_path: Path, ranks: str
) -> None:
    first = scenario(backend, f"file:{tmp_path / 'store'}", ranks, "timeout", "first")
    run(engines, first)
    environment = {"ISORADIX_STORAGE_BREAKER": "1,50,1,5000", "ISORADIX_JOURNAL": str(tmp_path / "journals")}
    faults = f"storage-fail:rank={first.ranks - 1},p=0.7"  # thrice in a row, one time in three
    asked = replace(first, run="faulty", consensus_checker=False, faults=faults, environment=environment)
    assert "storage-fail" in run(engines, asked).injected
    states = decided(tmp_path / "journals", first.ranks).breaker
    assert "open" in states, states
    assert "closed" in states[states.index("open") :], states


@pytest.mark.slow
@pytest.mark.parametrize("ranks", MANY)
def test_requests_leave_and_are_retracted(engines: Engines, backend: str, tmp_path: Path, ranks: str) -> None:
    first = replace(scenario(backend, f"file:{tmp_path}", ranks, "timeout", "first"), concurrency=8, new_tokens=64)
    run(engines, first)
    forced = {"SGLANG_TEST_RETRACT": "true", "SGLANG_TEST_RETRACT_INTERVAL": "40"}  # a fast machine may need none
    asked = replace(first, run="second", leavers=3, environment=forced, start_method="spawn")
    second = run(engines, asked)
    assert second.retractions > 0


@pytest.mark.slow
@pytest.mark.parametrize("ranks", MANY)
def test_requests_leave_while_storage_is_asked_for_them(
    engines: Engines, backend: str, tmp_path: Path, ranks: str
) -> None:
    first = scenario(backend, f"file:{tmp_path / 'store'}", ranks, "timeout", "first")
    run(engines, first)
    journals = {"ISORADIX_JOURNAL": str(tmp_path / "journals")}
    slow = f"storage-slow:rank={first.ranks - 1},ms=50..200"
    asked = replace(first, run="second", leavers=3, environment=journals, faults=slow, consensus_checker=False)
    run(engines, asked)
    assert decided(tmp_path / "journals", first.ranks).aborted


@pytest.mark.slow
@pytest.mark.parametrize("ranks", ["tp2", "pp2", "tp2xpp2"])
def test_all_faults_of_one_rank_at_once(engines: Engines, backend: str, tmp_path: Path, ranks: str) -> None:
    run(engines, scenario(backend, f"file:{tmp_path}", ranks, "timeout", "first"))
    asked = scenario(backend, f"file:{tmp_path}", ranks, "timeout", "faulty")
    last = asked.ranks - 1
    kinds = ("ack-delay:rank={},ms=5..50", "alloc-fail:rank={},p=0.1", "sleep:rank={},p=0.1,ms=20..40")
    run(engines, replace(asked, consensus_checker=False, faults=" ".join(kind.format(last) for kind in kinds)))
