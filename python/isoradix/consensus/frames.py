"""The frame chain: how a frame gets from its leader to every other rank, point to point.

A frame travels in an envelope of fixed size, so that the receiver can ask for it before it knows the frame: eight bytes
of length, then as much of the frame as fits; a longer one (many decisions in one step) is followed by its rest. An
`isend` of gloo completes when its peer receives, and cannot be asked whether it has; so a thread waits for the sends of
one frame after the other, and counts. Where `depth + 1` frames are on their way the sender waits for the oldest: the
backpressure that bounds the frames in flight.
"""

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import torch

from isoradix import ProtocolError
from isoradix.consensus.patient import FOREVER, Deliveries, Lost
from isoradix.consensus.plane import PlaneCounts
from isoradix.consensus.rendezvous import Group
from isoradix.consensus.waits import WaitBoard

_LENGTH_BYTES: Final = 8
_HEAD_BYTES: Final = 64
_CONTROL_BYTES: Final = 16
_CONTROLS_INSIDE: Final = 8
_CONTROLS_MAX: Final = 1024
_TAG: Final = 0


Reaped = Callable[[int, int], None]
Envelope = tuple[torch.Tensor, Any]


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
        self._deliveries = Deliveries(lost) if receivers else None
        self._gloo, self._group = group.gloo, group
        self._source, self._receivers = source, receivers
        self._targets = [group.index(member) for member in receivers]
        self._waits, self._counts = waits, counts
        vote_bytes = 8 * words
        self._largest = _HEAD_BYTES + vote_bytes + _CONTROL_BYTES * _CONTROLS_MAX
        self._room = _HEAD_BYTES + vote_bytes + _CONTROL_BYTES * _CONTROLS_INSIDE
        self._incoming = self._envelope()
        self._envelopes = [self._envelope() for _ in range(depth + 1)]
        self._sent = self._reaped = 0

    def _envelope(self) -> Envelope:
        tensor = torch.zeros(_LENGTH_BYTES + self._room, dtype=torch.uint8)
        return tensor, memoryview(tensor.numpy().data)

    @property
    def in_flight(self) -> int:
        """Frames that are not known to have arrived with every receiver."""
        return self._sent - (0 if self._deliveries is None else self._deliveries.done)

    def send(self, frame: bytes) -> None:
        """Sends a frame to every receiver; `make_room` was called before."""
        if self._deliveries is None:
            return
        tensor, view = self._envelopes[self._sent % len(self._envelopes)]
        inside = min(len(frame), self._room)
        view[:_LENGTH_BYTES] = len(frame).to_bytes(_LENGTH_BYTES, "little")
        view[_LENGTH_BYTES : _LENGTH_BYTES + inside] = frame[:inside]
        works = [self._gloo.send([tensor], target, _TAG) for target in self._targets]
        if len(frame) > inside:
            rest = torch.from_numpy(np.frombuffer(frame, dtype=np.uint8)[inside:].copy())
            works += [self._gloo.send([rest], target, _TAG) for target in self._targets]
        self._deliveries.watch(works)
        self._sent += 1

    def make_room(self, reaped: Reaped | None = None) -> None:
        """Waits until one more frame may be sent. `reaped` hears of each edge how many have arrived since it was told
        last."""
        if self._deliveries is None:
            return
        done = self._deliveries.done
        if self._sent - done == len(self._envelopes):
            self._wait(done + 1)
            done = self._deliveries.done
        if reaped is not None and done != self._reaped:
            for edge in range(len(self._receivers)):
                reaped(edge, done - self._reaped)
            self._reaped = done

    def drain(self) -> None:
        """Waits until all that was sent has arrived."""
        if self.in_flight:
            self._wait(self._sent)

    def _wait(self, arrived: int) -> None:
        assert self._deliveries is not None, "a rank without receivers sends nothing"
        self._waits.begin("send", self._receivers[0], arrived, self._deliveries.done)
        try:
            self._deliveries.wait(arrived)
        finally:
            self._note("send", self._waits.end("send"))

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

    def close(self) -> None:
        """Ends its thread."""
        if self._deliveries is not None:
            self._deliveries.end()

    def _note(self, operation: str, seconds: float) -> None:
        self._counts.waits[operation] = self._counts.waits.get(operation, 0) + 1
        self._counts.wait_seconds[operation] = self._counts.wait_seconds.get(operation, 0.0) + seconds
