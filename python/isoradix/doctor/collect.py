"""From paths to evidence: what each file is, by its first bytes, and who reads it."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from isoradix import InvalidInputError
from isoradix.doctor import boards, replays, text
from isoradix.doctor.evidence import Evidence, File
from isoradix.doctor.logs import LogReader
from isoradix.doctor.roster import label_in
from isoradix.doctor.stacks import StackReader
from isoradix.journal import layout
from isoradix.journal.diff import compare
from isoradix.journal.folder import Group, grouped
from isoradix.journal.reader import read_head

FILES_MAX: Final = 4_096
_DEPTH: Final = 6

Told = Callable[[str], None]
"""Hears the name of each file before it is read."""


def collect(paths: Sequence[Path], told: Told | None = None, limit: int = text.LIMIT_BYTES) -> Evidence:
    """Reads all files, and all that are in folders.

    Args:
        paths: files and folders.
        told: hears what is being read.
        limit: bytes of a text file that are read, from its end on.

    Raises:
        InvalidInputError: a path is not there, a file is no evidence or cannot be read, or there is nothing to read.
    """
    evidence, journals = Evidence(), list[Path]()
    for path in paths:
        if not path.exists():
            raise InvalidInputError(f"{str(path)!r} is not there\nhint: pass files, or the folder that they are in")
        if not path.is_dir() and not path.is_file():
            raise InvalidInputError(f"{str(path)!r} is no file and no folder\nhint: write a pipe into a file first")
    for path, named in _files(paths):
        if told is not None:
            told(path.name)
        try:
            _take(evidence, path, journals, limit)
        except (InvalidInputError, OSError) as error:
            refused = text.unreadable(path, error) if isinstance(error, OSError) else error
            if named:
                raise refused from error
            evidence.left_out.append((path, str(refused).partition("\n")[0]))
    _take_journals(evidence, journals)
    boards.settle(evidence)
    if not evidence.files:
        what = f"there is no evidence in {', '.join(repr(str(path)) for path in paths)}"
        kinds = "journals, wait boards, isoradix waits --json, logs, stack dumps"
        if evidence.left_out:
            what += f"; {len(evidence.left_out)} files are none, the first: {evidence.left_out[0][1]}"
        raise InvalidInputError(f"{what}\nhint: evidence is {kinds}: docs/doctor.md tells how to collect it")
    return evidence


def _files(paths: Sequence[Path]) -> list[tuple[Path, bool]]:
    """All files, each once, and whether they were named one by one."""
    found: dict[Path, bool] = {}
    for path in paths:
        if path.is_dir():
            for file in _inside(path, _DEPTH):
                found.setdefault(file, False)
        else:
            found[path] = True
        if len(found) > FILES_MAX:
            what = f"there are more than {FILES_MAX} files in {', '.join(repr(str(one)) for one in paths)}"
            raise InvalidInputError(f"{what}\nhint: collect the evidence of one incident in a folder of its own")
    return list(found.items())


def _inside(folder: Path, depth: int) -> list[Path]:
    """The files of a folder in the order of their names, without hidden ones; links to folders are not followed."""
    found: list[Path] = []
    try:
        entries = sorted(folder.iterdir())
    except OSError as error:
        raise text.unreadable(folder, error) from error
    for entry in entries:
        if entry.name.startswith("."):
            continue
        if entry.is_dir():
            if depth and not entry.is_symlink():
                found += _inside(entry, depth - 1)
        elif entry.is_file():
            found.append(entry)
        if len(found) > FILES_MAX:
            break
    return found


def _take(evidence: Evidence, path: Path, journals: list[Path], limit: int) -> None:
    """Reads one file; a journal is only noted, since those of one run are read side by side."""
    begun = text.beginning(path)
    if begun.startswith(layout.MAGIC):
        if path.stat().st_size > layout.EMPTY_BYTES:
            read_head(path)  # refused here, and not among the others of its run
            journals.append(path)
        evidence.files.append(File(path, "journal"))
    elif begun.startswith(boards.MAGIC):
        boards.take_board(evidence, path)
        evidence.files.append(File(path, "board"))
    else:
        text.refuse_what_is_no_text(path, begun)
        if begun.lstrip().startswith(b"{") and (document := boards.read_document(path)) is not None:
            evidence.files.append(File(path, _take_document(evidence, path, document)))
        else:
            _take_text(evidence, path, limit)


def _take_document(evidence: Evidence, path: Path, document: Mapping[str, Any]) -> str:
    match document.get("command"):
        case "waits":
            boards.take_document(evidence, path, document)
            return "waits"
        case "replay" if "ranks" in document:
            replays.take(evidence, path, document)
            return "replay"
        case command:
            what = f"{str(path)!r} is a JSON object with command {command!r}, expected 'waits' or 'replay' with ranks"
            raise InvalidInputError(f"{what}\nhint: pass what isoradix waits --json printed")


def _take_text(evidence: Evidence, path: Path, limit: int) -> None:
    """A log, a stack dump, or both."""
    label = label_in(path.stem)
    log, stacks = LogReader(evidence, path, label), StackReader(evidence, path, label)
    other = False
    for number, line in text.lines(path, limit):
        speaker, said = log.speaker(line)
        evidence.roster.see(speaker)
        if not stacks.take(number, said, speaker):
            other = other or bool(said)
            log.take(number, said, speaker)
    stacks.end()
    log.end()
    evidence.roster.see(label)
    kind = "stacks" if stacks.dumps and not other else "log"
    evidence.files.append(File(path, kind, text.is_whole(path, limit)))


def _take_journals(evidence: Evidence, paths: list[Path]) -> None:
    """Compares the ranks of each run. What ended a rank is a sign like any line of its log."""
    if not paths:
        return
    for group in grouped(paths):
        _see_domain(evidence, group)
        found = compare(group)
        evidence.journals.append(found)
        for rank, (_, how) in sorted(found.ended.items()):
            journal = next(one for one in group.journals if one.rank == rank)
            LogReader(evidence, Path(journal.name), str(rank)).take(None, how, str(rank))


def _see_domain(evidence: Evidence, group: Group) -> None:
    """Which ranks decided together, as far as the first journal says it."""
    head = group.journals[0].head
    members, topology = head.get("members"), head.get("topology")
    named = topology if isinstance(topology, dict) else {}
    sizes = [size for name in ("tp", "cp", "dp") if isinstance(size := named.get(name), int)]
    if isinstance(members, list) and all(isinstance(one, int) for one in members) and len(sizes) == 3:
        evidence.roster.see_domain(members, sizes[0] * sizes[1] * sizes[2])
    else:
        for rank in group.ranks:
            evidence.roster.see(str(rank))
