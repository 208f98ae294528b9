"""What tests of a tier of storage have in common."""

import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

from isoradix import Query


class Log:
    """A board that remembers what it is told."""

    window = 64

    def __init__(self) -> None:
        self.heard: list[tuple[Any, ...]] = []

    def post_progress(self, operation: int, tokens: int) -> bool:
        self.heard.append(("progress", operation, tokens))
        return True

    def ended(self, operation: int, succeeded: bool) -> None:
        self.heard.append(("ended", operation, succeeded))

    def finish(self, operation: int) -> None:
        self.heard.append(("finish", operation))


def query(operation: int, asked: Any) -> Query:
    return cast(Query, SimpleNamespace(operation=operation, run=asked))


def until(true: Callable[[], object]) -> None:
    deadline = time.monotonic() + 20
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.002)
