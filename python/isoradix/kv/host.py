"""KV of host pages."""

import weakref
from types import TracebackType
from typing import Final, Literal, TypeAlias, get_args

import torch

from isoradix import IntSequence, InvalidInputError
from isoradix.kv import checks
from isoradix.kv.memory import HostMemory, HostMemoryError
from isoradix.kv.shape import KVShape, row_bytes

Layout: TypeAlias = Literal["layer_first", "page_first"]

PAGES_MAX: Final = (1 << 31) - 1
PAGE_SIZE_MAX: Final = 1024


class HostPool:
    """Pages of KV in one allocation of host memory.

    ============  =====================================  =========================================
    layout        order of the bytes                     good for
    ============  =====================================  =========================================
    layer_first   [layer][part][page][token][element]    consecutive pages are one copy in a layer
    page_first    [page][layer][part][token][element]    a page is one piece, for external storage
    ============  =====================================  =========================================

    It is a context manager. A pool that is not closed is released when it is collected or when the interpreter ends, in
    user space and before its process is gone: the kernel alone would take long over pinned memory.

    Args:
        shape: of a token.
        num_pages: pages, 0 to 2**31 - 1.
        page_size: tokens in a page, 1 to 1024.
        layout: order of the bytes.
        pinned: whether the memory is locked and registered with CUDA; None: if CUDA is there. Unpinned memory is taken
            from the machine when it is first written.

    Raises:
        HostMemoryError: there is no such memory, or it cannot be pinned.
        InvalidInputError: a value is out of its range.
        InputTypeError: a value has the wrong type.
    """

    def __init__(
        self,
        shape: KVShape,
        num_pages: int,
        page_size: int,
        layout: Layout = "layer_first",
        pinned: bool | None = None,
    ) -> None:
        self.shape = shape
        self.num_pages = checks.whole("num_pages", num_pages, 0, PAGES_MAX, "pages_within turns bytes into pages")
        self.page_size = checks.whole("page_size", page_size, 1, PAGE_SIZE_MAX, "use the page size of the cache")
        if layout not in get_args(Layout):
            raise InvalidInputError(
                f"layout {layout!r} is unknown\nhint: one of {', '.join(map(repr, get_args(Layout)))}"
            )
        self.layout: Layout = layout
        self.pinned = torch.cuda.is_available() if pinned is None else pinned
        self.failure: str | None = None
        """Why there are no pages, of a pool from `try_new` whose memory failed."""
        self._memory = HostMemory(self.num_pages * self.page_size * shape.bytes_per_token, self.pinned)
        self._finalizer = weakref.finalize(self, self._memory.release)

    @classmethod
    def try_new(
        cls,
        shape: KVShape,
        num_pages: int,
        page_size: int,
        layout: Layout = "layer_first",
        pinned: bool | None = None,
    ) -> "HostPool":
        """A pool, or one without pages where the memory fails: `failure` says why.

        A rank must come to the agreement at start whether it has memory or not, and votes `num_pages`; an error here
        would leave all other ranks waiting.

        Raises:
            InvalidInputError, InputTypeError: as the class does.
        """
        try:
            return cls(shape, num_pages, page_size, layout, pinned)
        except HostMemoryError as error:
            pool = cls(shape, 0, page_size, layout, pinned)
            pool.failure = str(error)
            return pool

    # where its bytes are

    @property
    def memory(self) -> torch.Tensor:
        """All of its memory: uint8, one-dimensional.

        Raises:
            ProtocolError: the pool is closed.
        """
        return self._memory.bytes

    @property
    def closed(self) -> bool:
        """Whether its memory was given up."""
        return self._memory.closed

    @property
    def _page_bytes(self) -> int:
        """Bytes of a page in one layer and part."""
        return self.page_size * row_bytes(self.shape)

    def rows(self, layer: int, part: str) -> torch.Tensor:
        """All pages of one layer and part: uint8, [num_pages, bytes of a page there]. Page first, rows lie apart.

        Raises:
            InvalidInputError: there is no such layer or part.
            ProtocolError: the pool is closed.
        """
        memory = self.memory
        parts = self.shape.parts
        layer = checks.place("layer", layer, self.shape.layers)
        index = layer * len(parts) + parts.index(checks.part(part, parts))
        size = self._page_bytes
        if self.layout == "layer_first":
            stride, offset = size, index * self.num_pages * size
        else:
            stride, offset = self.shape.layers * len(parts) * size, index * size
        return memory.as_strided((self.num_pages, size), (stride, 1), offset)

    def page(self, layer: int, part: str, page: int) -> torch.Tensor:
        """One page of one layer and part, where it lies: [page_size, width] of the shape's dtype.

        Raises:
            InvalidInputError: there is no such layer, part or page.
            ProtocolError: the pool is closed.
        """
        row = self.rows(layer, part)[checks.place("page", page, self.num_pages)]
        return row.view(self.shape.dtype).view(self.page_size, self.shape.width)

    def page_bytes(self, page: int) -> torch.Tensor:
        """A whole page where it lies, all layers and parts: uint8, one-dimensional. Page first only.

        Raises:
            InvalidInputError: there is no such page, or the layout is layer first.
            ProtocolError: the pool is closed.
        """
        if self.layout != "page_first":
            raise InvalidInputError(
                "page_bytes of a layer_first pool: a page is not in one piece there\n"
                "hint: make the pool with layout='page_first'"
            )
        memory = self.memory
        size = self.page_size * self.shape.bytes_per_token
        return memory.narrow(0, checks.place("page", page, self.num_pages) * size, size)

    def poison(self, pages: IntSequence) -> None:
        """Overwrites pages, so that whoever reads them sees no number: all bits are set, which is NaN in every float
        format.

        Raises:
            InvalidInputError: there is no such page. Nothing is written.
            ProtocolError: the pool is closed.
        """
        rows = torch.from_numpy(checks.ids("page", pages, self.num_pages))
        for layer in range(self.shape.layers):
            for part in self.shape.parts:
                self.rows(layer, part)[rows] = checks.POISON

    # its end

    def close(self) -> None:
        """Waits for the device, unregisters the memory and unmaps it, in this order. A no-op the second time.

        Engines are closed before. Memory that a tensor from `page` or `rows` still shows is unmapped with the last such
        tensor.
        """
        self._finalizer()

    def __enter__(self) -> "HostPool":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
