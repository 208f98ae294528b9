"""`isoradix diff`, `isoradix replay-journal` and `isoradix view`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from isoradix import __version__
from isoradix.cli.errors import FINDING, OK, UsageError, show_error
from isoradix.cli.output import command_line, save_report, show_facts, show_json, tracking
from isoradix.cli.values import report_path
from isoradix.journal.decisions import ranks_named
from isoradix.journal.diff import Comparison, compare
from isoradix.journal.folder import find
from isoradix.journal.reader import open_journal
from isoradix.journal.rerun import Different, Rerun

DIFF_EXAMPLES: Final = """Examples:

  isoradix replay --workload chat --tp 2 --pp 2 --journal out/journals
  isoradix diff out/journals
  isoradix diff out/journals --json

Exit code 0 if all ranks are equal as far as they go, 1 if some have parted.
"""
REPLAY_EXAMPLES: Final = """Examples:

  isoradix replay-journal out/journals/20261130T040018-001/rank-0003.000.journal
  isoradix replay-journal out/journals/20261130T040018-001/rank-0000.000.journal --json

Exit code 0 if every decision and digest is reproduced, 1 if one is not.
"""
VIEW_EXAMPLES: Final = """Examples:

  isoradix view out/journals
  isoradix view out/journals/20261130T040018-001 -o out/parted.html
"""
JSON: Final[Any] = typer.Option("--json", help="Print one JSON object instead of text.")
FOLDER: Final[Any] = typer.Argument(metavar="DIR", help="Where ranks have written journals, of one run or of several.")


def diff(folder: Annotated[Path, FOLDER], json: Annotated[bool, JSON] = False) -> int:
    """Compare the journals of ranks: the first input and the first decision in which they part, and who is at fault.

    Ranks of one run, epoch and domain are compared with each other. A rank that ended earlier than others has not
    parted from them. At fault is whom more than half of the ranks contradict; of two, that cannot be said.
    """
    groups = find(folder)
    if all(len(group.journals) < 2 for group in groups):
        alone = "; ".join(f"{group.name}: {ranks_named(group.ranks)}" for group in groups)
        what = f"{str(folder)!r} has no two ranks of one run, epoch and domain to compare: {alone}"
        raise UsageError(what, "collect the journals of all ranks in one folder")
    with tracking(f"compare {folder}", len(groups)) as tracker:
        found = []
        for number, group in enumerate(groups):
            found.append(compare(group))
            tracker.reached(number + 1)
    if json:
        groups_shown = [_document(one) for one in found]
        parted = any(one.parting is not None for one in found)
        show_json({"command": "diff", "version": __version__, "equal": not parted, "groups": groups_shown})
    else:
        for one in found:
            show_facts(_facts(one))
    partings = [one.parting for one in found if one.parting is not None]
    for parting in partings:
        show_error(f"ranks have parted at step {parting.step}: {_culprit(parting.culprits)}")
    return FINDING if partings else OK


def _culprit(ranks: Sequence[int]) -> str:
    return f"{ranks_named(ranks)} against the others" if ranks else "which of them is at fault is undetermined"


def _document(found: Comparison) -> dict[str, object]:
    """The stable form of `--json`: names are not changed within a major version, only added."""
    group = found.group
    return {
        "run": group.run,
        "epoch": group.epoch,
        "domain": group.domain,
        "ranks": group.ranks,
        "missing": list(group.missing),
        "steps": found.steps,
        "equal": found.parting is None,
        "parting": None if found.parting is None else found.parting.as_json(),
        "ended": {str(rank): {"step": step, "how": how or None} for rank, (step, how) in sorted(found.ended.items())},
    }


def _facts(found: Comparison) -> list[tuple[str, str]]:
    group, parting = found.group, found.parting
    facts = [("journals", f"{group.name}"), ("ranks", ", ".join(map(str, group.ranks)))]
    if group.missing:
        facts.append(("missing", f"{ranks_named(group.missing)} left none"))
    if parting is None:
        verdict = "equal" if len(group.journals) > 1 else "one rank alone: nothing to compare"
        facts.append(("verdict", f"{verdict}, {found.steps:,} steps compared" if found.steps else verdict))
    else:
        facts.append(("verdict", f"parted at step {parting.step}, after {found.steps:,} steps"))
        frame = "none" if parting.last_frame is None else f"that of step {parting.last_frame}"
        facts.append(("last common frame", frame))
        facts.append(("input that differs", "none" if parting.input is None else str(parting.input)))
        facts.append(("decision", "none is left" if parting.decided is None else str(parting.decided)))
        compared = ranks_named(parting.compared)
        facts.append(("culprit", ranks_named(parting.culprits) if parting.culprits else f"undetermined: {compared}"))
    for rank, (step, how) in sorted(found.ended.items()):
        facts.append((f"rank {rank}", f"ends at step {step}" + (f": {how}" if how else "")))
    return facts


def replay_journal(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Any segment of a rank's journal.")],
    json: Annotated[bool, JSON] = False,
) -> int:
    """Do again what one rank did, alone, from its journal, and compare every decision and digest.

    No peers, engines or votes are needed: frames hold what the ranks agreed. The journal has to begin with the rank's
    first step.
    """
    journal = open_journal(file)
    rerun, difference = Rerun(journal), None
    with tracking(f"replay {file.name}", None) as tracker:
        try:
            for done in rerun.run():
                tracker.reached(done.step)
        except Different as different:
            difference = different.difference
    digest = f"{rerun.rank.digest:016x}"
    how = journal.ending or ("the stop frame" if rerun.stopped else "where the rank ended")
    if json:
        show_json(
            {
                "command": "replay-journal",
                "version": __version__,
                "journal": journal.name,
                "rank": journal.rank,
                "steps": rerun.steps,
                "decision_digest": digest,
                "ends": how,
                "equal": difference is None,
                "difference": None if difference is None else {"step": difference.step, "what": difference.what},
            }
        )
    else:
        facts = [
            ("journal", journal.name),
            ("rank", f"{journal.rank}, {'leader' if journal.head['member'] == 0 else 'follower'}"),
            ("steps", f"{rerun.steps:,} done again"),
            ("ends", how),
            ("decision digest", digest),
            ("verdict", "every decision and digest reproduced" if difference is None else "another run"),
        ]
        show_facts(facts)
    if difference is not None:
        show_error(f"{difference}\nhint: the release, a policy or a value that is in no journal is another one")
    return FINDING if difference is not None else OK


def view(
    folder: Annotated[Path, FOLDER],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The page.")] = Path("journals.html"),
) -> int:
    """Write a page that shows the trees of two ranks side by side, step by step, and where they part.

    Of several runs it is the newest in which ranks have parted, or else the newest. The page needs nothing beside
    itself. Steps around the parting are all there, of the others up to 200.
    """
    from isoradix.report.view import view_page

    report_path(output, "--output")
    groups = find(folder)
    with tracking(f"compare {folder}", len(groups)) as tracker:
        chosen = None
        for number, group in enumerate(reversed(groups)):
            found = compare(group)
            chosen = found if chosen is None or found.parting is not None else chosen
            tracker.reached(number + 1)
            if found.parting is not None:
                break
    assert chosen is not None, "a folder without journals is refused"
    with tracking(f"do {chosen.group.name} again", None) as tracker:
        page = view_page(chosen, command_line(), __version__, tracker.reached)
    save_report(output, page, "--output")
    return OK
