"""What enters and leaves the cache, in the server's own words."""

from collections.abc import Iterable
from typing import Any

from sglang.srt.disaggregation import kv_events as server

from isoradix import AllBlocksCleared, BlockRemoved, BlockStored


def for_server(events: Iterable[BlockStored | BlockRemoved | AllBlocksCleared], lora_names: Any) -> list[Any]:
    """Events as the server publishes them; block hashes are this package's own.

    Args:
        events: of the tree, oldest first.
        lora_names: the server's table from namespace to the public name of an adapter.
    """
    return [_event(event, lora_names) for event in events]


def _event(event: BlockStored | BlockRemoved | AllBlocksCleared, lora_names: Any) -> Any:
    match event:
        case BlockStored():
            return server.BlockStored(
                block_hashes=event.block_hashes,
                parent_block_hash=event.parent_block_hash,
                token_ids=event.token_ids,
                block_size=event.block_size,
                lora_id=None,
                medium=event.medium,
                cache_salt=event.cache_salt,
                lora_name=lora_names.get(event.lora_name),
            )
        case BlockRemoved():
            return server.BlockRemoved(block_hashes=event.block_hashes, medium=event.medium)
        case _:
            return server.AllBlocksCleared()
