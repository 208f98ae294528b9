"""The frame tree: how a frame gets from its leader to every other rank, point to point.

A frame travels as four bytes of length and its own bytes. Whoever has received one says so by a byte on the way back,
so a sender knows without asking how many frames are in flight on each edge; at `depth + 1` of them it waits, which is
the backpressure that keeps the leader near the others. Nothing else is waited for: a frame is handed to the kernel.
"""

import select
import socket
from collections.abc import Callable
from typing import Final

from isoradix import ProtocolError
from isoradix.consensus.links import Lost, read, wait_for, write
from isoradix.consensus.plane import PlaneCounts
from isoradix.consensus.waits import WaitBoard

_LENGTH_BYTES: Final = 4
_LARGEST: Final = 64 + 8 * (20 + 4 * 4096) + 16 * 1024
"""Bytes of a frame of the widest window with all the decisions that there can be."""
_ARRIVED: Final = b"\x06"
_READ_BYTES: Final = 1 << 16

Delivered = Callable[[int, int], None]


class Edge:
    """A connection down which frames go."""

    def __init__(self, member: int, connection: socket.socket) -> None:
        self.member, self.connection = member, connection
        self.in_flight = 0

    def arrived(self) -> int:
        """Frames that have arrived since it was asked last."""
        count = len(read(self.connection, self.in_flight)) if self.in_flight else 0
        self.in_flight -= count
        return count


class FrameTree:
    """One rank's place in the tree.

    Args:
        source: the member from which frames come, and the connection to it; None for the leader.
        receivers: the members to which they go on.
        depth: pipeline stages; frames in flight to a receiver are at most one more.
        waits, counts: where waits are published and counted.
        lost: whether the plane is: then no wait goes on.
    """

    def __init__(
        self,
        source: tuple[int, socket.socket] | None,
        receivers: dict[int, socket.socket],
        depth: int,
        waits: WaitBoard,
        counts: PlaneCounts,
        lost: Lost,
    ) -> None:
        self._source = source
        self._edges = [Edge(member, connection) for member, connection in receivers.items()]
        self._most = depth + 1
        self._waits, self._counts, self._lost = waits, counts, lost
        self._received = b""
        self._sent = 0

    @property
    def in_flight(self) -> int:
        """Frames on the fullest edge that are not known to have arrived."""
        return max((edge.in_flight for edge in self._edges), default=0)

    def make_room(self, delivered: Delivered | None = None) -> None:
        """Waits until one more frame may be sent. `delivered` hears of each edge how many have arrived meanwhile."""
        for number, edge in enumerate(self._edges):
            count = edge.arrived()
            if edge.in_flight >= self._most:
                count += self._wait_for_room(edge)
            if delivered is not None and count:
                delivered(number, count)

    def _wait_for_room(self, edge: Edge) -> int:
        first = self._sent - edge.in_flight + 1
        self._waits.begin("send", edge.member, first, first - 1)
        try:
            wait_for(edge.connection, self._lost)
            return edge.arrived()
        finally:
            self._counts.waited("send", self._waits.end("send"))

    def send(self, frame: bytes) -> None:
        """Sends a frame to every receiver; `make_room` was called before."""
        data = len(frame).to_bytes(_LENGTH_BYTES, "little") + frame
        for edge in self._edges:
            self._write(edge, data)
            edge.in_flight += 1
        self._sent += 1

    def _write(self, edge: Edge, data: bytes) -> None:
        """The kernel has room for frames in flight; where it has none for a large one, that is a wait like others."""
        rest = write(edge.connection, data)
        while rest:
            self._waits.begin("send", edge.member, self._sent + 1, self._sent)
            try:
                wait_for(edge.connection, self._lost, select.POLLOUT)
            finally:
                self._counts.waited("send", self._waits.end("send"))
            rest = write(edge.connection, rest)

    def receive(self, step: int) -> bytes:
        """Waits for the next frame, which is that of `step`."""
        assert self._source is not None, "the leader receives no frames"
        member, connection = self._source
        while (frame := self._take()) is None:
            data = read(connection, _READ_BYTES)
            if not data:
                self._waits.begin("frame", member, step, step - 1)
                try:
                    wait_for(connection, self._lost)
                finally:
                    self._counts.waited("frame", self._waits.end("frame"))
            self._received += data
        write(connection, _ARRIVED)
        return frame

    def _take(self) -> bytes | None:
        """The next frame, if all of it is there."""
        length = int.from_bytes(self._received[:_LENGTH_BYTES], "little")
        if length > _LARGEST:
            what = f"a frame of {length} bytes came, limit {_LARGEST}"
            raise ProtocolError(f"{what}\nhint: start all ranks with one release")
        end = _LENGTH_BYTES + length
        if len(self._received) < max(end, _LENGTH_BYTES + 1):
            return None
        frame, self._received = self._received[_LENGTH_BYTES:end], self._received[end:]
        return frame

    def close(self) -> None:
        """Closes its connections."""
        for edge in self._edges:
            edge.connection.close()
        if self._source is not None:
            self._source[1].close()
