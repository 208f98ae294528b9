"""Plain connections between ranks of a domain.

Reading and writing keep the interpreter's lock: to hand it to a thread that computes costs more than any of them. Only
a wait gives it away.
"""

import select
import socket
import time
from collections.abc import Callable, Collection
from typing import Final

from isoradix import read_at_once, write_at_once
from isoradix.consensus.plane import PlaneLost
from isoradix.consensus.rendezvous import Meeting, lost_at_start
from isoradix.consensus.sockets import spare

_SLICE_MS: Final = 50

Lost = Callable[[], bool]


class LinkBroken(RuntimeError):  # noqa: N818 a state of the link
    """The other end has closed, or the plane was lost while something was waited for."""


def connect(meeting: Meeting, name: str, peers: Collection[int]) -> dict[int, socket.socket]:
    """One connection to each of these members, which call this too: to those below this rank, from those above it.

    Raises:
        PlaneLost: one did not come.
    """
    connections: dict[int, socket.socket] = {}
    try:
        with socket.create_server((meeting.address, 0), backlog=max(1, len(peers))) as server:
            _meet(meeting, name, peers, server, connections)
    except (OSError, PlaneLost) as error:
        for connection in connections.values():
            connection.close()
        if isinstance(error, PlaneLost):
            raise
        raise lost_at_start(f"{name} could not be connected: {error}") from error
    for connection in connections.values():
        spare(connection)
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connections


def _meet(
    meeting: Meeting, name: str, peers: Collection[int], server: socket.socket, connections: dict[int, socket.socket]
) -> None:
    spare(server)
    seconds = meeting.patience.fatal_ms / 1000
    until = time.monotonic() + seconds
    places = meeting.tell(name, f"{meeting.address} {server.getsockname()[1]}")
    above = {peer for peer in peers if peer > meeting.member}
    for member in sorted(set(peers) - above):
        host, port = places[member].rsplit(" ", 1)
        connection = connections[member] = socket.create_connection((host, int(port)), seconds)
        connection.sendall(_greeting(meeting, name, meeting.member))
    while above:
        server.settimeout(max(0.001, until - time.monotonic()))
        connection, _ = server.accept()
        connection.settimeout(max(0.001, until - time.monotonic()))
        greeting = _exactly(connection, len(_greeting(meeting, name, 0)))
        caller = next((peer for peer in above if greeting == _greeting(meeting, name, peer)), None)
        if caller is None:
            connection.close()  # a stranger
            continue
        above.discard(caller)
        connections[caller] = connection


def _greeting(meeting: Meeting, name: str, member: int) -> bytes:
    """Who calls, and what for."""
    return f"isoradix {name} {meeting.epoch:016x} {meeting.place.domain:08x} {member:08x}\n".encode()


def _exactly(connection: socket.socket, size: int) -> bytes:
    """So many bytes, or fewer where the caller closes."""
    data = b""
    while len(data) < size and (part := connection.recv(size - len(data))):
        data += part
    return data


def wait_for(connection: socket.socket, lost: Lost, events: int = select.POLLIN) -> None:
    """Waits until there is something to read, or (POLLOUT) room to write.

    Raises:
        LinkBroken: the plane is lost.
    """
    poll = select.poll()
    poll.register(connection, events)
    while not poll.poll(_SLICE_MS):
        if lost():
            raise LinkBroken("the plane was lost")


def read(connection: socket.socket, most: int) -> bytes:
    """What is there to be read, at once; nothing if there is nothing.

    Raises:
        LinkBroken: the other end has closed.
    """
    try:
        data = read_at_once(connection.fileno(), most)
    except OSError as error:
        raise LinkBroken(f"a connection broke: {error}") from error
    if data == b"":
        raise LinkBroken("a connection was closed by its other end")
    return data or b""


def write(connection: socket.socket, data: bytes) -> bytes:
    """Hands data to the kernel; what it had no room for.

    Raises:
        LinkBroken: the other end has closed.
    """
    try:
        return data[write_at_once(connection.fileno(), data) :]
    except OSError as error:
        raise LinkBroken(f"a connection broke: {error}") from error
