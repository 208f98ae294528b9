"""What a connection takes and gives at once: all of it, a part, nothing, or an end."""

import os
import socket
from collections.abc import Iterator

import pytest
from tests.consensus.lock import lock_wanted

from isoradix import InputTypeError, InvalidInputError, read_at_once, write_at_once
from isoradix.consensus.links import LinkBroken, read, write

Ends = tuple[socket.socket, socket.socket]
LARGE = bytes(range(256)) * 4096


@pytest.fixture(params=[socket.AF_UNIX, socket.AF_INET], ids=["unix", "tcp"])
def ends(request: pytest.FixtureRequest) -> Iterator[Ends]:
    """Both ends of a connection, which is still blocking, with little room."""
    one, other = socket.socketpair() if request.param == socket.AF_UNIX else tcp_pair()
    with one, other:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        yield one, other


def write_again(connection: socket.socket) -> None:
    """TCP hears of a closed end by the answer to what it has sent."""
    for _ in range(3):
        write(connection, b"late")


def tcp_pair() -> Ends:
    with socket.create_server(("127.0.0.1", 0)) as server:
        one = socket.create_connection(server.getsockname())
        return one, server.accept()[0]


def test_bytes_arrive_in_the_parts_that_there_is_room_for(ends: Ends) -> None:
    one, other = ends
    assert read(other, 16) == b"", "nothing is there, and nothing is waited for"
    rest, parts, received = LARGE, 0, b""
    while len(received) < len(LARGE):
        left = write(one, rest)
        parts += left != rest
        assert write(one, left[:0]) == b""
        rest = left
        received += read(other, 1 << 16)
    assert received == LARGE
    assert parts > 1, "there was room for all of it at once"


def test_where_there_is_no_room_nothing_is_taken(ends: Ends) -> None:
    one, _ = ends
    rest = memoryview(LARGE * 16)
    while size := write_at_once(one.fileno(), rest):
        rest = rest[size:]
    assert rest, "nobody reads"
    assert not os.get_blocking(one.fileno())


def test_no_more_is_read_than_was_asked_for(ends: Ends) -> None:
    one, other = ends
    assert write(one, b"abcdef") == b""
    assert [read(other, 4), read(other, 4), read(other, 4)] == [b"abcd", b"ef", b""]


def test_an_end_that_closes_is_found_after_what_it_has_sent(ends: Ends) -> None:
    one, other = ends
    write(one, b"last")
    one.close()
    assert read(other, 16) == b"last"
    with pytest.raises(LinkBroken, match="closed by its other end"):
        read(other, 16)
    with pytest.raises(LinkBroken, match=r"a connection broke: (Broken pipe|Connection reset)"):
        write_again(other)


def test_what_is_no_socket_is_refused_and_stays_as_it_is() -> None:
    reader, writer = os.pipe()
    try:
        with pytest.raises(OSError, match="non-socket"):
            read_at_once(reader, 1)
        with pytest.raises(OSError, match="non-socket"):
            write_at_once(writer, b"x")
        assert os.get_blocking(reader)
        assert os.write(writer, b"y") == 1
        assert os.read(reader, 2) == b"y", "it is open, and nothing else was written to it"
    finally:
        os.close(reader)
        os.close(writer)
    with pytest.raises(OSError, match="Bad file descriptor"):
        read_at_once(reader, 1)


def test_bad_arguments_are_refused() -> None:
    closed = socket.socket()
    closed.close()
    with pytest.raises(InvalidInputError, match=r"connection -1 is out of range: 0 to 2147483647\nhint: pass conn"):
        read_at_once(closed.fileno(), 1)
    with pytest.raises(InputTypeError, match="connection is"):
        write_at_once(closed, b"x")  # type: ignore[arg-type]
    one, other = socket.socketpair()
    with one, other:
        for most in (0, (1 << 20) + 1):
            with pytest.raises(InvalidInputError, match=f"most {most} is out of range: 1 to 1048576"):
                read_at_once(one.fileno(), most)
        with pytest.raises(InputTypeError, match="data is a str"):
            write_at_once(one.fileno(), "text")  # type: ignore[arg-type]
        assert read(other, 16) == b""


def test_nothing_here_gives_the_interpreters_lock_away(ends: Ends) -> None:
    one, other = ends
    with lock_wanted() as turns:
        before = turns[0]
        for number in range(1000):
            assert read(other, 16) == b""
            assert write(one, number.to_bytes(8, "little")) == b""
            assert read(other, 16) == number.to_bytes(8, "little")
        assert turns[0] == before
