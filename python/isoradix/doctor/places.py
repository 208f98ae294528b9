"""Where a thread stands: in a collective, in a message to or from one rank, on the device, or in something of its own.

A rank that waits for other ranks is no culprit; one that waits for something of its own, while others wait for it, is.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from isoradix.doctor.evidence import Frame, Stack

Kind = Literal["collective", "message", "device", "idle", "own"]

_COLLECTIVES: Final = frozenset(
    {
        "all_gather",
        "all_gather_into_tensor",
        "all_gather_object",
        "all_reduce",
        "all_to_all",
        "all_to_all_single",
        "allreduce",
        "barrier",
        "broadcast",
        "broadcast_object_list",
        "broadcast_pyobj",
        "gather",
        "gather_object",
        "monitored_barrier",
        "reduce",
        "reduce_scatter",
        "reduce_scatter_tensor",
        "scatter",
        "wait_collective",
    }
)
_MESSAGES: Final = re.compile(
    r"(?:batch_)?i?(?:send|recv)(?:_any_source|_object_list|_tensor_dict|_object)?|point_to_point_pyobj|receive"
    r"|_?pp_\w*(?:send|recv|commit|comm)\w*|make_room|_wait_for_room"
)
# where such a name means what it says: a `send` or a `reduce` may be anything elsewhere
_TRANSPORTS: Final = re.compile(
    r"distributed|c10d|parallel_state|communicat|pynccl|reducers|patient|links|frames|relay"
)
_PIPELINE: Final = re.compile(r"_?pp_\w+|point_to_point_pyobj|broadcast_pyobj")
_NATIVE: Final = re.compile(r"gloo::|c10d::|nccl\w*\b.*\(libnccl|ncclGroupEnd")
_DEVICE: Final = re.compile(
    r"synchronize|_?cuda_?synchronize|cudaEventSynchronize|cudaStreamSynchronize|item|tolist|cpu"
)
_IDLE: Final = re.compile(r"recv_requests|_?maybe_sleep_on_idle|sleep_on_idle|self_check_during_idle|recv_pyobj")
# calls that say how a thread waits, and not for what
_HOW: Final = re.compile(
    r"^(?:threading|queue|selectors|socket|ssl|subprocess|time|contextlib|runpy)\.py$|concurrent/futures|asyncio/|^<"
)
_CALLERS_SHOWN: Final = 3
# this package: the wait for copies of this rank's own
_OWN_COPIES: Final = frozenset({"_catch_up", "wait_layer"})


@dataclass(frozen=True)
class Place:
    """Where a thread stands. `operation` is the collective or message, `callers` the calls that asked for it."""

    kind: Kind
    operation: str
    callers: tuple[Frame, ...]

    @property
    def caller(self) -> Frame | None:
        return self.callers[0] if self.callers else None

    @property
    def slot(self) -> tuple[str, str]:
        """Equal on ranks that wait in the same place of their programs."""
        return self.operation, "" if self.caller is None else self.caller.name

    def __str__(self) -> str:
        """`all_reduce of check (tree.py:12), called by admit, step`."""
        if not self.callers:
            return self.operation
        first, *others = self.callers[:_CALLERS_SHOWN]
        called = f", called by {', '.join(frame.name for frame in others)}" if others else ""
        return f"{first}{called}" if self.kind == "own" else f"{self.operation} of {first}{called}"


def place_of(stack: Stack) -> Place:
    """Where the main thread of a rank stands."""
    frames = stack.frames
    for at, frame in enumerate(frames):
        if frame.name in _OWN_COPIES:
            return Place("own", "", _callers(frames[at:]))
        if (kind := _waits(frame)) is not None:
            return _outward(kind, frames, at)
        if _NATIVE.search(f"{frame.function} ({frame.file}"):
            return _native(frames, at)
    if (idle := next((frame for frame in frames if _IDLE.fullmatch(frame.name)), None)) is not None:
        return Place("idle", idle.name, ())
    if _DEVICE.fullmatch(frames[0].name):
        return Place("device", frames[0].name, _callers(frames[1:]))
    return Place("own", "", _callers(frames) or frames[:1])


def _callers(frames: Iterable[Frame]) -> tuple[Frame, ...]:
    """Without calls that say how a thread waits, and not for what."""
    return tuple(frame for frame in frames if not _HOW.search(frame.file))


def _waits(frame: Frame) -> Kind | None:
    """Whether a call waits for other ranks."""
    if not _TRANSPORTS.search(frame.file) and not _PIPELINE.fullmatch(frame.name):
        return None
    if frame.name in _COLLECTIVES:
        return "collective"
    return "message" if _MESSAGES.fullmatch(frame.name) else None


def _outward(kind: Kind, frames: tuple[Frame, ...], at: int) -> Place:
    """The outermost call that is still part of the transport names the operation; who calls that is the caller."""
    outer = at
    for number in range(at, len(frames)):
        if _waits(frames[number]) is not None:
            outer = number
        elif not _TRANSPORTS.search(frames[number].file) and not _HOW.search(frames[number].file):
            break
    callers = _callers(frame for frame in frames[outer + 1 :] if not _TRANSPORTS.search(frame.file))
    return Place(_waits(frames[outer]) or kind, frames[outer].name, callers)


def _native(frames: tuple[Frame, ...], at: int) -> Place:
    """Below Python, as `py-spy dump --native` shows it."""
    for number in range(at + 1, len(frames)):
        if (found := _waits(frames[number])) is not None:
            return _outward(found, frames, number)
    kind: Kind = "message" if re.search(r"[Ss]end|[Rr]ecv", frames[at].function) else "collective"
    python = _callers(frame for frame in frames[at + 1 :] if frame.file.endswith(".py"))
    return Place(kind, "a wait of the transport", python)
