"""Token ids, written by the core as what they have beyond an earlier key of the same segment, and read back here."""

from collections import OrderedDict
from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

Tokens = npt.NDArray[np.uint32]

_KEYS_MAX: Final = 4096
_TOKENS_MAX: Final = 1 << 22


class KeyReader:
    """Makes keys whole again, in the order in which they were written.

    As the writer, it keeps the last 4,096 by number, without those of more than 4 Mi tokens; and of each only what it
    has beyond the earlier one.
    """

    def __init__(self) -> None:
        self._keys: OrderedDict[int, tuple[Tokens, ...]] = OrderedDict()
        self._number = 0

    def restore(self, number: int, shared: int, rest: Tokens) -> Tokens | None:
        """The key: the first `shared` tokens of an earlier one (0 for none), and the rest. None where the earlier one
        is not known, which no writer does."""
        earlier = self._keys.get(number) if number else ()
        if earlier is None:
            return None
        length = sum(map(len, earlier))
        if shared > length:
            return None
        pieces = (*_beginning(earlier, shared), rest)
        key = np.concatenate(pieces)
        again = number and not len(rest) and shared == length
        if not again and len(key) <= _TOKENS_MAX:
            self._number += 1
            self._keys[self._number] = pieces
            if len(self._keys) > _KEYS_MAX:
                self._keys.popitem(last=False)
        return key


def _beginning(pieces: tuple[Tokens, ...], length: int) -> Iterator[Tokens]:
    """The first `length` tokens."""
    for piece in pieces:
        if length <= 0:
            return
        yield piece[:length]
        length -= len(piece)
