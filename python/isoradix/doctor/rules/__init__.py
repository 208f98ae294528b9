"""The rules that decide, in one table, the most certain first.

Each rule looks at all evidence, and finds an incident or nothing; the first that finds one is believed.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from isoradix.doctor.evidence import Evidence
from isoradix.doctor.findings import NOTHING, Finding
from isoradix.doctor.rules import errors, hang, loss, parting, queues, tokens

Rule = Callable[[Evidence], Finding | None]

BEFORE_BOARDS: Final[Sequence[Rule]] = (
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
    errors.first_error,
    hang.by_stacks,
    hang.by_timeouts,
)
AFTER_BOARDS: Final[Sequence[Rule]] = (loss.nobody, errors.signal, errors.watchdog, errors.any_error)


def decide(evidence: Evidence, after_s: float = hang.AFTER_S) -> Finding:
    """What the first rule says that finds something; `NOTHING` if none does.

    Args:
        evidence: all that was read.
        after_s: seconds after which a wait on a board counts as a hang.
    """
    boards: Rule = partial(hang.by_boards, after_s=after_s)
    rules: list[Rule] = [*BEFORE_BOARDS, boards, *AFTER_BOARDS]
    for rule in rules:
        if (found := rule(evidence)) is not None:
            return found
    return NOTHING
