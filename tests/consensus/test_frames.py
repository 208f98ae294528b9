"""The frame tree over socket pairs: whole frames, partial ones, backpressure, and ends that close."""

import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from tests.consensus.lock import lock_wanted

from isoradix import ProtocolError
from isoradix.consensus.frames import FrameTree
from isoradix.consensus.links import LinkBroken
from isoradix.consensus.plane import PlaneCounts
from isoradix.consensus.waits import WaitBoard


class Pair:
    """A leader and a follower of a pipeline of two stages, connected."""

    def __init__(self, folder: Path) -> None:
        self.lost = False
        self.above, self.below = socket.socketpair()
        for end in (self.above, self.below):
            end.setblocking(False)
        self.boards = [WaitBoard(folder, rank, rank, 0) for rank in range(2)]
        self.counts = [PlaneCounts(), PlaneCounts()]
        self.leader = FrameTree(None, {1: self.above}, 2, self.boards[0], self.counts[0], lambda: self.lost)
        self.follower = FrameTree((0, self.below), {}, 2, self.boards[1], self.counts[1], lambda: self.lost)

    def close(self) -> None:
        self.leader.close()
        self.follower.close()
        for board in self.boards:
            board.close()


@pytest.fixture
def pair(tmp_path: Path) -> Any:
    made = Pair(tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize("size", [1, 64, 2_272, 70_000])
def test_frames_arrive_whole_and_in_order(pair: Pair, size: int) -> None:
    frames = [bytes([number]) * size for number in range(3)]
    received: list[bytes] = []
    reader = threading.Thread(target=lambda: received.extend(pair.follower.receive(step) for step in range(1, 4)))
    reader.start()
    for frame in frames:
        pair.leader.make_room()
        pair.leader.send(frame)
    reader.join(10)
    assert received == frames


def test_a_frame_in_pieces_is_waited_for(pair: Pair) -> None:
    data = (5).to_bytes(4, "little") + b"frame" + (3).to_bytes(4, "little")

    def write() -> None:
        for at in range(len(data)):
            pair.above.send(data[at : at + 1])
            time.sleep(0.002)

    writer = threading.Thread(target=write)
    writer.start()
    assert pair.follower.receive(1) == b"frame"
    writer.join()
    pair.above.send(b"two")
    assert pair.follower.receive(2) == b"two"
    assert pair.counts[1].waits["frame"] >= 1


def test_the_leader_waits_once_three_frames_are_on_their_way(pair: Pair) -> None:
    told: list[tuple[int, int]] = []
    for _ in range(3):
        pair.leader.make_room(lambda edge, count: told.append((edge, count)))
        pair.leader.send(b"frame")
    assert (pair.leader.in_flight, told, pair.counts[0].waits) == (3, [], {})
    reader = threading.Timer(0.2, pair.follower.receive, [1])
    reader.start()
    started = time.monotonic()
    pair.leader.make_room(lambda edge, count: told.append((edge, count)))
    assert time.monotonic() - started > 0.1
    assert (pair.leader.in_flight, told, pair.counts[0].waits) == (2, [(0, 1)], {"send": 1})
    reader.join()


def test_neither_end_gives_the_interpreters_lock_away_while_frames_are_there(pair: Pair) -> None:
    with lock_wanted() as turns:
        before = turns[0]
        for step in range(1, 1001):
            pair.leader.make_room()
            pair.leader.send(b"frame")
            assert pair.follower.receive(step) == b"frame"
        assert turns[0] == before


def test_a_wait_ends_when_the_plane_is_lost(pair: Pair) -> None:
    threading.Timer(0.1, lambda: setattr(pair, "lost", True)).start()
    with pytest.raises(LinkBroken, match="the plane was lost"):
        pair.follower.receive(1)


def test_an_end_that_closes_is_found(pair: Pair) -> None:
    pair.above.close()
    with pytest.raises(LinkBroken, match="closed by its other end"):
        pair.follower.receive(1)


def test_what_is_no_frame_is_refused(pair: Pair) -> None:
    pair.above.send(b"\xff\xff\xff\xff")
    with pytest.raises(ProtocolError, match="a frame of 4294967295 bytes came"):
        pair.follower.receive(1)
