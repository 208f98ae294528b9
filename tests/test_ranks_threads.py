"""Ranks in real threads: schedulers, I/O threads that post, and vote threads that fill, all at once."""

from __future__ import annotations

import copy
import os
import pickle
import queue
import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from isoradix import (
    Cancel,
    ConcurrentUseError,
    Control,
    FreeSlots,
    InputTypeError,
    InvariantError,
    IsoradixError,
    ProtocolError,
    Query,
    Reduced,
    RunAhead,
    SlotPool,
    Stall,
    Start,
    StartRecord,
    Waiting,
)
from isoradix import Patience as WaitPatience

from .test_ranks import Node, setup
from .test_threads import DEADLINE, LONG, eager_switching, runs_meanwhile

__all__ = ["eager_switching"]  # the fixture

STEPS = 1000
IO_THREADS = 2


class Group:
    """The vote threads' all-reduce by MIN: returns on every rank once all have come."""

    def __init__(self, ranks: int, words: int) -> None:
        self.vectors = [np.empty(words, dtype=np.int64) for _ in range(ranks)]
        self.barrier = threading.Barrier(ranks, self.reduce, timeout=DEADLINE)

    def reduce(self) -> None:
        smallest = np.minimum.reduce(self.vectors)
        for vector in self.vectors:
            vector[:] = smallest


class Driver:
    """One rank with a scheduler's thread, a vote thread and I/O threads of its own."""

    def __init__(self, node: Node, group: Group, frames: list[queue.SimpleQueue[bytes]], seed: int) -> None:
        self.node, self.group, self.frames = node, group, frames
        self.newest: Reduced | None = None
        self.work: queue.SimpleQueue[Start | Cancel | None] = queue.SimpleQueue()
        self.answers: queue.SimpleQueue[tuple[int, int]] = queue.SimpleQueue()
        self.random = random.Random(seed)
        self.posts = 0

    def vote(self) -> int:
        """The vote thread, until the reduced flag says that all have stopped."""
        votes, board, vector = self.node.votes, self.node.board, self.group.vectors[self.node.rank.rank]
        while (pace := votes.pace()) is not None:
            time.sleep(pace / 1000)
            votes.fill(board, vector)
            self.group.barrier.wait()
            self.newest = votes.complete(board, vector)
        return votes.vote

    def io(self, seed: int) -> None:
        """An I/O thread: copies take as long as they take."""
        random_ = random.Random(seed)
        while (effect := self.work.get(timeout=DEADLINE)) is not None:
            time.sleep(random_.random() / 2000)
            board = self.node.board
            match effect:
                case Cancel(operation):
                    with suppress(ProtocolError):  # its own copy may have ended
                        board.finish(operation)
                case Start(operation, kind, _, pages):
                    for page in range(len(pages)) if kind == "prefetch" else ():
                        board.post_progress(operation, (page + 1) * self.node.cache.page_size)
                    with suppress(ProtocolError):  # another thread may have cancelled it
                        board.ended(operation, True)

    def schedule(self) -> list[tuple[int, int, int]]:
        """The scheduler's thread: the same requests on every rank, in the same order."""
        node, requests = self.node, random.Random(11)
        seen: list[tuple[int, int, int]] = []
        for step in range(1, STEPS + 1):
            if node.rank.leads:
                controls = [Control.stop()] if step == STEPS else []
                frame = node.rank.lead(time.monotonic_ns() // 1_000_000, self.newest, controls)
                for receiver in self.frames[1:]:
                    receiver.put(frame)
            else:
                node.rank.follow(self.frames[node.rank.rank].get(timeout=DEADLINE))
            while not self.answers.empty():
                node.rank.found(*self.answers.get())
            self.serve(requests)
            node.rank.close_step(node.device.available)
            self.carry_out()
            seen.append((node.rank.digest, node.cache.tree_digest, node.cache.host_ledger.occupied))
            time.sleep(self.random.random() / 2000)
        return seen

    def serve(self, requests: random.Random) -> None:
        node = self.node
        key = [requests.randrange(3) for _ in range(24)]
        if node.device.available + node.cache.evictable_size < len(key):
            return  # copies hold the rest, on all ranks alike
        match requests.randrange(8):
            case 0:
                node.cache.prefetch([9, *key])
            case 1:
                node.evict_all()
            case 2:
                node.cache.evict_host(2)
            case 3 | 4:
                node.load(key)
            case 5 if requests.randrange(10) == 0:
                node.device.free(node.cache.reset())
            case _:
                node.insert(key)

    def carry_out(self) -> None:
        for effect in self.node.rank.take_effects():
            match effect:
                case Query(operation, run):
                    self.answers.put((operation, self.random.randrange(len(run.key))))
                case FreeSlots(slots):
                    self.node.device.free(slots)
                case Start() | Cancel():
                    self.work.put(effect)


@pytest.mark.usefixtures("eager_switching")
@pytest.mark.parametrize(
    ("ranks", "policy"), [(2, "lru"), (4, "lfu"), (2, lambda facts: facts.seq)], ids=["2 lru", "4 lfu", "2 callable"]
)
def test_threads_of_all_kinds_and_every_rank_decides_the_same(ranks: int, policy: Any) -> None:
    caches = setup([60] * ranks, page_size=2, storage=True, policy=policy, window=16)
    nodes = [Node(cache, 120) for cache in caches]
    group = Group(ranks, nodes[0].votes.words)
    frames: list[queue.SimpleQueue[bytes]] = [queue.SimpleQueue() for _ in nodes]
    drivers = [Driver(node, group, frames, seed) for seed, node in enumerate(nodes)]
    with ThreadPoolExecutor(ranks * (2 + IO_THREADS)) as threads:
        votes = [threads.submit(driver.vote) for driver in drivers]
        io = [threads.submit(driver.io, number) for driver in drivers for number in range(IO_THREADS)]
        seen = [threads.submit(driver.schedule) for driver in drivers]
        try:
            histories = [future.result(DEADLINE) for future in seen]
            counts = {future.result(DEADLINE) for future in votes}
        finally:
            group.barrier.abort()  # a vote thread that is still there has lost its peers
            for driver in drivers:
                for _ in range(IO_THREADS):
                    driver.work.put(None)
        for future in io:
            future.result(DEADLINE)
    assert all(history == histories[0] for history in histories)
    assert len(counts) == 1, "all vote threads left after the same vote"
    assert counts.pop() > 16
    for node in nodes:
        node.cache.check()
    assert nodes[0].cache.issued > 16, "more than a window of them, so it has slid"
    kinds = {record.kind for record in nodes[0].cache.journal()}
    assert {"issue", "commit", "deliver", "settle", "over", "backed", "ledger"} <= kinds


@pytest.mark.usefixtures("eager_switching")
def test_posts_of_many_threads_and_ballots_of_another() -> None:
    (cache,) = setup([1000], window=64)
    node = Node(cache, 1000)
    count, stop = 60, threading.Event()
    for operation in range(count):
        node.rank.lead(operation)
        node.insert([operation, operation])
        node.rank.close_step(node.device.available)

    def post(number: int) -> None:
        for tokens in (1, 2):
            for operation in range(number, count, 4):
                assert node.board.post_progress(operation, tokens)
        for operation in range(number, count, 4):
            node.board.ended(operation, True)

    def fill() -> int:
        before = node.vector.copy()
        before[:] = -1
        while not stop.is_set():
            node.votes.fill(node.board, node.vector)
            # Watermarks, progress and readiness only ever grow, whenever they are looked at.
            assert (node.vector[16:][2::4] >= before[16:][2::4]).all()
            assert (node.vector[16:20] >= before[16:20]).all()
            before[:] = node.vector
            node.votes.complete(node.board, node.vector)
        node.votes.fill(node.board, node.vector)
        return node.votes.vote

    with ThreadPoolExecutor(5) as threads:
        votes = threads.submit(fill)
        posts = [threads.submit(post, number) for number in range(4)]
        for future in posts:
            future.result(DEADLINE)
        stop.set()
        assert votes.result(DEADLINE) > 0
    assert node.vector[16] == count, "all backups have finished"
    assert (node.vector[20:].reshape(-1, 4)[:count, 3] == 1).all()


def test_long_steps_give_up_the_gil_and_short_ones_do_not() -> None:
    (cache,) = setup([LONG])
    node, key, ticking = Node(cache, LONG), np.arange(LONG), iter(range(1 << 30))

    def insert_much() -> None:
        for begin in range(0, LONG, LONG // 8):  # short calls: they keep the GIL
            part = key[begin : begin + LONG // 8]
            cache.insert(part, part, (str(next(ticking)), None))

    def insert_and_close() -> None:
        node.rank.lead(next(ticking))
        insert_much()
        node.rank.close_step(0)

    assert not runs_meanwhile(insert_much, tries=3)
    assert runs_meanwhile(insert_and_close, tries=100)  # on a busy machine the other thread may come late

    def close_little() -> None:
        node.rank.lead(next(ticking))
        node.rank.close_step(0)

    def vote() -> None:
        node.votes.fill(node.board, node.vector)
        node.votes.complete(node.board, node.vector)
        node.board.pause(False)

    for short in (close_little, vote, lambda: node.rank.take_effects(), lambda: cache.sizes):
        assert not runs_meanwhile(short, tries=100)


def test_long_verbs_give_up_the_gil() -> None:
    (cache,) = setup([LONG])
    node, key = Node(cache, LONG), np.arange(LONG)
    node.rank.lead(0)
    cache.insert(key, key)
    found = cache.match_prefix(key).node
    long: list[Callable[[], object]] = [
        lambda: cache.match_prefix(key),
        lambda: cache.probe(key),
        lambda: cache.prefetch(key),
        lambda: cache.slots(found),
        lambda: cache.node_tokens(found),
        lambda: cache.check(),
        lambda: cache.check(SlotPool(1, first_slot=LONG), uncached=0),
    ]
    for call in long:
        with suppress(InvariantError):  # the pool of the last one is not that of the slots
            assert runs_meanwhile(call, tries=10_000)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_is_told() -> None:
    (cache,) = setup([10])
    node = Node(cache, 10)
    calls: list[Callable[[], object]] = [
        lambda: cache.total_size,
        lambda: cache.reset(),
        lambda: node.board.pause(),
        lambda: node.votes.fill(node.board, node.vector),
        lambda: node.rank.lead(0),
        lambda: node.rank.take_effects(),
    ]
    child = os.fork()
    if child == 0:
        told = 0
        for call in calls:
            try:
                call()
            except ConcurrentUseError as error:
                told += "before a fork" in str(error)
        os._exit(told)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == len(calls)
    node.rank.lead(0)


def with_state() -> Iterator[Any]:
    (cache,) = setup([10])
    node = Node(cache, 10)
    yield from (cache, node.board, node.votes, node.rank, StartRecord(0, 1))
    patience = WaitPatience(1, 2)
    yield from (RunAhead(1, 1), Waiting(patience, 0), Stall(patience, 0))


@pytest.mark.parametrize("thing", list(with_state()), ids=lambda thing: type(thing).__name__)
def test_what_has_a_state_is_not_copied(thing: Any) -> None:
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError) as caught:
            copied(thing)
        assert isinstance(caught.value, InputTypeError) or not isinstance(caught.value, IsoradixError)
