"""Pages where they lie: the same bytes from either layout of host memory."""

from typing import Any

import numpy as np
import pytest

from isoradix import InputTypeError, InvalidInputError
from isoradix.storage import PageViews
from isoradix.storage.views import Order


def test_pages_one_after_another() -> None:
    memory = bytearray(range(30))
    views = PageViews.whole(memory, 10)
    assert (len(views), views.pieces, views.page_bytes) == (3, 1, 10)
    assert views.read(1) == bytes(range(10, 20))
    assert PageViews.whole(memory, 10, [2, 0]).read(0) == bytes(range(20, 30))
    views.write(0, b"abcdefghij")
    assert memory[:11] == b"abcdefghij\x0a"
    with pytest.raises(InvalidInputError, match="9 bytes for a page of 10"):
        views.write(0, b"abcdefghi")


def test_room_behind_pages_is_no_part_of_them() -> None:
    memory = bytearray(range(36))
    views = PageViews.whole(memory, 10, spare=2)
    assert (len(views), views.page_bytes, views.spare) == (3, 10, 2)
    assert views.take([2]).spare == 2
    assert views.read(1) == bytes(range(12, 22))
    with pytest.raises(InvalidInputError, match="are not in a memory of 36"):
        PageViews(memory, np.array([[25]], np.int64), 10, 2)
    with pytest.raises(InvalidInputError, match="spare is -1"):
        PageViews.whole(memory, 10, spare=-1)


@pytest.mark.parametrize(
    ("memory", "offsets", "size", "message"),
    [
        (bytearray(10), [[0], [5]], 6, "are not in a memory of 10"),
        (bytearray(10), [[-1]], 5, "are not in a memory"),
        (bytearray(10), [[0]], 0, "pieces of 0 bytes"),
        (bytearray(10), np.zeros((70_000, 1), np.int64), 1, "the limit is 65536"),
    ],
)
def test_places_that_are_refused(memory: Any, offsets: Any, size: int, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        PageViews(memory, np.array(offsets, np.int64), size)


@pytest.mark.parametrize(
    "memory", [[1, 2], np.zeros((2, 2), np.uint8), np.zeros(4, np.int32), np.zeros(8, np.uint8)[::2]]
)
def test_memory_that_is_refused(memory: Any) -> None:
    with pytest.raises(InputTypeError, match="hint: "):
        PageViews(memory, np.zeros((1, 1), np.int64), 1)


@pytest.mark.parametrize(
    "offsets", [np.zeros(3, np.int64), np.zeros((1, 1), np.int32), np.zeros((4, 4), np.int64).T[1:]]
)
def test_offsets_that_are_refused(offsets: Any) -> None:
    with pytest.raises(InputTypeError, match="offsets have"):
        PageViews(bytearray(9), offsets, 1)


@pytest.mark.parametrize("kind", ["mha", "mla"])
@pytest.mark.parametrize("order", ["layer", "part", "token"])
def test_both_layouts_have_the_same_bytes(order: Order, kind: str) -> None:
    torch = pytest.importorskip("torch")
    from isoradix.kv import HostPool, MHAShape, MLAShape

    shape = MHAShape(3, 2, 4, torch.float16) if kind == "mha" else MLAShape(3, 6, torch.float16)
    tokens = torch.randn(5, 2, len(shape.parts), 3, shape.width).to(torch.float16)  # page, token, part, layer, element
    read = []
    for layout in ("layer_first", "page_first"):
        with HostPool(shape, 5, 2, layout) as pool:
            for page in range(5):
                for number, part in enumerate(shape.parts):
                    for layer in range(3):
                        pool.page(layer, part, page)[:] = tokens[page, :, number, layer]
            views = PageViews.of_pool(pool, [4, 1], order)
            read.append([views.read(at) for at in range(2)])
            if order == "layer":
                assert views.pieces == (1 if layout == "page_first" else 3 * len(shape.parts))
            del views
    axes = {"layer": (2, 1, 0, 3), "part": (1, 2, 0, 3), "token": (1, 0, 2, 3)}[order]
    expected = [tokens[page].permute(*axes).contiguous().numpy().tobytes() for page in (4, 1)]
    assert read == [expected, expected]


def test_pages_that_a_pool_does_not_have() -> None:
    torch = pytest.importorskip("torch")
    from isoradix.kv import HostPool, MLAShape

    with HostPool(MLAShape(1, 4, torch.float16), 3, 2) as pool:
        with pytest.raises(InvalidInputError, match="the pool has 0 to 2"):
            PageViews.of_pool(pool, [0, 3])
        with pytest.raises(InvalidInputError, match="order 'page' is unknown"):
            PageViews.of_pool(pool, [0], "page")  # type: ignore[arg-type]
