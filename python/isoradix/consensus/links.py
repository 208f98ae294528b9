"""Plain connections between ranks of a domain."""

import select
import socket
from collections.abc import Callable, Collection
from typing import Final

from isoradix.consensus.rendezvous import Meeting, lost_at_start
from isoradix.consensus.sockets import spare

_MEMBER_BYTES: Final = 4
_SLICE_MS: Final = 50

Lost = Callable[[], bool]


class LinkBroken(RuntimeError):  # noqa: N818 a state of the link
    """The other end has closed, or the plane was lost while something was waited for."""


def connect(meeting: Meeting, name: str, peers: Collection[int]) -> dict[int, socket.socket]:
    """One connection to each of these members, which call this too: to those below this rank, from those above it.

    Raises:
        PlaneLost: one did not come.
    """
    seconds = meeting.patience.fatal_ms / 1000
    connections: dict[int, socket.socket] = {}
    try:
        with socket.create_server((meeting.address, 0), backlog=max(1, len(peers))) as server:
            spare(server)
            server.settimeout(seconds)
            places = meeting.tell(name, f"{meeting.address} {server.getsockname()[1]}")
            for member in sorted(peer for peer in peers if peer < meeting.member):
                host, port = places[member].rsplit(" ", 1)
                connection = connections[member] = socket.create_connection((host, int(port)), seconds)
                connection.sendall(meeting.member.to_bytes(_MEMBER_BYTES, "little"))
            while len(connections) < len(peers):
                connection, _ = server.accept()
                connection.settimeout(seconds)
                caller = connection.recv(_MEMBER_BYTES, socket.MSG_WAITALL)
                connections[int.from_bytes(caller, "little")] = connection
    except OSError as error:
        raise lost_at_start(f"{name} could not be connected: {error}") from error
    for connection in connections.values():
        spare(connection)
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connections


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
        data = connection.recv(most)
    except BlockingIOError:
        return b""
    except OSError as error:
        raise LinkBroken(f"a connection broke: {error}") from error
    if not data:
        raise LinkBroken("a connection was closed by its other end")
    return data


def write(connection: socket.socket, data: bytes, lost: Lost) -> None:
    """Hands all of it to the kernel; waits where that has no room.

    Raises:
        LinkBroken: the other end has closed, or the plane is lost.
    """
    rest = memoryview(data)
    while True:
        try:
            rest = rest[connection.send(rest) :]
        except BlockingIOError:
            wait_for(connection, lost, select.POLLOUT)
        except OSError as error:
            raise LinkBroken(f"a connection broke: {error}") from error
        if not rest:
            return
