"""Wait boards: the files that ranks keep, and what `isoradix waits --json` made of them while the ranks waited."""

import json
from collections.abc import Mapping
from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import Any, Final

from isoradix import InvalidInputError
from isoradix.consensus.waits import WaitEntry, read_waits
from isoradix.doctor.evidence import Board, Evidence, Source

MAGIC: Final = b"IRXW"
_DOCUMENT_MAX: Final = 64 << 20


def take_board(evidence: Evidence, path: Path) -> None:
    """A board as its rank wrote it. Ages count to now, which says nothing where its process is gone.

    Raises:
        InvalidInputError: it is of another version, or cannot be read.
    """
    read = read_waits(path)
    source = _source(path, read.rank, read.pid, read.plane)
    evidence.roster.see(str(read.rank))
    about = (read.domain, read.stopped, read.plane)
    evidence.boards.append(Board(read.rank, read.member, read.alive, read.waits, read.alive, source, *about))


def take_document(evidence: Evidence, path: Path, document: Mapping[str, Any]) -> None:
    """What `isoradix waits --json` printed.

    Raises:
        InvalidInputError: it is something else.
    """
    try:
        boards = [_board(path, one) for one in document["ranks"]]
    except (KeyError, TypeError, ValueError) as error:
        what = f"{str(path)!r} is no output of isoradix waits --json: {type(error).__name__} {error}"
        raise InvalidInputError(f"{what}\nhint: keep all of what it printed") from error
    for board in boards:
        evidence.roster.see(str(board.rank))
    evidence.boards.extend(boards)


def _board(path: Path, one: Mapping[str, Any]) -> Board:
    rank = int(one["rank"])
    if not all(isfinite(float(wait["age_s"])) for wait in one["waits"]):
        raise ValueError(f"of rank {rank}: an age is no number")
    waits = tuple(
        WaitEntry(
            operation=str(wait["operation"]),
            group=str(wait["group"]),
            peer=int(wait["peer"]),
            want=int(wait["want"]),
            have=int(wait["have"]),
            age_s=float(wait["age_s"]),
        )
        for wait in one["waits"]
    )
    plane = str(one.get("plane", ""))
    source = _source(path, rank, int(one["pid"]), plane)
    domain, stopped = int(one.get("domain", 0)), bool(one.get("stopped", False))
    return Board(rank, int(one["member"]), bool(one["alive"]), waits, True, source, domain, stopped, plane)


def _source(path: Path, rank: int, pid: int, plane: str) -> Source:
    return Source(path, None, f"wait board of rank {rank}{plane and f', {plane}'}, process {pid}")


def settle(evidence: Evidence) -> None:
    """Once all is read. Boards whose processes are gone say when waits began, and not for how long they lasted: at
    least until the newest of them began. And peers, which are members of a domain, become ranks."""
    ages = [wait.age_s for board in evidence.boards if not board.aged for wait in board.waits]
    newest = min(ages, default=0.0)

    def settled(board: Board) -> Board:
        younger = 0.0 if board.aged else newest
        waits = (
            replace(
                wait,
                age_s=wait.age_s - younger,
                peer=wait.peer if wait.peer < 0 else _rank_of(evidence, board, wait.peer),
            )
            for wait in board.waits
        )
        return replace(board, waits=tuple(waits))

    evidence.boards = [settled(board) for board in evidence.boards]


def _rank_of(evidence: Evidence, board: Board, member: int) -> int:
    """The rank that is a member of a board's domain: its own board says so, or else a journal."""
    same = {one.rank for one in evidence.boards if one.member == member and one.domain == board.domain}
    return same.pop() if len(same) == 1 else evidence.roster.of_member(board.rank, member)


def read_document(path: Path) -> Mapping[str, Any] | None:
    """A JSON object; None if the file is none."""
    if path.stat().st_size > _DOCUMENT_MAX:
        return None
    try:
        document = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None
