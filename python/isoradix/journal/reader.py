"""What a journal says, entry by entry."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from isoradix import InvalidInputError
from isoradix.journal import layout
from isoradix.journal.layout import Ending, Kind, NoSegmentError
from isoradix.journal.verbs import CallReader, Verb

_TEXTS: Final = ("release", "run")
_NUMBERS: Final = ("rank", "member", "domain", "epoch", "segment", "step", "dropped_bytes")


@dataclass(frozen=True)
class Frame:
    """A step is entered: by these bytes, with that digest of this rank's own."""

    step: int
    digest: int
    data: bytes


@dataclass(frozen=True)
class Call:
    """A verb, and its arguments in its own order."""

    verb: Verb
    arguments: tuple[Any, ...]


@dataclass(frozen=True)
class Decisions:
    """Records of what came of the entry before, 64 bytes each."""

    data: bytes


@dataclass(frozen=True)
class End:
    """A step is closed, with these digests."""

    step: int
    digest: int
    tree_digest: int


@dataclass(frozen=True)
class Failure:
    """What ended the rank."""

    text: str


Entry = Frame | Call | Decisions | End | Failure


class Journal:
    """One rank's journal: its segments, in order.

    Args:
        paths: the segments' files.

    Raises:
        InvalidInputError: a file is no journal, or cannot be read; or segments are not of one rank's journal.
    """

    def __init__(self, paths: list[Path]) -> None:
        heads = sorted(((read_head(path), path) for path in paths), key=lambda one: int(one[0]["segment"]))
        self.head: dict[str, Any] = heads[0][0]
        self.paths = [path for _, path in heads]
        self.ending = ""
        """Once all is read: how it ends where that is not the end of a step, in words."""
        self._heads = [head for head, _ in heads]

    @property
    def rank(self) -> int:
        """Of the deployment."""
        return int(self.head["rank"])

    @property
    def whole(self) -> bool:
        """Whether it begins where its rank did."""
        return int(self.head["segment"]) == 0 and int(self.head["step"]) == 1

    @property
    def name(self) -> str:
        """Of a file, for people."""
        return str(self.paths[-1])

    def entries(self) -> Iterator[Entry]:
        """All entries, up to where it ends or has a gap."""
        self.ending = ""
        for number, (head, path) in enumerate(zip(self._heads, self.paths, strict=True)):
            if number and (lost := self._gap(self._heads[number - 1], head)):
                self.ending = f"{lost}; what follows, from step {head['step']} on, is not read"
                return
            try:
                yield from _entries_of(path)
            except Ending as ending:
                self.ending = f"{path.name} is {ending}"
                if ending.damaged or number + 1 < len(self.paths):
                    self.ending += "; what follows is not read"
                return

    @staticmethod
    def _gap(before: dict[str, Any], after: dict[str, Any]) -> str:
        """What lies between two segments, in words."""
        if after["segment"] != before["segment"] + 1:
            return f"segment {before['segment'] + 1} is missing"
        if after["dropped_bytes"]:
            return f"{after['dropped_bytes']:,} bytes were dropped, because the disk was too slow"
        return ""


def open_journal(path: Path) -> Journal:
    """The journal of which a file is a segment, with all its segments beside that file.

    Raises:
        InvalidInputError: it is none.
    """
    head = read_head(path)
    stem = path.name.removesuffix(layout.SUFFIX).rpartition(".")[0]
    beside = sorted(path.parent.glob(f"{stem}.*{layout.SUFFIX}")) if stem else []
    same = [one for one in beside if one != path and _is_of(read_head(one), head)]
    return Journal([path, *same])


def _is_of(head: dict[str, Any], other: dict[str, Any]) -> bool:
    return all(head[name] == other[name] for name in ("run", "epoch", "domain", "rank"))


def read_head(path: Path) -> dict[str, Any]:
    """What the head of a segment says.

    Raises:
        InvalidInputError: it is none.
    """
    try:
        with path.open("rb") as stream:
            first = next(layout.blocks(stream, path.stat().st_size), b"")
        kind, data = next(layout.entries(first), (None, b""))
        head = json.loads(data) if kind is Kind.HEAD else None
    except OSError as error:
        raise _refused(path, f"cannot be read: {(error.strerror or str(error)).lower()}") from error
    except Ending as error:
        raise _refused(path, f"is {error}, and has no head") from error
    except (NoSegmentError, ValueError) as error:
        raise _refused(path, f"is no journal: {error}") from error
    if not isinstance(head, dict) or not all(isinstance(head.get(name), int) for name in _NUMBERS):
        raise _refused(path, "is no journal: it has no head")
    if not all(isinstance(head.get(name), str) for name in _TEXTS):
        raise _refused(path, "is no journal: it has no head")
    return head


def _refused(path: Path, what: str) -> InvalidInputError:
    return InvalidInputError(f"{str(path)!r} {what}\nhint: pass a file that a rank has written, rank-0000.000.journal")


def _entries_of(path: Path) -> Iterator[Entry]:
    """Those of one segment, without its head."""
    calls = CallReader()
    at = 0
    with path.open("rb") as stream:
        for block in layout.blocks(stream, path.stat().st_size):
            try:
                for kind, data in layout.entries(block):
                    if kind is not Kind.HEAD:
                        yield _decode(kind, data, calls)
            except ValueError as error:
                raise Ending(at, True) from error
            at = stream.tell()


def _decode(kind: Kind, data: bytes, calls: CallReader) -> Entry:
    match kind:
        case Kind.FRAME if len(data) >= layout.FRAME.size:
            step, digest = layout.FRAME.unpack_from(data)
            return Frame(step, digest, data[layout.FRAME.size :])
        case Kind.CALL:
            return Call(*calls.decode(data))
        case Kind.DECISIONS if not len(data) % 64:
            return Decisions(data)
        case Kind.END if len(data) == layout.END.size:
            return End(*layout.END.unpack(data))
        case Kind.FAILURE:
            return Failure(data.decode(errors="replace"))
        case _:
            raise ValueError(f"an entry of kind {kind} has {len(data)} bytes")
