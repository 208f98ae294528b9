"""Form C by stack dumps: one rank stands in something of its own, or ranks wait in different places."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from isoradix.doctor.batches import compare_batches, queues_shown
from isoradix.doctor.evidence import Evidence
from isoradix.doctor.findings import ITS_OWN, Condition, Finding, Form, Sure, sure_of
from isoradix.doctor.places import Place, place_of
from isoradix.doctor.rules.boards import AFTER_S, by_boards
from isoradix.doctor.rules.common import HANGS
from isoradix.journal.decisions import minority


def by_stacks(evidence: Evidence, after_s: float = AFTER_S) -> Finding | None:
    """One rank stands in something of its own and the others wait for it, or ranks wait in different places.

    Where boards name the same rank, they say what the others want of it.
    """
    found = _by_places(evidence)
    boards = None if found is None else by_boards(evidence, after_s)
    if found is None or boards is None or not found.culprits or boards.culprits != found.culprits:
        return found
    wait, told = found.condition, boards.condition
    text = f"{wait.text}; {told.text}"
    condition = Condition(text, wait.operation, told.peer, told.want, told.have, told.age_s)
    return replace(found, condition=condition, because=(*found.because, *boards.because))


def _by_places(evidence: Evidence) -> Finding | None:
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
    at_rest = stacks[own[0]].idle or bool(evidence.of_kind(*HANGS))
    sure = Sure.CERTAIN if len(own) == 1 and not missing and at_rest else Sure.LIKELY
    because = tuple(stacks[rank].source for rank in (*own, *waiting))
    return Finding(
        Form.HANG,
        own,
        Condition(text, operation=str(places[own[0]])),
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
