"""The memory of KV: where a page lies, and when it is given back."""

from __future__ import annotations

import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from isoradix import InputTypeError, InvalidInputError, IsoradixError, ProtocolError

torch: Any = pytest.importorskip("torch")


def shapes() -> dict[str, Any]:
    from isoradix.kv import MHAShape, MLAShape

    return {"mha": MHAShape(3, 2, 4, torch.float16), "mla": MLAShape(2, 9, torch.float32)}


def host(name: str = "mha", pages: int = 5, page_size: int = 4, layout: Any = "layer_first") -> Any:
    from isoradix.kv import HostPool

    return HostPool(shapes()[name], pages, page_size, layout, pinned=False)


def device(name: str = "mha", slots: int = 20) -> Any:
    from isoradix.kv import DevicePool

    return DevicePool(shapes()[name], slots)


# device


def test_a_buffer_for_each_layer_and_part() -> None:
    pool = device()
    for layer in range(3):
        for index, part in enumerate(("k", "v")):
            buffer = pool.buffer(layer, part)
            assert (tuple(buffer.shape), buffer.dtype) == ((20, 8), torch.float16)
            assert (buffer == 0).all()
            buffer.fill_(10 * layer + index)
    assert [float(pool.buffer(layer, part)[19, 7]) for layer in range(3) for part in "kv"] == [0, 1, 10, 11, 20, 21]
    kept = pool.buffer(0, "k")
    pool.close()
    pool.close()
    assert pool.closed
    assert (kept == 0).all(), "what was handed out stays"
    with pytest.raises(ProtocolError, match="use of a DevicePool out of order: it is closed"):
        pool.buffer(0, "k")
    with pytest.raises(ProtocolError, match="it is closed"):
        pool.poison([0])


@pytest.mark.parametrize("what", ["device", "host"])
def test_places_that_there_are_not(what: str) -> None:
    pool = device() if what == "device" else host()
    look = pool.buffer if what == "device" else pool.rows
    for layer in (-1, 3):
        with pytest.raises(InvalidInputError, match=f"layer {layer} is out of range: 0 to 2\nhint: layers are counted"):
            look(layer, "k")
    with pytest.raises(InvalidInputError, match="part 'kv' is unknown\nhint: one of 'k', 'v'"):
        look(0, "kv")
    with pytest.raises(InputTypeError, match="layer is '0', expected an int"):
        look("0", "k")


@pytest.mark.parametrize("name", ["mha", "mla"])
@pytest.mark.parametrize("what", ["device", "host"])
def test_poison_is_no_number_and_touches_nothing_else(name: str, what: str) -> None:
    from isoradix.kv import DevicePool, HostPool

    shape = shapes()[name]
    with HostPool(shape, 5, 4, pinned=False) as pages:
        slots = DevicePool(shape, 20)
        poison = slots.poison if what == "device" else pages.poison
        kept = range(4, 16) if what == "device" else range(1, 4)
        edges = [*range(4), *range(16, 20)] if what == "device" else [0, 4]
        with pytest.raises(InvalidInputError, match=r"is out of range: 0 to"):
            poison([0, 20])
        poison([])
        poison(np.array(edges, np.int32))
        for layer in range(shape.layers):
            for part in shape.parts:
                rows = slots.buffer(layer, part) if what == "device" else pages.rows(layer, part).view(shape.dtype)
                assert rows[edges].isnan().all()
                assert (rows[list(kept)] == 0).all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2"])
def test_poison_is_nan_in_every_format(dtype: str) -> None:
    from isoradix.kv import DevicePool, MLAShape

    pool = DevicePool(MLAShape(1, 4, getattr(torch, dtype)), 2)
    pool.poison([1])
    assert pool.buffer(0, "kv").to(torch.float64).isnan().tolist() == [[False] * 4, [True] * 4]


@pytest.mark.parametrize(
    ("slots", "error"), [(0, InvalidInputError), (2**31 + 1, InvalidInputError), ("9", InputTypeError)]
)
def test_bad_numbers_of_slots(slots: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="num_slots"):
        device(slots=slots)


def test_a_pool_lies_over_buffers_that_are_there() -> None:
    from isoradix.kv import DevicePool

    shape = shapes()["mha"]
    there = {part: [torch.ones(6, shape.width, dtype=shape.dtype) for _ in range(shape.layers)] for part in shape.parts}
    pool = DevicePool(shape, 6, buffers=there)
    assert (pool.num_slots, pool.device) == (6, there["k"][0].device)
    pool.buffer(0, "v")[5] = 3.0
    assert there["v"][0][5].tolist() == [3.0] * shape.width
    pool.close()
    assert there["k"][0].sum() == 6 * shape.width, "closing leaves them alone"
    with pytest.raises(InvalidInputError, match=r"k\[0\] is \[6, .*expected \[7, \.\.\.\]"):
        DevicePool(shape, 7, buffers=there)
    with pytest.raises(InvalidInputError, match="buffers are k: "):
        DevicePool(shape, 6, buffers={"k": there["k"]})


# host


@pytest.mark.parametrize("name", ["mha", "mla"])
@pytest.mark.parametrize("layout", ["layer_first", "page_first"])
def test_every_byte_of_host_is_of_one_page_layer_and_part(name: str, layout: str) -> None:
    with host(name, layout=layout) as pool:
        shape, seen = pool.shape, []
        places = [(layer, part, page) for layer in range(shape.layers) for part in shape.parts for page in range(5)]
        for index, place in enumerate(places):
            view = pool.page(*place)
            assert (tuple(view.shape), view.dtype, view.is_contiguous()) == ((4, shape.width), shape.dtype, True)
            view.fill_(index + 1)
            seen.append(view.data_ptr() - pool.memory.data_ptr())
        size = 4 * shape.width * shape.dtype.itemsize
        assert sorted(seen) == [size * index for index in range(len(places))]
        assert pool.memory.numel() == size * len(places) == 5 * 4 * shape.bytes_per_token
        order = {"layer_first": places, "page_first": sorted(places, key=lambda place: place[2])}[layout]
        assert [seen[places.index(place)] for place in order] == sorted(seen)
        assert all((pool.page(*place) == index + 1).all() for index, place in enumerate(places))
        assert pool.memory.data_ptr() % 4096 == 0


def test_a_page_in_one_piece() -> None:
    with host(layout="page_first") as pool:
        for layer in range(3):
            for index, part in enumerate("kv"):
                pool.page(layer, part, 2).fill_(2 * layer + index)
        whole = pool.page_bytes(2)
        assert (whole.dtype, whole.numel(), whole.is_contiguous()) == (
            torch.uint8,
            4 * pool.shape.bytes_per_token,
            True,
        )
        assert whole.view(torch.float16).view(6, 32).mean(dim=1).tolist() == [0, 1, 2, 3, 4, 5]
        with pytest.raises(InvalidInputError, match="page 5 is out of range: 0 to 4"):
            pool.page_bytes(5)
    with host() as pool, pytest.raises(InvalidInputError, match="page_bytes of a layer_first pool"):
        pool.page_bytes(2)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"num_pages": -1}, InvalidInputError, "num_pages -1 is out of range: 0 to 2147483647"),
        ({"num_pages": 2**31}, InvalidInputError, "num_pages 2147483648 is out of range"),
        ({"page_size": 0}, InvalidInputError, "page_size 0 is out of range: 1 to 1024"),
        ({"page_size": 1025}, InvalidInputError, "page_size 1025 is out of range"),
        ({"page_size": 4.0}, InputTypeError, "page_size is 4.0, expected an int"),
        ({"layout": "token_first"}, InvalidInputError, "layout 'token_first' is unknown\nhint: one of 'layer_first'"),
    ],
)
def test_bad_host_pools_are_refused(change: dict[str, Any], error: type[Exception], message: str) -> None:
    from isoradix.kv import HostPool

    for make in (HostPool, HostPool.try_new):
        with pytest.raises(error, match=message):
            make(**{"shape": shapes()["mha"], "num_pages": 2, "page_size": 4, "pinned": False, **change})


def test_a_rank_without_memory_votes_nothing_and_says_why() -> None:
    from isoradix.kv import HostMemoryError, HostPool, MLAShape

    shape = MLAShape(4096, 65536, torch.float64)
    with pytest.raises(
        HostMemoryError, match=r"\d{16,} bytes of host memory cannot be mapped: .*\nhint: ask for fewer"
    ):
        HostPool(shape, 2**31 - 1, 1024, pinned=False)
    assert issubclass(HostMemoryError, (IsoradixError, MemoryError))
    with HostPool.try_new(shape, 2**31 - 1, 1024, pinned=False) as pool:
        assert pool.num_pages == 0
        assert pool.failure is not None
        assert "cannot be mapped" in pool.failure
        assert len(pool.rows(0, "kv")) == 0
        with pytest.raises(InvalidInputError, match="page 0 is out of range: there is no page"):
            pool.page(0, "kv", 0)
        pool.poison([])
    with HostPool.try_new(shapes()["mha"], 2, 4, pinned=False) as pool:
        assert (pool.num_pages, pool.failure) == (2, None)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_memory_that_cannot_be_pinned() -> None:
    from isoradix.kv import HostMemoryError, HostPool

    before = mapped_bytes()
    with pytest.raises(
        HostMemoryError, match=r"268435456 bytes of host memory cannot be pinned: .*\nhint: ask for fewer"
    ):
        HostPool(_wide(), 64, 16, pinned=True)
    pool = HostPool.try_new(_wide(), 64, 16, pinned=True)
    assert (pool.num_pages, "cannot be pinned" in str(pool.failure)) == (0, True)
    assert mapped_bytes() - before < 1 << 27, "nothing is left allocated"
    assert HostPool(shapes()["mha"], 2, 4).pinned is False, "unless asked for, where there is no CUDA"


def _wide() -> Any:
    from isoradix.kv import MLAShape

    return MLAShape(4, 65536, torch.uint8)


def mapped_bytes() -> int:
    """Address space of this process."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * 4096 if Path("/proc/self/statm").exists() else 0


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
def test_close_gives_the_memory_back() -> None:
    from isoradix.kv import HostPool

    before = mapped_bytes()
    pool = HostPool(_wide(), 64, 16, pinned=False)
    assert mapped_bytes() - before >= 1 << 28
    pool.close()
    assert mapped_bytes() - before < 1 << 27
    pool.close()
    assert pool.closed
    for use in (lambda: pool.page(0, "kv", 0), lambda: pool.memory, lambda: pool.poison([0])):
        with pytest.raises(ProtocolError, match="use of a HostPool out of order: it is closed"):
            use()
    pool = HostPool(_wide(), 64, 16, pinned=False)
    held = pool.page(0, "kv", 0)
    pool.close()
    held.fill_(3)
    assert (held == 3).all(), "who holds a page may still use it"
    assert mapped_bytes() - before >= 1 << 28
    del held
    assert mapped_bytes() - before < 1 << 27, "the last holder unmaps"


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
def test_a_pool_that_is_collected_gives_its_memory_back() -> None:
    from isoradix.kv import HostPool

    before = mapped_bytes()
    pool = HostPool(_wide(), 64, 16, pinned=False)
    gone = weakref.ref(pool)
    del pool
    assert gone() is None
    assert mapped_bytes() - before < 1 << 27


FORGOTTEN = """
import atexit
def look():  # registered first, so that it is the last to run
    with open("/proc/self/maps") as maps:
        print(any(line.startswith(f"{address:x}-") or f"-{address + size:x} " in line for line in maps))
atexit.register(look)
import torch
from isoradix.kv import HostPool, MLAShape
pool = HostPool(MLAShape(4, 65536, torch.uint8), 64, 16, pinned=False)
address, size = pool.memory.data_ptr(), pool.memory.numel()
look()
"""


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs /proc")
def test_a_pool_that_is_forgotten_is_unmapped_before_the_process_ends() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", FORGOTTEN], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.stdout.split(), done.stderr, done.returncode) == (["True", "False"], "", 0)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("layout", ["layer_first", "page_first"])
def test_pinned_memory_is_pinned_until_it_is_closed(layout: Any) -> None:
    from isoradix.kv import HostPool

    pool = HostPool(shapes()["mha"], 5, 4, layout)
    assert pool.pinned
    assert pool.memory.is_pinned()
    held = pool.page(1, "v", 3)
    pool.close()
    assert not held.is_pinned()
