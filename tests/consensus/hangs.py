"""Ranks that hang on purpose, and what the others see: functions of a module, so that processes can run them."""

import logging
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.consensus.ranks import Member

from isoradix import Board, Control, Rank, VoteMachine
from isoradix.consensus import GlooPlane, PlaneLost

VOTE = 20
ODD = 2
"""The rank that does what the others do not."""
_HANG_S = 6.0


class _Late:
    """A vote machine whose ballots are filled too late from some vote on."""

    def __init__(self, machine: VoteMachine) -> None:
        self._machine = machine

    def fill(self, board: Board, words: Any) -> None:
        if self._machine.vote == VOTE:
            time.sleep(_HANG_S)
        self._machine.fill(board, words)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._machine, name)


class SkippingPlane(GlooPlane):
    """One rank does not come to a vote."""

    def start(self, rank: Rank, board: Board, votes: VoteMachine, poll: Any) -> None:
        late: Any = _Late(votes) if self.place.rank == ODD else votes
        super().start(rank, board, late, poll)


class _InOrder:
    """A reducer for which ranks meet by ordinal, as point-to-point tags do: who has skipped one meets nobody."""

    def __init__(self, plane: "OrdinalPlane", inner: Any) -> None:
        self._plane, self._inner = plane, inner
        self._ordinal = 0

    def reduce(self) -> None:
        plane, folder = self._plane, self._plane.folder
        (folder / f"vote-{self._ordinal}-{plane.place.member}").touch()
        there = [folder / f"vote-{self._ordinal}-{member}" for member in range(plane.topology.members)]
        while not all(path.exists() for path in there):
            if plane.is_lost():
                raise RuntimeError("cut")
            time.sleep(0.002)
        self._inner.reduce()
        self._ordinal += 1
        if plane.place.rank == ODD and self._ordinal == VOTE:
            self._ordinal += 1
            plane.counts.votes += 1

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class OrdinalPlane(GlooPlane):
    """One rank skips a vote, and waits in the next one."""

    folder: Path

    def __init__(self, *args: Any, wait_board: Path, **options: Any) -> None:
        self.folder = wait_board
        super().__init__(*args, wait_board=wait_board, **options)

    def start(self, rank: Rank, board: Board, votes: VoteMachine, poll: Any) -> None:
        super().start(rank, board, _Waiting(votes, self), poll)  # type: ignore[arg-type]


class _Waiting:
    """A vote machine that puts the reducer in order before its first vote."""

    def __init__(self, machine: VoteMachine, plane: OrdinalPlane) -> None:
        self._machine, self._plane = machine, plane
        self._done = False

    def fill(self, board: Board, words: Any) -> None:
        if not self._done:
            self._done = True
            while self._plane._votes is None:
                time.sleep(0.001)
            thread = self._plane._votes
            thread.reducer = _InOrder(self._plane, thread.reducer)
        self._machine.fill(board, words)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._machine, name)


class _Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def _heard() -> list[str]:
    """What this rank logs from here on."""
    handler = _Lines()
    logging.getLogger("isoradix").addHandler(handler)
    return handler.lines


def _step_on(member: Member, number: int) -> None:
    with member.driver.step():
        member.insert(16 * number)
    time.sleep(0.005)


def hangs(member: Member) -> tuple[Exception | None, list[str]]:
    """Steps until the plane is lost; why, and what was logged meanwhile."""
    lines = _heard()
    try:
        for number in range(10_000):
            _step_on(member, number)
    except PlaneLost as error:
        return error, lines
    return None, lines


def waits_for_its_own(member: Member) -> tuple[Exception | None, list[str]]:
    """The same, while one rank waits for a copy of its own."""
    lines = _heard()
    try:
        for number in range(10_000):
            _step_on(member, number)
            if member.rank == member.given[0] and number == 20:
                with member.driver.waiting("copy", 12, 3):
                    time.sleep(_HANG_S)
    except PlaneLost as error:
        return error, lines
    return None, lines


def looks_on(member: Member) -> str | None:
    """One rank waits for a copy of its own until `isoradix waits` has been asked about all of them."""
    shown = None
    for number in range(40):
        with member.driver.step([Control.stop()] if member.leads and number == 39 else ()):
            member.insert(16 * number)
        if member.rank == member.given[0] and number == 20:
            with member.driver.waiting("copy", 12, 3):
                time.sleep(5.5)
                command = [sys.executable, "-m", "isoradix.cli", "waits", str(member.folder)]
                shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return shown
