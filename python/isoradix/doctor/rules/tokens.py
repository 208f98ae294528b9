"""Form A: ranks disagree on how many tokens a batch computes."""

from collections import Counter
from itertools import pairwise

from isoradix.doctor.batches import Unequal, compare_batches
from isoradix.doctor.evidence import Evidence, Sign
from isoradix.doctor.findings import Condition, Finding, Form, Sure, sure_of
from isoradix.doctor.rules.common import sources
from isoradix.doctor.rules.parting import by_journals


def header(evidence: Evidence) -> Finding | None:
    """A batch header differed from the one that came, before the forward pass."""
    signs = evidence.of_kind("header")
    if not signs:
        return None
    sign = signs[0]
    told = Counter(rank for sign in {one.values["what"]: one for one in signs}.values() for rank in _ranks_in(sign))
    most = [rank for rank, count in told.items() if count > 1]
    culprits = tuple(most) if len(most) == 1 else by_journals(evidence)
    text = f"batch {sign.values['batch']} of step {sign.values['step']}: {sign.values['what']}"
    condition = Condition(text, operation="batch header")
    return Finding(Form.SHAPE, culprits, condition, sure_of(culprits, Sure.LIKELY), sources(signs))


def _ranks_in(sign: Sign) -> list[int]:
    """The two ranks whose headers differ."""
    words = sign.values["what"].replace(",", " ").split()
    return [int(word) for before, word in pairwise(words) if before == "rank" and word.isdigit()]


def shape(evidence: Evidence) -> Finding | None:
    """A reshape failed: this rank's batch has another length than the activations that came."""
    signs = evidence.of_kind("shape")
    if not signs:
        return None
    sign = signs[0]
    own, came, width = sign.number("own"), sign.number("came"), sign.number("width")
    rank = evidence.rank(sign.label)
    unequal = compare_batches(evidence.batches_by_rank())
    who = "a rank" if rank is None else evidence.roster.name(rank)
    text = f"{who} expects {own} tokens, and {came} values came, rows of {width} each"
    because = sources(signs)
    culprits: tuple[int, ...] = ()
    if unequal is not None:
        text = f"{text}{_fitting(evidence, unequal, own, came // width)}; {unequal}"
        culprits = unequal.culprits
        because += tuple(batch.source for batch in unequal.by_rank.values() if batch is not None)
    condition = Condition(text, operation="reshape", want=str(own), have=str(came))
    return Finding(Form.SHAPE, culprits, condition, sure_of(culprits, Sure.LIKELY), because)


def _fitting(evidence: Evidence, unequal: Unequal, own: int, rows: int) -> str:
    """Whose batch has as many tokens as fit what came."""
    fits = [
        rank
        for rank, batch in unequal.by_rank.items()
        if batch is not None and batch.extend_tokens not in (0, own) and not rows % batch.extend_tokens
    ]
    return f", which fits what {evidence.roster.names(fits)} computed" if fits else ""


def preamble(evidence: Evidence) -> Finding | None:
    """gloo got more bytes than it was told to expect: ranks of one stage disagree on the length."""
    signs = evidence.of_kind("preamble")
    if not signs:
        return None
    sign = signs[0]
    unequal = compare_batches(evidence.batches_by_rank())
    culprits = () if unequal is None else unequal.culprits
    rank = evidence.rank(sign.label)
    who = "a rank" if rank is None else evidence.roster.name(rank)
    text = f"{who} expects {sign.values['own']} bytes in a collective, and {sign.values['came']} came"
    if unequal is not None:
        text = f"{text}; {unequal}"
    condition = Condition(text, operation="collective", want=sign.values["own"], have=sign.values["came"])
    return Finding(Form.SHAPE, culprits, condition, sure_of(culprits, Sure.LIKELY), sources(signs))
