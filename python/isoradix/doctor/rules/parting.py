"""Ranks have decided otherwise, and this package said so: in journals, or in the words of its errors."""

from isoradix.doctor.evidence import Evidence, Source
from isoradix.doctor.findings import Condition, Finding, Form, Sure, sure_of
from isoradix.doctor.rules.common import groups_of_ranks, sources
from isoradix.journal.decisions import minority


def journals(evidence: Evidence) -> Finding | None:
    """Journals differ: the first input or decision in which they do."""
    for found in evidence.journals:
        parting = found.parting
        if parting is None:
            continue
        text = f"step {parting.step}"
        if parting.input is not None:
            text += f": {parting.input}"
        if parting.decided is not None:
            text += f"; {parting.decided}"
        compared = [journal for journal in found.group.journals if journal.rank in parting.compared]
        because = tuple(Source(journal.paths[0], None, f"journal of rank {journal.rank}") for journal in compared)
        condition = Condition(text, operation=None if parting.input is None else parting.input.name)
        return Finding(Form.DIVERGENCE, parting.culprits, condition, sure_of(parting.culprits), because)
    return None


def by_journals(evidence: Evidence) -> tuple[int, ...]:
    """Whom the journals name."""
    found = journals(evidence)
    return () if found is None else found.culprits


def decided(evidence: Evidence) -> Finding | None:
    """Ranks have told each other what they decided."""
    signs = evidence.of_kind("decided", "rings")
    if not signs:
        return None
    sign = signs[0]
    groups = groups_of_ranks(sign.values["what"])
    values = {rank: str(number) for number, group in enumerate(groups) for rank in group}
    culprits = minority(values) if values else ()
    text = f"step {sign.values['step']}: {sign.values['what']}"
    return Finding(Form.DIVERGENCE, culprits, Condition(text, operation="decision"), sure_of(culprits), sources(signs))


def votes(evidence: Evidence) -> Finding | None:
    """Ranks were at different votes: one has skipped or repeated one."""
    signs = evidence.of_kind("votes")
    if not signs:
        return None
    own = {evidence.roster.of_member(evidence.rank(one.label), one.number("member")): one for one in signs}
    sign = signs[0]
    what, low, high = sign.values["what"], sign.values["low"], sign.values["high"]
    culprits = minority({rank: one.values["have"] for rank, one in own.items()}) if len(own) > 2 else ()
    shown = ", ".join(f"{one.values['have']} on {evidence.roster.name(rank)}" for rank, one in sorted(own.items()))
    text = f"ranks make unequal numbers of calls: {what} {low} to {high}, {shown}"
    condition = Condition(text, operation=what, want=high, have=low)
    return Finding(Form.DIVERGENCE, culprits, condition, sure_of(culprits, Sure.LIKELY), sources(signs))


def digest(evidence: Evidence) -> Finding | None:
    """A follower's digest was not its leader's: one of the two has parted."""
    signs = evidence.of_kind("digest")
    if not signs:
        return None
    sign = signs[0]
    followers = {evidence.roster.of_member(evidence.rank(one.label), one.number("member")) for one in signs}
    shown = evidence.roster.names(sorted(followers))
    digests = f"{sign.values['have']} on {shown}, the leader's {sign.values['want']}"
    text = f"before step {sign.values['step']}: digest {digests}"
    condition = Condition(text, operation="digest", want=sign.values["want"], have=sign.values["have"])
    return Finding(Form.DIVERGENCE, (), condition, Sure.UNDETERMINED, sources(signs))


def parted(evidence: Evidence) -> Finding | None:
    signs = evidence.of_kind("parted")
    if not signs:
        return None
    text = signs[0].values["what"]
    return Finding(Form.DIVERGENCE, (), Condition(text), Sure.UNDETERMINED, sources(signs))
