"""What a listener to KV events knows: which blocks are in which tier, named alike whichever cache has told it."""

from collections.abc import Iterable
from typing import Any

Block = tuple[int | None, tuple[int, ...], str | None]
"""The number of the block above, its own tokens, the salt."""


class Listener:
    """Takes in events as a router does: a block is stored once in a tier, and removed if it is there.

    Args:
        numbers: of blocks, shared by listeners that are to be compared: hashes are each cache's own.
        closed: whether a tier never has a block without the one above it.
    """

    def __init__(self, numbers: dict[Block, int], closed: bool) -> None:
        self._numbers = numbers
        self._closed = closed
        self._known: dict[int, int] = {}
        self._tiers: dict[str, dict[int, int]] = {}

    def hear(self, events: Iterable[Any]) -> None:
        """What a cache has published, oldest first."""
        for event in events:
            match type(event).__name__:
                case "BlockStored":
                    self._store(event)
                case "BlockRemoved":
                    tier = self._tier(event)
                    for block_hash in event.block_hashes:
                        del tier[block_hash]
                case _:
                    self._tiers.clear()

    def blocks(self, medium: Any) -> set[int]:
        """Numbers of the blocks in a tier."""
        return set(self._tiers.get(str(medium.value), {}).values())

    def _store(self, event: Any) -> None:
        tier = self._tier(event)
        above = None if event.parent_block_hash is None else self._known[event.parent_block_hash]
        assert not self._closed or above is None or event.parent_block_hash in tier, "parents first"
        for at, block_hash in enumerate(event.block_hashes):
            tokens = tuple(event.token_ids[at * event.block_size : (at + 1) * event.block_size])
            above = self._numbers.setdefault((above, tokens, event.cache_salt), len(self._numbers))
            assert block_hash not in tier, "stored twice"
            tier[block_hash] = self._known[block_hash] = above

    def _tier(self, event: Any) -> dict[int, int]:
        # one cache names it by the enumeration, the other by its value: on the wire they are the same
        return self._tiers.setdefault(str(getattr(event.medium, "value", event.medium)), {})
