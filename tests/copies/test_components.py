"""What lies beside keys and values goes with them: the parts that are named, and no others."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from isoradix import InvalidInputError

if TYPE_CHECKING:
    from isoradix.copies import ComponentPools

    from .rig import Rig

TOKENS, FOURS, ABSENT, STATE = 1, 2, 4, 8
PAGES = [7, 0, 11, 3]
SOURCE = [9, 1, 5, 2]
TARGET = [20, 14, 22, 17]


def with_components(make: Callable[..., Rig], kind: str, **options: Any) -> Rig:
    """A row for each token, a row for four, one that is not here, and one for a page of 16."""
    import torch

    from isoradix.kv import MHAShape, MLAShape, StateShape

    beside = {
        "tokens": (MHAShape(layers=2, heads=1, head_dim=3, dtype=torch.uint8), 16),
        "fours": (MLAShape(layers=1, width=6, dtype=torch.bfloat16), 4),
        "absent": None,
        "state": (StateShape(layers=3, width=10, dtype=torch.float32), 1),
    }
    return make(kind, beside=beside, **options)


def component(rig: Rig, bit: int) -> ComponentPools:
    found = rig.components[bit.bit_length() - 1]
    assert found is not None
    return found


def on_device(rig: Rig, bit: int, pages: Sequence[int]) -> Any:
    """Rows of pages of the device, as bytes: [pages, layers and parts, bytes]."""
    import torch

    pools = component(rig, bit)
    shape, rows = pools.device.shape, pools.host.page_size
    index = torch.tensor([page * rows + row for page in pages for row in range(rows)], dtype=torch.int64)
    places = [(layer, part) for layer in range(shape.layers) for part in shape.parts]
    found = [pools.device.buffer(*place).cpu()[index].view(torch.uint8).numpy() for place in places]
    return np.stack([each.reshape(len(pages), -1) for each in found], axis=1)


def on_host(rig: Rig, bit: int, pages: Sequence[int]) -> Any:
    pools = component(rig, bit)
    shape = pools.host.shape
    places = [(layer, part) for layer in range(shape.layers) for part in shape.parts]
    return np.stack([pools.host.rows(*place).numpy()[list(pages)] for place in places], axis=1)


def start(rig: Rig, operation: int, kind: str, pages: Sequence[int], parts: Sequence[int]) -> Any:
    from .rig import effect

    copy = rig.engine.start(effect(operation, kind, rig.slots_of(pages), PAGES, parts))
    rig.started.append(operation)
    return copy


@pytest.mark.parametrize("layout", ["layer_first", "page_first"])
def test_parts_that_are_named_go_to_host_and_come_back(kind: str, make: Callable[..., Rig], layout: str) -> None:
    rig = with_components(make, kind, layout=layout)
    parts = [TOKENS, TOKENS | FOURS, ABSENT | FOURS, 15]
    before = {bit: on_device(rig, bit, SOURCE) for bit in (TOKENS, FOURS, STATE)}
    keys_and_values = rig.on_device(rig.slots_of(SOURCE))
    start(rig, 0, "backup", SOURCE, parts)
    rig.settle()
    assert np.array_equal(rig.on_host(PAGES), keys_and_values)
    for bit, rows in before.items():
        named = [place for place, of_page in enumerate(parts) if of_page & bit]
        there = [PAGES[place] for place in named]
        assert np.array_equal(on_host(rig, bit, there), rows[named]), bit
        others = [page for page in range(24) if page not in there]
        assert (on_host(rig, bit, others) == 0xFF).all(), "no other part was touched"
    kept = {bit: on_device(rig, bit, range(24)) for bit in before}
    fewer = [TOKENS, FOURS, 0, STATE]
    rig.wait(start(rig, 1, "load_back", TARGET, fewer))
    rig.settle()
    assert np.array_equal(rig.on_device(rig.slots_of(TARGET)), keys_and_values)
    for bit, rows in before.items():
        named = [place for place, of_page in enumerate(fewer) if of_page & bit]
        kept[bit][[TARGET[place] for place in named]] = rows[named]
        assert np.array_equal(on_device(rig, bit, range(24)), kept[bit]), "these parts, and no others"
    assert rig.reports.ended_as == {0: True, 1: True}


def test_the_first_layer_has_all_that_lies_beside(kind: str, make: Callable[..., Rig]) -> None:
    rig = with_components(make, kind)
    start(rig, 0, "backup", SOURCE, [15] * 4)
    rig.settle()
    for operation in range(1, 30):
        for bit in (TOKENS, FOURS, STATE):
            pools = component(rig, bit)
            pools.device.poison(range(12 * pools.host.page_size, 24 * pools.host.page_size))
        copy = start(rig, operation, "load_back", TARGET, [15] * 4)
        copy.wait_layer(operation % rig.shape.layers)
        for bit in (TOKENS, FOURS, STATE):
            assert np.array_equal(on_device(rig, bit, TARGET), on_device(rig, bit, SOURCE)), (operation, bit)
        rig.settle()


def test_a_layer_waits_while_something_beside_is_under_way(make: Callable[..., Rig], monkeypatch: Any) -> None:
    """By threads; the seeded schedule, and streams in their order, leave nothing to chance above."""
    from isoradix import copy_rows
    from isoradix.copies import rows

    rig = with_components(make, "cpu")
    gate, there = threading.Event(), threading.Event()
    calls: list[int] = []

    def waiting(*arguments: Any, **options: Any) -> int:
        calls.append(len(calls))
        assert len(calls) != 3 or gate.wait(30), "the third component"
        return copy_rows(*arguments, **options)

    monkeypatch.setattr(rows, "copy_rows", waiting)
    copy = start(rig, 0, "load_back", TARGET, [15] * 4)

    def wait() -> None:
        copy.wait_layer(0)
        there.set()

    waits = threading.Thread(target=wait)
    waits.start()
    assert not there.wait(0.3)
    gate.set()
    assert there.wait(30)
    waits.join()
    rig.settle()
    assert len(calls) == 4, "a call for each, and keys and values last"


def test_an_engine_says_what_it_copies(kind: str, make: Callable[..., Rig]) -> None:
    from isoradix.cluster.engines import EngineWrapper, HungEngine

    engine: Any = with_components(make, kind).engine
    assert (engine.copies_components, engine.components) == (True, ("tokens", "fours", None, "state"))
    wrapped = HungEngine(EngineWrapper(engine))
    assert (wrapped.copies_components, wrapped.components) == (True, engine.components)
    plain: Any = make(kind).engine
    assert (plain.copies_components, plain.components) == (False, ())
    assert not EngineWrapper(plain).copies_components


def test_what_the_pools_cannot_hold_is_refused(kind: str, make: Callable[..., Rig]) -> None:
    from .rig import effect

    rig = with_components(make, kind)
    slots = rig.slots_of(SOURCE)
    for parts, text in (
        ([1, 1, 1], r"operation 0 names the parts \[1, 1, 1\] of 4 pages, and the engine has pools of 4"),
        ([1, 1, 1, 16], r"names the parts \[1, 1, 1, 16\]"),
    ):
        with pytest.raises(InvalidInputError, match=text):
            rig.engine.start(effect(0, "backup", slots, PAGES, parts))
    slots[1:3] = slots[2:0:-1]
    with pytest.raises(InvalidInputError, match=r"slots \[144, 146, 145, .*'fours' a row for each 4 of them\n.*hint: "):
        rig.engine.start(effect(0, "backup", slots, PAGES, [15] * 4))
    assert rig.engine.start(effect(0, "backup", slots, PAGES, [TOKENS] * 4)) is not None, "a row for each token"
    rig.started.append(0)
    rig.settle()


def test_pools_that_do_not_fit_are_refused(make: Callable[..., Rig]) -> None:
    import torch

    from isoradix.copies import ComponentPools, engine_for
    from isoradix.kv import DevicePool, HostPool, MLAShape

    rig = make("seeded")
    shape = MLAShape(layers=1, width=4, dtype=torch.uint8)

    def pools(slots: int, pages: int, rows: int, of: MLAShape = shape) -> ComponentPools:
        return ComponentPools("swa", DevicePool(shape, slots), HostPool(of, pages, rows, pinned=False))

    wider = MLAShape(layers=1, width=5, dtype=torch.uint8)
    cases: list[tuple[list[ComponentPools | None], str]] = [
        ([pools(384, 24, 16, wider)], "component 'swa': the device pool has MLAShape"),
        ([pools(384, 24, 5)], "component 'swa' has 5 rows a page, and a page 16 tokens"),
        ([pools(383, 24, 16)], "component 'swa' has 383 rows on the device, and needs 384 for 384 slots"),
        ([pools(23, 24, 1)], "has 23 rows on the device, and needs 24"),
        ([pools(24, 23, 1)], "component 'swa' has 23 host pages, and keys and values have 24"),
        ([pools(24, 24, 1)] * 2, "one is given twice"),
        ([None] * 9, "pools of 9 components, limit 8"),
    ]
    for given, text in cases:
        with pytest.raises(InvalidInputError, match=text) as refused:
            engine_for(rig.device, rig.host, given)
        assert "\nhint: " in str(refused.value)
