"""Bandwidth of backups and load-backs of 64-token pages, beside one plain copy of the same bytes.

    python -m benches.copies [--json] [--layers 32] [--rounds 5] [--pages 64,256,512]

On the CPU the yardstick is numpy's `copyto` between two contiguous blocks in one thread; on CUDA, one copy between a
contiguous block of the device and one of pinned memory, in the same direction. All copies of a rig
take turns in each round, and medians are over the rounds; a ratio is taken within a round, so that other work on the
machine moves it less.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from types import SimpleNamespace
from typing import Any, Final, Literal, cast

import numpy as np
import numpy.typing as npt
import torch

from isoradix import Board, Start
from isoradix.copies import CopyEngine, engine_for
from isoradix.kv import DevicePool, HostPool, KVShape, Layout, MHAShape, MLAShape

PAGE_SIZE: Final = 64
LAYOUTS: Final[tuple[Layout, ...]] = ("layer_first", "page_first")
KINDS: Final = ("backup", "load_back")
PLACES: Final = ("consecutive", "fragmented")


@dataclass(frozen=True)
class Row:
    """Medians of one way to copy so many pages."""

    shape: str
    layout: str
    kind: str
    pages_are: str
    pages: int
    bytes: int
    gb_per_s: float
    peak_gb_per_s: float
    ratio: float


class Silent:
    """A board that only says when a copy is over."""

    window = 64

    def __init__(self) -> None:
        self.over: set[int] = set()

    def ended(self, operation: int, succeeded: bool) -> None:
        assert succeeded, "the log has the error"
        self.over.add(operation)


class Rig:
    """Pools, an engine, and contiguous blocks of as many bytes for the yardstick."""

    def __init__(self, shape: KVShape, layout: Layout, pages: int, on: str) -> None:
        self.shape, self.layout, self.pages, self.on = shape, layout, pages, on
        self.device = DevicePool(shape, 2 * pages * PAGE_SIZE, on)
        self.host = HostPool(shape, 2 * pages, PAGE_SIZE, layout)
        self.host.memory.fill_(1)  # every page of it is there before anything is timed
        for layer in range(shape.layers):
            for part in shape.parts:
                self.device.buffer(layer, part).fill_(1)
        self.bytes = pages * PAGE_SIZE * shape.bytes_per_token
        self.near = torch.ones(self.bytes, dtype=torch.uint8, device=on)
        self.far = torch.ones(self.bytes, dtype=torch.uint8, pin_memory=on == "cuda")
        self.engine: CopyEngine = engine_for(self.device, self.host)
        self.board = Silent()
        self.engine.attach(cast(Board, self.board))
        self.next = 0

    def copy(self, kind: str, slots: npt.NDArray[np.int64], pages: npt.NDArray[np.int32]) -> float:
        """Seconds from the start of a copy to its report."""
        effect = SimpleNamespace(operation=self.next, kind=kind, slots=slots, pages=pages)
        self.next += 1
        self._quiet()
        begin = time.perf_counter()
        copy = self.engine.start(cast(Start, effect))
        for layer in range(self.shape.layers):
            copy.wait_layer(layer)
        self._quiet()
        return time.perf_counter() - begin

    def plain(self, kind: str) -> float:
        """Seconds of one copy of as many bytes."""
        source, target = (self.near, self.far) if kind == "backup" else (self.far, self.near)
        self._quiet()
        begin = time.perf_counter()
        if self.on == "cuda":
            target.copy_(source, non_blocking=True)
        else:
            np.copyto(target.numpy(), source.numpy())
        self._quiet()
        return time.perf_counter() - begin

    def _quiet(self) -> None:
        if self.on == "cuda":
            torch.cuda.synchronize()

    def close(self) -> None:
        self.engine.close()
        self.device.close()
        self.host.close()


def places(pages_are: str, pages: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    """Slots and pages: neighbours on both sides, or scattered over twice as many."""
    ids = np.arange(pages), np.arange(pages)
    if pages_are == "fragmented":
        draw = np.random.default_rng(1)
        ids = draw.permutation(2 * pages)[:pages], draw.permutation(2 * pages)[:pages]
    slots = (ids[0][:, None] * PAGE_SIZE + np.arange(PAGE_SIZE)).reshape(-1)
    return slots.astype(np.int64), ids[1].astype(np.int32)


def measure(rig: Rig, rounds: int) -> Iterator[Row]:
    """All rows of one rig, in turns."""
    cases: dict[tuple[str, str], Callable[[], float]] = {}
    for pages_are in PLACES:
        slots, pages = places(pages_are, rig.pages)
        for kind in KINDS:
            cases[pages_are, kind] = lambda kind=kind, slots=slots, pages=pages: rig.copy(kind, slots, pages)  # type: ignore[misc]
    for kind in KINDS:
        cases["plain", kind] = lambda kind=kind: rig.plain(kind)  # type: ignore[misc]
    times: dict[tuple[str, str], list[float]] = {name: [] for name in cases}
    for round_ in range(rounds + 1):
        for name, run in cases.items():
            seconds = run()
            if round_:  # the first warms up
                times[name].append(seconds)
    speed = {name: rig.bytes / statistics.median(all_) / 1e9 for name, all_ in times.items()}
    for pages_are in PLACES:
        for kind in KINDS:
            plain, own = ("plain", kind), (pages_are, kind)
            ratio = statistics.median(peak / time_ for peak, time_ in zip(times[plain], times[own], strict=True))
            text = rig.shape.describe()
            yield Row(text, rig.layout, kind, pages_are, rig.pages, rig.bytes, speed[own], speed[plain], ratio)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one object a row")
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--pages", default="64,256", help="of 64 tokens; 512 of them take 2 GiB four times over")
    options = parser.parse_args()
    on: Literal["cuda", "cpu"] = "cuda" if torch.cuda.is_available() else "cpu"
    torch.set_num_threads(1)
    shapes: tuple[KVShape, ...] = (
        MHAShape(options.layers, heads=8, head_dim=128, dtype=torch.float16),
        MLAShape(options.layers, width=576, dtype=torch.float16),
    )
    if not options.json:
        peak = "pinned copy" if on == "cuda" else "memcpy"
        print(
            f"on {on}, {options.layers} layers, pages of {PAGE_SIZE} tokens; ratio is the share of a {peak}'s speed\n"
        )
        print(f"{'shape':40} {'layout':12} {'copy':10} {'pages':>5} {'are':12} {'GB/s':>6} {peak:>12} {'ratio':>6}")
    for shape in shapes:
        for layout in LAYOUTS:
            for pages in map(int, options.pages.split(",")):
                rig = Rig(shape, layout, pages, on)
                for row in measure(rig, options.rounds):
                    report(row, options.json)
                rig.close()


def report(row: Row, as_json: bool) -> None:
    fields: dict[str, Any] = asdict(row)
    if as_json:
        print(json.dumps(fields), flush=True)
        return
    print(
        f"{row.shape:40} {row.layout:12} {row.kind:10} {row.pages:5} {row.pages_are:12} "
        f"{row.gb_per_s:6.2f} {row.peak_gb_per_s:12.2f} {row.ratio:6.2f}",
        flush=True,
    )


if __name__ == "__main__":
    main()
