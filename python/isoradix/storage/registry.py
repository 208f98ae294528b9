"""Engines by the scheme of a URL."""

from collections.abc import Callable
from importlib import import_module
from importlib.metadata import entry_points
from typing import Final, TypeAlias

from isoradix.storage.backend import CONNECT_S, TIMEOUT_S, WORKERS, Backend
from isoradix.storage.engine import Engine
from isoradix.storage.errors import PermanentStorageError
from isoradix.storage.url import StorageURL

EngineFactory: TypeAlias = Callable[[StorageURL], Engine]
"""Makes an engine of a URL. It may block and raise as an engine does."""

GROUP: Final = "isoradix.storage"
"""The group of entry points in which other packages offer engines: their name is the scheme, their value a factory."""

# scheme: module, what its packages are called where they are imported, the extra that installs them
_BUILT_IN: Final = {
    "file": ("file", (), ""),
    "mooncake": ("mooncake", ("mooncake",), "mooncake"),
    "redis": ("redis", ("redis",), "redis"),
    "rediss": ("redis", ("redis",), "redis"),
    "s3": ("s3", ("obstore",), "s3"),
}


def schemes() -> list[str]:
    """Schemes that there are engines for."""
    return sorted({*_BUILT_IN, *(point.name for point in entry_points(group=GROUP))})


def open_storage(url: str, *, make: bool = True) -> Backend:
    """Opens a store.

    Every URL takes `timeout` (seconds that a call has, 5 unless given), `connect` (seconds that opening may take, 15
    unless given) and `workers` (calls at a time, 4 unless given). docs/storage.md has the options of each engine.

    Args:
        url: for example file:///var/cache/kv?limit=500G.
        make: whether a folder that is not there yet is made.

    Raises:
        PermanentStorageError: there is no such engine, it is not installed, the URL is refused, or there is no such
            folder and none is to be made.
        TemporaryStorageError: the server does not answer.
    """
    parsed = StorageURL.parse(url)
    parsed.makes = make
    factory = _factory(parsed.scheme)
    timeout_s = parsed.seconds("timeout", TIMEOUT_S)
    workers = parsed.number("workers", WORKERS, 1, 256)
    connect_s = parsed.seconds("connect", CONNECT_S)
    return Backend.connect(lambda: factory(parsed), connect_s=connect_s, timeout_s=timeout_s, workers=workers)


def _factory(scheme: str) -> EngineFactory:
    if scheme in _BUILT_IN:
        return _built_in(scheme)
    for point in entry_points(group=GROUP):
        if point.name == scheme:
            factory: EngineFactory = point.load()
            return factory
    raise PermanentStorageError(
        f"there is no storage engine for {scheme}://\n"
        f"hint: there are {', '.join(schemes())}; packages add more by entry "
        f"points of the group {GROUP}"
    )


def _built_in(scheme: str) -> EngineFactory:
    module, packages, extra = _BUILT_IN[scheme]
    try:
        factory: EngineFactory = import_module(f"isoradix.storage.engines.{module}").open_engine
    except ImportError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in packages:
            raise
        raise PermanentStorageError(
            f"{scheme}:// needs the package {missing}, which is not installed\nhint: pip install 'isoradix[{extra}]'"
        ) from error
    return factory
