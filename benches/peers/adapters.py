"""One small interface over every prefix cache that is compared.

An adapter adds one Python call and nothing else: keys and slots come in the native type of the
implementation, made beforehand by `key()` and `slots()`, outside every timed section.
"""

from array import array
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Protocol, TypeAlias

from benches.trees import Tokens

Policy: TypeAlias = tuple[str, dict[str, int]]

LRU: Policy = ("lru", {})


@dataclass(frozen=True)
class Setup:
    """What a cache is made with."""

    page_size: int = 1
    policy: Policy = LRU
    bigram: bool = False


@dataclass
class Freed:
    """Slots that a cache gave back; `recording` costs time, so no benchmark turns it on."""

    recording: bool = False
    slots: list[int] = field(default_factory=list)

    def take(self) -> list[int]:
        taken, self.slots = self.slots, []
        return taken


class Cache(Protocol):
    """What the benches and the differential test ask of a prefix cache."""

    freed: Freed

    def key(self, tokens: Tokens) -> Any: ...
    def slots(self, slots: Tokens) -> Any: ...

    def match(self, key: Any, namespace: str | None = None) -> tuple[int, Any]:
        """(tokens cached, node where they end)."""

    def indices(self, node: Any, namespace: str | None = None) -> Any:
        """The slots from the root to `node`, as the implementation hands them out."""

    def insert(
        self,
        key: Any,
        slots: Any,
        namespace: str | None = None,
        *,
        priority: int = 0,
        known: int = 0,
        node: Any = None,
    ) -> int:
        """Tokens that were cached already.

        The caller may tell what it knows from a match: `known` tokens, up to `node`, are cached and their slots are
        the tree's. SGLang then frees no duplicates among them; isoradix starts at the node.
        """

    def lock(self, node: Any) -> Any: ...
    def unlock(self, receipt: Any) -> None: ...

    def evict(self, num_tokens: int) -> int:
        """Tokens dropped."""

    def evictable_size(self) -> int: ...
    def protected_size(self) -> int: ...


def native_key(tokens: Tokens) -> "array[int]":
    """The key type that SGLang's caches take, and isoradix unless a name says otherwise."""
    return array("q", tokens.astype("<i8", copy=False).tobytes())


SGLANG = ("sgl-py-radix", "sgl-py-unified", "sgl-rust", "sgl-rust-raw")
ISORADIX = "isoradix"
EVERY = (*SGLANG, ISORADIX)

_CLASSES = {
    "sgl-py-radix": ("sglang_caches", "PyRadix"),
    "sgl-py-unified": ("sglang_caches", "PyUnified"),
    "sgl-rust": ("sglang_caches", "RustUnified"),
    "sgl-rust-raw": ("sglang_raw", "RustRaw"),
    "isoradix": ("isoradix_cache", "Isoradix"),
    "isoradix-u32": ("isoradix_cache", "IsoradixU32"),
}


def make(name: str, setup: Setup) -> Cache:
    """A fresh cache; the implementation is imported on first use."""
    module, cls = _CLASSES[name]
    cache: Cache = getattr(import_module(f"{__package__}.{module}"), cls)(setup)
    return cache
