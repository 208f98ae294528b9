"""Who waits for whom: by stack dumps, by wait boards, and by the numbers of collectives that timed out."""

from collections import Counter
from collections.abc import Mapping
from typing import Final

from isoradix.consensus.waits import WaitEntry
from isoradix.doctor.batches import compare_batches, queues_shown
from isoradix.doctor.evidence import Board, Evidence, Sign, Source
from isoradix.doctor.findings import ITS_OWN, Condition, Finding, Form, Sure, sure_of
from isoradix.doctor.places import Place, place_of
from isoradix.journal.decisions import minority

AFTER_S: Final = 5.0
"""Waits that last less than that are no hang."""
_BLOCKS: Final = ("frame", "send", "gather", "ack")
"""Waits of the scheduler's thread. A vote is nearly always under way, on a thread of its own."""


# stack dumps


def by_stacks(evidence: Evidence) -> Finding | None:
    """One rank stands in something of its own and the others wait for it, or ranks wait in different places."""
    stacks = evidence.stacks_by_rank()
    places = {rank: place_of(stack) for rank, stack in stacks.items()}
    if len(places) < 2 or any(place.kind == "idle" for place in places.values()):
        return None
    own = tuple(sorted(rank for rank, place in places.items() if place.kind == "own"))
    waiting = [rank for rank, place in places.items() if place.kind in ("collective", "message", "device")]
    if own and waiting:
        return _on_its_own(evidence, places, own)
    slots = {rank: place.slot for rank, place in places.items()}
    if not own and len(set(slots.values())) > 1:
        return _in_different_places(evidence, places, slots)
    return None


def _on_its_own(evidence: Evidence, places: Mapping[int, Place], own: tuple[int, ...]) -> Finding:
    stacks = evidence.stacks_by_rank()
    waiting = [rank for rank in places if rank not in own]
    texts = "; ".join(f"{evidence.roster.name(rank)} stands in {places[rank]}" for rank in own)
    waits = Counter(str(places[rank].operation) for rank in waiting).most_common(1)[0][0]
    text = f"{texts}, on its own; {evidence.roster.names(waiting)} wait for it in {waits}"
    missing = [rank for rank in evidence.roster.ranks if rank not in places]
    sure = Sure.CERTAIN if len(own) == 1 and not missing else Sure.LIKELY
    operation = places[own[0]].caller
    because = tuple(stacks[rank].source for rank in (*own, *waiting))
    return Finding(
        Form.HANG,
        own,
        Condition(text, operation=None if operation is None else str(operation)),
        sure,
        because,
        not_the_network=ITS_OWN,
    )


def _in_different_places(
    evidence: Evidence, places: Mapping[int, Place], slots: Mapping[int, tuple[str, str]]
) -> Finding:
    """Ranks call collectives in different numbers or orders: the few against the many."""
    stacks = evidence.stacks_by_rank()
    collective = all(place.kind == "collective" for place in places.values())
    culprits = minority(slots) if collective else ()
    groups: dict[str, list[int]] = {}
    for rank, place in sorted(places.items()):
        groups.setdefault(str(place), []).append(rank)
    standing = "; ".join(f"{evidence.roster.names(ranks)} in {place}" for place, ranks in groups.items())
    what = "ranks make unequal numbers of calls" if collective else "ranks are in different rounds"
    text = f"{what}: {standing}"
    if (unequal := compare_batches(evidence.batches_by_rank())) is not None:
        text += f"; {unequal}"
        if unequal.queued_before:
            text += f", after {queues_shown(unequal.queued_before)}"
    return Finding(
        Form.HANG,
        culprits,
        Condition(text, operation=str(places[culprits[0]]) if culprits else None),
        sure_of(culprits, Sure.LIKELY),
        tuple(stacks[rank].source for rank in sorted(stacks)),
        not_the_network="ranks stand in different collectives" if collective else None,
    )


# wait boards


def by_boards(evidence: Evidence, after_s: float = AFTER_S) -> Finding | None:
    """Follows who waits for whom to whoever waits for nobody, or for something of its own."""
    boards = {board.rank: board for board in evidence.boards}
    if not boards or any(wait.operation == "pause" for board in boards.values() for wait in board.waits):
        return None
    old = {rank: [wait for wait in board.waits if wait.age_s >= after_s] for rank, board in boards.items()}
    gone = tuple(sorted(rank for rank, board in boards.items() if not board.alive))
    if gone and len(gone) < len(boards):
        text = f"the process of {evidence.roster.names(gone)} is gone and has left its board"
        because = tuple(boards[rank].source for rank in gone)
        return Finding(Form.KILLED, gone, Condition(text), Sure.LIKELY, because)
    if not any(old.values()):
        return None
    own = [(rank, wait) for rank, waits in old.items() for wait in waits if wait.operation == "ack"]
    if own:
        rank, wait = max(own, key=lambda one: one[1].age_s)
        text = f"{evidence.roster.name(rank)} waits for its own copies: {_shown(wait)}"
        condition = _condition(text, wait, None)
        because = _because(boards, rank, old)
        return Finding(Form.HANG, (rank,), condition, Sure.CERTAIN, because, not_the_network=ITS_OWN)
    return _last_in_line(evidence, boards, old)


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
            before, at = at, evidence.roster.of_member(at, blocked[at].peer)
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
    """No scheduler waits, and votes do not end: whoever has not come to the newest vote is late."""
    votes = {rank: wait for rank, waits in old.items() for wait in waits if wait.operation == "vote"}
    newest = max(votes.values(), key=lambda wait: wait.want, default=None)
    if newest is None:
        return None
    late = tuple(rank for rank in boards if rank not in votes or votes[rank].want < newest.want)
    named = late if len(late) < len(boards) else ()
    text = f"vote {newest.want} does not end"
    if named:
        text += f": {evidence.roster.names(named)} has not come to it"
    because = tuple(boards[rank].source for rank in sorted(boards))
    return Finding(Form.HANG, named, _condition(text, newest, None), sure_of(named, Sure.LIKELY), because)


def _because(boards: Mapping[int, Board], rank: int, old: Mapping[int, list[WaitEntry]]) -> tuple[Source, ...]:
    ranks = [rank, *(one for one in sorted(boards) if one != rank and old[one])]
    return tuple(boards[one].source for one in ranks if one in boards)


def _shown(wait: WaitEntry) -> str:
    return f"{wait.operation} {wait.want} (has {wait.have}), {wait.age_s:.1f} s"


def _condition(text: str, wait: WaitEntry, peer: int | None) -> Condition:
    return Condition(text, wait.operation, peer, str(wait.want), str(wait.have), wait.age_s)


# timeouts


def by_timeouts(evidence: Evidence) -> Finding | None:
    """Ranks whose watchdogs gave up on different collectives, or one that never gave up: it was not in one."""
    signs = evidence.of_kind("timeout")
    first: dict[int, Sign] = {}
    for sign in signs:
        rank = evidence.rank(sign.label)
        if rank is not None:
            first.setdefault(rank, sign)
    if not first:
        return None
    slots = {rank: (sign.values["operation"], sign.number("number")) for rank, sign in first.items()}
    because = tuple(sign.source for sign in first.values())
    absent = tuple(rank for rank in evidence.roster.ranks if rank not in first)
    if absent and len(set(slots.values())) == 1 and len(absent) < len(slots):
        operation, number = next(iter(slots.values()))
        text = f"{evidence.roster.names(absent)} never came to {operation} {number}, for which the others waited"
        condition = Condition(text, operation=operation, want=str(number), age_s=_seconds(first))
        return Finding(Form.HANG, absent, condition, Sure.LIKELY, because)
    groups: dict[tuple[str, int], list[int]] = {}
    for rank, slot in sorted(slots.items()):
        groups.setdefault(slot, []).append(rank)
    standing = "; ".join(
        f"{evidence.roster.names(ranks)} in {name} {number}" for (name, number), ranks in groups.items()
    )
    culprits = minority(slots) if len(groups) > 1 else _behind(evidence)
    text = f"collectives timed out: {standing}"
    condition = Condition(text, operation=next(iter(slots.values()))[0], age_s=_seconds(first))
    return Finding(Form.HANG, culprits, condition, sure_of(culprits, Sure.LIKELY), because)


def _behind(evidence: Evidence) -> tuple[int, ...]:
    """The rank that has asked for fewer collectives than the others."""
    enqueued: dict[int, int] = {}
    for sign in evidence.of_kind("enqueued"):
        rank = evidence.rank(sign.label)
        if rank is not None:
            enqueued[rank] = sign.number("enqueued")
    if len(set(enqueued.values())) < 2:
        return ()
    fewest = min(enqueued.values())
    behind = tuple(sorted(rank for rank, number in enqueued.items() if number == fewest))
    return behind if 2 * len(behind) < len(enqueued) else ()


def _seconds(signs: Mapping[int, Sign]) -> float | None:
    ages = [int(sign.values["ms"]) / 1e3 for sign in signs.values() if "ms" in sign.values]
    return max(ages, default=None)
