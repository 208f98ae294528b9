"""The rules that decide, in one table, the most certain first.

Each rule looks at all evidence, and finds an incident or nothing; the first that finds one is believed. Of the rules
for hangs it is the first that names somebody.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from isoradix.doctor.evidence import Evidence
from isoradix.doctor.findings import NOTHING, Condition, Finding
from isoradix.doctor.rules import errors, loss, parting, queues, timeouts, tokens
from isoradix.doctor.rules.boards import AFTER_S, by_boards
from isoradix.doctor.rules.common import HANGS
from isoradix.doctor.rules.stacks import by_stacks

_REPORTED_S: Final = 1.0
"""Where a log says that somebody waited too long, shorter waits count."""
Rule = Callable[[Evidence], Finding | None]

BEFORE_HANGS: Final[Sequence[Rule]] = (
    tokens.header,  # this package, before a forward pass
    tokens.shape,
    tokens.preamble,
    queues.above,  # this package, before a queue is touched
    queues.pop,
    parting.journals,
    parting.decided,
    parting.votes,
    parting.digest,
    parting.parted,
    loss.killed,
    loss.silent,
    loss.failed,
    loss.still,
    loss.own,
    loss.missing,
    loss.ordinals,
    errors.first_error,
)
AFTER_HANGS: Final[Sequence[Rule]] = (errors.signal, errors.watchdog, errors.any_error)


def decide(evidence: Evidence, after_s: float = AFTER_S) -> Finding:
    """What the first rule says that finds something; `NOTHING` if none does.

    Args:
        evidence: all that was read.
        after_s: seconds after which a wait on a board counts as a hang.
    """
    return (
        _first(BEFORE_HANGS, evidence)
        or _hang(evidence, after_s)
        or _first(AFTER_HANGS, evidence)
        or _paused(evidence)
        or NOTHING
    )


def _first(rules: Sequence[Rule], evidence: Evidence) -> Finding | None:
    return next((found for rule in rules if (found := rule(evidence)) is not None), None)


def _hang(evidence: Evidence, after_s: float) -> Finding | None:
    """Of all that say something of a hang the first that names somebody, or else the first."""
    long_s = min(after_s, _REPORTED_S) if evidence.of_kind(*HANGS) else after_s
    by_rule = (
        by_stacks(evidence, long_s),
        timeouts.by_timeouts(evidence),
        by_boards(evidence, long_s),
        loss.nobody(evidence),
    )
    seen = [found for found in by_rule if found is not None]
    return next((found for found in seen if found.culprits), seen[0] if seen else None)


def _paused(evidence: Evidence) -> Finding | None:
    """Nothing is wrong, and somebody may wonder why nothing moves."""
    ages = [wait.age_s for board in evidence.boards for wait in board.waits if wait.operation == "pause"]
    if not ages:
        return None
    text = f"nothing wrong seen: some rank has said that it pauses, {max(ages):.1f} s ago"
    return replace(NOTHING, condition=Condition(text, operation="pause", age_s=max(ages)))
