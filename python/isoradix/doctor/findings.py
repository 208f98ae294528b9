"""What is found: the form of an incident, who is at fault, what is waited for or differs, and how sure that is."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from isoradix.doctor.evidence import Source


class Form(StrEnum):
    """How an incident shows itself."""

    SHAPE = "A"
    QUEUE = "B"
    HANG = "C"
    DIVERGENCE = "divergence"
    KILLED = "killed"
    STOPPED = "stopped"
    FAILED = "failed"
    NONE = "none"


MEANING: Final = {
    Form.SHAPE: "ranks disagree on the tokens that a batch computes",
    Form.QUEUE: "a rank took by a count that its own queue has not",
    Form.HANG: "ranks wait for a rank that does not come",
    Form.DIVERGENCE: "ranks have decided otherwise, and were stopped by their digests",
    Form.KILLED: "a rank's process was killed, or crashed",
    Form.STOPPED: "a rank's process is stopped, or out of reach",
    Form.FAILED: "a rank failed by an error of its own",
    Form.NONE: "nothing wrong seen",
}


class Sure(StrEnum):
    """How sure it is who is at fault."""

    CERTAIN = "certain"
    LIKELY = "likely"
    UNDETERMINED = "undetermined"


@dataclass(frozen=True)
class Condition:
    """What a rank waits for, or which number differs."""

    text: str
    operation: str | None = None
    peer: int | None = None
    """The rank that is waited for."""
    want: str | None = None
    have: str | None = None
    age_s: float | None = None

    def as_json(self) -> dict[str, Any]:
        return {
            "text": self.text,
            "operation": self.operation,
            "peer": self.peer,
            "want": self.want,
            "have": self.have,
            "age_s": None if self.age_s is None else round(self.age_s, 1),
        }


@dataclass(frozen=True)
class Finding:
    """An incident, as one rule sees it. Without culprits nobody is named, since the evidence does not say."""

    form: Form
    culprits: tuple[int, ...]
    condition: Condition
    sure: Sure
    because: tuple[Source, ...]
    not_the_network: str | None = None
    """Why a hang is none of the network's; None where it may be."""


ITS_OWN: Final = "it waits on its own thread or queue, the others wait for it"
NOTHING: Final = Finding(Form.NONE, (), Condition("nothing wrong seen"), Sure.CERTAIN, ())


def sure_of(culprits: tuple[int, ...], sure: Sure = Sure.CERTAIN) -> Sure:
    """As sure as the evidence allows, where somebody is named at all."""
    return sure if culprits else Sure.UNDETERMINED
