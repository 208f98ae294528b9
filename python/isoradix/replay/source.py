"""What a replay iterates: the prompts of a trace file or of a built-in workload."""

import stat
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Protocol

from isoradix.replay.blocks import BlockTable, Tokens
from isoradix.replay.trace import count_requests, read_trace, unreadable
from isoradix.replay.workloads import generate


class Source(Protocol):
    """Prompts in order, with a name and a number for people."""

    @property
    def name(self) -> str: ...
    @property
    def total(self) -> int | None: ...
    @property
    def repeatable(self) -> bool: ...
    def __iter__(self) -> Iterator[Tokens]: ...


@dataclass(frozen=True)
class TraceSource:
    """The first `limit` requests of a Mooncake trace, expanded to tokens as they are read."""

    path: Path
    limit: int | None = None

    @property
    def name(self) -> str:
        # bytes that are no text cannot be shown
        return self.path.name.encode(errors="replace").decode()

    @cached_property
    def repeatable(self) -> bool:
        """Whether it can be iterated again; a pipe cannot."""
        try:
            return stat.S_ISREG(self.path.stat().st_mode)
        except OSError as error:
            raise unreadable(self.path, error) from error

    @cached_property
    def total(self) -> int | None:
        """How many requests there will be; a pipe does not tell."""
        if not self.repeatable:
            return self.limit
        count = count_requests(self.path)
        return count if self.limit is None else min(count, self.limit)

    def __iter__(self) -> Iterator[Tokens]:
        table = BlockTable()
        for request in read_trace(self.path, self.limit):
            yield table.tokens(request.hash_ids, request.input_length)


@dataclass(frozen=True)
class WorkloadSource:
    """The first `total` prompts of a built-in workload."""

    kind: str
    total: int
    seed: int
    repeatable: bool = True

    @property
    def name(self) -> str:
        return f"{self.kind} workload, seed {self.seed}"

    def __iter__(self) -> Iterator[Tokens]:
        return islice(generate(self.kind, self.seed), self.total)
