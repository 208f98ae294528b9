"""A board that a tier of storage reports to."""

from typing import Any


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
