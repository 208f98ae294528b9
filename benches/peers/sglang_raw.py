"""SGLang's Rust tree core called through its binding, with no Python cache around it."""

from typing import Any

from .adapters import Setup
from .sglang_caches import RustUnified

FULL = 0


class RustRaw(RustUnified):
    """The best case for SGLang: no controller, no result objects, no allocator calls."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        bindings = self.cache.tree_core._bindings
        self.core_ = self.cache.tree_core._binding
        self._match, self._insert = bindings.MatchParamsBinding, bindings.InsertParamsBinding
        self._dec = bindings.DecLockRefParamsBinding
        self._roots: dict[str | None, Any] = {}

    def _root(self, namespace: str | None) -> Any:
        if namespace not in self._roots:
            self._roots[namespace] = self.core_.root_node_handle(namespace)
        return self._roots[namespace]

    def match(self, key: Any, namespace: str | None = None) -> tuple[int, Any]:
        found = self.core_.match_prefix(self._match(key=key, extra_key=namespace))
        return found.device_prefix_len, found.last_device_node_id

    def indices(self, node: Any, namespace: str | None = None) -> Any:
        return self.core_.collect_full_device_indices(node, self._root(namespace))

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
        core = self.core_
        step = core.begin_insert(
            self._insert(key=key, value=slots, extra_key=namespace, priority=priority, prev_prefix_len=known)
        )
        while step.result is None:
            step = core.resume_insert()
        prefix_len = int(step.result.prefix_len)
        core.end_insert()
        return prefix_len

    def lock(self, node: Any) -> Any:
        got = self.core_.inc_lock_ref(node, [])
        return node, self._dec(
            node_id=got.node_id,
            skipped_lock_components=got.skipped_lock_components,
            component_lock_uuids=got.component_lock_uuids,
            component_host_lock_uuids=got.component_host_lock_uuids,
        )

    def unlock(self, receipt: Any) -> None:
        self.core_.dec_lock_ref(*receipt, False)

    def evict(self, num_tokens: int) -> int:
        core, dropped = self.core_, 0
        core.evict_device_start(FULL, num_tokens)
        while (node := core.evict_device_next_node(FULL, {FULL: dropped}).node_id) is not None:
            leaf = core.evict_device_leaf(node)
            dropped += leaf.tracker[FULL]
            if self.freed.recording:
                self.freed.slots.extend(int(s) for part in leaf.new_device_frees[FULL] for s in part.tolist())
        core.evict_device_end(FULL)
        return dropped

    def evictable_size(self) -> int:
        return int(self.core_.full_evictable_size())

    def protected_size(self) -> int:
        return int(self.core_.full_protected_size())
