"""Dynamic chunks of a prefill (`--enable-dynamic-chunking`), from coefficients that the leader tells all ranks.

The server measures on the first stage and gives the samples to every rank, each of which fits them and takes roots of
what it has fitted: on machines that round differently, to different chunks. Here the server measures and fits, and only
the leader's coefficients count: they travel in a frame, and chunks follow from them in integers.
"""

import logging
from collections.abc import Callable, Iterable
from typing import Any, Final

from sglang.srt.mem_cache.base_prefix_cache import EvictResult, MatchResult

from isoradix import Control
from isoradix.chunking import ChunkModel, ChunkSizer

logger: Final = logging.getLogger("isoradix")


class Apart:
    """A cache as one that holds nothing and keeps nothing: what one stage does with it, the others need not do.

    Args:
        cache: of this rank.
    """

    def __init__(self, cache: Any) -> None:
        self._cache = cache

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cache, name)

    def match_prefix(self, _params: Any) -> MatchResult:
        """Nothing is found."""
        root = self._cache.root_node
        return MatchResult(device_prefix_len=0, last_device_node=root, last_host_node=root, best_match_node=root)

    def lock(self, _node: Any) -> None:
        """Nothing is there to be kept."""

    def unlock(self, _lock: Any) -> None:
        """Nothing was kept."""

    def evict(self, _params: Any) -> EvictResult:
        """Nothing is there to be given up."""
        return EvictResult()


class Chunks:
    """The chunks of one rank. All calls come from the scheduler's thread.

    Args:
        leads: whether this rank leads its domain.
    """

    def __init__(self, leads: bool) -> None:
        self._leads = leads
        self._sizer: ChunkSizer | None = None
        self._told: list[Control] = []

    def profile(self, measure: Callable[[Any], bool], server: Any) -> bool:
        """Lets the server measure and fit, beside the tree: one stage measures, and all trees are to stay equal.

        Args:
            measure: its `DynamicChunkSizer.profile_and_fit`.
            server: its sizer.

        Returns:
            Whether it is asked for chunks: always, since the leader's frame says whether there are any.
        """
        tree, server.tree_cache = server.tree_cache, Apart(server.tree_cache)
        try:
            fitted = measure(server)
        finally:
            server.tree_cache = tree
        self._sizer = ChunkSizer(
            base=server.chunked_prefill_size,
            page_size=server.page_size,
            context=server.model_config.context_len,
            most=server.max_prefill_tokens,
        )
        if self._leads and fitted:
            model = ChunkModel(server.predictor.quadratic_coeff_a, server.predictor.linear_coeff_b)
            self._told = self._sizer.controls(model)
        return True

    def controls(self) -> list[Control]:
        """What the leader tells with the next frame, once."""
        told, self._told = self._told, []
        return told

    def hear(self, controls: Iterable[Control]) -> None:
        """Takes what a frame tells."""
        if self._sizer is None or self._sizer.coefficients is not None:
            return
        self._sizer.hear(controls)
        if self._sizer.coefficients is not None:
            logger.info("dynamic chunks by the leader's coefficients: %g, %g ms", *self._sizer.coefficients)

    def next(self, history: int) -> int | None:
        """Tokens of the next chunk behind so many; None for the server's fixed size."""
        return None if self._sizer is None else self._sizer.next_chunk(history)
