"""Token ids, written as what they have beyond an earlier key of the same segment."""

from collections import OrderedDict
from typing import Final

import numpy as np
import numpy.typing as npt

Tokens = npt.NDArray[np.uint32]

_KEYS_MAX: Final = 1024
_TOKENS_MAX: Final = 1 << 22
_SHORTEST: Final = 16
"""Tokens that two keys have in common at least where one is written beyond the other."""

_NAMED: Final = 32
"""Bytes at the end of a beginning by which it is looked up."""


class RecentKeys:
    """The last keys, by number. Writer and reader keep the same ones: at most 1,024, of at most 4 Mi tokens together,
    but always the newest."""

    def __init__(self) -> None:
        self._keys: OrderedDict[int, Tokens] = OrderedDict()
        self._number = 0
        self._tokens = 0

    def add(self, key: Tokens) -> int:
        """Keeps one more; its number, from 1."""
        self._number += 1
        self._keys[self._number] = key
        self._tokens += len(key)
        while len(self._keys) > _KEYS_MAX or (self._tokens > _TOKENS_MAX and len(self._keys) > 1):
            self._tokens -= len(self._keys.popitem(last=False)[1])
        return self._number

    def get(self, number: int) -> Tokens | None:
        """The key of that number, while it is kept."""
        return self._keys.get(number)


class KeyWriter:
    """Finds what a key has in common with a recent one.

    A key is looked up by the tokens at the end of its beginnings of 16, 32, 64 ... tokens and of all of it, the longest
    first: that costs the same for long keys as for short ones, and what is found is compared.
    """

    def __init__(self) -> None:
        self._recent = RecentKeys()
        self._beginnings: dict[tuple[int, bytes], int] = {}

    def shorten(self, key: Tokens) -> tuple[int, int, Tokens]:
        """The number of an earlier key (0 for none), how many of its tokens come first, and those that follow."""
        length, data = len(key), key.data.cast("B")
        lengths = [1 << power for power in range(4, length.bit_length()) if 1 << power < length]
        names = [(one, bytes(data[max(4 * one - _NAMED, 0) : 4 * one])) for one in (*lengths, length)]
        for name in reversed(names):
            number = self._beginnings.get(name, 0)
            earlier = self._recent.get(number)
            if earlier is None or (shared := _shared(earlier, key)) < min(_SHORTEST, length):
                continue
            if shared == length == len(earlier):
                return number, shared, key[:0]  # the same again: it is kept already
            self._keep(key, names)
            return number, shared, key[shared:]
        self._keep(key, names)
        return 0, 0, key

    def _keep(self, key: Tokens, names: list[tuple[int, bytes]]) -> None:
        if len(self._beginnings) > 32 * _KEYS_MAX:
            self._beginnings.clear()
        self._beginnings.update(dict.fromkeys(names, self._recent.add(key)))


class KeyReader:
    """Makes keys whole again, in the order in which they were written."""

    def __init__(self) -> None:
        self._recent = RecentKeys()

    def restore(self, number: int, shared: int, rest: Tokens) -> Tokens | None:
        """The key; None where the earlier one is not known, which no writer does."""
        earlier = self._recent.get(number) if number else rest[:0]
        if earlier is None or shared > len(earlier):
            return None
        if number and not len(rest) and shared == len(earlier):
            return earlier
        key = np.concatenate((earlier[:shared], rest))
        self._recent.add(key)
        return key


def _shared(one: Tokens, other: Tokens) -> int:
    """Leading tokens that are equal."""
    length = min(len(one), len(other))
    unequal = one[:length] != other[:length]
    first = int(unequal.argmax()) if length else 0
    return first if length and unequal[first] else length
