"""What enters and leaves the cache, in the server's own words."""

from collections.abc import Callable, Iterable
from typing import Any

from sglang.srt.disaggregation import kv_events as server

from isoradix import AllBlocksCleared, BlockRemoved, BlockStored

LoraName = Callable[[str | None], str | None]
"""The public name of the adapter that a namespace is for, if it is for one."""


def lora_name(params: Any) -> LoraName:
    """How the server names adapters in events.

    Args:
        params: its `CacheInitParams`. 0.5.22 has no table without adapters, and names them in Dynamo's format alone.
    """
    name = "resolve" if params.dynamo_kv_event_format else "get"
    return getattr(params.kv_event_lora_names, name, lambda _: None)


def for_server(events: Iterable[BlockStored | BlockRemoved | AllBlocksCleared], named: LoraName) -> list[Any]:
    """Events as the server publishes them; block hashes are this package's own.

    Args:
        events: of the tree, oldest first.
        named: of `lora_name`.
    """
    return [_event(event, named) for event in events]


def _event(event: BlockStored | BlockRemoved | AllBlocksCleared, named: LoraName) -> Any:
    match event:
        case BlockStored():
            return server.BlockStored(
                block_hashes=event.block_hashes,
                parent_block_hash=event.parent_block_hash,
                token_ids=event.token_ids,
                block_size=event.block_size,
                lora_id=None,
                medium=server.StorageMedium(event.medium),
                cache_salt=event.cache_salt,
                lora_name=named(event.lora_name),
            )
        case BlockRemoved():
            return server.BlockRemoved(block_hashes=event.block_hashes, medium=server.StorageMedium(event.medium))
        case _:
            return server.AllBlocksCleared()
