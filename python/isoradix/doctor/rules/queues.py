"""Form B: a rank takes by a count that its own queue has not."""

from isoradix.doctor.evidence import Evidence
from isoradix.doctor.findings import Condition, Finding, Form, sure_of
from isoradix.doctor.rules.common import sources, speakers


def above(evidence: Evidence) -> Finding | None:
    """A number was agreed that a rank had not voted: its own queue is shorter."""
    signs = evidence.of_kind("above")
    if not signs:
        return None
    sign = next((one for one in signs if "member" in one.values), signs[0])
    values = sign.values
    speaker = evidence.rank(sign.label)
    if "member" in values:
        culprits: tuple[int, ...] = (evidence.roster.of_member(speaker, sign.number("member")),)
    else:
        culprits = () if speaker is None else (speaker,)
    who = evidence.roster.names(culprits) if culprits else "a rank"
    want = values.get("want")
    said = values["what"] if want is None or "vote" not in values else f"{values['what']} is {want}"
    text = f"{said} by vote, {who} has {values['have']}"
    if "vote" in values:
        text = f"vote {values['vote']}: {text}"
    condition = Condition(text, operation=values["what"], want=want, have=values["have"])
    return Finding(Form.QUEUE, culprits, condition, sure_of(culprits), sources(signs))


def pop(evidence: Evidence) -> Finding | None:
    """A list was popped that was empty: whoever did so has the shorter queue."""
    signs = evidence.of_kind("pop")
    if not signs:
        return None
    first = signs[0]
    culprits = speakers(evidence, signs)
    who = evidence.roster.names(culprits) if culprits else "a rank"
    function, code = first.values.get("function"), first.values.get("code")
    text = f"{who} pops its own queue, which is empty"
    if function:
        text += f", in {function}" + (f": {code}" if code else "")
    condition = Condition(text, operation=function, have="0")
    return Finding(Form.QUEUE, culprits, condition, sure_of(culprits), sources(signs))
