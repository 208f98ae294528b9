"""What was read, in one form whatever it came from: who said it, what it means, and where it stands."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from isoradix.consensus.waits import WaitEntry
from isoradix.doctor.roster import Roster
from isoradix.journal.diff import Comparison


@dataclass(frozen=True)
class Source:
    """Where something stands: a file, its line if that is known, and the text there."""

    path: Path
    line: int | None
    text: str

    def __str__(self) -> str:
        return f"{self.path}" if self.line is None else f"{self.path}:{self.line}"


@dataclass(frozen=True)
class Sign:
    """Something in a log that means something. `label` is how the rank that wrote it calls itself, empty if unknown."""

    kind: str
    label: str
    values: Mapping[str, str]
    source: Source

    def number(self, name: str) -> int:
        return int(self.values[name])


@dataclass(frozen=True)
class Batch:
    """A prefill batch as a server's log shows it: sequences, tokens to compute and found, requests in the queue."""

    sequences: int
    extend_tokens: int
    cached_tokens: int
    queued: int | None
    source: Source

    @property
    def shape(self) -> tuple[int, int, int]:
        """What is to be equal on all ranks."""
        return self.sequences, self.extend_tokens, self.cached_tokens


@dataclass(frozen=True)
class Board:
    """What one rank waited for when its board was read. `aged` is whether the ages count to that moment; the peers of
    its waits are ranks, once all is read."""

    rank: int
    member: int
    alive: bool
    waits: tuple[WaitEntry, ...]
    aged: bool
    source: Source
    domain: int = 0
    stopped: bool = False
    """Whether its process is known to be stopped."""
    plane: str = ""
    """The plane's name, where a rank has several."""


@dataclass(frozen=True)
class Frame:
    """One call of a stack."""

    function: str
    """As the dump has it: newer releases of py-spy put the class before it."""
    file: str
    line: int | None

    @property
    def name(self) -> str:
        """Of the function alone; one of C++ as it is."""
        return self.function if "::" in self.function else self.function.rpartition(".")[2]

    def __str__(self) -> str:
        return f"{self.function} ({self.file}{'' if self.line is None else f':{self.line}'})"


@dataclass(frozen=True)
class Stack:
    """The main thread of one rank, the innermost call first."""

    label: str
    frames: tuple[Frame, ...]
    idle: bool
    source: Source


@dataclass(frozen=True)
class File:
    """A file that was read, and what it is: journal, board, waits, replay, log or stacks."""

    path: Path
    kind: str
    whole: bool = True
    """False if only its end was read."""


@dataclass
class Evidence:
    """All that was read."""

    files: list[File] = field(default_factory=list)
    left_out: list[tuple[Path, str]] = field(default_factory=list)
    """Files of a folder that are no evidence, and why."""
    signs: list[Sign] = field(default_factory=list)
    batches: dict[str, list[Batch]] = field(default_factory=dict)
    """By label, in order of appearance."""
    boards: list[Board] = field(default_factory=list)
    stacks: list[Stack] = field(default_factory=list)
    journals: list[Comparison] = field(default_factory=list)
    roster: Roster = field(default_factory=Roster)

    def of_kind(self, *kinds: str) -> list[Sign]:
        """Signs of these kinds, in the order in which they were read."""
        return [sign for sign in self.signs if sign.kind in kinds]

    def rank(self, label: str) -> int | None:
        return self.roster.rank(label)

    def stack_of(self, rank: int) -> Stack | None:
        """The last stack of a rank."""
        return next((stack for stack in reversed(self.stacks) if self.rank(stack.label) == rank), None)

    def stacks_by_rank(self) -> dict[int, Stack]:
        """The last stack of each rank that has one and is known."""
        ranks = ((self.rank(stack.label), stack) for stack in self.stacks)
        return {rank: stack for rank, stack in ranks if rank is not None}

    def batches_by_rank(self) -> dict[int, list[Batch]]:
        """Of logs that were read from their beginning on: only these can be aligned."""
        whole = {label: batches for label, batches in self.batches.items() if batches[0].source.line is not None}
        ranks = ((self.rank(label), batches) for label, batches in whole.items())
        return {rank: batches for rank, batches in ranks if rank is not None}
