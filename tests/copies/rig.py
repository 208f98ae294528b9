"""Pools, an engine of each kind, and a stand-in for the board that refuses what the real one would."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt
import pytest
import torch

from isoradix import Board, ProtocolError, Start, copy_rows
from isoradix.copies import ComponentPools, Copy, CopyEngine, cuda, rows
from isoradix.copies.components import Components
from isoradix.copies.cpu import CpuCopyEngine
from isoradix.copies.seeded import SeededCopyEngine
from isoradix.kv import DevicePool, HostPool, KVShape, Layout, MHAShape, MLAShape

SHAPES: Final[dict[str, KVShape]] = {
    "mha": MHAShape(layers=3, heads=2, head_dim=4, dtype=torch.bfloat16),
    "mla": MLAShape(layers=2, width=9, dtype=torch.float32),
    "bytes": MLAShape(layers=2, width=7, dtype=torch.uint8),
}
PAGES: Final = 24
PATIENCE_S: Final = 30


class Reports:
    """What a board is told: of each operation one end."""

    def __init__(self, window: int = 64) -> None:
        self.window = window
        self.ended_as: dict[int, bool] = {}
        self.finished: list[int] = []

    def ended(self, operation: int, succeeded: bool) -> None:
        self._once(operation)
        self.ended_as[operation] = succeeded

    def finish(self, operation: int) -> None:
        self._once(operation)
        self.finished.append(operation)

    def has(self, operation: int) -> bool:
        return operation in self.ended_as or operation in self.finished

    def _once(self, operation: int) -> None:
        if self.has(operation):
            raise ProtocolError(f"operation {operation} has finished")


def effect(operation: int, kind: str, slots: Sequence[int], pages: Sequence[int], parts: Sequence[int] = ()) -> Start:
    """What a rank would give: `Start` is made by ranks alone."""
    fields = {
        "slots": np.array(slots, np.int64),
        "pages": np.array(pages, np.int32),
        "parts": np.array(parts, np.uint8),
    }
    return cast(Start, SimpleNamespace(operation=operation, kind=kind, **fields))


class Rig:
    """One rank's bytes: pools of PAGES pages each, and an engine.

    `beside` says of each component what a row is, and how many of them a page has.
    """

    def __init__(
        self,
        kind: str,
        shape: str = "mha",
        page_size: int = 16,
        layout: Layout = "layer_first",
        beside: Mapping[str, tuple[KVShape, int] | None] | None = None,
    ) -> None:
        self.kind = kind
        self.on_cuda = kind.startswith("cuda")
        self.shape = SHAPES[shape]
        self.page_size = page_size
        self.device = DevicePool(self.shape, PAGES * page_size, device="cuda" if self.on_cuda else "cpu")
        self.host = HostPool(self.shape, PAGES, page_size, layout, pinned=self.on_cuda)
        self.components = tuple(
            None if given is None else self._pools(name, *given, layout) for name, given in (beside or {}).items()
        )
        self.engine = make_engine(kind, self.device, self.host, self.components)
        self.reports = Reports()
        self.engine.attach(cast(Board, self.reports))
        self.started: list[int] = []
        self.fill()

    def _pools(self, name: str, shape: KVShape, rows_: int, layout: Layout) -> ComponentPools:
        device = DevicePool(shape, PAGES * rows_, device=self.device.device)
        host = HostPool(shape, PAGES, rows_, layout, pinned=self.on_cuda)
        return ComponentPools(name, device, host)

    def fill(self) -> None:
        """Neighbours on the device differ, layers and parts too; host is poisoned."""
        self._fill(self.device, self.host)
        for place, each in enumerate(self.components):
            if each is not None:
                self._fill(each.device, each.host, 100 + place)

    @staticmethod
    def _fill(device: DevicePool, host: HostPool, first: int = 0) -> None:
        for layer in range(device.shape.layers):
            for index, part in enumerate(device.shape.parts):
                buffer = device.buffer(layer, part)
                values = (torch.arange(buffer.numel()) * 7 + 50 * layer + 25 * index + first) % 251
                buffer.copy_(values.reshape(buffer.shape).to(buffer.dtype))
        host.poison(list(range(PAGES)))

    # what the tests ask for

    def start(self, operation: int, kind: str, slots: Sequence[int], pages: Sequence[int]) -> Copy:
        copy = self.engine.start(effect(operation, kind, slots, pages))
        self.started.append(operation)
        return copy

    def backup(self, operation: int, slots: Sequence[int], pages: Sequence[int]) -> Copy:
        return self.start(operation, "backup", slots, pages)

    def load_back(self, operation: int, slots: Sequence[int], pages: Sequence[int]) -> Copy:
        return self.start(operation, "load_back", slots, pages)

    def slots_of(self, pages: Sequence[int]) -> list[int]:
        """Slots of pages of the device, in order."""
        return [page * self.page_size + offset for page in pages for offset in range(self.page_size)]

    def wait(self, copy: Copy) -> None:
        """As compute does: layer by layer."""
        for layer in range(self.shape.layers):
            copy.wait_layer(layer)

    def settle(self) -> None:
        """All that was started is over and reported."""
        until = time.monotonic() + PATIENCE_S
        while not all(map(self.reports.has, self.started)):
            assert time.monotonic() < until, f"{self.reports.ended_as} of {self.started}"
            if isinstance(self.engine, SeededCopyEngine):
                self.engine.run()
            self.engine.poll()
            time.sleep(0.0002)
        self.engine.poll()
        self.started.clear()

    # what is where, as bytes, layer by layer and part by part

    def on_device(self, slots: Sequence[int]) -> npt.NDArray[np.uint8]:
        index = torch.tensor(list(slots), dtype=torch.int64)
        places = [(layer, part) for layer in range(self.shape.layers) for part in self.shape.parts]
        return np.stack([as_bytes(self.device.buffer(*place).cpu()[index]) for place in places])

    def on_host(self, pages: Sequence[int]) -> npt.NDArray[np.uint8]:
        places = [(layer, part) for layer in range(self.shape.layers) for part in self.shape.parts]
        none = torch.empty(0, self.shape.width, dtype=self.shape.dtype)
        return np.stack(
            [as_bytes(torch.cat([none, *(self.host.page(*place, page) for page in pages)])) for place in places]
        )

    # what goes wrong

    @contextmanager
    def held(self) -> Iterator[None]:
        """Copies that are started begin, and do not end before the block does; on a GPU, for a while."""
        if self.on_cuda:
            for stream in cast(Any, self.engine)._streams.values():
                with torch.cuda.stream(stream.stream):
                    cast(Any, torch.cuda)._sleep(200_000_000)
            yield
        elif self.kind == "seeded":
            yield
        else:
            gate = threading.Event()

            def waiting(*arguments: Any, **options: Any) -> int:
                assert gate.wait(PATIENCE_S)
                return copy_rows(*arguments, **options)

            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(rows, "copy_rows", waiting)
                try:
                    yield
                finally:
                    gate.set()
                    self.settle()

    def begin(self) -> None:
        """What was started first has begun."""
        if isinstance(self.engine, SeededCopyEngine):
            self.engine.pick()
        elif isinstance(self.engine, CpuCopyEngine):
            until = time.monotonic() + PATIENCE_S
            while not any(copy.begun for copy in list(cast(Any, self.engine)._operations._open.values())):
                assert time.monotonic() < until
                time.sleep(0.0002)

    @contextmanager
    def broken(self, calls: int = 1) -> Iterator[None]:
        """The copying itself fails after so many layers (on CUDA, parts of them)."""
        owner, name = (cuda._Stream, "_chunk") if self.on_cuda else (rows, "copy_rows")
        real, left = getattr(owner, name), iter(range(calls))

        def failing(*arguments: Any, **options: Any) -> Any:
            if self.kind == "cpu":  # all layers in one call
                destinations, sources, *rows_ = arguments
                there = calls * len(self.device.shape.parts)
                if there:
                    real(destinations[:there], sources[:there], *rows_, **options)
            elif next(left, None) is not None:
                return real(*arguments, **options)
            raise RuntimeError("the link is down\nat length")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(owner, name, failing)
            yield
            self.settle()

    def close(self) -> None:
        self.engine.close()
        there = [each for each in self.components if each is not None]
        for pool in (self.device, self.host, *(pool for each in there for pool in (each.device, each.host))):
            pool.close()


def as_bytes(rows_: torch.Tensor) -> npt.NDArray[np.uint8]:
    """Rows as their bytes: NaN is equal to itself then."""
    seen: npt.NDArray[np.uint8] = rows_.contiguous().view(torch.uint8).numpy()
    return seen


def make_engine(kind: str, device: DevicePool, host: HostPool, components: Components = ()) -> CopyEngine:
    if kind == "cpu":
        return CpuCopyEngine(device, host, components)
    if kind == "seeded":
        return SeededCopyEngine(device, host, seed=7, components=components)
    with pytest.MonkeyPatch.context() as patch:
        if kind == "cuda_runs":
            patch.setattr(cuda, "can_map", lambda device: False)
        return cuda.CudaCopyEngine(device, host, components)
