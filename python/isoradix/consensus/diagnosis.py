"""Why ranks wait: what their wait boards say together, in one line that names the case and the rank.

Three cases look alike from outside, as a hang: some ranks are in a collective and others never came; all are in one,
but not in the same; or one rank waits for something of its own, and all others for that rank. What each rank waits for
tells them apart, whether it was read from the boards' files (`isoradix waits`) or told over the lifelines (a rank's
watch).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from isoradix.consensus.waits import RankWaits, WaitEntry

LONG_S: Final = 5.0
"""Seconds from which on a wait is a long one, where nobody says otherwise."""

Case = Literal["nothing", "gone", "stopped", "missing", "ordinals", "own", "busy", "network"]
"""What the boards say together.

- nothing: no wait is a long one.
- gone: a rank's process has ended, and left its board.
- stopped: a rank's process is stopped, or gives no sign of life.
- missing: some ranks are in a collective, others are not.
- ordinals: all ranks are in collectives, but not in the same one: one has skipped or repeated some.
- own: a rank waits for its own queue or thread, and the others for that rank. The network is ruled out.
- busy: a rank waits for nothing that it shows, and the others for that rank.
- network: every rank is where it should be: what was sent has not arrived.
"""


@dataclass(frozen=True)
class Diagnosis:
    """Why ranks wait, as far as their boards tell."""

    case: Case
    ranks: tuple[int, ...]
    """At fault, of the deployment; none where the boards do not tell."""
    waiting: tuple[int, ...]
    """Ranks that wait for those."""
    wait: WaitEntry | None
    """The wait that decides: of the rank at fault for its own queue, else the longest one of the others."""
    text: str
    """One line for people."""

    def __str__(self) -> str:
        return self.text


def diagnose(boards: Sequence[RankWaits], long_s: float = LONG_S) -> Diagnosis:
    """What the boards of one domain say together.

    Args:
        boards: one for each rank that is known, all of one epoch.
        long_s: seconds from which on a wait is a long one.

    Returns:
        The case, with the ranks at fault.
    """
    living = [board for board in boards if board.alive and not board.stopped]
    if gone := _ranks(board for board in boards if not board.alive):
        what = f"{_say(gone, 'has', 'have')} ended and left a wait board: killed, or crashed"
        return Diagnosis("gone", gone, _waiting(living), None, what)
    if silent := _ranks(board for board in boards if board.stopped):
        what = f"{_say(silent, 'is stopped, or gives', 'are stopped, or give')} no sign of life"
        return Diagnosis("stopped", silent, _waiting(living), None, what)
    if paused := _ranks(board for board in boards if any(wait.operation == "pause" for wait in board.waits)):
        return Diagnosis(
            "nothing", (), (), None, f"{_say(paused, 'shows', 'show')} a pause: no wait is too long meanwhile"
        )
    long = [wait for board in boards for wait in board.waits if wait.age_s >= long_s and not wait.own]
    if not long:
        return Diagnosis("nothing", (), (), None, f"no rank waits for another for {long_s:g} s or longer")
    groups = {wait.group for wait in long}
    if "votes" in groups:
        return _of_votes(boards)
    return _of_frames(boards, long_s) if "frames" in groups else _of_the_end(boards)


def domains(boards: Iterable[RankWaits]) -> list[list[RankWaits]]:
    """Boards that can be looked at together: one for each member of a domain on one plane, as far as they are there.

    A board left behind gives way to that of a living process. Where two living ones claim a place, or all processes
    have ended, there is nothing to say.
    """
    groups: dict[tuple[str, int, int, int], list[RankWaits]] = {}
    for board in boards:
        groups.setdefault((board.plane, board.domain, board.epoch, board.members), []).append(board)
    found = []
    for _, group in sorted(groups.items()):
        living = {board.member: board for board in group if board.alive}
        if living and len(living) == sum(board.alive for board in group):
            left = {board.member: board for board in group if not board.alive}
            found.append([board for _, board in sorted({**left, **living}.items())])
    return found


def _of_votes(boards: Sequence[RankWaits]) -> Diagnosis:
    """A collective lasts: who is in it, and who is not."""
    inside = {board: wait for board in boards for wait in board.waits if wait.group == "votes"}
    wait, there = max(inside.values(), key=lambda wait: wait.age_s), _ranks(inside)
    here = f"{_say(there, 'is', 'are')} in {_name(wait)} for {wait.age_s:.1f} s"
    if outside := [board for board in boards if board not in inside]:
        if (stuck := _stuck(outside, wait)) is not None:
            return _own_queue(stuck, there)
        # under a chain the later stages do not vote: they wait for those that do
        absent = [board for board in outside if _lasting(board, "frames", wait) is None] or outside
        missing, doing = _ranks(absent), "; ".join(map(_doing, absent))
        return Diagnosis("missing", missing, there, wait, f"{here}, {_say(missing, 'is', 'are')} not: {doing}")
    if max(board.members for board in boards) > len(boards):
        return Diagnosis("missing", (), there, wait, f"{here}, and not all ranks have a wait board here{_ABSENT}")
    if fresh := _ranks(board for board in inside if _lasting(board, "votes", wait) is None):
        return Diagnosis(
            "nothing", (), there, wait, f"{here}, and {_say(fresh, 'has', 'have')} only just come to a vote"
        )
    places = _places(inside)
    if len(places) == 1:
        return Diagnosis("network", (), there, wait, f"{here}, and none is missing: its bytes do not arrive")
    most = places[0][1]
    odd = tuple(rank for rank in there if rank not in most) if 2 * len(most) > len(there) else ()
    others = tuple(rank for rank in there if rank not in odd)
    shown = ", ".join(f"{_say(ranks, 'in', 'in')} {place}" for place, ranks in places)
    what = f"all ranks are in collectives, for {wait.age_s:.1f} s, but not in the same one: {shown}"
    whose = _say(odd, "has", "have") if odd else "one of them has"
    return Diagnosis("ordinals", odd, others, wait, f"{what}; {whose} skipped or repeated one")


def _of_frames(boards: Sequence[RankWaits], long_s: float) -> Diagnosis:
    """Ranks wait for ranks: whoever is at the end of these chains waits for no other one."""
    by_member = {board.member: board for board in boards}
    longest = max((_longest(board, "frames") for board in boards), key=lambda wait: 0.0 if wait is None else wait.age_s)
    assert longest is not None, "there is a long one"
    found = {board.member: _lasting(board, "frames", longest) for board in boards}
    waits = {member: wait for member, wait in found.items() if wait is not None}
    waiting = _ranks(by_member[member] for member in waits)
    behind = f"{_say(waiting, 'waits', 'wait')} for"
    ends = {_end(member, waits) for member, wait in waits.items() if wait.age_s >= long_s}
    if None in ends:
        shown = "; ".join(_waits_for(by_member[member], wait, by_member) for member, wait in sorted(waits.items()))
        what = f"ranks wait for each other for {longest.age_s:.1f} s: {shown}. What was sent does not arrive"
        return Diagnosis("network", (), waiting, longest, what)
    known = [board for board in boards if board.member in ends]
    if not known:
        what = f"{behind} a rank without a wait board here, for {longest.age_s:.1f} s{_ABSENT}"
        return Diagnosis("missing", (), waiting, longest, what)
    if (stuck := _stuck(known, longest)) is not None:
        return _own_queue(stuck, waiting)
    # one that has only just begun to wait was late, but is not what the others wait for now
    idle = [board for board in known if _longest(board, "frames") is None] or known
    return _busy(idle, waiting, longest)


def _of_the_end(boards: Sequence[RankWaits]) -> Diagnosis:
    """Ranks leave, and wait for those that have not come to the last step."""
    leaving = {board: wait for board in boards for wait in board.waits if wait.group == "end"}
    wait, there = max(leaving.values(), key=lambda wait: wait.age_s), _ranks(leaving)
    outside = [board for board in boards if board not in leaving]
    if (stuck := _stuck(outside, wait)) is not None:
        return _own_queue(stuck, there)
    if outside:
        return _busy(outside, there, wait)
    what = f"{_say(there, 'leaves', 'leave')} for {wait.age_s:.1f} s, and no rank that is known is missing"
    return Diagnosis("network", (), there, wait, what)


def _busy(boards: Sequence[RankWaits], waiting: tuple[int, ...], wait: WaitEntry) -> Diagnosis:
    """Of these, none of which waits for another, those that have not come as far as the rest."""
    slowest = [board for board in boards if board.step == min(board.step for board in boards)]
    still = "; ".join(
        f"rank {board.rank} has been at step {board.step} for {board.still_s:.1f} s and waits for nobody"
        for board in slowest
    )
    behind = f"{_say(waiting, 'waits', 'wait')} for {'it' if len(slowest) == 1 else 'them'}"
    return Diagnosis("busy", _ranks(slowest), waiting, wait, f"{still}; {behind}")


def _end(member: int, waits: Mapping[int, WaitEntry]) -> int | None:
    """Where the chain of waits ends that begins with a member; None if it never does."""
    seen: set[int] = set()
    while member in waits:
        if member in seen:
            return None
        seen.add(member)
        member = waits[member].peer
    return member


def _longest(board: RankWaits, group: str) -> WaitEntry | None:
    return max((wait for wait in board.waits if wait.group == group), key=lambda wait: wait.age_s, default=None)


def _lasting(board: RankWaits, group: str, other: WaitEntry) -> WaitEntry | None:
    """A rank's longest wait of a group, if it began not long after the `other` one: else it may be over by now."""
    wait = _longest(board, group)
    return wait if wait is not None and 2 * wait.age_s >= other.age_s else None


def _stuck(boards: Iterable[RankWaits], other: WaitEntry) -> RankWaits | None:
    """The rank that waits longest for something of its own, where that lasts as the `other` wait does."""
    waits = [(wait.age_s, board) for board in boards if (wait := _lasting(board, "own", other)) is not None]
    return max(waits, key=lambda found: found[0], default=(0.0, None))[1]


def _own_queue(board: RankWaits, waiting: tuple[int, ...]) -> Diagnosis:
    own = _longest(board, "own")
    assert own is not None, "it is stuck"
    what = f"rank {board.rank} waits for its own {own.operation} {own.want} (has {own.have}) for {own.age_s:.1f} s"
    behind = f"{_say(waiting, 'waits', 'wait')} for rank {board.rank}, so the network is ruled out"
    return Diagnosis("own", (board.rank,), waiting, own, f"{what}, at step {board.step}; {behind}")


def _places(inside: Mapping[RankWaits, WaitEntry]) -> list[tuple[str, tuple[int, ...]]]:
    """Collectives with the ranks that are in them: the one of most ranks first."""
    ranks: dict[str, list[int]] = {}
    for board, wait in sorted(inside.items(), key=lambda item: item[0].rank):
        ranks.setdefault(_name(wait), []).append(board.rank)
    return sorted(((place, tuple(of)) for place, of in ranks.items()), key=lambda item: (-len(item[1]), item[1]))


def _waiting(boards: Iterable[RankWaits]) -> tuple[int, ...]:
    return _ranks(board for board in boards if board.waits)


def _ranks(boards: Iterable[RankWaits]) -> tuple[int, ...]:
    return tuple(sorted(board.rank for board in boards))


# words

_ABSENT: Final = ": it has ended, or is on another machine"


def _say(ranks: Sequence[int], one: str, many: str) -> str:
    """`rank 2 is`, `ranks 0,1,3 are`."""
    return f"rank {ranks[0]} {one}" if len(ranks) == 1 else f"ranks {','.join(map(str, ranks))} {many}"


def _name(wait: WaitEntry) -> str:
    return f"{wait.operation} {wait.want}"


def _doing(board: RankWaits) -> str:
    """What a rank does that is not where the others are."""
    waits = [f"waits for {_name(wait)}" for wait in board.waits]
    done = f"rank {board.rank} has completed {board.votes} votes, is at step {board.step}"
    return f"{done} and {' and '.join(waits) if waits else 'waits for nothing that it shows'}"


def _waits_for(board: RankWaits, wait: WaitEntry, by_member: Mapping[int, RankWaits]) -> str:
    peer = by_member.get(wait.peer)
    return f"rank {board.rank} for {_name(wait)} of {'a rank elsewhere' if peer is None else f'rank {peer.rank}'}"
