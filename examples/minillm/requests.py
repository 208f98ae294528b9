"""What is asked of the engine: conversations, whose next turn begins when the last one has its answer."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from isoradix import LockReceipt, PrefetchTicket


@dataclass(frozen=True)
class Workload:
    """Users who share a system prompt, each with a conversation of several rounds. Lengths are tokens."""

    users: int = 6
    rounds: int = 3
    system: int = 64
    question: int = 40
    answer: int = 16
    seed: int = 1

    def question_of(self, user: int, turn: int, vocab: int) -> list[int]:
        """The tokens that a user adds in a round; in the first one behind the prompt that all share."""
        own, shared = self._drawn(vocab, self.question, user, turn), self._drawn(vocab, self.system)
        return own if turn else shared + own

    def _drawn(self, vocab: int, count: int, *of: int) -> list[int]:
        draw = np.random.Generator(np.random.PCG64([self.seed, *of]))
        return [int(token) for token in draw.integers(0, vocab, count)]


@dataclass(eq=False)
class Request:
    """One turn: a prompt, and what has become of it."""

    user: int
    turn: int
    tokens: list[int]
    prompt: int  # tokens of it
    answer: int  # tokens that are wanted
    slots: Any = field(default_factory=lambda: np.empty(0, dtype=np.int64))  # of all tokens, and of those to come
    cached: int = 0  # leading slots that are the cache's
    computed: int = 0  # leading tokens whose KV is there, or will be when what is under way has passed
    waits: bool = False  # whether a batch is under way that gives it a token
    drafts: list[int] = field(default_factory=list)
    lock: LockReceipt | None = None
    ticket: PrefetchTicket | None = None  # what external storage was asked for
    known: tuple[int, int] | None = None  # tokens in the upper tiers when that was asked, and tokens fetched by then
    hits: tuple[int, int, int] = (0, 0, 0)  # tokens found on the device, on host, in storage

    @property
    def done(self) -> bool:
        return len(self.tokens) >= self.prompt + self.answer
