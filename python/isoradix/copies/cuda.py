"""Copies between a CUDA device and pinned host memory, by streams."""

from collections import deque
from collections.abc import Sequence
from typing import Any, Final

import torch

from isoradix import Board, InvalidInputError, Start
from isoradix.copies.components import Components, WithComponents
from isoradix.copies.mapped import CopiedPages, HostPages, MappedPages, PageIds, can_map, to_device
from isoradix.copies.operations import OpenCopy, Operations
from isoradix.copies.transfer import Transfer, check_all_pools, transfer
from isoradix.kv import DevicePool, HostPool
from isoradix.kv.shape import row_bytes

_CUDA: Final[Any] = torch.cuda  # torch types its classes only in part
# of each direction; large enough for the link, small beside a KV cache
STAGING_BYTES: Final = 32 << 20


class CudaCopyEngine(WithComponents):
    """A stream for backups and one for load-backs, with no thread: see `CopyEngine`.

    In each layer and part a copy goes by way of a staging buffer on the device: one kernel between slots and staging,
    one between staging and all host pages, which the device reads and writes where they lie. So the number of launches,
    which the scheduler's thread pays for, is the same for one page as for as many as fit the staging buffer, in both
    layouts and however scattered the pages are; `cudaMemcpyAsync` would take one a page, layer and part. Staging lets
    the link see whole rows of a page, not slots one by one. Where the device cannot do this (tried once, here), runs
    of pages are copied with `cudaMemcpyAsync`.

    What lies beside keys and values goes first, in the same way and by the same staging buffer.

    All of a copy is given to its stream in `start`; a cancelled one goes on to its end. `poll` asks events and never
    waits.

    Args:
        device: a pool on a CUDA device.
        host: a pinned pool of the same shape, registered while that device was the current one.
        components: as of `engine_for`; their host pools are pinned, too.

    Raises:
        InvalidInputError: the pools do not fit each other, the device is not CUDA's, or the host memory is not pinned.
        ProtocolError: a pool is closed.
    """

    def __init__(self, device: DevicePool, host: HostPool, components: Components = ()) -> None:
        check_all_pools(device, host, "cuda", components)
        there = [each for each in components if each is not None]
        if not all(pool.pinned for pool in (host, *(each.host for each in there))):
            raise InvalidInputError(
                "the host pool is not pinned, so copies would block the scheduler\nhint: make it with pinned=True"
            )
        self._device, self._host, self._components = device, host, tuple(components)
        self._operations = Operations()
        self.mapped: Final = host.num_pages > 0 and can_map(device.device)
        """Whether the device reaches host pages by kernels; else by a copy for each run of pages."""
        own = _Pools(device, host, self.mapped)
        beside = [_Pools(each.device, each.host, self.mapped) for each in there]
        self._streams = {kind: _Stream(own, beside) for kind in ("backup", "load_back")}

    def attach(self, board: Board) -> None:
        """The board to report to: see `CopyEngine`."""
        self._operations.attach(board)

    def start(self, effect: Start) -> "StreamCopy":
        """Gives a copy to its stream: see `CopyEngine`."""
        asked = transfer(effect, self._device, self._host, self._components)
        copy = StreamCopy(asked.operation, asked.kind, self._device.shape.layers, self._device.device)
        self._operations.start(copy)
        self._operations.begin(copy)
        self._streams[asked.kind].put(copy, asked)
        return copy

    def cancel(self, operation: int) -> None:
        """Gives up a copy, which is reported once it has run out: see `CopyEngine`."""
        self._operations.cancel(operation)

    def poll(self) -> None:
        """Reports what has run out: see `CopyEngine`."""
        for stream in self._streams.values():
            for copy in stream.take_over():
                self._operations.end(copy, copy.error)
        self._operations.raise_fault()

    def close(self) -> None:
        """Waits for both streams and reports all copies. A no-op the second time."""
        if not self._operations.close():
            return
        for stream in self._streams.values():
            stream.stream.synchronize()
        try:
            self.poll()
        finally:
            self._streams.clear()


class StreamCopy(OpenCopy):
    """A copy on a stream, with an event for each layer."""

    def __init__(self, operation: int, kind: str, layers: int, device: torch.device) -> None:
        super().__init__(operation, kind, layers)
        self._device = device
        self.there: list[torch.cuda.Event] = []
        self.over: Any = _CUDA.Event()
        self.error: Exception | None = None

    def wait_layer(self, layer: int) -> None:
        """The current stream of the pool's device waits for this layer, the thread does not: see `Copy`."""
        self.check(layer)
        torch.cuda.current_stream(self._device).wait_event(self.there[layer])


class _Pools:
    """Two pools of one shape, as a stream copies between them."""

    def __init__(self, device: DevicePool, host: HostPool, mapped: bool) -> None:
        shape, self.page_size = device.shape, host.page_size
        self.device = device
        self.item = _item(row_bytes(shape))
        self.slots = {
            (layer, part): device.buffer(layer, part).view(self.item)
            for layer in range(shape.layers)
            for part in shape.parts
        }
        can = mapped and host.num_pages > 0
        self.pages: HostPages = MappedPages(host, self.item, device.device) if can else CopiedPages(host, self.item)
        self.page_bytes = host.page_size * row_bytes(shape)
        self.chunk_pages = max(1, STAGING_BYTES // self.page_bytes)
        """Pages of one layer and part that are staged at once."""

    def staged(self, staging: torch.Tensor, pages: int) -> torch.Tensor:
        """So many pages of one layer and part in the staging buffer: [pages, items of a page]."""
        return staging[: pages * self.page_bytes].view(self.item).view(pages, -1)


class _Stream:
    """One direction: a stream, its staging buffer, and the copies that it has not finished."""

    def __init__(self, own: _Pools, beside: Sequence[_Pools]) -> None:
        self._device = own.device.device
        self.stream: torch.cuda.Stream = _CUDA.Stream(self._device)
        self._own, self._beside = own, beside
        self._copies: deque[StreamCopy] = deque()
        staging = max(pools.chunk_pages * pools.page_bytes for pools in (own, *beside))
        with torch.cuda.stream(self.stream):  # it belongs to this stream, which alone uses it
            self._staging = torch.empty(staging, dtype=torch.uint8, device=self._device)
        for pools in (own, *beside):
            for buffer in pools.slots.values():
                # a pool that is closed meanwhile keeps its memory until the stream is through
                buffer.record_stream(self.stream)

    def put(self, copy: StreamCopy, asked: Transfer) -> None:
        """Gives all of a copy to the stream, after what the caller's current stream has been given."""
        with torch.cuda.device(self._device):
            before = _CUDA.Event()
            before.record(torch.cuda.current_stream(self._device))
            with torch.cuda.stream(self.stream):
                self.stream.wait_event(before)
                try:
                    for pools, rows in zip(self._beside, asked.beside, strict=True):
                        if len(rows.pages):
                            self._layers(pools, rows, None)
                    self._layers(self._own, asked, copy)
                except Exception as error:  # what was given to the stream before it may still run
                    copy.error = error
                    copy.failure = (str(error).splitlines() or [type(error).__name__])[0]
                copy.over.record(self.stream)
        self._copies.append(copy)

    def _layers(self, pools: _Pools, asked: Transfer, copy: StreamCopy | None) -> None:
        """All layers, with an event for each where there is a copy to have it."""
        slots = to_device(asked.slots, self._device)
        pages = PageIds(asked.pages, self._device)
        for layer in range(pools.device.shape.layers):
            for part in pools.device.shape.parts:
                for first in range(0, len(asked.pages), pools.chunk_pages):
                    end = min(first + pools.chunk_pages, len(asked.pages))
                    rows = slots[first * pools.page_size : end * pools.page_size]
                    self._chunk(pools, asked.kind, layer, part, rows, pages.part(first, end))
            if copy is not None:
                there = _CUDA.Event()
                there.record(self.stream)
                copy.there.append(there)

    def _chunk(self, pools: _Pools, kind: str, layer: int, part: str, slots: torch.Tensor, pages: PageIds) -> None:
        """Pages that fit the staging buffer, of one layer and part."""
        held = pools.slots[layer, part]
        by_page = pools.staged(self._staging, len(pages.host))
        by_token = by_page.view(len(slots), held.shape[1])
        if kind == "backup":
            torch.index_select(held, 0, slots, out=by_token)
            pools.pages.write(layer, part, pages, by_page)
        else:
            pools.pages.read(layer, part, pages, by_page)
            held.index_copy_(0, slots, by_token)

    def take_over(self) -> "list[StreamCopy]":
        """Those copies, from the oldest on, that touch nothing any more."""
        over = []
        while self._copies and self._copies[0].over.query():
            over.append(self._copies.popleft())
        return over


def _item(row: int) -> torch.dtype:
    """The widest integers of which rows consist: bytes are moved, whatever they mean."""
    for item in (torch.int64, torch.int32, torch.int16):
        if row % item.itemsize == 0:
            return item
    return torch.uint8
