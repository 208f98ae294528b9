"""mooncake://master:port: pages in the memory of a Mooncake cluster, moved in place.

Options: `protocol` (`tcp` or `rdma`), `device` (RDMA devices between commas), `segment` (bytes of this process's memory
that the cluster may use, 0 unless given), `buffer` (bytes for the client's own use, 16Mi unless given), `hostname`
(this machine's address, as others reach it; 127.0.0.1 unless given), `metadata` (P2PHANDSHAKE unless given), `replicas`
(1 unless given), `prefix` (of all keys, `isoradix/` unless given).

A key that the cluster knows may be of a process that is gone, and a page that it has taken may be dropped without a
word. So every page is stored with a seal behind it, and none is believed whose seal does not fit.
"""

import ctypes
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from mooncake.store import MooncakeDistributedStore, ReplicateConfig

from isoradix._isoradix import check_pages, seal_pages
from isoradix.storage.call import Call, Status
from isoradix.storage.engine import Capabilities
from isoradix.storage.engines.sealed import SEAL_BYTES
from isoradix.storage.errors import PermanentStorageError, TemporaryStorageError
from isoradix.storage.url import StorageURL
from isoradix.storage.views import PageViews

_SLAB_PAGES: Final = 256
"""Pages of a call to the client, each with a place for its seal."""
_MISSING: Final = -704
_TOO_SMALL: Final = -600
_NO_SPACE: Final = -200
_TRANSFER_FAILED: Final = -800
_LEASED: Final = -706
_RPC_FAILED: Final = -900
_MEANINGS: Final = {
    _NO_SPACE: "the cluster has no room",
    _LEASED: "somebody reads the page",
    _TRANSFER_FAILED: "the memory's owner does not answer",
    _RPC_FAILED: "the master does not answer",
}


_ANSWER_S: Final = 15.0
"""After how long a master that says nothing is none."""
_TRY: Final = """
import os, sys
from mooncake.store import MooncakeDistributedStore
host, metadata, protocol, device, master = sys.argv[1:]
os._exit(int(MooncakeDistributedStore().setup(host, metadata, 0, 1 << 20, protocol, device, master) != 0))
"""
_UNCLOSED: Final[list[Any]] = []
"""Clients whose master does not answer. To close one, or to collect it, would stop the whole interpreter."""


class Slabs:
    """Registered memory for seals: one piece for each call that is going on.

    Args:
        store: the client.
    """

    def __init__(self, store: Any) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._free: list[Any] = []

    @contextmanager
    def taken(self) -> Iterator[Any]:
        """A slab that nobody else uses meanwhile: uint8, a seal for each page of a call."""
        with self._lock:
            slab = self._free.pop() if self._free else None
        if slab is None:
            slab = np.zeros(_SLAB_PAGES * SEAL_BYTES, np.uint8)
            _register(self._store, slab)
        try:
            yield slab
        finally:
            with self._lock:
                self._free.append(slab)


class Seals:
    """Where the seals of a batch are: in a slab, or behind each page, where the two are moved as one.

    Args:
        memory: of the seals.
        pages: of the batch; their seals lie one after another unless `places` says where each one's bytes are.
    """

    def __init__(self, memory: Any, pages: int, places: npt.NDArray[np.int64] | None = None) -> None:
        self._memory, self._apart = memory, places is None
        self._places = np.arange(pages * SEAL_BYTES).reshape(pages, SEAL_BYTES) if places is None else places

    @classmethod
    def behind(cls, views: PageViews) -> "Seals":
        """In the spare bytes of pages."""
        ends = views.offsets[:, -1:] + views.piece_bytes
        return cls(np.frombuffer(views.memory, np.uint8), len(views), ends + np.arange(SEAL_BYTES))

    def write(self, seals: bytes) -> None:
        """Puts one behind each page."""
        self._memory[self._places] = np.frombuffer(seals, np.uint8).reshape(self._places.shape)

    def read(self, pages: list[int]) -> bytes:
        """Those of some pages of the batch."""
        seals: bytes = self._memory[self._places[pages]].tobytes()
        return seals

    def buffers(self, views: PageViews) -> tuple[list[list[int]], list[list[int]]]:
        """Addresses and sizes of what is moved for each page."""
        addresses, sizes = _address(views.memory) + views.offsets, [views.piece_bytes] * views.pieces
        if self._apart:
            addresses = np.hstack([addresses, _address(self._memory) + self._places[:, :1]])
            sizes.append(SEAL_BYTES)
        else:
            sizes[-1] += SEAL_BYTES
        listed: list[list[int]] = addresses.tolist()
        return listed, [sizes] * len(views)


class MooncakeEngine:
    """Pages in a Mooncake cluster.

    Args:
        store: a client that is set up.
        prefix: of all keys.
        replicas: of each page.
    """

    def __init__(self, store: Any, prefix: str, replicas: int) -> None:
        self._store, self._prefix = store, prefix
        self._slabs = Slabs(store)
        self._config = ReplicateConfig()
        self._config.replica_num = replicas
        self.capabilities = Capabilities(
            zero_copy=True,
            checked=True,
            durable=False,
            shared=True,
            key_bytes_max=512,
            page_bytes_max=None,
            spare_bytes=SEAL_BYTES,
        )

    def register(self, memory: Any) -> None:
        """Registers the memory, so that it is moved from and to in place."""
        _register(self._store, memory)

    def exists(self, keys: Sequence[bytes], call: Call) -> list[bool]:
        """What the master knows; the memory behind it may be gone."""
        found = [int(code) for code in self._store.batch_is_exist([self._name(key) for key in keys])]
        if any(code < 0 for code in found):
            raise _failure("exists", min(found))
        return [code == 1 for code in found]

    def get(self, keys: Sequence[bytes], views: PageViews, call: Call) -> None:
        """Reads pages and seals in place, and checks them."""
        for places in _portions(len(keys)):
            if call.cancelled:
                return
            some = views.take(places)
            names = [self._name(keys[place]) for place in places]
            with self._seals(some) as seals:
                codes = self._store.batch_get_into_multi_buffers(names, *seals.buffers(some))
                there = [at for at, code in enumerate(codes) if int(code) == views.page_bytes + SEAL_BYTES]
                statuses = self._check([keys[places[at]] for at in there], some.take(there), seals.read(there), there)
            for at, place in enumerate(places):
                if at in statuses:
                    call.finish(place, statuses[at])
                elif call.cancelled:
                    call.finish(place, Status.LATE)
                elif int(codes[at]) == _TRANSFER_FAILED and self._is_smaller(names[at], views.page_bytes):
                    call.finish(place, Status.WRONG_SIZE)
                else:
                    self._tell("get", call, place, int(codes[at]))

    def _is_smaller(self, name: str, page_bytes: int) -> bool:
        """Whether a transfer failed since there is less than was asked for, which has no code of its own."""
        return 0 <= int(self._store.get_size(name)) < page_bytes + SEAL_BYTES

    @staticmethod
    def _check(keys: list[bytes], views: PageViews, seals: bytes, there: list[int]) -> dict[int, Status]:
        codes = check_pages(keys, views.memory, views.offsets.reshape(-1), views.pieces, views.piece_bytes, seals)
        return {at: Status(code) for at, code in zip(there, codes, strict=True)}

    def put(self, keys: Sequence[bytes], views: PageViews, call: Call) -> None:
        """Stores pages from where they lie, each with its seal behind it."""
        for places in _portions(len(keys)):
            if call.cancelled:
                return
            some = views.take(places)
            of_some = [keys[place] for place in places]
            made = seal_pages(of_some, some.memory, some.offsets.reshape(-1), some.pieces, some.piece_bytes)
            names = [self._name(key) for key in of_some]
            with self._seals(some) as seals:
                seals.write(made)
                codes = self._store.batch_put_from_multi_buffers(names, *seals.buffers(some), self._config)
            for place, code in zip(places, codes, strict=True):
                self._tell("put", call, place, int(code))

    @contextmanager
    def _seals(self, views: PageViews) -> Iterator[Seals]:
        if views.spare >= SEAL_BYTES:
            yield Seals.behind(views)
        else:
            with self._slabs.taken() as slab:
                yield Seals(slab, len(views))

    def _tell(self, verb: str, call: Call, place: int, code: int) -> None:
        if code == 0 and verb == "put":
            call.finish(place, Status.DONE)
        elif code == _MISSING:
            call.finish(place, Status.MISSING)
        elif code >= 0 or code == _TOO_SMALL:
            call.finish(place, Status.WRONG_SIZE)
        else:
            call.fail([place], _failure(verb, code), Status.FULL if code == _NO_SPACE else Status.FAILED)

    def remove(self, keys: Sequence[bytes], call: Call) -> None:
        """Removes pages, also those that somebody reads: what such a reader gets does not fit its seal."""
        codes = self._store.batch_remove([self._name(key) for key in keys], True) if keys else []
        for code in map(int, codes):
            if code < 0 and code != _MISSING:
                raise _failure("remove", code)

    def clear(self, call: Call) -> None:
        """Removes all pages with the prefix."""
        code = int(self._store.remove_by_regex(f"^{self._prefix}.*", True))
        if code < 0:
            raise _failure("clear", code)

    def usage(self, call: Call) -> Mapping[str, int | float | str]:
        """The master tells more at its metrics port."""
        return {"engine": "mooncake"}

    def close(self) -> None:
        """Leaves the cluster, and takes this process's memory with it.

        The client closes with the interpreter's lock held, for as long as its master says nothing. So the master is
        asked first, which gives the lock away; if it does not answer, the client is left to the end of the process.
        """
        _UNCLOSED.append(self._store)
        if int(self._store.is_exist(self._prefix)) >= 0:
            _UNCLOSED.remove(self._store)
            self._store.close()

    def _name(self, key: bytes) -> str:
        return self._prefix + key.hex()


def open_engine(url: StorageURL) -> MooncakeEngine:
    """The engine of a mooncake:// URL, once the master has answered.

    Raises:
        PermanentStorageError, TemporaryStorageError: the URL is refused; the master does not answer.
    """
    if not url.host or url.port is None:
        raise PermanentStorageError(f"{url.text} names no master and port\nhint: as in mooncake://master:50051")
    protocol = url.choice("protocol", ("tcp", "rdma"), "tcp")
    device, hostname = url.string("device", "") or "", url.string("hostname", "127.0.0.1") or ""
    segment, buffer = url.size("segment", 0, least=0) or 0, url.size("buffer", 16 << 20) or 0
    metadata = url.string("metadata", "P2PHANDSHAKE") or ""
    replicas = url.number("replicas", 1, 1, 64)
    prefix = url.string("prefix", "isoradix/") or ""
    url.finish()
    if not all(character.isascii() and (character.isalnum() or character in "_-/") for character in prefix):
        raise PermanentStorageError(f"prefix {prefix!r} of {url.text}\nhint: letters, digits, _ - and / are taken")
    master = f"{url.host}:{url.port}"
    hint = "hint: see whether mooncake_master runs there"
    if not _can_be_set_up(hostname, metadata, protocol, device, master):
        raise TemporaryStorageError(f"no client of {url.text} can be set up\n{hint}")
    store = MooncakeDistributedStore()
    code = store.setup(hostname, metadata, segment, buffer, protocol, device, master)
    if code != 0:
        raise TemporaryStorageError(f"the client of {url.text} cannot be set up: code {code}\n{hint}")
    return MooncakeEngine(store, prefix, replicas)


def _can_be_set_up(*arguments: str) -> bool:
    """Tries it in another process.

    Without a master the set-up takes a minute and a half, in which nothing else would run in this one, since it keeps
    the interpreter's lock.
    """
    command = [sys.executable, "-c", _TRY, *arguments]
    try:
        tried = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=_ANSWER_S
        )
    except subprocess.TimeoutExpired:
        return False
    return tried.returncode == 0


def _portions(pages: int) -> list[list[int]]:
    return [list(range(at, min(at + _SLAB_PAGES, pages))) for at in range(0, pages, _SLAB_PAGES)]


def _address(memory: Any) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


def _register(store: Any, memory: Any) -> None:
    size = memoryview(memory).nbytes
    code = int(store.register_buffer(_address(memory), size))
    if code != 0:
        raise TemporaryStorageError(
            f"{size} bytes of memory cannot be registered: code {code}\n"
            "hint: with rdma raise the limit of locked memory"
        )


def _failure(verb: str, code: int) -> TemporaryStorageError:
    meaning = _MEANINGS.get(code, "see the codes in Mooncake's documentation")
    return TemporaryStorageError(f"mooncake: {verb} gave {code}: {meaning}\nhint: see whether master and owners run")
