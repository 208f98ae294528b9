"""`isoradix waits`."""

from pathlib import Path
from typing import Annotated, Final

import typer

from isoradix import __version__
from isoradix.cli.errors import OK, UsageError
from isoradix.cli.output import show_facts, show_json, show_table
from isoradix.consensus import Diagnosis, RankWaits, all_waits, diagnose
from isoradix.consensus.diagnosis import LONG_S, domains
from isoradix.consensus.waits import ALL, SELF, default_folder

_PEERS: Final = {ALL: "all", SELF: "itself"}

EXAMPLES = """Examples:

  isoradix waits
  isoradix waits out/boards --json
"""


def waits(
    folder: Annotated[
        Path | None, typer.Argument(help="Where the ranks keep their wait boards; this user's own by default.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> int:
    """Show what every rank on this machine waits for: operation, group, peer, want, have, and since when.

    A server that hangs says nothing by itself; its ranks' wait boards do. Below stands what they say together: which
    rank is at fault, and whether that is a collective that a rank has missed, one in which ranks are at different
    places, or something of the rank's own. A board whose process is gone was left by a rank that was killed.
    """
    place = default_folder() if folder is None else folder
    if folder is not None and not folder.is_dir():
        raise UsageError(f"{str(folder)!r} is no folder", "leave it out for this user's own")
    boards = all_waits(place)
    found = [(group[0], diagnose(group, LONG_S)) for group in domains(boards)]
    if json:
        document = {"ranks": [one.as_json() for one in boards], "diagnoses": [_diagnosis(*one) for one in found]}
        show_json({"command": "waits", "version": __version__, "folder": str(place), **document})
        return OK
    rows = [row for board in boards for row in _rows(board)]
    if rows:
        show_table("", ("rank", "process", "operation", "group", "peer", "want", "have", "for"), rows)
    else:
        show_table("", (f"no rank keeps a wait board in {place}",), [])
    apart = [board for board in boards if board.parted is not None]
    parted = [(f"rank {board.rank}", f"has parted before step {board.parted}") for board in apart]
    if told := [*parted, *((_domain(of), one.text) for of, one in found if one.case != "nothing")]:
        show_facts(told)
    return OK


def _domain(of: RankWaits) -> str:
    return f"domain {of.domain}, {of.plane}" if of.plane else f"domain {of.domain}"


def _diagnosis(of: RankWaits, found: Diagnosis) -> dict[str, object]:
    about = {"case": found.case, "ranks": list(found.ranks), "waiting": list(found.waiting)}
    return {"domain": of.domain, "plane": of.plane, **about, "text": found.text}


def _rows(board: RankWaits) -> list[list[str]]:
    process = f"{board.pid}" + ("" if board.alive else ", gone") + (", stopped" if board.stopped else "")
    rank = f"{board.rank}, {board.plane}" if board.plane else str(board.rank)
    if not board.waits:
        return [[rank, process, "-", "", "", "", "", ""]]
    return [
        [
            rank,
            process,
            wait.operation,
            wait.group,
            _PEERS.get(wait.peer, f"member {wait.peer}"),
            str(wait.want),
            str(wait.have),
            f"{wait.age_s:.1f} s",
        ]
        for wait in board.waits
    ]
