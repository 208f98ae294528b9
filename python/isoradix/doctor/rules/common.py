"""What several rules need."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from isoradix.doctor.evidence import Evidence, Sign, Source

HANGS: Final = ("timeout", "gloo timeout", "watchdog", "still", "own", "missing", "nobody")
"""Signs that somebody has waited too long."""

OWN: Final = {"ack": "its own copies", "copy": "its own copies", "slots": "slots", "storage": "its storage"}
"""Waits in which no other rank has a part, in words."""


def sources(signs: Sequence[Sign]) -> tuple[Source, ...]:
    """Where signs stand, each place once."""
    return tuple(dict.fromkeys(sign.source for sign in signs))


def speakers(evidence: Evidence, signs: Sequence[Sign]) -> tuple[int, ...]:
    """The ranks that said it."""
    return tuple(sorted({rank for sign in signs if (rank := evidence.rank(sign.label)) is not None}))


def groups_of_ranks(text: str) -> list[list[int]]:
    """Of `rank 3 decided ..., ranks 0,1,2 decided ...`: 3, and 0, 1, 2."""
    words = text.split()
    named = (word for before, word in pairwise(words) if before in ("rank", "ranks"))
    return [[int(one) for one in word.split(",")] for word in named if word.replace(",", "").isdigit()]
