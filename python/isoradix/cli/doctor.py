"""`isoradix doctor`."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from isoradix import __version__
from isoradix.cli.errors import FINDING, OK, UsageError
from isoradix.cli.output import show_facts, show_json, tracking
from isoradix.doctor.diagnosis import Diagnosis, diagnose
from isoradix.doctor.rules.boards import AFTER_S
from isoradix.doctor.text import shortened

EXAMPLES: Final = """Examples:

  isoradix doctor server.log
  isoradix doctor out/incident
  isoradix doctor rank-*.log stacks/ waits.json journals/ --json

Exit code 0 if nothing wrong is seen, 1 if an incident is.
"""


def doctor(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="PATH...", help="Journals, wait boards, logs, stack dumps, or folders of them."),
    ],
    after: Annotated[
        float, typer.Option(metavar="SECONDS", help="Waits on a board that last longer are a hang.")
    ] = AFTER_S,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")] = False,
) -> int:
    """Say what went wrong, which rank is at fault, how sure that is, and what to do next.

    It reads what the ranks of a server have left: journals, wait boards (or what isoradix waits --json printed), logs
    of SGLang or of this package, dumps of py-spy. Nobody is named where the evidence does not say.
    """
    if not 0 <= after <= 86_400:
        raise UsageError(f"--after is {after:g} s; the limits are 0 to 86,400", "5 is usual")
    with tracking("read", None) as tracker:
        seen = Counter[str]()

        def told(name: str) -> None:
            seen["files"] += 1
            tracker.doing(f"read {name}", seen["files"])

        found = diagnose(paths, after, told)
    if json:
        show_json({"command": "doctor", "version": __version__, **found.as_json()})
    else:
        _show(found)
    return FINDING if found.is_incident else OK


def _show(found: Diagnosis) -> None:
    facts = [("read", _read(found))]
    if found.evidence.left_out:
        facts.append(("left out", ", ".join(f"{path.name}" for path, _ in found.evidence.left_out[:8])))
    facts.append(("verdict", found.title))
    if not found.is_incident and found.found.condition.text != found.title:
        facts.append(("condition", found.found.condition.text))
    if found.is_incident:
        facts += [
            ("culprit", found.culprit),
            *_lines("condition", found.found.condition.text.split("; ")),
            ("sure", str(found.found.sure)),
            *_lines("because", found.because()),
        ]
    show_facts(facts)
    if not found.is_incident:
        return
    steps = [("", ""), ("on-call order", "")]
    for number, answer in enumerate(found.order, 1):
        steps += _lines(f"{number} {answer.step}", (answer.says or "open").split("; "))
    show_facts(steps)
    commands = [("", command) for command in found.next.commands]
    show_facts([("", ""), ("next", f"{found.next.step}: {found.next.what}"), *commands])


def _lines(name: str, texts: Sequence[str]) -> list[tuple[str, str]]:
    """A fact on lines of its own, none too long for a terminal."""
    return [(name if not number else "", shortened(text)) for number, text in enumerate(texts)]


def _read(found: Diagnosis) -> str:
    """`4 logs, 1 waits; ranks 0,1,2,3`."""
    kinds = Counter(file.kind for file in found.evidence.files)
    files = ", ".join(f"{count} of kind {kind}" for kind, count in sorted(kinds.items()))
    cut = [file.path.name for file in found.evidence.files if not file.whole]
    ranks = ", ".join(map(str, found.evidence.roster.ranks)) or "unknown"
    return f"{files}; ranks {ranks}" + (f"; of {', '.join(cut)} only the end" if cut else "")
