"""Keeps what the ranks of a run leave, for `isoradix doctor`: their logs, and their wait boards while they hang."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from isoradix import InvalidInputError, __version__
from isoradix.consensus.waits import RankWaits, default_folder, read_waits

BOARDS: Final = "waits.json"


class Keeper:
    """Looks at the boards of a run again and again, and keeps those of the last moment when somebody waited long and
    all were still there.

    Args:
        folder: where all of it goes; made if it is not there.
        report_ms: waits that last as long are worth keeping.

    Raises:
        InvalidInputError: the folder cannot be made.
    """

    def __init__(self, folder: Path, report_ms: int) -> None:
        self._folder, self._report_s = folder, report_ms / 1e3
        self._boards: list[RankWaits] = []
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            what = f"--evidence is {str(folder)!r}, which cannot be made: {(error.strerror or str(error)).lower()}"
            raise InvalidInputError(f"{what}\nhint: name a folder, out/evidence say") from error

    def look(self, processes: Mapping[int, int]) -> None:
        """Looks at the boards of these ranks, given by their process ids."""
        boards = [board for rank, pid in processes.items() if (board := _board(rank, pid)) is not None]
        waits = [wait for board in boards for wait in board.waits]
        is_long = any(wait.age_s >= self._report_s or wait.operation == "pause" for wait in waits)
        if is_long and len(boards) >= len(self._boards):  # a rank that ends takes its board with it
            self._boards = boards

    def keep(self, logs: Mapping[int, Path]) -> None:
        """The run is over: writes what there is."""
        for rank, path in logs.items():
            shutil.copyfile(path, self._folder / f"rank-{rank:04}.log")
        if self._boards:
            about = {"command": "waits", "version": __version__, "folder": str(default_folder())}
            document = {**about, "ranks": [board.as_json() for board in self._boards]}
            (self._folder / BOARDS).write_text(json.dumps(document, indent=2) + "\n")


def _board(rank: int, pid: int) -> RankWaits | None:
    try:
        return read_waits(default_folder() / f"{pid}-rank{rank}.waits")
    except (InvalidInputError, OSError):
        return None
