"""`isoradix waits`."""

from pathlib import Path
from typing import Annotated

import typer

from isoradix import __version__
from isoradix.cli.errors import OK, UsageError
from isoradix.cli.output import show_json, show_table
from isoradix.consensus import RankWaits, all_waits
from isoradix.consensus.waits import default_folder

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

    A server that hangs says nothing by itself; its ranks' wait boards do. A board whose process is gone was left by a
    rank that was killed.
    """
    place = default_folder() if folder is None else folder
    if folder is not None and not folder.is_dir():
        raise UsageError(f"{str(folder)!r} is no folder", "leave it out for this user's own")
    boards = all_waits(place)
    if json:
        show_json(
            {
                "command": "waits",
                "version": __version__,
                "folder": str(place),
                "ranks": [board.as_json() for board in boards],
            }
        )
        return OK
    rows = [row for board in boards for row in _rows(board)]
    if rows:
        show_table("", ("rank", "process", "operation", "group", "peer", "want", "have", "for"), rows)
    else:
        show_table("", (f"no rank keeps a wait board in {place}",), [])
    return OK


def _rows(board: RankWaits) -> list[list[str]]:
    process = f"{board.pid}" if board.alive else f"{board.pid}, gone"
    if not board.waits:
        return [[str(board.rank), process, "-", "", "", "", "", ""]]
    return [
        [
            str(board.rank),
            process,
            wait.operation,
            wait.group,
            "all" if wait.peer < 0 else f"member {wait.peer}",
            str(wait.want),
            str(wait.have),
            f"{wait.age_s:.1f} s",
        ]
        for wait in board.waits
    ]
