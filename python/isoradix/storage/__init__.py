"""External storage of KV pages, below host memory: engines behind one interface, and the keys of pages.

    from isoradix.storage import PageViews, open_storage

Needs no torch. docs/storage.md tells which engine is good for what.
"""

from isoradix.storage.backend import Backend, Outcome, Presence
from isoradix.storage.call import Call, Status
from isoradix.storage.components import ComponentPages
from isoradix.storage.engine import Capabilities, Engine
from isoradix.storage.errors import (
    PermanentStorageError,
    StorageError,
    StorageTimeoutError,
    TemporaryStorageError,
)
from isoradix.storage.keys import Fingerprint, PageKeys, SGLangKeys, Shard
from isoradix.storage.registry import EngineFactory, open_storage, schemes
from isoradix.storage.url import StorageURL
from isoradix.storage.views import PageViews

__all__ = [
    "Backend",
    "Call",
    "Capabilities",
    "ComponentPages",
    "Engine",
    "EngineFactory",
    "Fingerprint",
    "Outcome",
    "PageKeys",
    "PageViews",
    "PermanentStorageError",
    "Presence",
    "SGLangKeys",
    "Shard",
    "Status",
    "StorageError",
    "StorageTimeoutError",
    "StorageURL",
    "TemporaryStorageError",
    "open_storage",
    "schemes",
]
