"""The Mooncake backend beside the calls of Mooncake's own client, on equal batches over loopback."""

import ctypes
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from tests.storage.mooncake_server import MooncakeServer

from isoradix.storage import Backend, PageViews
from isoradix.storage.staging import Staged

WAYS: Final = ("own calls", "backend", "below a rank")


@dataclass(frozen=True)
class Rate:
    """Medians; the ratio is that within a round."""

    page_kib: int
    pages: int
    """Of a batch."""
    verb: str
    gb_per_s: dict[str, float]
    ratio: float
    """Of the backend's speed to that of the client's own calls."""


class Client:
    """Mooncake's own client on one memory, as its documentation has it: no seal, no check, no deadline."""

    def __init__(self, client: Any, memory: Any, page_bytes: int) -> None:
        from mooncake.store import ReplicateConfig

        self._client, self._config = client, ReplicateConfig()
        address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        assert client.register_buffer(address, memory.nbytes) == 0
        self._addresses = [[address + at] for at in range(0, memory.nbytes, page_bytes)]
        self._sizes = [[page_bytes]] * len(self._addresses)

    def put(self, keys: list[bytes]) -> None:
        names = [key.hex() for key in keys]
        codes = self._client.batch_put_from_multi_buffers(names, self._addresses, self._sizes, self._config)
        assert not any(codes)

    def get(self, keys: list[bytes]) -> None:
        names = [key.hex() for key in keys]
        codes = self._client.batch_get_into_multi_buffers(names, self._addresses, self._sizes)
        assert min(codes) > 0

    def remove(self, keys: list[bytes]) -> None:
        self._client.batch_remove([key.hex() for key in keys], True)


class Ours:
    """This package's backend, straight, or by the memory between that a tier has."""

    def __init__(self, backend: Backend, way: Any, views: PageViews) -> None:
        self._backend, self._way, self._views = backend, way, views

    def put(self, keys: list[bytes]) -> None:
        assert self._way.put(keys, self._views).done == len(keys)

    def get(self, keys: list[bytes]) -> None:
        assert self._way.get(keys, self._views).done == len(keys)

    def remove(self, keys: list[bytes]) -> None:
        self._backend.remove(keys)


class Straight:
    """A backend's two verbs by the names that a tier's ways have."""

    def __init__(self, backend: Backend) -> None:
        self.put, self.get = backend.put_from, backend.get_into


def rates(page_kib: int, pages: int, rounds: int) -> list[Rate]:
    """Puts and gets of a batch of pages, each way in its turn in every round."""
    with tempfile.TemporaryDirectory(prefix="isoradix-bench-") as folder:
        server = MooncakeServer(Path(folder), max(256 << 20, 6 * pages * page_kib << 10))
        try:
            with server.open(timeout=30) as backend:
                return _rates(server, backend, page_kib << 10, pages, rounds)
        finally:
            server.close()


def _rates(server: MooncakeServer, backend: Backend, page_bytes: int, pages: int, rounds: int) -> list[Rate]:
    spare = backend.capabilities.spare_bytes
    memories = [np.full(pages * (page_bytes + spare), 7, np.uint8) for spare in (0, spare, 0)]
    backend.register(memories[1])
    views = [PageViews.whole(memories[1], page_bytes, spare=spare), PageViews.whole(memories[2], page_bytes)]
    ways: dict[str, Any] = {
        "own calls": Client(server.client(), memories[0], page_bytes),
        "backend": Ours(backend, Straight(backend), views[0]),
        "below a rank": Ours(backend, Staged(backend, spare), views[1]),
    }
    seconds: dict[tuple[str, str], list[float]] = {(verb, way): [] for verb in ("put", "get") for way in ways}
    for turn in range(rounds + 1):
        names = list(ways)
        for name in names[turn % 3 :] + names[: turn % 3]:
            keys = [os.urandom(32) for _ in range(pages)]
            for verb in ("put", "get"):
                taken = _timed(getattr(ways[name], verb), keys)
                if turn:  # the first round registers memory and connects
                    seconds[verb, name].append(taken)
            ways[name].remove(keys)
    size = pages * page_bytes / 1e9
    return [
        _rate(page_bytes >> 10, pages, verb, size, {name: seconds[verb, name] for name in ways})
        for verb in ("put", "get")
    ]


def _rate(page_kib: int, pages: int, verb: str, size: float, seconds: dict[str, list[float]]) -> Rate:
    speeds = {name: size / statistics.median(taken) for name, taken in seconds.items()}
    ratios = [own / ours for own, ours in zip(seconds["own calls"], seconds["backend"], strict=True)]
    return Rate(page_kib, pages, verb, speeds, statistics.median(ratios))


def _timed(call: Callable[[list[bytes]], None], keys: list[bytes]) -> float:
    begun = time.perf_counter()
    call(keys)
    return time.perf_counter() - begun
