"""isoradix behind the same interface."""

from typing import Any

import numpy as np

import isoradix
from benches.trees import Tokens

from .adapters import Freed, Setup, native_key


def policy_name(setup: Setup) -> str:
    """SGLang names options, isoradix writes them in order: `tlru:threshold,next_prompt`, `slru:threshold`."""
    name, options = setup.policy
    order = {"slru": ("protected_threshold",), "tlru": ("threshold", "next_prompt_estimate")}.get(name, ())
    values = [str(options[key]) for key in order if key in options]
    return f"{name}:{','.join(values)}" if values else name


class Isoradix:
    """`PrefixCache`, with the same keys as SGLang (`array('q')`)."""

    def __init__(self, setup: Setup) -> None:
        self.freed = Freed()
        self.cache = isoradix.PrefixCache(page_size=setup.page_size, policy=policy_name(setup), bigram=setup.bigram)

    def key(self, tokens: Tokens) -> Any:
        return native_key(tokens)

    def slots(self, slots: Tokens) -> Any:
        return slots

    def match(self, key: Any, namespace: str | None = None) -> tuple[int, Any]:
        found = self.cache.match_prefix(key, None if namespace is None else (namespace, None))
        return found.hit_tokens, found.node

    def indices(self, node: Any, namespace: str | None = None) -> Any:
        return self.cache.slots(node)

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
        where = None if namespace is None else (namespace, None)
        if node is None:
            return self.cache.insert(key, slots, where, priority=priority).prefix_len
        return self.cache.insert(key, slots[known:], where, priority=priority, resume=(node, known)).prefix_len

    def lock(self, node: Any) -> Any:
        return self.cache.lock(node)

    def unlock(self, receipt: Any) -> None:
        self.cache.unlock(receipt)

    def evict(self, num_tokens: int) -> int:
        slots = self.cache.evict(num_tokens)
        if self.freed.recording:
            self.freed.slots.extend(slots.tolist())
        return len(slots)

    def evictable_size(self) -> int:
        return self.cache.evictable_size

    def protected_size(self) -> int:
        return self.cache.protected_size


class IsoradixU32(Isoradix):
    """The same cache fed with numpy uint32, half the bytes of `array('q')`."""

    def key(self, tokens: Tokens) -> Any:
        return tokens.astype(np.uint32)
