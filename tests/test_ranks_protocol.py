"""Votes, frames, waits and the agreement at start, step by step, and how ranks that part are named."""

from __future__ import annotations

import numpy as np
import pytest

from isoradix import (
    BackpressureError,
    BytesLike,
    Control,
    DivergenceError,
    HostPoolError,
    OperationError,
    Patience,
    ProtocolError,
    RunAhead,
    Stall,
    StartRecord,
    Waiting,
    agree,
    blame,
    read_frame,
)

from .test_ranks import KEY, Cluster, Node

READY = 23  # the word that says how operation 0 has ended, in a ballot of base 0


def test_all_leave_after_the_same_vote() -> None:
    cluster = Cluster([10, 10, 10])
    cluster.step()
    assert cluster.all(lambda node: node.votes.pace()) == 0
    cluster.vote()
    assert cluster.all(lambda node: node.votes.pace()) == 2, "idle"
    cluster.nodes[2].board.pause()
    cluster.vote()
    assert cluster.all(lambda node: node.votes.pace()) == 50, "one is paused, and all know"
    cluster.nodes[2].board.pause(False)
    seen = read_frame(cluster.enter([Control.stop()]))
    assert seen.stops
    cluster.close()
    cluster.vote()
    assert cluster.all(lambda node: node.votes.pace()) is None
    with pytest.raises(ProtocolError, match="stop frame was the last"):
        cluster.enter()
    with pytest.raises(ProtocolError, match="every rank has stopped"):
        cluster.vote()


def test_a_vote_without_news_says_nothing_that_a_rank_alone_does_not_know() -> None:
    cluster = Cluster([50])
    (node,) = cluster.nodes

    def voted() -> bool:
        """One step, before which copies end and a rank that is alone votes if there is news; whether it did."""
        node.end_all()
        news = node.votes.has_news(node.board)
        if news:
            cluster.vote()
        cluster.step()
        return news

    assert [voted() for _ in range(4)] == [True, True, False, False], "the first step closes with its backable pages"
    cluster.step(lambda node: node.insert(KEY))
    votes = [voted() for _ in range(8)]
    assert votes == sorted(votes, reverse=True), "until the backup is over, and its window has moved on"
    assert any(votes)
    assert node.cache.issued == node.cache.retired == 1
    for paused in (True, False):
        node.board.pause(paused)
        assert [voted() for _ in range(2)] == [True, False]
    node.rank.withdraw(3)
    assert [voted() for _ in range(3)] == [False, True, False], "what it could back is posted when a step closes"
    assert node.cache.host_ledger.capacity == 47


def test_frames_in_flight_are_bounded() -> None:
    cluster = Cluster([10], frames={"edges": 2, "depth": 2})
    leader = cluster.nodes[0].rank
    for _ in range(3):
        assert leader.full_edge is None
        cluster.step()
    before = cluster.nodes[0].evidence()
    assert leader.full_edge == 0
    leader.delivered(0, 3)
    with pytest.raises(BackpressureError, match="3 frames are in flight on edge 1, limit 3\nhint: ") as caught:
        cluster.enter()
    assert caught.value.edge == leader.full_edge == 1
    assert cluster.nodes[0].evidence() == before
    leader.delivered(1)
    cluster.step()
    relay = RunAhead(1, 1)
    relay.send()
    relay.send()
    with pytest.raises(BackpressureError):
        relay.send()
    relay.delivered(0, 2)
    assert relay.full_edge is None


def test_a_rank_that_misses_a_request_is_named_and_nothing_is_applied() -> None:
    cluster = Cluster([50, 50, 50])
    cluster.step(lambda node: node.insert(KEY))
    cluster.settle()
    cluster.enter()
    for node in cluster.nodes[:1] + cluster.nodes[2:]:
        node.find(KEY)  # rank 1's scheduler misses the request
    for node in cluster.nodes:
        node.rank.close_step(0)
    frame = cluster.nodes[0].rank.lead(1_000)
    before = cluster.nodes[1].evidence()
    cluster.nodes[2].rank.follow(frame)
    with pytest.raises(DivergenceError, match="divergence before step 9: rank 1 has digest 0x") as caught:
        cluster.nodes[1].rank.follow(frame)
    assert cluster.nodes[1].evidence() == before
    assert (caught.value.kind, caught.value.ranks, caught.value.step, caught.value.vote) == ("leader", (1,), 9, None)
    assert str(caught.value).endswith("hint: isoradix diff DIR")


def test_a_voted_digest_mismatch_is_seen_by_all_and_the_rings_name_the_rank() -> None:
    cluster = Cluster([50, 50, 50, 50])
    cluster.step()
    cluster.step(lambda node: node.insert(KEY))
    cluster.vote()
    rings = [node.board.digest_ring_bytes() for node in cluster.nodes]
    words = np.frombuffer(rings[2], dtype="<u8").reshape(-1, 2)
    assert words[:, 0].tolist() == [1, 2]
    assert words[1, 1] == cluster.nodes[2].board.digest(2)
    assert cluster.nodes[2].board.digest(3) is None
    for node in cluster.nodes:
        node.votes.fill(node.board, node.vector)
    digest = 8  # the word of the digest, and its complement
    cluster.nodes[2].vector[digest] ^= 1
    cluster.nodes[2].vector[digest + 1] ^= 1
    reduced = np.minimum.reduce([node.vector for node in cluster.nodes])
    for node in cluster.nodes:
        with pytest.raises(DivergenceError, match="vote 1 shows unequal digests") as caught:
            node.votes.complete(node.board, reduced)
        assert (caught.value.kind, caught.value.step, caught.value.vote) == ("digest", 2, 1)
        assert node.votes.in_flight
    altered = words.copy()
    altered[1, 1] ^= 1
    rings[2] = altered.tobytes()
    found = blame(rings)
    assert isinstance(found, DivergenceError)
    assert (found.kind, found.ranks, found.step) == ("ranks", (2,), 1)
    assert str(found).startswith("divergence at step 1: rank 2 has digest 0x")
    assert "ranks 0,1,3 have digest" in str(found)


def test_a_number_above_what_a_rank_voted_is_form_b() -> None:
    cluster = Cluster([50, 50])
    cluster.step(lambda node: node.insert(KEY))
    for node in cluster.nodes:
        node.votes.fill(node.board, node.vector)
    reduced = cluster.nodes[0].vector.copy()
    reduced[READY] = 1  # says somebody
    with pytest.raises(DivergenceError, match=r"\(form B\): vote 0 says ready of operation 0 is 1") as caught:
        cluster.nodes[1].votes.complete(cluster.nodes[1].board, reduced)
    assert (caught.value.kind, caught.value.ranks) == ("above_ballot", (1,))


def test_a_load_back_that_fails_ends_every_rank() -> None:
    cluster = Cluster([50, 50])
    cluster.step(lambda node: node.insert(KEY))
    cluster.settle()
    cluster.step(Node.evict_all)
    cluster.step(lambda node: node.load(KEY))
    for node in cluster.nodes:
        node.end(1, succeeded=node.rank.rank != 1)
    cluster.vote()
    with pytest.raises(OperationError, match="load_back 1 failed after commit, seen on rank 0"):
        cluster.enter()


def test_operations_that_are_open_at_the_end_are_listed() -> None:
    cluster = Cluster([50, 50])
    cluster.step(lambda node: node.insert(KEY))
    with pytest.raises(HostPoolError, match=r"1 operations hold host pages at shutdown: 0 \(asked, 40 pages\)"):
        cluster.nodes[0].cache.check_ended()


def test_a_follower_abstains_from_what_it_has_no_part_in() -> None:
    cluster = Cluster([50, 50], storage=True)
    cluster.nodes[1].board.abstain_finished("store")
    cluster.step(lambda node: node.insert(KEY))
    for node in cluster.nodes:
        node.end(0)
    cluster.vote()
    cluster.step()
    assert cluster.all(lambda node: node.started[1].kind) == "store"
    (run,) = cluster.nodes[1].started.pop(1).stored
    assert run.key.tolist() == KEY
    assert cluster.nodes[1].board.abstain(1, "progress")
    assert cluster.nodes[1].board.abstain(1, "ready")
    assert not cluster.nodes[1].board.post_ready(1, True), "it has no say"
    cluster.settle()
    cluster.assert_quiet()


def test_waits_are_reported_and_then_over() -> None:
    patience = Patience(1_000, 5_000, watchdog_ms=5_000)
    waiting = Waiting(patience, 10_000)
    looks = [waiting.look(now) for now in (10_999, 11_000, 11_001, 13_500, 15_000)]
    assert [look.kind for look in looks] == ["quiet", "report", "quiet", "report", "fatal"]
    assert [look.waited_ms for look in looks] == [None, 1_000, None, 3_500, 5_000]
    assert Waiting(patience, 0).look(900_000, paused=True).kind == "quiet"


def test_a_scheduler_that_died_shows_as_a_frozen_step_and_names_itself() -> None:
    cluster = Cluster([10, 10])
    stalls = [Stall(Patience(100, 1_000), 0) for _ in cluster.nodes]
    cluster.step()
    cluster.vote()
    cluster.enter()
    leader, late = cluster.nodes
    leader.rank.close_step(0)  # rank 1 never closes the step
    for _ in range(2):
        cluster.vote()
    seen = [stall.look(node.votes, 50) for stall, node in zip(stalls, cluster.nodes, strict=True)]
    assert [(look.step, look.rank, look.wait.kind) for look in seen] == [(1, None, "quiet"), (1, 1, "quiet")]
    seen = [stall.look(node.votes, 1_050) for stall, node in zip(stalls, cluster.nodes, strict=True)]
    assert [(look.rank, look.wait.kind) for look in seen] == [(None, "fatal"), (1, "fatal")]
    assert late.votes.uncompared == 0


def test_start_records_say_what_differs() -> None:
    records = [StartRecord(rank, 3, 100 * (3 - rank)) for rank in range(3)]
    for rank, record in enumerate(records):
        record.set("dtype", "bfloat16")
        record.set("page size", "32" if rank == 2 else "64")
    written = [record.to_bytes() for record in records]
    assert [StartRecord.from_bytes(data).to_bytes() for data in written] == written
    with pytest.raises(ProtocolError, match="page size is 64 on ranks 0,1, 32 on rank 2\nhint: "):
        agree(written)
    fits: list[BytesLike] = [StartRecord(0, 2, 70).to_bytes(), memoryview(bytearray(StartRecord(1, 2).to_bytes()))]
    assert agree(fits).capacity_pages == 70
    assert agree([StartRecord(0, 1).to_bytes()]).capacity_pages == 0


def test_a_ballot_that_is_not_sent_yet_is_written_anew() -> None:
    cluster = Cluster([100, 100])
    cluster.step(lambda node: node.insert(KEY))
    leader, follower = cluster.nodes
    for node in cluster.nodes:
        node.votes.fill(node.board, node.vector)
    leader.end(0)
    leader.votes.refill(leader.board, leader.vector)
    assert leader.vector[READY] == 1
    assert follower.vector[READY] == -1
    follower.end(0)
    anew = np.empty_like(follower.vector)
    follower.votes.refill(follower.board, anew)
    assert (anew >= follower.vector).all()
    reduced = np.minimum(leader.vector, anew)
    assert reduced[READY] == 1
    for node in cluster.nodes:
        cluster.newest = node.votes.complete(node.board, reduced)
    cluster.step()
    assert cluster.all(lambda node: node.cache.sizes.host_total) == 40
    with pytest.raises(ProtocolError, match=r"^refill out of order: no vote is in flight\nhint: "):
        leader.votes.refill(leader.board, leader.vector)
