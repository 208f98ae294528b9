"""The message that a scheduler relays down its ranks once a step: which requests arrive. A frame rides on it.

It takes the way of frames: from the leader to the rest of its stage, and from rank to rank. A receiver answers each
message with one byte, and on an edge at most the pipeline's depth plus one are unanswered.
"""

import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from isoradix import ProtocolError
from isoradix.cluster.intake import Feed, Request
from isoradix.consensus import PiggybackPlane, PlaneLost

_LENGTH_BYTES: Final = 4
_LOOK_S: Final = 0.1
# within which the plane says whose fault a broken connection is
_VERDICT_S: Final = 3.0
_ANSWER: Final = b"\x06"


class StepMessage(msgspec.Struct, frozen=True, array_like=True):
    """What arrives in a step, and the frame with which it is entered."""

    requests: list[int]
    frame: bytes


class Edge:
    """A connection to one other rank. Nothing on it takes longer than `patience_s`; meanwhile `look` is called."""

    def __init__(self, connection: socket.socket, rank: int, patience_s: float, look: Callable[[], None]) -> None:
        self.rank = rank
        self._connection, self._patience_s, self._look = connection, patience_s, look
        self._unanswered = 0
        connection.settimeout(_LOOK_S)

    def send(self, data: bytes, most: int) -> None:
        """Sends a message, once fewer than `most` are unanswered."""
        while self._unanswered >= most:
            self._receive(1)
            self._unanswered -= 1
        self._connection.sendall(len(data).to_bytes(_LENGTH_BYTES, "little") + data)
        self._unanswered += 1

    def receive(self) -> bytes:
        data = self._receive(int.from_bytes(self._receive(_LENGTH_BYTES), "little"))
        self._connection.sendall(_ANSWER)
        return data

    def _receive(self, size: int) -> bytes:
        data, until = b"", time.monotonic() + self._patience_s
        while len(data) < size:
            try:
                part = self._connection.recv(size - len(data))
            except TimeoutError:
                self._look()
                if time.monotonic() > until:
                    raise
                continue
            if not part:
                raise ConnectionResetError("closed")
            data += part
        return data

    def close(self) -> None:
        self._connection.close()


class RelayedIntake:
    """The leader reads what arrives, all others are told.

    Args:
        feed: the requests of this domain; told is which of them, not what is in them.
        plane: this rank's end, whose frames ride along.
        folder: where the ranks of this machine meet.
        fatal_ms: how long a wait may last.

    Raises:
        PlaneLost: a rank did not come.
    """

    def __init__(self, feed: Feed, plane: PiggybackPlane, folder: Path, fatal_ms: int) -> None:
        self._feed, self._plane = feed, plane
        self._most = plane.topology.pp + 1
        self._patience_s = fatal_ms / 1e3 + _VERDICT_S
        self._message: StepMessage | None = None
        self._encode = msgspec.msgpack.Encoder().encode
        self._decode = msgspec.msgpack.Decoder(StepMessage).decode
        place, topology = plane.place, plane.topology
        receivers = topology.receivers(place.member)
        source = topology.source(place.member)
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(folder / f"relay-{place.rank}"))
            server.listen(len(receivers) + 1)
            plane.gather(b"")  # now all of them listen
            self._source = None if source is None else self._call(topology.rank_of(place.domain, source), folder)
            self._receivers = [self._answer(server) for _ in receivers]

    def _call(self, rank: int, folder: Path) -> Edge:
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(str(folder / f"relay-{rank}"))
        connection.sendall(self._plane.place.rank.to_bytes(_LENGTH_BYTES, "little"))
        return Edge(connection, rank, self._patience_s, self._plane.check)

    def _answer(self, server: socket.socket) -> Edge:
        server.settimeout(self._patience_s)
        connection, _ = server.accept()
        rank = int.from_bytes(connection.recv(_LENGTH_BYTES, socket.MSG_WAITALL), "little")
        return Edge(connection, rank, self._patience_s, self._plane.check)

    def arrivals(self, most: int) -> list[Request]:
        """What arrives in the coming step."""
        if self._source is None:
            requests = self._feed.take(most)
            self._message = StepMessage([request.index for request in requests], b"")
            return requests
        try:
            message = self._decode(self._source.receive())
        except OSError as error:
            raise self._lost(self._source, error) from error
        self._plane.deliver(message.frame)
        self._message = message
        requests = self._feed.take(len(message.requests))
        if [request.index for request in requests] != message.requests:
            what = f"requests {message.requests} arrive, and here {[request.index for request in requests]}"
            raise ProtocolError(f"{what}\nhint: start all ranks on one trace")
        return requests

    def relay(self) -> None:
        """Tells the next ranks."""
        message = self._message
        assert message is not None, "arrivals come first"
        if self._source is None:
            message = StepMessage(message.requests, self._plane.take())
        data = self._encode(message)
        for edge in self._receivers:
            try:
                edge.send(data, self._most)
            except OSError as error:
                raise self._lost(edge, error) from error

    def _lost(self, edge: Edge, error: OSError) -> PlaneLost:
        """The plane knows better than a broken connection whose fault it is."""
        until = time.monotonic() + _VERDICT_S
        while time.monotonic() < until:
            self._plane.check()
            time.sleep(_LOOK_S)
        what = f"no message to or from rank {edge.rank} gets through: {error}"
        return PlaneLost(f"{what}\nhint: look at that rank's log", (edge.rank,), what)
