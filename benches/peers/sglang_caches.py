"""SGLang's prefix caches as its scheduler calls them: parameters in, a result object out."""

from typing import Any

from benches.trees import Tokens

from .adapters import Freed, Setup, native_key
from .sglang_import import CountingAllocator, init_params, native_slots, sglang


class PyRadix:
    """`RadixCache`: the Python tree."""

    def __init__(self, setup: Setup) -> None:
        self.freed = Freed()
        self.cache = self._make(setup, CountingAllocator(setup.page_size, self.freed))
        base = sglang("base_prefix_cache")
        self._match, self._insert, self._evict = base.MatchPrefixParams, base.InsertParams, base.EvictParams
        self._key = sglang("radix_cache").RadixKey

    def _make(self, setup: Setup, allocator: CountingAllocator) -> Any:
        return sglang("radix_cache").RadixCache(init_params(setup, allocator))

    def key(self, tokens: Tokens) -> Any:
        return native_key(tokens)

    def slots(self, slots: Tokens) -> Any:
        return native_slots(slots)

    def match(self, key: Any, namespace: str | None = None) -> tuple[int, Any]:
        found = self.cache.match_prefix(self._match(key=self._key(key, namespace)))
        return found.device_prefix_len, found.last_device_node

    def indices(self, node: Any, namespace: str | None = None) -> Any:
        return self.cache.path_device_indices(node)

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
        result = self.cache.insert(
            self._insert(key=self._key(key, namespace), value=slots, priority=priority, prev_prefix_len=known)
        )
        return int(result.prefix_len)

    def lock(self, node: Any) -> Any:
        self.cache.inc_lock_ref(node)
        return node

    def unlock(self, receipt: Any) -> None:
        self.cache.dec_lock_ref(receipt)

    def evict(self, num_tokens: int) -> int:
        return int(self.cache.evict(self._evict(num_tokens=num_tokens)).num_tokens_evicted)

    def evictable_size(self) -> int:
        return int(self.cache.evictable_size())

    def protected_size(self) -> int:
        return int(self.cache.protected_size())


class PyUnified(PyRadix):
    """`UnifiedRadixCache` over its Python tree core."""

    backend, core = "python", "UnifiedTreeCore"

    def _make(self, setup: Setup, allocator: CountingAllocator) -> Any:
        full = sglang("unified_cache.component_type").ComponentType.FULL
        cache = sglang("unified_radix_cache").UnifiedRadixCache(
            init_params(setup, allocator, tree_components=(full,), tree_core_backend=self.backend)
        )
        # SGLang falls back to its Python core without a word when the Rust one does not fit.
        found = type(cache.tree_core).__name__
        if found != self.core:
            raise RuntimeError(
                f"sglang chose the tree core {found}, not {self.core}\n"
                "hint: the torch version decides; install benches/peers/requirements.txt"
            )
        return cache

    def lock(self, node: Any) -> Any:
        return node, self.cache.inc_lock_ref(node).to_dec_params()

    def unlock(self, receipt: Any) -> None:
        self.cache.dec_lock_ref(*receipt)

    def evictable_size(self) -> int:
        return int(self.cache.full_evictable_size())

    def protected_size(self) -> int:
        return int(self.cache.full_protected_size())


class RustUnified(PyUnified):
    """`UnifiedRadixCache` over its Rust tree core: what SGLang serves with by default."""

    backend, core = "rust", "RustUnifiedTreeCore"
