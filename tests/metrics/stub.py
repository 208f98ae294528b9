"""Planes that carry everything inside one thread, and an engine whose copies end at once."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from isoradix import Board, Control, DivergenceError, FrameInfo, Rank, Reduced, SlotPool, Start, VoteMachine, read_frame
from isoradix.consensus.plane import PlaneCounts
from isoradix.consensus.topology import Place, Topology
from isoradix.consensus.waits import OwnWait
from isoradix.driver import Driver


class Domain:
    """What the planes of one domain share."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.planes: list[StubPlane] = []
        self.records = [b""] * topology.members
        self.barrier = threading.Barrier(topology.members)

    def vote(self) -> None:
        """One vote of all ranks."""
        for plane in self.planes:
            plane.votes.fill(plane.board, plane.vector)
        reduced = np.minimum.reduce([plane.vector for plane in self.planes])
        for plane in self.planes:
            plane.newest = plane.votes.complete(plane.board, reduced)
            plane.counts.votes += 1


class StubPlane:
    """One rank's end: its leader votes for all before each frame."""

    rank: Rank
    board: Board
    votes: VoteMachine

    def __init__(self, domain: Domain, rank: int) -> None:
        self.domain = domain
        self.topology: Topology = domain.topology
        self.place: Place = domain.topology.place(rank)
        self.epoch = 1
        self.edges = 0
        self.counts = PlaneCounts()
        self.newest: Reduced | None = None
        self.frames: deque[bytes] = deque()
        self.now_ms = 0
        self.failed: list[str] = []

    def gather(self, data: bytes) -> list[bytes]:
        self.domain.records[self.place.member] = data
        self.domain.barrier.wait(timeout=60)
        gathered = list(self.domain.records)
        self.domain.barrier.wait(timeout=60)  # all have read what all have said
        return gathered

    def start(self, rank: Rank, board: Board, votes: VoteMachine, poll: Callable[[], None]) -> None:
        self.rank, self.board, self.votes = rank, board, votes
        self.vector = np.empty(votes.words, dtype=np.int64)

    def enter(self, controls: Sequence[Control] = ()) -> FrameInfo:
        self.counts.frames += 1
        if not self.place.leads:
            self.wait("frame")
            return self.rank.follow(self.frames.popleft())
        if self.counts.frames > 1:  # before the first step there is nothing to vote on
            self.domain.vote()
            self.counts.votes_framed += 1
            self.counts.vote_age_ms += 1.5
            self.counts.vote_age_steps += 1
        self.now_ms += 1
        frame = self.rank.lead(self.now_ms, self.newest, controls)
        for plane in self.domain.planes[1:]:
            plane.frames.append(frame)
        return read_frame(frame)

    def wait(self, operation: str) -> None:
        self.counts.waits[operation] = self.counts.waits.get(operation, 0) + 1
        self.counts.wait_seconds[operation] = self.counts.wait_seconds.get(operation, 0.0) + 0.25

    parted: DivergenceError | None = None

    def own_wait(self, operation: OwnWait, want: int = 0, have: int = 0) -> AbstractContextManager[None]:
        return nullcontext()

    def observe(self, found: DivergenceError) -> None: ...
    def check(self) -> None: ...
    def when_lost(self, tell: Callable[[], None]) -> None: ...

    def leave(self) -> None:
        pass

    def fail(self, reason: str, ranks: tuple[int, ...] | None = None) -> None:
        self.failed.append(reason)


class StubCopy:
    def __init__(self, operation: int) -> None:
        self.operation = operation

    def wait_layer(self, layer: int) -> None:
        pass


class StubEngine:
    """Every copy ends well as soon as it starts; of backups, those that `fails` names do not."""

    def __init__(self) -> None:
        self.fails: set[int] = set()

    def attach(self, board: Board) -> None:
        self.board = board

    def start(self, effect: Start) -> StubCopy:
        self.board.ended(effect.operation, effect.operation not in self.fails)
        return StubCopy(effect.operation)

    def cancel(self, operation: int) -> None:
        pass

    def poll(self) -> None:
        pass

    def close(self) -> None:
        pass


def drivers(topology: Topology, domain: int = 0, **options: Any) -> list[Driver]:
    """The drivers of all ranks of one domain of a deployment, leader first."""
    shared = Domain(topology)
    ranks = [topology.rank_of(domain, member) for member in range(topology.members)]
    shared.planes = [StubPlane(shared, rank) for rank in ranks]
    options = {"load_back_min": 1, "page_size": 4, "host_pages": 100, **options}

    def make(plane: StubPlane) -> Driver:
        return Driver(plane, StubEngine(), SlotPool(400, page_size=4), **options)

    with ThreadPoolExecutor(topology.members) as pool:
        return list(pool.map(make, shared.planes))
