"""Form C by the numbers of collectives that timed out."""

from collections.abc import Mapping

from isoradix.doctor.evidence import Evidence, Sign
from isoradix.doctor.findings import Condition, Finding, Form, Sure, sure_of
from isoradix.journal.decisions import minority


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
