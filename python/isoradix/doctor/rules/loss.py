"""A rank is lost to the others: killed, stopped, failed, or standing still, as lifelines tell it."""

from collections.abc import Mapping, Sequence

from isoradix.doctor.evidence import Evidence, Sign
from isoradix.doctor.findings import ITS_OWN, Condition, Finding, Form, Sure
from isoradix.doctor.places import place_of
from isoradix.doctor.rules.common import groups_of_ranks, sources


def killed(evidence: Evidence) -> Finding | None:
    """A lifeline closed without a goodbye."""
    signs = evidence.of_kind("killed", "absent")
    if not signs:
        return None
    culprits = tuple(sorted({sign.number("rank") for sign in signs}))
    who = evidence.roster.names(culprits)
    what = "did not come to the start" if all(sign.kind == "absent" for sign in signs) else "ended without a goodbye"
    return Finding(Form.KILLED, culprits, Condition(f"{who} {what}"), Sure.CERTAIN, sources(signs))


def silent(evidence: Evidence) -> Finding | None:
    """A lifeline is open and nothing comes: the process is stopped, or its machine out of reach."""
    signs = evidence.of_kind("silent")
    if not signs:
        return None
    groups = groups_of_ranks(signs[0].values["ranks"].replace(", ", ",") + " ")
    culprits = tuple(groups[0]) if groups else ()
    age = float(signs[0].values["age"])
    waited = evidence.of_kind("waited")
    text = f"no sign of life of {evidence.roster.names(culprits)} for {age:.1f} s"
    condition = _condition_of_wait(text, waited, age)
    return Finding(Form.STOPPED, culprits, condition, Sure.CERTAIN, sources(signs))


def still(evidence: Evidence) -> Finding | None:
    """A rank stands still and waits for nobody, as its lifeline says."""
    signs = evidence.of_kind("still")
    if not signs:
        return None
    sign = signs[0]
    rank, age = sign.number("rank"), float(sign.values["age"])
    text = f"{evidence.roster.name(rank)} has been at step {sign.values['step']} for {age:.1f} s, on its own"
    operation = None
    if (stack := evidence.stack_of(rank)) is not None:
        place = place_of(stack)
        operation = str(place)
        text += f", in {place}"
    condition = Condition(text, operation=operation, have=sign.values["step"], age_s=age)
    return Finding(Form.HANG, (rank,), condition, Sure.CERTAIN, sources(signs), not_the_network=ITS_OWN)


def nobody(evidence: Evidence) -> Finding | None:
    """A wait was over and no rank stood out."""
    signs = evidence.of_kind("nobody")
    if not signs:
        return None
    condition = _condition_of_wait(signs[0].values["what"], evidence.of_kind("waited"), None)
    return Finding(Form.HANG, (), condition, Sure.UNDETERMINED, sources(signs))


def _condition_of_wait(text: str, waited: Sequence[Sign], age: float | None) -> Condition:
    """With what the ranks that waited longest said."""
    longest = max(waited, key=lambda sign: float(sign.values["age"]), default=None)
    if longest is None:
        return Condition(text, age_s=age)
    values: Mapping[str, str] = longest.values
    wait = f"{values['operation']} {values['want']} (has {values['have']}), {values['age']} s"
    peer = int(values["peer"].split()[1]) if values["peer"] != "all ranks" else None
    text = f"{text}; rank {values['rank']} waits for {wait}"
    return Condition(text, values["operation"], peer, values["want"], values["have"], float(values["age"]))


def failed(evidence: Evidence) -> Finding | None:
    """A rank told the others by which error it failed."""
    for sign in evidence.of_kind("failed"):
        if sign.values["type"] not in ("PlaneLost", "DivergenceError"):
            rank = sign.number("rank")
            text = f"{evidence.roster.name(rank)}: {sign.values['type']}: {sign.values['what']}"
            condition = Condition(text, operation=sign.values["type"])
            return Finding(Form.FAILED, (rank,), condition, Sure.CERTAIN, (sign.source,))
    return None
