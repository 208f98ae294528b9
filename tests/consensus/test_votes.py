"""The vote thread by itself: two ranks in one process, reduced in memory."""

import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

pytest.importorskip("torch")

from isoradix import Board, Control, DivergenceError, Rank, StartRecord, TieredCache, VoteMachine, agree
from isoradix.consensus.plane import PlaneCounts
from isoradix.consensus.votes import VoteThread
from isoradix.consensus.waits import WaitBoard


class Table:
    """Where the ranks' vectors and bytes meet."""

    def __init__(self, ranks: int) -> None:
        self.barrier = threading.Barrier(ranks, timeout=10)
        self.vectors: list[npt.NDArray[np.int64]] = [np.empty(0, dtype=np.int64)] * ranks
        self.bytes = [b""] * ranks


class Reducer:
    def __init__(self, table: Table, rank: int, size: int) -> None:
        self.table, self.rank = table, rank
        self.words = np.zeros(size, dtype=np.int64)

    def reduce(self) -> None:
        table = self.table
        try:
            table.vectors[self.rank] = self.words.copy()
            table.barrier.wait()
            self.words[:] = np.minimum.reduce(table.vectors)
            table.barrier.wait()
        except threading.BrokenBarrierError as error:
            raise RuntimeError("connection closed") from error

    def gather(self, data: bytes) -> list[bytes]:
        self.table.bytes[self.rank] = data
        self.table.barrier.wait()
        return self.table.bytes

    def cut(self) -> None:
        self.table.barrier.abort()


class Two:
    """Two ranks that both lead, so that no frame compares them: only their votes do."""

    def __init__(self, folder: Path, mode: str = "enforce") -> None:
        agreement = agree([StartRecord(rank, 2).to_bytes() for rank in range(2)])
        self.table = Table(2)
        self.failures: list[Exception | None] = [None, None]
        self.paused: list[bool] = [False, False]
        self.ranks, self.boards, self.threads, self.waits = [], [], [], []
        for rank in range(2):
            cache = TieredCache(rank=rank, host_pages=None, agreement=agreement)
            board, machine = Board(rank, cache.window), VoteMachine(rank, 0, cache.window, (0, 1, 1), mode=mode)
            waits = WaitBoard(folder, rank, rank, 0)
            self.ranks.append(Rank.leader(cache, board, epoch=0))
            self.boards.append(board)
            self.waits.append(waits)
            reducer = Reducer(self.table, rank, machine.words)
            hear, fail = partial(self.paused.__setitem__, rank), partial(self.failures.__setitem__, rank)
            self.threads.append(VoteThread(machine, board, reducer, waits, PlaneCounts(), hear, fail))

    def step(self, work: Any = lambda rank, cache: None, controls: tuple[Control, ...] = ()) -> None:
        for number, rank in enumerate(self.ranks):
            rank.lead(1, None, controls)
            work(number, rank.cache)
            rank.close_step(0)

    def until(self, done: Any) -> None:
        started = time.monotonic()
        while not done():
            assert time.monotonic() - started < 10, self.failures
            time.sleep(0.002)

    def end(self) -> None:
        self.table.barrier.abort()
        for thread in self.threads:
            thread.end()
        for waits in self.waits:
            waits.close()


@pytest.fixture
def two(tmp_path: Path) -> Any:
    ranks = Two(tmp_path)
    yield ranks
    ranks.end()


def test_all_vote_threads_leave_after_the_stop_frame(two: Two) -> None:
    two.step()
    two.until(lambda: all(thread.newest[0] is not None for thread in two.threads))
    two.step(controls=(Control.stop(),))
    for thread in two.threads:
        assert thread.join(60)
    assert two.failures == [None, None]
    newest = [thread.newest[0] for thread in two.threads]
    assert newest[0] is not None and newest[1] is not None  # noqa: PT018
    assert newest[0].vote == newest[1].vote


def test_a_voted_mismatch_names_the_first_step_on_every_rank(two: Two) -> None:
    two.step(lambda rank, cache: cache.insert([1, 2], [rank, 5]))
    two.step(lambda rank, cache: cache.insert([3 + rank], [7]))
    two.step()
    two.until(lambda: all(failure is not None for failure in two.failures))
    for failure in two.failures:
        assert isinstance(failure, DivergenceError)
        assert (failure.step, failure.ranks) == (2, (1,)), failure


def test_an_observed_mismatch_names_the_step_and_votes_go_on(tmp_path: Path) -> None:
    two = Two(tmp_path, "observe")
    two.step(lambda rank, cache: cache.insert([1, 2], [rank, 5]))
    two.step(lambda rank, cache: cache.insert([3 + rank], [7]))
    two.step()
    two.until(lambda: all(thread.parted is not None for thread in two.threads))
    for thread in two.threads:
        assert thread.parted is not None
        assert (thread.parted.step, thread.parted.ranks) == (2, (1,)), thread.parted
    two.step(controls=(Control.stop(),))
    for thread in two.threads:
        assert thread.join(60)
    assert two.failures == [None, None]
    two.end()


def test_a_pause_is_heard(two: Two) -> None:
    two.boards[1].pause()
    two.until(lambda: two.paused == [True, True])
    two.boards[1].pause(False)
    two.until(lambda: two.paused == [False, False])


def test_a_broken_group_is_reported_once(two: Two) -> None:
    two.table.barrier.abort()
    two.until(lambda: all(isinstance(failure, RuntimeError) for failure in two.failures))
    assert all("connection closed" in str(failure) for failure in two.failures)
