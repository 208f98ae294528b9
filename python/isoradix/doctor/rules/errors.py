"""A rank failed by an error that is none of the known ones, or only a watchdog has spoken."""

from typing import Final

from isoradix.doctor.evidence import Evidence, Sign
from isoradix.doctor.findings import Condition, Finding, Form, Sure, sure_of
from isoradix.doctor.marks import CONNECTION
from isoradix.doctor.rules.common import sources, speakers

_CONSEQUENCES: Final = frozenset(
    {
        "BrokenPipeError",
        "ConnectionError",
        "ConnectionLost",
        "ConnectionResetError",
        "DistBackendError",
        "DistNetworkError",
        "DivergenceError",
        "EOFError",
        "KeyboardInterrupt",
        "LinkBroken",
        "PlaneLost",
        "SystemExit",
    }
)
_LATE: Final = ("timeout", "gloo timeout", "watchdog")


def first_error(evidence: Evidence) -> Finding | None:
    """A traceback that came before any wait was given up, and is no echo of another rank's end."""
    late = evidence.of_kind(*_LATE)
    for sign in evidence.of_kind("error"):
        text = sign.values["text"]
        if sign.values.get("means") in CONNECTION or sign.values["type"] in _CONSEQUENCES or "NCCL" in text:
            continue
        if sign.values.get("means") in _LATE or any(_is_before(one, sign) for one in late):
            continue
        return _by(evidence, sign)
    return None


def _is_before(one: Sign, other: Sign) -> bool:
    """In the same file, further up."""
    lines = one.source.line, other.source.line
    return one.source.path == other.source.path and None not in lines and (lines[0] or 0) < (lines[1] or 0)


def _by(evidence: Evidence, sign: Sign) -> Finding:
    rank = evidence.rank(sign.label)
    who = "a rank" if rank is None else evidence.roster.name(rank)
    text = f"{who}: {sign.values['type']}: {sign.values['text']}".rstrip(": ")
    if sign.values["function"]:
        text += f", in {sign.values['function']}"
    culprits = () if rank is None else (rank,)
    condition = Condition(text, operation=sign.values["type"])
    return Finding(Form.FAILED, culprits, condition, sure_of(culprits, Sure.LIKELY), (sign.source,))


def signal(evidence: Evidence) -> Finding | None:
    """A process was ended by a signal, as whoever started it says."""
    signs = evidence.of_kind("signal")
    if not signs:
        return None
    culprits = speakers(evidence, signs)
    how = signs[0].values.get("name") or f"signal {signs[0].values.get('number', 'unknown')}"
    who = evidence.roster.names(culprits) if culprits else "a process"
    condition = Condition(f"{who} was ended by {how}", operation=how)
    return Finding(Form.KILLED, culprits, condition, sure_of(culprits, Sure.LIKELY), sources(signs))


def watchdog(evidence: Evidence) -> Finding | None:
    """Only that somebody waited too long is known."""
    signs = evidence.of_kind("gloo timeout", "watchdog")
    if not signs:
        return None
    waited = speakers(evidence, signs)
    who = evidence.roster.names(waited) if waited else "a rank"
    text = f"{who} waited until a watchdog gave up; for whom, the evidence does not say"
    return Finding(Form.HANG, (), Condition(text), Sure.UNDETERMINED, sources(signs))


def any_error(evidence: Evidence) -> Finding | None:
    """Whatever else ended with a traceback."""
    errors = evidence.of_kind("error")
    return _by(evidence, errors[0]) if errors else None
