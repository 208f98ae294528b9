"""KV that can be told apart: a token's KV on one rank follows from all tokens up to it, the layer, the part, the rank.

So whatever a mistake puts into a slot (a page of another prefix, position, layer, rank or namespace, a page that was
there before, two pages exchanged) is not what belongs there. Vectorised: a few passes over eight bytes a token.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

from isoradix import IsoradixError
from isoradix.replay.blocks import Tokens

Words = npt.NDArray[np.uint64]

WORD_BYTES: Final = 8
PARTS: Final = ("k", "v")
_GOLDEN: Final = 0x9E37_79B9_7F4A_7C15
_MIX: Final = np.uint64(0xBF58_476D_1CE4_E5B9)
_WORD: Final = 2**64 - 1
_SHIFT: Final = np.uint64(29)


class WrongBytesError(IsoradixError, AssertionError):
    """A slot holds other bytes than those that belong to its token."""


def prefix_words(key: Tokens, namespace: int = 0) -> Words:
    """One word for each token: a hash of the namespace and of all tokens up to it."""
    mixed = key.astype(np.uint64)
    mixed += np.arange(1, len(key) + 1, dtype=np.uint64) << np.uint64(32)
    mixed *= np.uint64(_GOLDEN)
    mixed ^= mixed >> _SHIFT
    mixed *= _MIX
    np.cumsum(mixed, out=mixed)  # it wraps around
    mixed ^= np.uint64(salt(namespace))
    return mixed


def salt(*numbers: int) -> int:
    """A word that differs for different numbers, in every process the same."""
    word = 0
    for number in numbers:
        word = (word ^ (number + 1)) * _GOLDEN & _WORD
        word ^= word >> 31
    return word


class KvBytes:
    """The KV of one rank.

    Args:
        views: a view of each layer's and part's slots, one word a slot; layers counted over the whole model.
        rank: the rank, as its bytes and messages name it.
    """

    def __init__(self, views: Mapping[tuple[int, str], Words], rank: int) -> None:
        self._rank = rank
        self._layers: dict[int, list[tuple[str, Words, np.uint64]]] = {}
        for (layer, part), view in views.items():
            mark = np.uint64(salt(rank, layer, PARTS.index(part)))
            self._layers.setdefault(layer, []).append((part, view, mark))
        self.written = self.checked = 0

    @property
    def layers(self) -> list[int]:
        return list(self._layers)

    def write(self, slots: npt.NDArray[np.int64], words: Words) -> None:
        """What a forward pass leaves: the KV of tokens in their slots, in every layer."""
        for parts in self._layers.values():
            for _, view, mark in parts:
                view[slots] = words ^ mark
        self.written += len(slots)

    def check(self, layer: int, slots: npt.NDArray[np.int64], words: Words, offsets: npt.NDArray[np.int64]) -> None:
        """Compares one layer's KV of tokens with what belongs there; `offsets` are the tokens' places in their request.

        Raises:
            WrongBytesError: with rank, layer, part, token and slot.
        """
        for part, view, mark in self._layers[layer]:
            wrong = np.flatnonzero(view[slots] != words ^ mark)
            if len(wrong):
                first = int(wrong[0])
                slot, offset = int(slots[first]), int(offsets[first])
                found, right = int(view[slot]), int(words[first] ^ mark)
                raise WrongBytesError(
                    f"wrong bytes on rank {self._rank}, layer {layer}, {part}, token {offset}, slot {slot}: "
                    f"{found:016x} where {right:016x} belongs; {len(wrong):,} of {len(slots):,} tokens are wrong"
                    "\nhint: the copy of another page, or of nothing, was served as this one"
                )
        self.checked += len(slots)
