"""One suite for every engine, each with a real server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from isoradix.storage import Backend

    from .servers import Server

ENGINES = ("file", "redis", "s3", "mooncake")
WITH_PROCESS = ENGINES[1:]


def make_server(engine: str, folder: Path) -> Server:
    from .mooncake_server import MooncakeServer
    from .servers import Folder, RedisServer, S3Server

    made: dict[str, Callable[[Path], Server]] = {
        "file": Folder,
        "redis": RedisServer,
        "s3": S3Server,
        "mooncake": MooncakeServer,
    }
    return made[engine](folder)


@pytest.fixture(scope="session", params=ENGINES)
def shared_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that nothing happens to, for all tests of a process."""
    server = make_server(request.param, tmp_path_factory.mktemp(request.param))
    yield server
    server.close()


@pytest.fixture(params=ENGINES)
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    """A server of the test's own."""
    made = make_server(request.param, tmp_path)
    yield made
    made.close()


@pytest.fixture(params=WITH_PROCESS)
def process_server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    """A server of the test's own, with a process that things happen to."""
    made = make_server(request.param, tmp_path)
    yield made
    made.close()


@pytest.fixture
def backend(server: Server) -> Iterator[Backend]:
    from .servers import opened

    with opened(server) as made:
        yield made


@pytest.fixture
def process_backend(process_server: Server) -> Iterator[Backend]:
    from .servers import opened

    with opened(process_server) as made:
        yield made
