"""A real Mooncake cluster over TCP below the ranks of a replay: it outlives the runs, or breaks in the middle."""

import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from tests.storage.mooncake_server import MooncakeServer

from .replays import Replay, replay

RANKS: Final = {"tp2xpp2": ["--tp", "2", "--pp", "2"], "pp4": ["--pp", "4"]}
MEMORY: Final = 512 << 20
PATIENCE_S: Final = 60.0
STORED_PAGES: Final = 200
"""Of all ranks together; a run stores some thousands."""


OUTAGE_S: Final = 4.0
"""Longer than a call of these runs waits."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[MooncakeServer]:
    server = MooncakeServer(tmp_path, MEMORY)
    yield server
    server.close()


def wait_until(run: Replay, ready: Callable[[], bool]) -> None:
    """Until something is so, in the middle of a run."""
    late = time.monotonic() + PATIENCE_S
    while not ready():
        assert run.is_running(), "it has ended before"
        assert time.monotonic() < late
        time.sleep(0.05)


def total(document: dict[str, Any], kind: str, ends: str) -> int:
    """Operations of a kind on one rank: all of them decide alike."""
    counts = {rank["operations"][kind][ends] for rank in document["ranks"]}
    assert len(counts) == 1
    return int(counts.pop())


@pytest.mark.cluster
def test_a_fresh_run_finds_what_another_has_stored(cluster: MooncakeServer) -> None:
    first = replay(cluster.url, RANKS["tp2xpp2"])
    assert cluster.pages() > STORED_PAGES
    second = replay(cluster.url, RANKS["tp2xpp2"], "--prefetch-policy", "wait_complete")
    assert second["storage_hit_tokens"] > first["storage_hit_tokens"]
    for rank in second["ranks"]:
        assert rank["prefetched_tokens"] > 0
        assert rank["stored_tokens"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("ranks", RANKS)
def test_the_memorys_owner_is_killed(cluster: MooncakeServer, ranks: str) -> None:
    replay(cluster.url, RANKS[ranks])
    before = cluster.pages()
    with Replay(cluster.url, RANKS[ranks], "--step-ms", "10") as run:
        wait_until(run, lambda: cluster.pages() > before + STORED_PAGES)
        cluster.kill()
        document = run.document()
    assert total(document, "store", "aborted_failed") + total(document, "prefetch", "aborted_failed") > 0


@pytest.mark.slow
@pytest.mark.parametrize("ranks", RANKS)
def test_the_master_is_killed_and_started_again(cluster: MooncakeServer, ranks: str) -> None:
    with Replay(cluster.url, RANKS[ranks], "--step-ms", "10") as run:
        wait_until(run, lambda: cluster.pages() > STORED_PAGES)
        cluster.restart_master()
        assert run.is_running()
        document = run.document()
    assert total(document, "store", "aborted_failed") + total(document, "prefetch", "aborted_failed") > 0
    again = replay(cluster.url, RANKS[ranks])
    assert again["ranks"][0]["stored_tokens"] > 0, "it serves again"


@pytest.mark.slow
@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("fault", ["storage-fail:rank=1,p=0.5", "storage-short:rank=1,p=0.5"])
def test_one_ranks_storage_does_otherwise(cluster: MooncakeServer, ranks: str, fault: str) -> None:
    replay(cluster.url, RANKS[ranks])
    faulty = replay(cluster.url, RANKS[ranks], "--inject", fault)
    assert faulty["ranks"][1]["faults_at_work"] > 0
    assert faulty["storage_hit_tokens"] > 0, "what all ranks have is served"


def kill_the_owner(cluster: MooncakeServer) -> None:
    cluster.kill()
    time.sleep(OUTAGE_S)
    cluster.restart()


def kill_the_master(cluster: MooncakeServer) -> None:
    cluster.master.end()
    time.sleep(OUTAGE_S)
    cluster.restart_master()


def stop_the_owner(cluster: MooncakeServer) -> None:
    cluster.owner.signal(signal.SIGSTOP)
    time.sleep(OUTAGE_S)
    cluster.owner.signal(signal.SIGCONT)


def stop_all(cluster: MooncakeServer) -> None:
    cluster.stop()
    time.sleep(OUTAGE_S)
    cluster.go_on()


def kill_one_after_the_other(cluster: MooncakeServer) -> None:
    kill_the_owner(cluster)
    time.sleep(OUTAGE_S)
    kill_the_master(cluster)


OUTAGES: Final = {
    "owner killed": (kill_the_owner, 1000),
    "master killed": (kill_the_master, 1000),
    "owner killed, then master": (kill_one_after_the_other, 1600),
    "owner stopped": (stop_the_owner, 1000),
    "all stopped": (stop_all, 1000),
}


@pytest.mark.slow
@pytest.mark.parametrize(("outage", "requests"), OUTAGES.values(), ids=OUTAGES)
def test_the_breaker_opens_and_closes_at_one_step_on_all_ranks(
    cluster: MooncakeServer, outage: Callable[[MooncakeServer], None], requests: int
) -> None:
    url, breaker = f"{cluster.url}?timeout=2", ["--breaker", "1,300,1,30000"]
    with Replay(url, ["--tp", "2"], "--step-ms", "10", *breaker, requests=requests) as run:
        wait_until(run, lambda: cluster.pages() > STORED_PAGES)
        outage(cluster)
        assert run.is_running()
        document = run.document()
    one, *others = ([(change["step"], change["state"]) for change in rank["breaker"]] for rank in document["ranks"])
    assert all(other == one for other in others)
    states = [state for _, state in one]
    assert "open" in states, one
    assert "closed" in states[states.index("open") :], one
