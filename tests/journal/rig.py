"""Ranks of one domain in one process, each with a journal: what they do follows from a seed and the step alone."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np

from isoradix import (
    Board,
    Control,
    DivergenceError,
    FrameInfo,
    ProtocolError,
    Rank,
    Reduced,
    SlotPool,
    Start,
    StartRecord,
    TieredCache,
    VoteMachine,
    agree,
    read_frame,
)
from isoradix.consensus.plane import PlaneCounts
from isoradix.consensus.topology import Place, Topology
from isoradix.consensus.waits import OwnWait
from isoradix.driver import Driver
from isoradix.journal.folder import Group, find

PAGE = 4
SLOTS = 320
HOST_PAGES = 96


def lone_cache() -> TieredCache:
    """One with four nodes below its root, and no rank."""
    agreement = agree([StartRecord(0, 1, None).to_bytes()])
    cache = TieredCache(rank=0, host_pages=None, agreement=agreement, page_size=1)
    for first in range(4):
        cache.insert([first, 9], [2 * first, 2 * first + 1])
    return cache


class Hub:
    """Where the planes of a domain meet: in memory."""

    def __init__(self, ranks: int) -> None:
        self.topology = Topology(tp=ranks)
        self.barrier = threading.Barrier(ranks)
        self.answers: list[bytes] = [b""] * ranks
        self.frames: list[deque[bytes]] = [deque() for _ in range(ranks)]
        self.newest: Reduced | None = None
        self.now_ms = 0


class HubPlane:
    """One rank's end."""

    edges = 0

    def __init__(self, hub: Hub, rank: int, epoch: int) -> None:
        self.hub, self.epoch = hub, epoch
        self.topology = hub.topology
        self.place: Place = hub.topology.place(rank)
        self.counts = PlaneCounts()
        self.failures: list[str] = []

    def gather(self, data: bytes) -> list[bytes]:
        self.hub.answers[self.place.member] = data
        self.hub.barrier.wait(30)
        answers = list(self.hub.answers)
        self.hub.barrier.wait(30)
        return answers

    def start(self, rank: Rank, board: Board, votes: VoteMachine, poll: Callable[[], None]) -> None:
        self.rank, self.board, self.votes = rank, board, votes
        self.ballot = np.empty(votes.words, dtype=np.int64)

    def enter(self, controls: Sequence[Control] = ()) -> FrameInfo:
        if not self.place.leads:
            return self.rank.follow(self.hub.frames[self.place.member].popleft())
        self.hub.now_ms += 1
        frame = self.rank.lead(self.hub.now_ms, self.hub.newest, controls)
        for queue in self.hub.frames[1:]:
            queue.append(frame)
        return read_frame(frame)

    parted: DivergenceError | None = None

    def own_wait(self, operation: OwnWait, want: int = 0, have: int = 0) -> AbstractContextManager[None]:
        """Nobody looks."""
        return nullcontext()

    def observe(self, found: DivergenceError) -> None:
        """Nobody listens."""

    def check(self) -> None:
        """Nobody is lost."""

    def when_lost(self, tell: Callable[[], None]) -> None:
        """Never: the ranks are of one process."""

    def leave(self) -> None:
        """Nothing to close."""

    def fail(self, reason: str, ranks: tuple[int, ...] | None = None) -> None:
        self.failures.append(reason)


class Engine:
    """Copies nothing; a copy ends when it is told to."""

    copies_components = True

    def __init__(self) -> None:
        self.open: list[int] = []
        self.cancelled: list[int] = []

    def attach(self, board: Board) -> None:
        self.board = board

    def start(self, effect: Start) -> Any:
        self.open.append(effect.operation)
        return SimpleNamespace(operation=effect.operation, wait_layer=lambda layer: None)

    def cancel(self, operation: int) -> None:
        self.cancelled.append(operation)

    def poll(self) -> None:
        """Nothing: see `end_all`."""

    def end_all(self) -> None:
        for operation in self.open:
            self.board.ended(operation, True)
        for operation in self.cancelled:
            with suppress(ProtocolError):  # it has ended
                self.board.finish(operation)
        self.open.clear()
        self.cancelled.clear()

    def close(self) -> None:
        """Nothing is under way."""


Lie = Callable[["Member", Random], None]


class Member:
    """One rank and its scheduler."""

    def __init__(self, driver: Driver, engine: Engine, plane: HubPlane) -> None:
        self.driver, self.engine, self.plane = driver, engine, plane
        self.held: deque[Any] = deque()
        self.pinned: deque[Any] = deque()
        self.dead = False

    def work(self, random: Random, lie: Lie | None = None) -> None:
        """The verbs of a step."""
        cache = self.driver.cache
        for _ in range(2):
            key = [random.randrange(3) for _ in range(PAGE * random.randrange(1, 14))]
            namespace = random.choice([None, None, ("lora", None), (None, "salt")])
            self.serve(np.array(key, dtype=np.int64), namespace, random)
        if lie is not None:
            lie(self, random)
        if random.random() < 0.15:
            self.driver.slots.free(cache.evict(PAGE * random.randrange(1, 20)).slots)
        if random.random() < 0.05:
            cache.evict_host(3)
        if len(self.held) > 3:
            cache.unlock(self.held.popleft())
        if len(self.pinned) > 2:
            cache.unpin(self.pinned.popleft())
        if random.random() < 0.02:
            self.let_go()
            with suppress(Exception):  # operations hold some of it
                self.driver.slots.free(cache.remove_namespace(("lora", None)))

    def let_go(self) -> None:
        cache = self.driver.cache
        while self.held:
            cache.unlock(self.held.popleft())
        while self.pinned:
            cache.unpin(self.pinned.popleft())

    def serve(self, key: Any, namespace: Any, random: Random) -> None:
        cache, slots = self.driver.cache, self.driver.slots
        found = cache.match_prefix(key, namespace)
        if found.host_tokens:
            self.load(found)
        found = cache.match_prefix(key, namespace, resume=found if random.random() < 0.3 else None)
        lock = cache.lock(found.node)
        missing = len(key) - found.hit_tokens - slots.available
        if missing > 0:
            slots.free(cache.evict(missing).slots)
        if len(key) - found.hit_tokens <= slots.available:
            new = slots.alloc(len(key) - found.hit_tokens)
            done = cache.insert(key, new, namespace, priority=random.randrange(3), resume=found)
            if random.random() < 0.1:
                cache.touch(done.node)
            if random.random() < 0.1:
                self.pinned.append(cache.pin(done.node))
        if random.random() < 0.3:
            self.held.append(lock)
        else:
            cache.unlock(lock)

    def load(self, found: Any) -> None:
        cache, slots = self.driver.cache, self.driver.slots
        promise = cache.host_lock(found.host_node)
        need = cache.load_back_need(promise)
        if need > slots.available:
            slots.free(cache.evict(need - slots.available).slots)
        if not need or need > slots.available or not cache.load_back(promise, slots.alloc(need)):
            cache.unlock_host(promise)


class Domain:
    """Ranks that agree, as long as none of them lies."""

    def __init__(self, folder: Path, ranks: int = 3, *, seed: int = 0, epoch: int = 0, **options: Any) -> None:
        self.hub, self.seed, self.step = Hub(ranks), seed, 0
        self.lies: dict[tuple[int, int], Lie] = {}
        members: dict[int, Member] = {}

        def connect(rank: int) -> None:
            plane, engine = HubPlane(self.hub, rank, epoch), Engine()
            slots = SlotPool(SLOTS, page_size=PAGE, first_slot=SLOTS * rank)
            settings = {"host_pages": HOST_PAGES + rank, "load_back_min": 1, **options}
            driver = Driver(plane, engine, slots, page_size=PAGE, journal=folder, **settings)
            members[rank] = Member(driver, engine, plane)

        threads = [threading.Thread(target=connect, args=(rank,)) for rank in range(ranks)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.members = [members[rank] for rank in range(ranks)]

    def run(self, steps: int) -> None:
        """So many steps; a rank that finds that it has parted ends, the others go on."""
        for _ in range(steps):
            self.step += 1
            if self.step % 2 and not any(member.dead for member in self.members):
                self.vote()
            for rank, member in enumerate(self.members):
                if not member.dead:
                    self._step(rank, member)

    def _step(self, rank: int, member: Member, controls: Sequence[Control] = ()) -> None:
        try:
            with member.driver.step(controls):
                member.work(Random(f"{self.seed} {self.step}"), self.lies.get((rank, self.step)))
        except DivergenceError:
            member.dead = True
            return
        if Random(f"{self.seed} {rank} {self.step}").random() < 0.6:  # copies take each rank its own time
            member.engine.end_all()

    def vote(self) -> None:
        for member in self.members:
            member.plane.votes.fill(member.plane.board, member.plane.ballot)
        reduced = np.minimum.reduce([member.plane.ballot for member in self.members])
        for member in self.members:
            self.hub.newest = member.plane.votes.complete(member.plane.board, reduced)

    def stop(self) -> None:
        """The stop frame, and the end."""
        self.step += 1
        for rank, member in enumerate(self.members):
            if not member.dead:
                with member.driver.step([Control.stop()] if rank == 0 else []):
                    pass
            member.driver.close()


def journals(folder: Path) -> Group:
    """The one group in a folder."""
    (group,) = find(folder)
    return group
