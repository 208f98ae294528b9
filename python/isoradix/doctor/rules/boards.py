"""Form C by wait boards: who waits for whom, to whoever waits for nobody."""

from collections.abc import Mapping, Sequence
from typing import Final

from isoradix.consensus.waits import WaitEntry
from isoradix.doctor.evidence import Board, Evidence, Source
from isoradix.doctor.findings import ITS_OWN, Condition, Finding, Form, Sure, sure_of
from isoradix.doctor.rules.common import OWN

AFTER_S: Final = 5.0
"""Waits that last less than that are no hang."""
_BLOCKS: Final = ("frame", "send", "gather")
"""Waits of the scheduler's thread. A vote is nearly always under way, on a thread of its own."""


def by_boards(evidence: Evidence, after_s: float = AFTER_S) -> Finding | None:
    """Follows who waits for whom to whoever waits for nobody, or for something of its own. Each plane by itself: what
    names a rank goes before what does not."""
    planes = sorted({board.plane for board in evidence.boards})
    found = [_on_plane(evidence, plane, after_s) for plane in planes]
    return max((one for one in found if one is not None), key=lambda one: bool(one.culprits), default=None)


def _on_plane(evidence: Evidence, plane: str, after_s: float) -> Finding | None:
    boards = _of_one_server([board for board in evidence.boards if board.plane == plane])
    if not boards or any(wait.operation == "pause" for board in boards.values() for wait in board.waits):
        return None
    old = {rank: [wait for wait in board.waits if wait.age_s >= after_s] for rank, board in boards.items()}
    gone = tuple(sorted(rank for rank, board in boards.items() if not board.alive))
    if gone and len(gone) < len(boards):
        text = f"the process of {evidence.roster.names(gone)} is gone and has left its board"
        because = tuple(boards[rank].source for rank in gone)
        return Finding(Form.KILLED, gone, Condition(text), Sure.LIKELY, because)
    if stopped := tuple(sorted(rank for rank, board in boards.items() if board.stopped)):
        text = f"the process of {evidence.roster.names(stopped)} is stopped"
        because = tuple(boards[rank].source for rank in stopped)
        return Finding(Form.STOPPED, stopped, Condition(text), Sure.CERTAIN, because)
    if not any(old.values()):
        return None
    own = [(rank, wait) for rank, waits in old.items() for wait in waits if _is_own(wait)]
    if own:
        rank, wait = max(own, key=lambda one: one[1].age_s)
        text = f"{evidence.roster.name(rank)} waits for {OWN.get(wait.operation, 'its own')}: {_shown(wait)}"
        condition = _condition(text, wait, None)
        because = _because(boards, rank, old)
        return Finding(Form.HANG, (rank,), condition, Sure.CERTAIN, because, not_the_network=ITS_OWN)
    return _last_in_line(evidence, boards, old)


def _of_one_server(boards: Sequence[Board]) -> dict[int, Board]:
    """One board for each rank: one that was left behind gives way to that of a living process. Where two living ones
    claim a rank, servers are mixed, and there is nothing to say."""
    living = [board for board in boards if board.alive]
    if len({board.rank for board in living}) < len(living):
        return {}
    return {board.rank: board for board in (*(one for one in boards if not one.alive), *living)}


def _last_in_line(
    evidence: Evidence, boards: Mapping[int, Board], old: Mapping[int, list[WaitEntry]]
) -> Finding | None:
    blocked = {rank: wait for rank, waits in old.items() for wait in waits if wait.operation in _BLOCKS}
    if not blocked:
        return _votes_alone(evidence, boards, old)
    ends: dict[int, tuple[int, WaitEntry]] = {}
    for rank in blocked:
        seen, at = {rank}, rank
        while at in blocked and blocked[at].peer >= 0:
            before, at = at, blocked[at].peer
            if at not in blocked:
                ends[at] = before, blocked[before]
                break
            if at in seen:
                break
            seen.add(at)
    culprits = tuple(sorted(ends))
    if not culprits:
        oldest, wait = max(blocked.items(), key=lambda one: one[1].age_s)
        text = f"ranks wait for each other; {evidence.roster.name(oldest)} longest: {_shown(wait)}"
        because = tuple(boards[rank].source for rank in sorted(blocked))
        return Finding(Form.HANG, (), _condition(text, wait, None), Sure.UNDETERMINED, because)
    waiting, wait = ends[culprits[0]]
    there = culprits[0] in boards
    what = "waits for nobody" if there else "has left no board"
    text = f"{evidence.roster.names(culprits)} {what}; {evidence.roster.name(waiting)} waits for it: {_shown(wait)}"
    sure = Sure.CERTAIN if there and len(culprits) == 1 else Sure.LIKELY
    because = _because(boards, culprits[0], old)
    return Finding(
        Form.HANG,
        culprits,
        _condition(text, wait, culprits[0]),
        sure,
        because,
        not_the_network=ITS_OWN if there else None,
    )


def _votes_alone(evidence: Evidence, boards: Mapping[int, Board], old: Mapping[int, list[WaitEntry]]) -> Finding | None:
    """No scheduler waits for one rank, and votes do not end, or some have come to leave: whoever has not come to the
    newest vote, or to the end, is late."""
    leaves = any(wait.operation == "leave" for waits in old.values() for wait in waits)
    what = "leave" if leaves else "vote"
    long = (wait for waits in old.values() for wait in waits if wait.operation == what)
    newest = max(long, key=lambda wait: wait.want, default=None)
    if newest is None:
        return None
    # who has come to the end is there, however late; a vote is nearly always under way, and the next one is no sign
    all_waits = {rank: board.waits for rank, board in boards.items()} if leaves else old
    votes = {rank: wait for rank, waits in all_waits.items() for wait in waits if wait.operation == what}
    late = tuple(rank for rank in boards if rank not in votes or votes[rank].want < newest.want)
    named = late if len(late) < len(boards) else ()
    text = f"{what} {newest.want} does not end"
    if named:
        text += f": {evidence.roster.names(named)} {'has' if len(named) == 1 else 'have'} not come to it"
    because = tuple(boards[rank].source for rank in sorted(boards))
    return Finding(Form.HANG, named, _condition(text, newest, None), sure_of(named, Sure.LIKELY), because)


def _because(boards: Mapping[int, Board], rank: int, old: Mapping[int, list[WaitEntry]]) -> tuple[Source, ...]:
    ranks = [rank, *(one for one in sorted(boards) if one != rank and old[one])]
    return tuple(boards[one].source for one in ranks if one in boards)


def _is_own(wait: WaitEntry) -> bool:
    """Whether no other rank has a part in it."""
    return wait.operation != "pause" and (wait.group == "own" or wait.operation in OWN)


def _shown(wait: WaitEntry) -> str:
    return f"{wait.operation} {wait.want} (has {wait.have}), {wait.age_s:.1f} s"


def _condition(text: str, wait: WaitEntry, peer: int | None) -> Condition:
    return Condition(text, wait.operation, peer, str(wait.want), str(wait.have), wait.age_s)
