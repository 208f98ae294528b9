"""From evidence to an answer: what was found, how far the on-call order is answered, what to do next."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from isoradix.doctor.advice import Answer, Next, next_step, order
from isoradix.doctor.collect import Told, collect
from isoradix.doctor.evidence import Evidence
from isoradix.doctor.findings import MEANING, Finding, Form
from isoradix.doctor.rules import decide
from isoradix.doctor.rules.boards import AFTER_S

_SOURCES_SHOWN = 8


@dataclass(frozen=True)
class Diagnosis:
    """What is to be said of an incident."""

    evidence: Evidence
    found: Finding
    order: list[Answer]
    next: Next

    @property
    def is_incident(self) -> bool:
        return self.found.form is not Form.NONE

    @property
    def title(self) -> str:
        """`form C: ranks wait for a rank that does not come`."""
        form = self.found.form
        meaning = MEANING[form]
        return f"form {form}: {meaning}" if form in (Form.SHAPE, Form.QUEUE, Form.HANG) else meaning

    @property
    def culprit(self) -> str:
        """For people."""
        if not self.is_incident:
            return "nobody"
        found = self.found
        return self.evidence.roster.names(found.culprits) if found.culprits else "undetermined"

    def as_json(self) -> dict[str, Any]:
        """The stable form: names are not changed within a major version, only added."""
        found, roster = self.found, self.evidence.roster
        return {
            "form": str(found.form),
            "title": self.title,
            "culprits": [{"rank": rank, "name": roster.name(rank)} for rank in found.culprits],
            "condition": found.condition.as_json(),
            "sure": str(found.sure),
            "because": [{"file": str(one.path), "line": one.line, "says": one.text} for one in found.because],
            "order": [{"step": answer.step, "says": answer.says} for answer in self.order],
            "next": {"step": self.next.step, "what": self.next.what, "commands": list(self.next.commands)},
            "ranks": roster.ranks,
            "files": [{"file": str(file.path), "kind": file.kind, "whole": file.whole} for file in self.evidence.files],
            "left_out": [{"file": str(path), "why": why} for path, why in self.evidence.left_out],
        }

    def because(self) -> list[str]:
        """The evidence behind it, for people."""
        shown = [f"{one}: {one.text}" for one in self.found.because[:_SOURCES_SHOWN]]
        more = len(self.found.because) - len(shown)
        return [*shown, f"and {more} more"] if more > 0 else shown


def diagnose(paths: Sequence[Path], after_s: float = AFTER_S, told: Told | None = None) -> Diagnosis:
    """Reads the evidence and says what went wrong.

    Args:
        paths: files and folders: journals, wait boards, logs, stack dumps.
        after_s: seconds after which a wait on a board counts as a hang.
        told: hears the name of each file before it is read.

    Raises:
        InvalidInputError: a path is not there, a file is no evidence or cannot be read, or there is nothing to read.
    """
    evidence = collect(paths, told)
    found = decide(evidence, after_s)
    answers = order(evidence, found)
    return Diagnosis(evidence, found, answers, next_step(answers, found, evidence))
