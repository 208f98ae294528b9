"""A real Mooncake cluster over TCP below the ranks of a replay: it outlives the runs, or breaks in the middle."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
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
CHANGES_KEPT: Final = 64
"""Of the breaker."""
OUTAGE_S: Final = 10.0
"""Longer than a call of these runs waits."""

Outage = Callable[[MooncakeServer], AbstractContextManager[None]]


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
    replay(cluster.url, RANKS[ranks], requests=300)
    faulty = replay(cluster.url, RANKS[ranks], "--breaker", "none", "--inject", fault, requests=300)
    assert faulty["ranks"][1]["faults_at_work"] > 0
    assert faulty["storage_hit_tokens"] > 0, "what all ranks have is served"


@contextmanager
def owner_killed(cluster: MooncakeServer) -> Iterator[None]:
    cluster.kill()
    yield
    cluster.restart()


@contextmanager
def master_killed(cluster: MooncakeServer) -> Iterator[None]:
    cluster.master.end()
    yield
    cluster.restart_master()


@contextmanager
def owner_stopped(cluster: MooncakeServer) -> Iterator[None]:
    cluster.owner.signal(signal.SIGSTOP)
    yield
    cluster.owner.signal(signal.SIGCONT)


@contextmanager
def all_stopped(cluster: MooncakeServer) -> Iterator[None]:
    cluster.stop()
    yield
    cluster.go_on()


OUTAGES: Final = {
    "owner killed": (1000, owner_killed),
    "master killed": (1000, master_killed),
    "owner killed, then master": (1600, owner_killed, master_killed),
    "owner stopped": (1000, owner_stopped),
    "all stopped": (1000, all_stopped),
}
"""Requests that last beyond them, and what happens, one after the other."""


def wait_until_it_stores(run: Replay, cluster: MooncakeServer) -> None:
    """Until the master knows of more pages than were left, and than may be under way: 128 a rank."""
    fewest = cluster.pages()

    def stores() -> bool:
        nonlocal fewest
        fewest = min(fewest, cluster.pages())
        return cluster.pages() > fewest + 5 * STORED_PAGES

    wait_until(run, stores)


@pytest.mark.slow
@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize(("requests", "outages"), [(n, of) for n, *of in OUTAGES.values()], ids=OUTAGES)
def test_the_breaker_opens_in_an_outage_and_closes_after_it_at_one_step_on_all_ranks(
    cluster: MooncakeServer, ranks: str, requests: int, outages: list[Outage]
) -> None:
    url, breaker = f"{cluster.url}?timeout=5", ["--breaker", "1,300,1,30000"]
    spans = []
    with Replay(url, RANKS[ranks], "--step-ms", "10", *breaker, requests=requests) as run:
        wait_until(run, lambda: cluster.pages() > STORED_PAGES)
        for outage in outages:
            with outage(cluster):
                begun = run.step()
                time.sleep(OUTAGE_S)
                spans.append((begun, run.step()))
            wait_until_it_stores(run, cluster)
        document = run.document()
    one, *others = ([(change["step"], change["state"]) for change in rank["breaker"]] for rank in document["ranks"])
    assert all(other == one for other in others)
    assert len(one) < CHANGES_KEPT, "the first one is among them"
    opened, closed = ([step for step, state in one if state == name] for name in ("open", "closed"))
    assert spans[0][0] < opened[0] <= spans[0][1], (spans, one)
    assert spans[-1][1] < closed[-1], (spans, one)
