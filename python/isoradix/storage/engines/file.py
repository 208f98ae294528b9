"""file:///folder: pages in files, by the compiled module.

Options: `limit` (bytes on the disk; what was used longest ago goes first), `direct` (around the system's cache),
`threads` (of a batch), `format` (`sealed`, or `sglang` for the files of SGLang's own file store).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from isoradix._isoradix import FileStore
from isoradix.storage.call import Call
from isoradix.storage.engine import Capabilities
from isoradix.storage.errors import PermanentStorageError
from isoradix.storage.url import StorageURL
from isoradix.storage.views import PageViews

_SEALED_KEY_BYTES: Final = 64
_RAW_KEY_BYTES: Final = 251


class FileEngine:
    """Pages in a folder: see `FileStore`.

    Args:
        store: the folder.
        raw: whether pages have no seal.
        limit: bytes that the pages may take.
        shared: whether other machines see the folder.
    """

    def __init__(self, store: FileStore, *, raw: bool, limit: int | None, shared: bool = False) -> None:
        self._store = store
        self._limit = limit
        self.capabilities = Capabilities(
            zero_copy=True,
            checked=not raw,
            durable=True,
            shared=shared,
            key_bytes_max=_RAW_KEY_BYTES if raw else _SEALED_KEY_BYTES,
            page_bytes_max=None,
        )

    def register(self, memory: Any) -> None:
        """Nothing is to be done."""

    def exists(self, keys: Sequence[bytes], call: Call) -> list[bool]:
        """Whether there are files."""
        return self._store.exists(list(keys))

    def get(self, keys: Sequence[bytes], views: PageViews, call: Call) -> None:
        """Reads in place, and checks what came."""
        self._store.get(list(keys), *_places(views), call.ticket)

    def put(self, keys: Sequence[bytes], views: PageViews, call: Call) -> None:
        """Writes files, and gives them their names once they are whole."""
        self._store.put(list(keys), *_places(views), call.ticket)

    def remove(self, keys: Sequence[bytes], call: Call) -> None:
        """Removes files."""
        self._store.remove(list(keys))

    def clear(self, call: Call) -> None:
        """Removes the files of all pages."""
        self._store.clear()

    def usage(self, call: Call) -> Mapping[str, int | float | str]:
        """Files and their bytes."""
        pages, size = self._store.usage()
        limit = {} if self._limit is None else {"limit_bytes": self._limit, "evicted_here": self._store.evicted}
        return {"engine": "file", "pages": pages, "bytes": size, **limit}

    def close(self) -> None:
        """Nothing is held between calls."""


def open_engine(url: StorageURL) -> FileEngine:
    """The engine of a file:// URL.

    Raises:
        PermanentStorageError: the URL or the folder is refused.
    """
    if url.host not in ("", "localhost") or url.path in ("", "/"):
        raise PermanentStorageError(f"{url.text} names no folder\nhint: three slashes, as in file:///var/cache/kv")
    raw = url.choice("format", ("sealed", "sglang"), "sealed") == "sglang"
    limit = url.size("limit", None)
    direct, threads = url.flag("direct"), url.number("threads", 0, 1, 256) or None
    shared = url.flag("shared")
    url.finish()
    if raw and limit is not None:
        raise PermanentStorageError(
            f"{url.text} has a limit\nhint: SGLang's own server keeps the limit of its file store"
        )
    if not url.makes and not (Path(url.path) if raw else Path(url.path, "pages")).is_dir():
        raise PermanentStorageError(
            f"there is no store at {url.text}\nhint: whoever puts pages makes it; isoradix storage check does"
        )
    try:
        store = FileStore(url.path, raw=raw, limit=limit, direct=direct, threads=threads)
    except OSError as error:
        raise PermanentStorageError(error.strerror or str(error)) from error
    return FileEngine(store, raw=raw, limit=limit, shared=shared)


def _places(views: PageViews) -> tuple[Any, Any, int, int]:
    return views.memory, views.offsets.reshape(-1), views.pieces, views.piece_bytes
