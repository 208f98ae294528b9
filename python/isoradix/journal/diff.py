"""Where the journals of ranks that were to agree part: the first input and the first decision that differ."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import dropwhile
from typing import Any, Final

import numpy as np

from isoradix import read_frame
from isoradix.journal.decisions import (
    RECORD_BYTES,
    Decided,
    as_json,
    first_unequal,
    groups,
    minority,
    ranks_named,
)
from isoradix.journal.folder import Group
from isoradix.journal.reader import Call, Decisions, End, Entry, Failure, Frame

_AHEAD: Final = 4096
"""Entries after a wrong input among which the first wrong decision is looked for."""
# of a frame's head: byte and name
_FRAME_FIELDS: Final = ((8, "domain"), (16, "epoch"), (24, "step"), (32, "vote"), (40, "now_ms"), (48, "digest"))
_FRAME_HEAD: Final = 64


@dataclass(frozen=True)
class Input:
    """The input that differs: in words what it is in, and what each rank was given."""

    name: str
    by_rank: Mapping[int, str]

    @property
    def culprits(self) -> tuple[int, ...]:
        return minority(self.by_rank)

    def __str__(self) -> str:
        given = (f"{value} on {ranks_named(ranks)}" for value, ranks in groups(self.by_rank)[::-1])
        return f"{self.name}: {', '.join(given)}"


@dataclass(frozen=True)
class Parting:
    """Where ranks part. One of `input` and `decided` may be missing: equal inputs with unequal decisions, or an input
    after which every rank ended."""

    step: int
    last_frame: int | None
    """Step of the last frame that was equal on all ranks."""
    input: Input | None
    decided: Decided | None
    compared: tuple[int, ...]

    @property
    def culprits(self) -> tuple[int, ...]:
        """The ranks at fault; empty if that cannot be said."""
        if self.input is not None:
            return self.input.culprits
        return self.decided.culprits if self.decided is not None else ()

    def as_json(self) -> dict[str, Any]:
        decided = self.decided
        return {
            "step": self.step,
            "seq": None if decided is None else decided.seq,
            "last_common_frame": self.last_frame,
            "input": None
            if self.input is None
            else {"name": self.input.name, "values": {str(rank): value for rank, value in self.input.by_rank.items()}},
            "decisions": None
            if decided is None
            else {str(rank): as_json(one) for rank, one in decided.by_rank.items()},
            "culprits": list(self.culprits),
            "undetermined": not self.culprits,
        }


@dataclass
class Comparison:
    """What comparing a group has found."""

    group: Group
    steps: int = 0
    """Steps that were compared."""
    parting: Parting | None = None
    ended: dict[int, tuple[int, str]] = field(default_factory=dict)
    """Of every rank that was read to its end: the last step that it entered, and how it ended, in words."""


class _Stream:
    """One rank's inputs and decisions, without what is its own alone."""

    def __init__(self, entries: Iterator[Entry], first_step: int) -> None:
        self.step = 0
        self.failure = ""
        self._entries = dropwhile(lambda one: not (isinstance(one, Frame) and one.step >= first_step), entries)

    def next(self) -> Frame | Call | Decisions | End | None:
        """The next entry that is to be equal on all ranks; None at the end."""
        for entry in self._entries:
            match entry:
                case Failure(text):
                    self.failure = text.partition("\n")[0]
                case Call(verb) if verb.own:
                    continue
                case Frame(step):
                    self.step = step
                    return entry
                case _:
                    return entry
        return None


def compare(group: Group) -> Comparison:
    """Reads the journals of a group side by side, up to where they part or all but one have ended."""
    done = Comparison(group)
    first = max(int(journal.head["step"]) for journal in group.journals)
    journals = {journal.rank: journal for journal in group.journals}
    streams = {rank: _Stream(journal.entries(), first) for rank, journal in journals.items()}
    reading, last_frame = dict(streams), None
    while len(reading) > 1:
        heads = {rank: stream.next() for rank, stream in reading.items()}
        for rank in [rank for rank, head in heads.items() if head is None]:
            del heads[rank], reading[rank]
            done.ended[rank] = streams[rank].step, streams[rank].failure or journals[rank].ending
        if len(heads) < 2:
            break
        found = {rank: head for rank, head in heads.items() if head is not None}
        one, *others = found.values()
        if not all(_equal(one, other) for other in others):
            done.parting = _parting(reading, found, last_frame)
            return done
        if isinstance(one, Frame):
            done.steps, last_frame = done.steps + 1, one.step
    for rank, stream in reading.items():
        while stream.next() is not None:  # the one that is left: how it ends
            pass
        done.ended[rank] = stream.step, stream.failure or journals[rank].ending
    return done


def _equal(one: Entry, other: Entry) -> bool:
    match one, other:
        case Frame(), Frame():
            return one.data == other.data
        case Call(), Call():
            return one.verb is other.verb and all(map(_same, one.arguments, other.arguments))
        case _:
            return one == other


def _same(one: Any, other: Any) -> bool:
    return np.array_equal(one, other) if isinstance(one, np.ndarray) else bool(one == other)


def _parting(streams: Mapping[int, _Stream], heads: Mapping[int, Entry], last_frame: int | None) -> Parting:
    step = min(streams[rank].step for rank in heads)
    if all(isinstance(head, Decisions) for head in heads.values()):
        records = {rank: head.data for rank, head in heads.items() if isinstance(head, Decisions)}
        return Parting(step, last_frame, None, first_unequal(records), tuple(heads))
    # where only some were given something, a frame or a call, what the others decided is not their answer to it
    given = {rank: _given(head) for rank, head in heads.items()}
    decided = first_unequal({rank: _following(streams[rank], head) for rank, head in heads.items()})
    if len(set(given.values())) == 1:
        return Parting(step, last_frame, _argument(heads), decided, tuple(heads))
    return Parting(step, last_frame, Input("what comes next", given), decided, tuple(heads))


def _given(entry: Entry) -> str:
    """What an entry is, in a word or two."""
    match entry:
        case Frame():
            return "a frame"
        case Call(verb):
            return verb.name
        case Decisions(data):
            return f"{len(data) // RECORD_BYTES} more decisions"
        case _:
            return "the end of the step"


def _following(stream: _Stream, head: Entry) -> bytes:
    """The decision records from an entry on, as far as they matter."""
    data = head.data if isinstance(head, Decisions) else b""
    for _ in range(_AHEAD):
        entry = stream.next()
        if entry is None:
            break
        if isinstance(entry, Decisions):
            data += entry.data
        if len(data) > _AHEAD * RECORD_BYTES:
            break
    return data


def _argument(heads: Mapping[int, Entry]) -> Input:
    """Which value of equal calls, or of frames, differs."""
    frames = {rank: head for rank, head in heads.items() if isinstance(head, Frame)}
    if frames:
        return _frame_field(frames)
    ends = {rank: head for rank, head in heads.items() if isinstance(head, End)}
    if ends:
        shown = {rank: f"{head.digest:#018x}, tree {head.tree_digest:#018x}" for rank, head in ends.items()}
        return Input("digest at the end of the step", shown)
    calls = {rank: head for rank, head in heads.items() if isinstance(head, Call)}
    verb = next(iter(calls.values())).verb
    for at, (name, kind) in enumerate(verb.arguments):
        values = {rank: call.arguments[at] for rank, call in calls.items()}
        one, *others = values.values()
        if all(_same(one, other) for other in others):
            continue
        if kind == "key":
            return _token(verb.name, values)
        what = f"number of {name}" if kind == "slots" else name
        return Input(f"{what} of {verb.name}", {rank: _shown(kind, value) for rank, value in values.items()})
    raise AssertionError("some argument differs")


def _token(verb: str, keys: Mapping[int, Any]) -> Input:
    """The first token that differs, or the length."""
    shortest = min(map(len, keys.values()))
    one, *others = (key[:shortest] for key in keys.values())
    unequal = np.flatnonzero(np.any([one != other for other in others], axis=0))
    if len(unequal):
        at = int(unequal[0])
        return Input(f"token {at} of the key of {verb}", {rank: str(int(key[at])) for rank, key in keys.items()})
    return Input(f"length of the key of {verb}", {rank: str(len(key)) for rank, key in keys.items()})


def _shown(kind: str, value: Any) -> str:
    match kind:
        case "point":
            return "none" if value is None else f"node {value[0]} at {value[1]}"
        case "anchor":
            return "none" if value is None else f"node {value}"
        case "node":
            return f"node {value}"
        case "hold":
            return f"hold {value}"
        case _:
            return str(value)


def _frame_field(frames: Mapping[int, Frame]) -> Input:
    """The first field of the frames that differs, as the frame's layout names it."""
    for at, name in _FRAME_FIELDS:
        values = {rank: int.from_bytes(frame.data[at : at + 8], "little") for rank, frame in frames.items()}
        if name == "domain":
            values = {rank: value & 0xFFFF_FFFF for rank, value in values.items()}
        if len(set(values.values())) > 1:
            shown = {rank: f"{value:#018x}" if name == "digest" else str(value) for rank, value in values.items()}
            return Input(f"{name} of the frame", shown)
    controls = {rank: str([repr(one) for one in _controls(frame)]) for rank, frame in frames.items()}
    if len(set(controls.values())) > 1:
        return Input("controls of the frame", controls)
    words = {rank: np.frombuffer(frame.data[_FRAME_HEAD:], dtype="u1") for rank, frame in frames.items()}
    shortest = min(map(len, words.values()))
    one, *others = (data[:shortest] for data in words.values())
    unequal = np.flatnonzero(np.any([one != other for other in others], axis=0))
    word = int(unequal[0]) // 8 if len(unequal) else shortest // 8
    begin = _FRAME_HEAD + 8 * word
    values = {
        rank: int.from_bytes(frame.data[begin : begin + 8], "little", signed=True) for rank, frame in frames.items()
    }
    return Input(f"word {word} of the frame's vote", {rank: str(value) for rank, value in values.items()})


def _controls(frame: Frame) -> list[Any]:
    return read_frame(frame.data).controls
