"""Faults of one rank's external storage, in the engines of the server's own cache and in this package's.

A failure is what the server's interface has for one: nothing found, no page read, nothing stored. A hang is for good,
from the first call on: it sits in the engine, below whatever deadlines there are.
"""

import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from .faults import Source

logger = logging.getLogger(__name__)
KINDS: Final = ("storage-short", "storage-fail", "storage-slow", "storage-hang")
VERBS: Final = tuple(f"batch_{verb}" for verb in ("exists", "exists_v2", "get", "get_v1", "get_v2", "set", "set_v1"))


def plant_in_server(source: "Source") -> None:
    """In the server's stores of files and of Mooncake."""
    from sglang.srt.mem_cache.hicache_storage import HiCacheFile
    from sglang.srt.mem_cache.storage.mooncake_store.mooncake_store import MooncakeStore

    for store in (HiCacheFile, MooncakeStore):
        for verb in (*VERBS, "batch_set_v2"):
            if source.fault.kind != "storage-short" or "exists" in verb:
                setattr(store, verb, _faulty(source, verb, getattr(store, verb)))


def keep_server_from_opening(source: "Source") -> None:
    """The server's store of files."""
    from sglang.srt.mem_cache.hicache_storage import HiCacheFile

    create = HiCacheFile.__init__

    def fail(self: Any, *args: Any, **kwargs: Any) -> None:
        if source.strikes():
            raise OSError("the store cannot be opened: the fault has seen to it")
        create(self, *args, **kwargs)

    HiCacheFile.__init__ = fail


def _faulty(source: "Source", verb: str, call: Callable[..., Any]) -> Callable[..., Any]:
    def asked(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not source.strikes():
            return call(self, *args, **kwargs)
        match source.fault.kind:
            case "storage-hang":
                threading.Event().wait()
            case "storage-slow":
                time.sleep(source.delay_s())
            case "storage-fail":
                return _nothing(verb, args[0])
        answer = call(self, *args, **kwargs)
        return _half(answer) if source.fault.kind == "storage-short" else answer

    return asked


def _nothing(verb: str, asked: Any) -> Any:
    from sglang.srt.mem_cache.hicache_storage import PoolTransferResult

    match verb:
        case "batch_exists":
            return 0
        case "batch_exists_v2":
            return PoolTransferResult.empty()
        case "batch_get":
            return [None] * len(asked)
        case "batch_set":
            return False
        case "batch_get_v1" | "batch_set_v1":
            return [False] * len(asked)
        case _:
            return {transfer.name: [False] * len(transfer.keys or ()) for transfer in asked}


def _half(found: Any) -> Any:
    if isinstance(found, int):
        return found // 2
    pages = found.kv_hit_pages // 2
    hits = {name: pages and min(count, pages) for name, count in found.extra_pool_hit_pages.items()}
    return type(found)(pages, hits, [one for one in found.restorable_prefix_pages or () if one <= pages])


class HungEngine:
    """An engine of this package that never returns from a call about pages."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine

    def exists(self, *_: Any) -> Any:
        """Never returns."""
        logger.warning("[fault storage-hang]")
        threading.Event().wait()

    get = put = exists

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)
