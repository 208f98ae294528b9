"""The frame chain: how a frame gets from its leader to every other rank, point to point.

A frame travels in an envelope of fixed size, so that the receiver can ask for it before it knows the frame: eight bytes
of length, then as much of the frame as fits; a longer one (many decisions in one step) is followed by its rest. An
`isend` of gloo completes when its peer receives, and cannot be asked whether it has. So a frame counts as in flight
until a vote says that every rank has applied it; where none says so in time, `depth + 1` frames later, its sends are
waited for. If that wait blocks, it is the backpressure that bounds the frames in flight.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch

from isoradix import ProtocolError
from isoradix.consensus.patient import FOREVER, Lost, SendWaiter
from isoradix.consensus.plane import PlaneCounts
from isoradix.consensus.rendezvous import Group
from isoradix.consensus.waits import WaitBoard

_LENGTH_BYTES: Final = 8
_HEAD_BYTES: Final = 64
_CONTROL_BYTES: Final = 16
_CONTROLS_INSIDE: Final = 8
_CONTROLS_MAX: Final = 1024
_TAG: Final = 0


Reaped = Callable[[int], None]
Envelope = tuple[torch.Tensor, Any]


@dataclass(frozen=True)
class _Sent:
    """A frame in flight: its sends, by edge."""

    step: int
    envelope: Envelope
    works: list[list[Any]]


class FrameChain:
    """One rank's place in the chain.

    Args:
        group: the frames' own group.
        source: the member from which frames come; None for the leader.
        receivers: the members to which they go on.
        depth: pipeline stages; frames in flight to a receiver are at most one more.
        words: of a ballot.
        waits, counts: where waits are published and counted.
        lost: whether the plane is, for waits that gloo may leave without an end.
    """

    def __init__(
        self,
        group: Group,
        source: int | None,
        receivers: tuple[int, ...],
        depth: int,
        words: int,
        waits: WaitBoard,
        counts: PlaneCounts,
        lost: Lost,
    ) -> None:
        self._sends = SendWaiter(lost) if receivers else None
        self._gloo, self._group = group.gloo, group
        self._source, self._receivers = source, receivers
        self._targets = [group.index(member) for member in receivers]
        self._waits, self._counts = waits, counts
        vote_bytes = 8 * words
        self._largest = _HEAD_BYTES + vote_bytes + _CONTROL_BYTES * _CONTROLS_MAX
        self._room = _HEAD_BYTES + vote_bytes + _CONTROL_BYTES * _CONTROLS_INSIDE
        self._incoming = self._envelope()
        self._free = deque(self._envelope() for _ in range(depth + 1)) if receivers else deque()
        self._in_flight: deque[_Sent] = deque()

    def _envelope(self) -> Envelope:
        tensor = torch.zeros(_LENGTH_BYTES + self._room, dtype=torch.uint8)
        return tensor, memoryview(tensor.numpy().data)

    @property
    def in_flight(self) -> int:
        """Frames whose sends have not been waited for."""
        return len(self._in_flight)

    def send(self, step: int, frame: bytes, reaped: Reaped | None = None) -> None:
        """Sends the frame of a step to every receiver; where all envelopes are on their way, waits for the oldest to
        arrive.

        `reaped` hears of each edge over which a frame has arrived.
        """
        if not self._receivers:
            return
        if not self._free:
            self.reap(reaped)
        envelope = self._free.popleft()
        tensor, view = envelope
        inside = min(len(frame), self._room)
        view[:_LENGTH_BYTES] = len(frame).to_bytes(_LENGTH_BYTES, "little")
        view[_LENGTH_BYTES : _LENGTH_BYTES + inside] = frame[:inside]
        works = [[self._gloo.send([tensor], target, _TAG)] for target in self._targets]
        if len(frame) > inside:
            rest = torch.from_numpy(np.frombuffer(frame, dtype=np.uint8)[inside:].copy())
            for target, sends in zip(self._targets, works, strict=True):
                sends.append(self._gloo.send([rest], target, _TAG))
        self._in_flight.append(_Sent(step, envelope, works))

    def arrived(self, step: int, reaped: Reaped | None = None) -> None:
        """Every rank has applied the frame of `step`, a vote says: it has arrived, and so have those before it."""
        while self._in_flight and self._in_flight[0].step <= step:
            self._let_go(reaped)

    def reap(self, reaped: Reaped | None = None) -> None:
        """Waits until the oldest frame in flight has arrived on every edge."""
        sent = self._in_flight[0]
        self._waits.begin("send", self._receivers[0], sent.step, self._in_flight[-1].step)
        try:
            assert self._sends is not None, "a rank without receivers sends nothing"
            self._sends.wait([work for sends in sent.works for work in sends])
        finally:
            self._note("send", self._waits.end("send"))
        self._let_go(reaped)

    def _let_go(self, reaped: Reaped | None) -> None:
        self._free.append(self._in_flight.popleft().envelope)
        if reaped is not None:
            for edge in range(len(self._receivers)):
                reaped(edge)

    def receive(self, step: int) -> bytes:
        """Waits for the next frame, which is that of `step`."""
        assert self._source is not None, "the leader receives no frames"
        tensor, view = self._incoming
        self._waits.begin("frame", self._source, step, step - 1)
        try:
            self._receive(tensor)
            length = int.from_bytes(view[:_LENGTH_BYTES], "little")
            if length > self._largest:
                what = f"a frame of {length} bytes came, limit {self._largest}"
                raise ProtocolError(f"{what}\nhint: start all ranks with one release and one window")
            frame = bytes(view[_LENGTH_BYTES : _LENGTH_BYTES + min(length, self._room)])
            if length > self._room:
                rest = torch.empty(length - self._room, dtype=torch.uint8)
                self._receive(rest)
                frame += rest.numpy().tobytes()
        finally:
            self._note("frame", self._waits.end("frame"))
        return frame

    def _receive(self, tensor: torch.Tensor) -> None:
        self._gloo.recv([tensor], self._group.index(self._source or 0), _TAG).wait(FOREVER)

    def drain(self) -> None:
        """Waits until all that was sent has arrived."""
        while self._in_flight:
            self.reap()

    def close(self) -> None:
        """Ends its thread."""
        if self._sends is not None:
            self._sends.end()

    def _note(self, operation: str, seconds: float) -> None:
        self._counts.waits[operation] = self._counts.waits.get(operation, 0) + 1
        self._counts.wait_seconds[operation] = self._counts.wait_seconds.get(operation, 0.0) + seconds
