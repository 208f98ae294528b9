"""Where pages lie in memory, so that an engine can read and write them in place."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from isoradix import InputTypeError, IntSequence, InvalidInputError

if TYPE_CHECKING:
    from isoradix.kv import HostPool

Order: TypeAlias = Literal["layer", "part", "token"]
"""Order of a page's bytes: layer is [layer][part][token], part [part][layer][token], token [part][token][layer]."""

PAGES_MAX: Final = 1 << 16


@dataclass(frozen=True, eq=False)
class PageViews:
    """Pages as pieces of one memory. All pieces have the same size; a page's pieces, in order, are its bytes.

    Args:
        memory: all of it: a contiguous, one-dimensional buffer of uint8, which can be written where pages are read into
            it. An engine may register it once, so hand in the same object every time.
        offsets: where each piece begins in it, in bytes: int64, [pages, pieces].
        piece_bytes: bytes of a piece.
        spare: bytes behind each page's last piece that belong to nobody else. An engine may keep what it puts behind a
            page there (`Capabilities.spare_bytes`), and so move both as one.

    Raises:
        InvalidInputError: a piece is not in the memory, or there are more than 65536 pages.
        InputTypeError: the memory is no such buffer, or the offsets are no such array.
    """

    memory: Any
    offsets: npt.NDArray[np.int64]
    piece_bytes: int
    spare: int = 0

    def __post_init__(self) -> None:
        view = self._view()
        if view.ndim != 1 or view.itemsize != 1 or not view.contiguous:
            raise InputTypeError(
                f"memory has {view.ndim} dimensions and items of {view.itemsize} bytes; one dimension of bytes without "
                "gaps is needed\nhint: pass a bytearray, or pool.memory.numpy() of a HostPool"
            )
        if self.offsets.ndim != 2 or self.offsets.dtype != np.int64 or not self.offsets.flags.c_contiguous:
            raise InputTypeError(
                f"offsets have {self.offsets.ndim} dimensions of {self.offsets.dtype}; int64 [pages, pieces] is "
                "needed\n"
                "hint: PageViews.whole and PageViews.of_pool make them"
            )
        if len(self) > PAGES_MAX:
            raise InvalidInputError(
                f"{len(self)} pages in one call; the limit is {PAGES_MAX}\nhint: make several calls"
            )
        if self.piece_bytes < 1 or (self.offsets.size and self._outside(view.nbytes)):
            raise InvalidInputError(
                f"pieces of {self.piece_bytes} bytes at {self.offsets.min(initial=0)} to {self.offsets.max(initial=0)} "
                f"are not in a memory of {view.nbytes} bytes\nhint: offsets are counted in bytes"
            )

    def _outside(self, size: int) -> bool:
        return bool(self.offsets.min() < 0 or self.offsets.max() > size - self.piece_bytes - self.spare)

    def _view(self) -> memoryview:
        try:
            return memoryview(self.memory)
        except TypeError as error:
            raise InputTypeError(
                f"memory is {type(self.memory).__name__}, which is no buffer\nhint: pass a bytearray or a numpy array"
            ) from error

    @classmethod
    def whole(cls, memory: Any, page_bytes: int, pages: "IntSequence | None" = None, *, spare: int = 0) -> "PageViews":
        """Pages in one piece each, one after another in the memory.

        Args:
            memory: as of the class.
            page_bytes: bytes of a page.
            pages: their numbers; all that there are if None.
            spare: bytes behind each of them, as of the class.

        Raises:
            InvalidInputError, InputTypeError: as the class does.
        """
        if spare < 0:
            raise InvalidInputError(f"spare is {spare}; at least 0 is needed\nhint: pass capabilities.spare_bytes")
        if page_bytes < 1:
            raise InvalidInputError(f"page_bytes is {page_bytes}; at least 1 is needed\nhint: pass the bytes of a page")
        stride = page_bytes + spare
        there = memoryview(memory).nbytes // stride
        numbers = np.arange(there) if pages is None else np.asarray(pages, np.int64)
        return cls(memory, np.ascontiguousarray(numbers.reshape(-1, 1) * stride, np.int64), page_bytes, spare)

    @classmethod
    def of_pool(cls, pool: "HostPool", pages: IntSequence, order: Order = "layer") -> "PageViews":
        """Pages of host memory where they lie, in either layout: with one order they have the same bytes in both.

        Args:
            pool: host memory.
            pages: page numbers.
            order: of the bytes; "layer" is one piece a page in a page-first pool.

        Raises:
            InvalidInputError: there is no such page or order.
            ProtocolError: the pool is closed.
        """
        if order not in get_args(Order):
            raise InvalidInputError(f"order {order!r} is unknown\nhint: one of {', '.join(map(repr, get_args(Order)))}")
        numbers = np.asarray(pages, np.int64).reshape(-1, 1)
        if numbers.size and not (numbers.min() >= 0 and numbers.max() < pool.num_pages):
            raise InvalidInputError(
                f"pages {numbers.min()} to {numbers.max()}; the pool has 0 to {pool.num_pages - 1}\n"
                "hint: pass numbers of host pages"
            )
        memory = pool.memory.numpy()
        page_bytes = pool.page_size * pool.shape.bytes_per_token
        if order == "layer" and pool.layout == "page_first":
            return cls(memory, numbers * page_bytes, page_bytes)
        layers, parts = pool.shape.layers, len(pool.shape.parts)
        row = page_bytes // (layers * parts)
        buffers = np.arange(layers * parts).reshape(layers, parts)
        if pool.layout == "page_first":
            starts, stride = buffers * row, page_bytes
        else:
            starts, stride = buffers * row * pool.num_pages, row
        if order == "layer":
            pieces, size = starts.reshape(-1), row
        elif order == "part":
            pieces, size = starts.T.reshape(-1), row
        else:
            size = row // pool.page_size
            tokens = np.arange(pool.page_size) * size
            pieces = (starts.T[:, None, :] + tokens[None, :, None]).reshape(-1)
        return cls(memory, np.ascontiguousarray(numbers * stride + pieces[None, :], np.int64), size)

    def __len__(self) -> int:
        return int(self.offsets.shape[0])

    @property
    def pieces(self) -> int:
        """Pieces of a page."""
        return int(self.offsets.shape[1])

    @property
    def page_bytes(self) -> int:
        """Bytes of a page."""
        return self.pieces * self.piece_bytes

    def take(self, places: Sequence[int]) -> "PageViews":
        """Some of the pages, by their places in this batch; itself if it is all of them in order."""
        if list(places) == list(range(len(self))):
            return self
        return PageViews(self.memory, np.ascontiguousarray(self.offsets[list(places)]), self.piece_bytes, self.spare)

    def read(self, place: int) -> bytes:
        """A copy of a page's bytes."""
        view, size = self._view().cast("B"), self.piece_bytes
        return b"".join(view[offset : offset + size] for offset in self.offsets[place].tolist())

    def write(self, place: int, data: bytes | memoryview) -> None:
        """Overwrites a page with as many bytes.

        Raises:
            InvalidInputError: there are more or fewer. Nothing is written.
        """
        if len(data) != self.page_bytes:
            raise InvalidInputError(f"{len(data)} bytes for a page of {self.page_bytes}\nhint: check the size before")
        view, source, size = self._view().cast("B"), memoryview(data), self.piece_bytes
        for number, offset in enumerate(self.offsets[place].tolist()):
            view[offset : offset + size] = source[number * size : (number + 1) * size]
