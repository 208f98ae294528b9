"""How a recording reads: what a real scheduler asked of its cache, a line of JSON for each call, in order.

The first line is the `Setting`. Tokens and slots are the recorded server's. A request's tokens are told once and grow;
later events of it bring what was added since, in `more`. `recording` makes them, `playback` plays them.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec


class Event(msgspec.Struct, array_like=True, kw_only=True):
    """One call."""


class Setting(Event, tag="setting"):
    """The first line: what memory there was."""

    slots: int
    page_size: int
    row_length: int
    host_ratio: float
    write_policy: str
    policy: str


class Asked(Event, tag="asked"):
    """A request is seen for the first time."""

    rid: str
    extra_key: str | None
    cache_salt: str | None
    priority: int
    prompt: list[int]


class Step(Event, tag="step"):
    """A round of the scheduler begins. Sizes are in tokens: free, evictable, held."""

    free: int
    evictable: int
    held: int


class Match(Event, tag="match"):
    """The longest prefix of a request's first `length` tokens is looked for; found are `device`, and `host` more."""

    rid: str
    length: int
    more: list[int]
    device: int
    host: int


class Lock(Event, tag="lock"):
    """A node of a request is held: that which its match found on the device, or the deepest (`promised`)."""

    number: int
    rid: str
    promised: bool
    host: bool


class Unlock(Event, tag="unlock"):
    """That lock ends."""

    number: int


class Evict(Event, tag="evict"):
    """So many tokens are to be free."""

    wanted: int
    evicted: int


class LoadBack(Event, tag="load_back"):
    """What host promised a request comes back."""

    rid: str
    promised: int
    loaded: int


class Extend(Event, tag="extend"):
    """A request gets slots for its tokens from `start` on."""

    rid: str
    start: int
    slots: list[int]


class Decode(Event, tag="decode"):
    """Each of the running requests gets one more slot."""

    rids: list[str]
    slots: list[int]


class Checkpoint(Event, tag="checkpoint"):
    """What a request has computed becomes the cache's. Its lock moves, to a new number."""

    rid: str
    up_to: int
    more: list[int]
    finished: bool
    number: int | None


class Free(Event, tag="free"):
    """Slots of a request's row go back, in ranges; its first `protected` were the cache's."""

    rid: str
    ranges: list[tuple[int, int]]
    protected: int


class Release(Event, tag="release"):
    """A request's row ends."""

    rid: str


class Order(Event, tag="order"):
    """The waiting requests are put in an order."""

    rids: list[str]
    order: list[int]


class Poll(Event, tag="poll"):
    """Host copies are asked for."""


class Submit(Event, tag="submit"):
    """Backups begin."""


class Launch(Event, tag="launch"):
    """A batch begins; `waits` if for load-backs."""

    waits: bool


class Reset(Event, tag="reset"):
    """The cache is emptied, and all memory with it."""


Known = (
    Setting
    | Asked
    | Step
    | Match
    | Lock
    | Unlock
    | Evict
    | LoadBack
    | Extend
    | Decode
    | Checkpoint
    | Free
    | Release
    | Order
    | Poll
    | Submit
    | Launch
    | Reset
)
_DECODER: Final = msgspec.json.Decoder(Known)
_ENCODER: Final = msgspec.json.Encoder()


def line(event: Event) -> bytes:
    """An event as a line of a recording."""
    return _ENCODER.encode(event) + b"\n"


def read(path: Path) -> Iterator[Event]:
    """The events of a recording, the setting first."""
    with path.open("rb") as lines:
        for one in lines:
            yield _DECODER.decode(one)
