"""The requests of one domain, in order, and who says which of them arrive in a step."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

from isoradix.replay.blocks import Tokens
from isoradix.replay.source import Source


@dataclass(frozen=True)
class Request:
    """A prompt, cut to whole pages; `index` is its place in the source."""

    index: int
    key: Tokens

    @property
    def steps(self) -> int:
        """How many steps it runs after the one that admits it: a function of the request alone."""
        return 1 + (self.index * 0x9E37_79B1 >> 16) % 4


class Feed:
    """The requests that one domain serves: of `domains`, each takes its turn."""

    def __init__(self, source: Source, page_size: int, domain: int = 0, domains: int = 1) -> None:
        self._page = page_size
        self.skipped = 0
        """Requests so far that are shorter than a page."""
        self._requests = self._whole(islice(enumerate(source), domain, None, domains))
        self._ahead: deque[Request] = deque(islice(self._requests, 1))

    @property
    def exhausted(self) -> bool:
        return not self._ahead

    def take(self, most: int) -> list[Request]:
        """The next requests, at most so many."""
        taken: list[Request] = []
        while self._ahead and len(taken) < most:
            taken.append(self._ahead.popleft())
            self._ahead.extend(islice(self._requests, 1))
        return taken

    def _whole(self, prompts: Iterator[tuple[int, Tokens]]) -> Iterator[Request]:
        for index, prompt in prompts:
            length = len(prompt) // self._page * self._page
            if length:
                yield Request(index, prompt[:length])
            else:
                self.skipped += 1


class Intake(Protocol):
    """Who says which requests arrive in a step. Calls come from the scheduler's thread, in this order, once a step."""

    def arrivals(self, most: int) -> list[Request]:
        """Those of the coming step, at most so many; before the step is entered."""

    def relay(self) -> None:
        """Tells the next ranks; once the step is entered."""


class OwnIntake:
    """Every rank reads the same requests by itself: there is nothing to tell."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed

    def arrivals(self, most: int) -> list[Request]:
        return self._feed.take(most)

    def relay(self) -> None:
        """Nothing."""
