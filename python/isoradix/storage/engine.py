"""What a storage engine is: the blocking half, which may be slow, lose pages, or never return."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from isoradix.storage.call import Call
from isoradix.storage.views import PageViews


@dataclass(frozen=True)
class Capabilities:
    """What an engine is like."""

    zero_copy: bool
    """Pages are read and written in place. Late pages may then still be touched: see `Outcome.wait_released`."""
    checked: bool
    """No page is done that is not what was put under its key."""
    durable: bool
    """A page that is done stays until it is evicted or removed, also when a process or a server ends."""
    shared: bool
    """Other machines see the same pages."""
    key_bytes_max: int
    page_bytes_max: int | None
    """None: no limit of its own."""
    spare_bytes: int = 0
    """Bytes behind each page, in its memory, with which it moves pages faster: see `PageViews.spare`."""


class Engine(Protocol):
    """One connection to a store. Any thread may call, several at a time; `Backend` keeps deadlines and counts.

    An engine raises `TemporaryStorageError` or `PermanentStorageError` for a whole batch, tells the call about single
    pages, and leaves pages pending that it has not come to. Any other exception of it counts as temporary.
    """

    @property
    def capabilities(self) -> Capabilities:
        """What it is like."""

    def register(self, memory: Any) -> None:
        """Gets ready for a memory that pages will lie in. Called once for each, before its first page."""

    def exists(self, keys: Sequence[bytes], call: Call) -> list[bool]:
        """Whether there is something under each key. What is there may still be unreadable."""

    def get(self, keys: Sequence[bytes], views: PageViews, call: Call) -> None:
        """Reads pages and checks them. `Status.DONE` only for what was put under the key, of the view's size."""

    def put(self, keys: Sequence[bytes], views: PageViews, call: Call) -> None:
        """Stores pages. One that is there already may be left as it is: keys name what is in a page."""

    def remove(self, keys: Sequence[bytes], call: Call) -> None:
        """Removes pages, if they are there."""

    def clear(self, call: Call) -> None:
        """Removes all pages of this URL, and nothing else."""

    def usage(self, call: Call) -> Mapping[str, int | float | str]:
        """What the engine says about itself, by name."""

    def close(self) -> None:
        """Gives up the connection. No other call is going on."""
