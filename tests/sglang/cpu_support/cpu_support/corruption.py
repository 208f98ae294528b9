"""Replaces one cached page by another one, once: a cache that did so must not go unnoticed.

`ISORADIX_TEST_CORRUPT=rank=R,match=N`: on rank R, when the N-th request begins that found two pages or more in the
cache, its first page's keys and values become those of its second page. A mere swap of both would be invisible, since
attention knows no order beside what the keys already hold.
"""

import logging
from typing import Any

logger = logging.getLogger(__name__)


def plant_corruption(text: str) -> None:
    """Plants it in this process.

    Raises:
        ValueError: the text is not of that form.
    """
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    values = dict(pair.split("=") for pair in text.split(","))
    if values.keys() != {"rank", "match"}:
        raise ValueError(f"ISORADIX_TEST_CORRUPT is {text!r}, not rank=R,match=N")
    HookRegistry.register(
        "sglang.srt.managers.schedule_batch.ScheduleBatch.prepare_for_extend",
        _Corruption(int(values["rank"]), int(values["match"])).after_prepare,
        HookType.AFTER,
    )


class _Corruption:
    def __init__(self, rank: int, match: int) -> None:
        self._rank = rank
        self._left = match

    def after_prepare(self, _: Any, batch: Any, *__: Any, **___: Any) -> None:
        import torch.distributed

        allocator = batch.token_to_kv_pool_allocator
        page = allocator.page_size
        for request, found in zip(batch.req_pool_indices.tolist(), batch.prefix_lens, strict=True):
            if found < 2 * page or self._left <= 0:
                continue
            self._left -= 1
            if self._left == 0 and torch.distributed.get_rank() == self._rank:
                row = batch.req_to_token_pool.req_to_token[request]
                _replace(allocator.get_kvcache(), row[:page].long(), row[page : 2 * page].long())
                logger.warning("[fault corrupt] slots %s now hold those of %s", row[0].item(), row[page].item())


def _replace(pool: Any, to: Any, by: Any) -> None:
    for plane in (*pool.k_buffer, *pool.v_buffer):
        plane[to] = plane[by]
