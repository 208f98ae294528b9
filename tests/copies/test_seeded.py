"""The engine whose schedule a seed chooses."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest

if TYPE_CHECKING:
    from .rig import Rig


def start_some(rig: Rig, seed: int) -> Any:
    """An engine of its own, with three backups and three load-backs."""
    from isoradix.copies.seeded import SeededCopyEngine

    from .rig import Reports, effect

    reports = Reports()
    engine = SeededCopyEngine(rig.device, rig.host, seed)
    engine.attach(cast(Any, reports))
    copies = []
    for k in range(3):
        copies.append(engine.start(effect(2 * k, "backup", rig.slots_of([k]), [k])))
        copies.append(engine.start(effect(2 * k + 1, "load_back", rig.slots_of([k + 12]), [k + 12])))
    return engine, reports, copies


def schedule(rig: Rig, seed: int) -> list[tuple[Any, ...]]:
    engine, reports, copies = start_some(rig, seed)
    seen = []
    while engine.pick():
        seen.append((*(tuple(copy.missing) for copy in copies), tuple(reports.ended_as)))
    return seen


def test_equal_seeds_give_equal_schedules(make: Callable[..., Rig]) -> None:
    rig = make("seeded")
    schedules = [schedule(rig, seed) for seed in range(30)]
    assert schedules == [schedule(rig, seed) for seed in range(30)]
    assert len({tuple(steps) for steps in schedules}) > 25
    assert {len(steps) for steps in schedules} == {6 * 3}
    ends = {steps[-1][-1] for steps in schedules}
    assert len(ends) > 3, "backups and load-backs end in many orders"
    for end in ends:
        assert [k for k in end if k % 2 == 0] == [0, 2, 4]
        assert [k for k in end if k % 2 == 1] == [1, 3, 5]
    firsts = {next(step[0] for step in steps if len(step[0]) == 2) for steps in schedules}
    assert firsts == {(1, 2), (0, 2), (0, 1)}, "any layer may be the first"


def test_a_layer_is_missing_until_it_was_copied(make: Callable[..., Rig], monkeypatch: pytest.MonkeyPatch) -> None:
    from isoradix.copies.rows import RowCopier

    missing = []

    def look(copier: Any, asked: Any, layer: int) -> None:
        missing.append(layer in copy.missing)
        real(copier, asked, layer)

    real = RowCopier.copy
    monkeypatch.setattr(RowCopier, "copy", look)
    rig = make("seeded")
    copy: Any = rig.backup(0, rig.slots_of([1]), [1])
    rig.wait(copy)
    assert missing == [True] * 3
    assert copy.missing == []


def test_nothing_moves_before_it_is_picked(make: Callable[..., Rig]) -> None:
    rig = make("seeded")
    before, kept = rig.on_device(rig.slots_of([1])), rig.on_device(rig.slots_of([2]))
    rig.settle()
    rig.wait(rig.backup(0, rig.slots_of([1]), [1]))
    assert np.array_equal(rig.on_host([1]), before)
    load = rig.load_back(1, rig.slots_of([2]), [1])
    backup = rig.backup(2, rig.slots_of([3]), [1])
    assert (rig.on_device(rig.slots_of([2])) == 0xFF).all(), "poisoned"
    assert (rig.on_host([1]) == 0xFF).all(), "poisoned"
    assert not np.array_equal(kept, before)
    engine = cast(Any, rig.engine)
    assert engine.run(2) == 2
    moved = [len(copy.missing) < 3 for copy in (cast(Any, load), cast(Any, backup))]
    assert sum(3 - len(copy.missing) for copy in (cast(Any, load), cast(Any, backup))) == 2
    assert any(moved)
    assert engine.run() == 4
    assert engine.run() == 0
    assert not engine.pick()


def test_a_read_too_early_sees_poison(make: Callable[..., Rig]) -> None:
    """What the engine is for: compute that does not wait is found out, under some seed."""
    rig = make("seeded")
    slots = rig.slots_of([12])
    rig.wait(rig.backup(100, rig.slots_of([5]), [12]))
    early = 0
    for seed in range(20):
        engine, _, copies = start_some(rig, seed)
        engine.run(6)
        early += int((rig.on_device(slots) == 0xFF).any())
        for layer in range(3):
            copies[1].wait_layer(layer)
        assert np.array_equal(rig.on_device(slots), rig.on_device(rig.slots_of([5])))
        engine.run()
    assert 0 < early < 20


def test_a_cancelled_copy_that_has_begun_goes_on(make: Callable[..., Rig]) -> None:
    rig = make("seeded")
    copy = cast(Any, rig.backup(0, rig.slots_of([1]), [1]))
    engine = cast(Any, rig.engine)
    engine.run(1)
    engine.cancel(0)
    assert len(copy.missing) == 2
    assert rig.reports.finished == []
    assert engine.run() == 2
    assert rig.reports.finished == [0]
    assert np.array_equal(rig.on_host([1]), rig.on_device(rig.slots_of([1]))), "as on a GPU, it went on to its end"


def test_it_is_for_pools_that_fit(make: Callable[..., Rig]) -> None:
    from isoradix import InvalidInputError
    from isoradix.copies import engine_for
    from isoradix.copies.cpu import CpuCopyEngine
    from isoradix.copies.cuda import CudaCopyEngine

    mha, mla = make("seeded", "mha"), make("seeded", "mla")
    for build in (engine_for, CpuCopyEngine):
        with pytest.raises(InvalidInputError, match=r"the device pool has MHAShape.*, the host pool MLAShape"):
            build(mha.device, mla.host)
    with pytest.raises(InvalidInputError, match="the device pool is on cpu, this engine is for cuda"):
        CudaCopyEngine(mha.device, mha.host)
    engine = engine_for(mha.device, mha.host)
    assert isinstance(engine, CpuCopyEngine)
    engine.close()
