"""Token contents without a tokenizer: 512 tokens from each hash id of a trace, any run of tokens from a stream number.

A trace holds no text, only ids of which equal ones mean equal prefixes. The expansion gives each id its own tokens,
the same in every process and on every machine.
"""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

Tokens = npt.NDArray[np.uint32]

BLOCK_TOKENS: Final = 512
VOCABULARY: Final = 151_936
_GOLDEN: Final = np.uint64(0x9E37_79B9_7F4A_7C15)
_VOCABULARY: Final = np.uint64(VOCABULARY)
_MIX: Final = np.uint64(0xBF58_476D_1CE4_E5B9)
_OFFSETS: Final = np.arange(1, BLOCK_TOKENS + 1, dtype=np.uint64)
# 2^24 positions for each stream: longer than any prompt a generator makes
_STREAM_BITS: Final = 24


def scramble(positions: npt.NDArray[np.uint64]) -> Tokens:
    """One token for each position; the first half of SplitMix64's finaliser, taken modulo the vocabulary."""
    mixed = positions * _GOLDEN
    mixed ^= mixed >> np.uint64(30)
    mixed *= _MIX
    mixed ^= mixed >> np.uint64(27)
    # numpy has a fast path for division by a constant, but not for the remainder
    mixed -= mixed // _VOCABULARY * _VOCABULARY
    return mixed.astype(np.uint32)


def expand(hash_ids: npt.NDArray[np.uint64]) -> Tokens:
    """The tokens of each block, one row of 512 for each id."""
    return scramble((hash_ids * np.uint64(BLOCK_TOKENS))[:, None] + _OFFSETS)


def stream_tokens(stream: int, length: int) -> Tokens:
    """The first `length` tokens of a stream; streams do not overlap below 2^24 tokens."""
    first = np.uint64((stream << _STREAM_BITS) & (2**64 - 1))
    return scramble(np.arange(1, length + 1, dtype=np.uint64) + first)


class BlockTable:
    """Expanded blocks, kept for reuse up to a limit; the least recently used block makes room."""

    def __init__(self, limit_bytes: int = 64 << 20) -> None:
        # memory becomes resident only where a block is written
        self._store = np.empty((max(1, limit_bytes // (BLOCK_TOKENS * 4)), BLOCK_TOKENS), dtype=np.uint32)
        self._places: OrderedDict[int, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._places)

    def tokens(self, hash_ids: Sequence[int], length: int) -> Tokens:
        """The prompt of one request: its blocks one after the other, cut to `length` tokens."""
        hash_ids = hash_ids[: -(-length // BLOCK_TOKENS)]
        if len(hash_ids) > len(self._store):
            return expand(np.array(hash_ids, dtype=np.uint64)).ravel()[:length]
        missing: dict[int, int] = {}
        places = [self._place(hash_id, missing) for hash_id in hash_ids]
        if missing:
            self._store[list(missing.values())] = expand(np.array(list(missing), dtype=np.uint64))
        return self._store[places].ravel()[:length]

    def _place(self, hash_id: int, missing: dict[int, int]) -> int:
        """Where the block is, or will be once what is missing has been expanded."""
        places = self._places
        place = places.get(hash_id)
        if place is not None:
            places.move_to_end(hash_id)
            return place
        # the blocks of this request were used last, so none of them is the one that goes
        place = len(places) if len(places) < len(self._store) else places.popitem(last=False)[1]
        places[hash_id] = missing[hash_id] = place
        return place
