"""The next chunk's length, the same on every rank."""

import struct
from collections.abc import Iterable
from typing import Final

from isoradix import Control, InvalidInputError
from isoradix._isoradix import next_chunk
from isoradix.chunking.model import ChunkModel

CHUNK_KEY: Final = 2**32 - 2
"""Switch of the first coefficient; that of the second is the next one."""


class ChunkSizer:
    """How many tokens the next chunk of a request has, from coefficients that all ranks have agreed on.

    The leader passes `controls(model)` to a step; every rank passes the controls of each frame to `hear`, before it
    asks for a chunk in that step. Until then, and where a model could not be fitted, chunks keep their size. The
    arguments are equal on all ranks.

    Args:
        base: tokens of the first chunk: the fixed size.
        page_size: tokens in a page, 1 to 1024.
        context: tokens that a request may have.
        most: tokens that a batch of prefill may have.
        key: the switch by which coefficients travel, and the one after it; the program has no other use for both.

    Raises:
        InvalidInputError, InputTypeError: a value is out of its range or has the wrong type.
    """

    def __init__(self, *, base: int, page_size: int, context: int, most: int, key: int = CHUNK_KEY) -> None:
        if not 0 <= key <= CHUNK_KEY:
            raise InvalidInputError(
                f"key is {key}, limits 0 to {CHUNK_KEY}\nhint: two switches are needed, this and the next"
            )
        next_chunk(
            1.0, 0.0, 0, base=base, page_size=page_size, context=context, most=most
        )  # refuses what is out of range
        self._base, self._page_size, self._context, self._most = base, page_size, context, most
        self._key = key
        self.coefficients: tuple[float, float] | None = None
        """The agreed ones, of the square and of the length, in milliseconds; None before any."""

    def controls(self, model: ChunkModel) -> list[Control]:
        """What the leader tells in a frame: both coefficients, bit by bit."""
        return [Control.mode(self._key + at, _bits(value)) for at, value in enumerate((model.a, model.b))]

    def hear(self, controls: Iterable[Control]) -> None:
        """Takes the coefficients from a frame, if it brings any. On every rank, with each frame.

        Raises:
            InvalidInputError: the frame brings one of them alone, or such as no leader sends; nothing is changed.
        """
        modes = {control.key: control.value for control in controls if control.kind == "mode"}
        a, b = (modes.get(self._key + at) for at in range(2))
        if a is None and b is None:
            return
        if a is None or b is None:
            raise InvalidInputError(
                f"a frame sets switch {self._key if b is None else self._key + 1} alone\n"
                "hint: pass all of ChunkSizer.controls(model) to one step, and use no such key for anything else"
            )
        model = ChunkModel(_number(a), _number(b))
        self.coefficients = (model.a, model.b)

    def next_chunk(self, history: int) -> int | None:
        """How many tokens the next chunk of a request has; None for the fixed size, or what is left where there is no
        room for another chunk in the context.

        Args:
            history: tokens of the request that are cached or computed.

        Raises:
            InvalidInputError, InputTypeError: `history` is no number from 0 on.
        """
        a, b = self.coefficients or (1.0, 0.0)
        chunk = next_chunk(
            a, b, history, base=self._base, page_size=self._page_size, context=self._context, most=self._most
        )
        return chunk if self.coefficients is not None else None


def _bits(value: float) -> int:
    return int(struct.unpack("<Q", struct.pack("<d", value))[0])


def _number(bits: int) -> float:
    return float(struct.unpack("<d", struct.pack("<Q", bits))[0])
