"""Windows, states and side-cars in external storage: what is told of them, moved, and matched."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from tests.journal.rig import Hub, HubPlane

from isoradix import (
    Board,
    Control,
    InputTypeError,
    IntSequence,
    InvalidInputError,
    ProtocolError,
    SlotPool,
    Start,
    StartRecord,
    TieredCache,
    agree,
)
from isoradix.cluster.engines import EngineWrapper
from isoradix.consensus import LocalPlane
from isoradix.copies import ComponentPools, engine_for
from isoradix.copies.cpu import CpuCopyEngine
from isoradix.driver import Driver
from isoradix.journal.reader import Journal
from isoradix.journal.rerun import Rerun
from isoradix.kv import DevicePool, HostPool, MHAShape
from isoradix.storage import Backend, ComponentPages, Fingerprint, PageKeys, PageViews, Shard, open_storage
from isoradix.storage.staging import Staged, rows_at_once
from isoradix.storage.tier import StorageTier

from .rig import Log, query, until

PAGE, PAGES = 4, 300
SHAPE = MHAShape(layers=2, heads=1, head_dim=8, dtype=torch.uint8)
BESIDE = MHAShape(layers=1, heads=1, head_dim=4, dtype=torch.uint8)
STATE_BYTES = 96
FINGERPRINT = Fingerprint("model", "1", "uint8", SHAPE.describe(), "layer", PAGE)
KEYS = PageKeys(FINGERPRINT, Shard(0, 2))
COMPONENTS = ("index=side_car", "swa=window:8", "mamba=state")
INDEX, WINDOW, STATE = 1, 2, 4
BOTH, ALL = INDEX | WINDOW, INDEX | WINDOW | STATE
PROMPT = list(range(10 * PAGE))


def keys_of(component: str) -> PageKeys:
    return PageKeys(replace(FINGERPRINT, component=component, kv="its own"), Shard(0, 2))


class Memory:
    """Host memory of one rank: keys and values, an index, a window, states."""

    def __init__(self, seed: int) -> None:
        draw = np.random.default_rng(seed)
        self.host = HostPool(SHAPE, PAGES, PAGE, pinned=False)
        self.index, self.swa = (HostPool(BESIDE, PAGES, PAGE, pinned=False) for _ in range(2))
        for pool in (self.host, self.index, self.swa):
            pool.memory.numpy()[:] = draw.integers(0, 256, pool.memory.numel(), np.uint8)
        self.states = draw.integers(0, 256, PAGES * STATE_BYTES, np.uint8)
        self.components = (
            ComponentPages.of_pool("index", keys_of("index"), self.index),
            ComponentPages.of_pool("swa", keys_of("swa"), self.swa),
            ComponentPages.of_rows("mamba", keys_of("mamba"), self.states, STATE_BYTES),
        )

    def rows(self, place: int, pages: IntSequence) -> list[bytes]:
        views = self.components[place].views(np.array(pages))
        return [views.read(at) for at in range(len(views))]

    def close(self) -> None:
        for pool in (self.host, self.index, self.swa):
            pool.close()


class Engine(CpuCopyEngine):
    """Says that it copies components, and has no pools of them: tests write those rows on host themselves."""

    copies_components = True


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[Backend]:
    with open_storage(f"file://{tmp_path}/store") as store:
        yield store


@pytest.fixture
def memory() -> Iterator[Memory]:
    made = Memory(1)
    yield made
    made.close()


def run(pages: int) -> Any:
    return SimpleNamespace(namespace=(None, None), key=np.arange(pages * PAGE, dtype=np.uint32), start=0)


def effect(operation: int, kind: str, pages: Sequence[int], parts: Sequence[int], asked: Any) -> Start:
    given = {"pages": np.array(pages), "parts": np.array(parts, np.uint8), "stored": (asked,)}
    return cast(Start, SimpleNamespace(operation=operation, kind=kind, **given))


def answer(tier: StorageTier, operation: int, asked: Any) -> int | bytes:
    tier.query(query(operation, asked))
    found: list[tuple[int, int | bytes]] = []

    def hears() -> bool:
        found.extend(tier.answers())
        return bool(found)

    until(hears)
    return found[0][1]


def tier_over(backend: Backend, memory: Memory, **options: Any) -> tuple[StorageTier, Log]:
    log, options = Log(), {"components": memory.components, **options}
    tier = StorageTier(backend, KEYS, memory.host, **options)
    tier.attach(cast(Board, log))
    return tier, log


def store(tier: StorageTier, log: Log, parts: Sequence[int]) -> None:
    tier.start(effect(0, "store", range(len(parts)), parts, run(len(parts))))
    until(lambda: ("ended", 0, True) in log.heard)


@pytest.mark.parametrize("staged", [False, True])
def test_parts_are_stored_found_and_fetched_beside_their_pages(backend: Backend, memory: Memory, staged: bool) -> None:
    tier, log = tier_over(backend, memory, staged=staged)
    stored = [BOTH] * 140
    stored[139], stored[5], stored[99] = ALL, INDEX, ALL
    store(tier, log, stored)
    assert answer(tier, 1, run(160)) == bytes(stored)
    fetched = list(range(299, 159, -1))
    wanted = [INDEX] * 138 + [BOTH, ALL]
    before = memory.rows(1, fetched)
    tier.start(effect(1, "prefetch", fetched, wanted, run(160)))
    until(lambda: ("ended", 1, True) in log.heard)
    tier.close()
    assert memory.rows(0, fetched) == memory.rows(0, range(140))
    assert memory.rows(1, fetched[-2:]) == memory.rows(1, [138, 139])
    assert memory.rows(1, fetched)[:-2] == before[:-2], "the window's other parts are not asked for"
    assert memory.rows(2, [160]) == memory.rows(2, [139])
    assert log.heard[1:] == [("progress", 1, 128 * PAGE), ("progress", 1, 140 * PAGE), ("ended", 1, True)]


def test_where_a_part_is_broken_nothing_comes_and_it_is_not_found_again(
    backend: Backend, memory: Memory, tmp_path: Path
) -> None:
    tier, log = tier_over(backend, memory)
    store(tier, log, [BOTH, BOTH, ALL])
    state = keys_of("mamba").of(np.arange(3 * PAGE))[2].hex()
    (broken,) = [path for path in tmp_path.rglob("*") if path.is_file() and path.name.startswith(state[:64])]
    broken.write_bytes(broken.read_bytes()[:-1] + b"?")
    assert answer(tier, 1, run(3)) == bytes([BOTH, BOTH, ALL])
    tier.start(effect(1, "prefetch", [10, 11, 12], [INDEX, BOTH, ALL], run(3)))
    until(lambda: ("ended", 1, True) in log.heard)
    assert not any(heard[0] == "progress" for heard in log.heard), "nothing of it counts"
    assert answer(tier, 2, run(3)) == bytes([BOTH, BOTH, BOTH])
    tier.close()


def test_a_stage_without_layers_says_nothing_of_them(backend: Backend, memory: Memory) -> None:
    tier, log = tier_over(backend, memory, components=(memory.components[0], None, memory.components[2]))
    store(tier, log, [ALL, ALL])
    assert answer(tier, 1, run(2)) == bytes([INDEX | STATE] * 2)
    tier.close()
    assert backend.exists(keys_of("swa").of(np.arange(2 * PAGE))).flags == (False, False)


def test_components_have_keys_of_their_own_and_pages_the_keys_that_they_had() -> None:
    tokens = np.arange(3 * PAGE)
    names = [*KEYS.of(tokens), *keys_of("swa").of(tokens), *keys_of("mamba").of(tokens)]
    assert len(set(names)) == 9
    assert PageKeys(replace(FINGERPRINT, component=""), Shard(0, 2)).of(tokens) == KEYS.of(tokens)


class Kept(StorageTier):
    """Remembers what it was to move."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.effects: list[Start] = []

    def start(self, effect: Start) -> None:
        self.effects.append(effect)
        super().start(effect)


def rank_over(backend: Backend, memory: Memory, journal: Path | None = None) -> tuple[Driver, Kept]:
    device = DevicePool(SHAPE, 128)
    tier = Kept(backend, KEYS, memory.host, components=memory.components)
    options: dict[str, Any] = {"storage": True, "prefetch_min": PAGE, "load_back_min": 1, "components": COMPONENTS}
    engine, slots = Engine(device, memory.host), SlotPool(128, page_size=PAGE)
    driver = Driver(LocalPlane(), engine, slots, page_size=PAGE, host_pages=PAGES, l3=tier, journal=journal, **options)
    return driver, tier


def settle(driver: Driver) -> None:
    """Until nothing is under way, and nothing follows from it: a store follows a backup."""
    deadline, quiet = time.monotonic() + 60, 0
    while time.monotonic() < deadline:
        with driver.step() as cache:
            quiet = quiet + 1 if cache.issued == cache.retired else 0
            if quiet > 2:
                return
        time.sleep(0.001)
    raise AssertionError("operations never end")


def finish(driver: Driver) -> None:
    settle(driver)
    with driver.step([Control.stop()]):
        pass
    driver.close()


def done_again(driver: Driver) -> None:
    """Its journal gives the same decisions, without memory or storage."""
    assert driver.journal is not None
    rerun = Rerun(Journal([driver.journal.path]))
    assert sum(1 for _ in rerun.run()) == rerun.steps
    assert (rerun.rank.digest, rerun.stopped) == (driver.digest, True)


def test_a_prefix_with_a_state_comes_back_in_another_process(backend: Backend, tmp_path: Path) -> None:
    first, second = Memory(1), Memory(2)
    driver, tier = rank_over(backend, first, tmp_path / "first")
    with driver.step() as cache:
        done = cache.insert(PROMPT, driver.slots.alloc(len(PROMPT)))
        assert cache.match_prefix(PROMPT).hit_tokens == 0, "its state is not kept"
        cache.keep_states(done.node)
        assert cache.match_prefix(PROMPT).hit_tokens == len(PROMPT)
        assert (cache.probe(PROMPT), cache.probe(PROMPT[:-PAGE])) == (len(PROMPT), 0)
        assert [parts.tolist() for parts in cache.parts(done.node)] == [[BOTH] * 9 + [ALL], [0] * 10]
    finish(driver)
    (written,) = tier.effects
    assert (written.kind, written.parts.tolist()) == ("store", [BOTH] * 9 + [ALL])

    done_again(driver)

    driver, tier = rank_over(backend, second, tmp_path / "second")
    asked = [*PROMPT, *range(900, 920)]
    with driver.step() as cache:
        ticket = cache.prefetch(asked)
    assert ticket is not None
    settle(driver)
    with driver.step() as cache:
        found = cache.match_prefix(asked)
        assert (found.hit_tokens, found.host_tokens) == (0, len(PROMPT))
    (read,) = tier.effects
    assert (len(read.pages), read.parts.tolist()) == (10, [INDEX] * 8 + [BOTH, ALL])
    for place, pages in ((0, slice(0, 10)), (1, slice(8, 10)), (2, slice(9, 10))):
        assert second.rows(place, read.pages[pages]) == first.rows(place, written.pages[pages]), COMPONENTS[place]
    finish(driver)
    done_again(driver)
    first.close()
    second.close()


class Pair:
    """Two ranks with a store each, in one process; the second one's stage has no layers of the index."""

    def __init__(self, backends: Sequence[Backend]) -> None:
        self.hub, self.memories = Hub(2), [Memory(3), Memory(4)]
        self.drivers: list[Driver] = [cast(Driver, None)] * 2
        threads = [threading.Thread(target=self._connect, args=(rank, backends[rank])) for rank in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _connect(self, rank: int, backend: Backend) -> None:
        memory, plane = self.memories[rank], HubPlane(self.hub, rank, 0)
        elsewhere = ["index"] if rank else []
        beside = (None if rank else memory.components[0], *memory.components[1:])
        tier = StorageTier(backend, KEYS, memory.host, components=beside)
        options: dict[str, Any] = {"storage": True, "prefetch_min": PAGE, "load_back_min": 1, "components": COMPONENTS}
        engine, slots = Engine(DevicePool(SHAPE, 128), memory.host), SlotPool(128, page_size=PAGE)
        self.drivers[rank] = Driver(
            cast(Any, plane),
            engine,
            slots,
            page_size=PAGE,
            host_pages=PAGES,
            l3=tier,
            components_elsewhere=elsewhere,
            **options,
        )

    def step(self, verbs: Callable[[Driver], Any], controls: Sequence[Control] = ()) -> Any:
        """The same on both; what both have answered."""
        planes = [cast(HubPlane, driver.plane) for driver in self.drivers]
        for plane in planes:
            plane.votes.fill(plane.board, plane.ballot)
        reduced = np.minimum.reduce([plane.ballot for plane in planes])
        for plane in planes:
            self.hub.newest = plane.votes.complete(plane.board, reduced)
        answers = []
        for rank, driver in enumerate(self.drivers):
            with driver.step(controls if rank == 0 else ()):
                answers.append(verbs(driver))
        assert answers[0] == answers[1]
        return answers[0]

    def settle(self) -> None:
        deadline, quiet = time.monotonic() + 60, 0
        while quiet < 3:
            assert time.monotonic() < deadline
            quiet = quiet + 1 if self.step(lambda driver: driver.cache.issued == driver.cache.retired) else 0
            time.sleep(0.001)

    def close(self) -> None:
        self.step(lambda driver: None, [Control.stop()])
        for driver, memory in zip(self.drivers, self.memories, strict=True):
            driver.close()
            memory.close()


def keep(driver: Driver, pages: int) -> None:
    """Caches so much of the prompt, with its states."""
    cache, slots = driver.cache, driver.slots
    own = slots.alloc(pages * PAGE)
    done = cache.insert(PROMPT[: pages * PAGE], own)
    slots.free(own[: done.prefix_len])
    cache.keep_states(done.node)


def test_two_ranks_take_the_end_that_both_have(tmp_path: Path) -> None:
    with open_storage(f"file://{tmp_path}/0") as left, open_storage(f"file://{tmp_path}/1") as right:
        pair = Pair([left, right])
        for pages in (4, 6, 8):
            pair.step(partial(keep, pages=pages))
        pair.settle()
        pair.close()
        # Ends are 4 and 8 here, 4 and 6 there, of 4, 6 and 8.
        states = keys_of("mamba").of(PROMPT)
        left.remove([states[5]])
        right.remove([states[7]])
        pair = Pair([left, right])
        pair.step(lambda driver: driver.cache.prefetch(PROMPT) is None)
        pair.settle()
        found = pair.step(lambda driver: driver.cache.match_prefix(PROMPT).host_tokens)
        assert found == 4 * PAGE
        pair.close()


def test_ranks_with_other_components_are_refused_by_name() -> None:
    hub, errors = Hub(2), {}

    def connect(rank: int) -> None:
        components = ("mamba=state",) if rank else ("mamba=side_car",)
        slots, plane = SlotPool(128, page_size=PAGE), cast(Any, HubPlane(hub, rank, 0))
        try:
            Driver(plane, None, slots, page_size=PAGE, components=components)
        except ProtocolError as error:
            errors[rank] = str(error)

    threads = [threading.Thread(target=connect, args=(rank,)) for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(errors) == [0, 1]
    assert all("components" in error for error in errors.values()), errors


def test_what_makes_no_sense_is_refused() -> None:
    agreement = agree([StartRecord(0, 1, 10).to_bytes()])

    def cache(*components: Any, **options: Any) -> TieredCache:
        return TieredCache(rank=0, host_pages=10, agreement=agreement, components=components, **options)

    assert cache(*COMPONENTS, components_elsewhere=["swa"]).components == COMPONENTS
    assert cache().components == ()
    for given, text in [
        (["swa"], 'component "swa" is unknown: accepted are'),
        (["swa=window:many"], "is unknown"),
        (["swa=window:0"], 'the window of component "swa" is 0'),
        (["a=state", "a=state"], 'component "a" is given twice'),
        (["a b=state"], "limits 1 to 32"),
        ([f"c{at}=state" for at in range(9)], "9 components, limit 8"),
    ]:
        with pytest.raises(InvalidInputError, match=text):
            cache(*given)
    with pytest.raises(InvalidInputError, match="none of the components"):
        cache(*COMPONENTS, components_elsewhere=["draft"])
    with pytest.raises(InputTypeError, match="components has"):
        cache(7)
    with pytest.raises(InputTypeError, match="components_elsewhere has"):
        cache(*COMPONENTS, components_elsewhere="swa")
    plain = cache()
    node = plain.insert([1], [1]).node
    with pytest.raises(InvalidInputError, match="states were to be kept at node"):
        plain.keep_states(node)


def test_a_driver_takes_components_only_where_engine_and_storage_have_them(backend: Backend, memory: Memory) -> None:
    device, slots = DevicePool(SHAPE, 128), SlotPool(128, page_size=PAGE)

    def driver(engine: Any, beside: Sequence[ComponentPages | None], **options: Any) -> Driver:
        tier = StorageTier(backend, KEYS, memory.host, components=beside)
        options = {"components": COMPONENTS, **options}
        return Driver(LocalPlane(), engine, slots, page_size=PAGE, host_pages=PAGES, l3=tier, **options)

    with pytest.raises(InvalidInputError, match="CpuCopyEngine copies keys and values alone"):
        driver(engine_for(device, memory.host), memory.components)
    index, swa, mamba = memory.components
    for beside, elsewhere, text in [
        ((swa, index, mamba), (), r"storage has the components \['swa', 'index', 'mamba'\], and this rank's cache has"),
        ((index, swa), (), r"\['index', 'swa'\], and"),
        ((), (), r"components \[\], and"),
        ((index, None, mamba), (), r"\['index', None, 'mamba'\], and"),
        ((index, swa, mamba), ("swa",), r"cache has \['index', None, 'mamba'\]"),
    ]:
        with pytest.raises(InvalidInputError, match=text):
            driver(Engine(device, memory.host), beside, components_elsewhere=elsewhere)
    with pytest.raises(InvalidInputError, match=r"\['index', 'swa', 'mamba'\], and this rank's cache has \[\]"):
        driver(Engine(device, memory.host), memory.components, components=())
    for given in (None, "swa=window:8", 7):
        with pytest.raises(InputTypeError, match=r"components is .*; a sequence of str is needed"):
            driver(Engine(device, memory.host), memory.components, components=given)


def test_an_engine_of_other_components_is_refused(memory: Memory) -> None:
    device = DevicePool(SHAPE, 128)
    index, swa = (
        ComponentPools(name, DevicePool(BESIDE, 128), host)
        for name, host in (("index", memory.index), ("swa", memory.swa))
    )

    def driver(*beside: ComponentPools | None, components: Sequence[str] = COMPONENTS) -> Driver:
        engine, slots = engine_for(device, memory.host, beside), SlotPool(128, page_size=PAGE)
        options: dict[str, Any] = {"components": components, "components_elsewhere": ["mamba"] if components else []}
        return Driver(LocalPlane(), EngineWrapper(engine), slots, page_size=PAGE, host_pages=PAGES, **options)

    wanted = (
        r"the copy engine has the components {}, and this rank's cache has \['index', 'swa', None\]\nhint: give eng"
    )
    for beside, text in [
        ((swa, index, None), r"\['swa', 'index', None\]"),
        ((index, swa), r"\['index', 'swa'\]"),
        ((index, None, None), r"\['index', None, None\]"),
    ]:
        with pytest.raises(InvalidInputError, match=wanted.format(text)):
            driver(*beside)
    with pytest.raises(InvalidInputError, match=r"\['index', 'swa', None\], and this rank's cache has \[\]"):
        driver(index, swa, None, components=())
    with pytest.raises(InvalidInputError, match="copies keys and values alone"):
        driver()
    finish(driver(index, swa, None))


def test_storage_of_other_components_is_not_attached(backend: Backend, memory: Memory) -> None:
    engine, slots = Engine(DevicePool(SHAPE, 128), memory.host), SlotPool(128, page_size=PAGE)
    driver = Driver(LocalPlane(), engine, slots, page_size=PAGE, host_pages=PAGES, components=COMPONENTS)
    driver.attach(lambda: StorageTier(backend, KEYS, memory.host, components=memory.components[::-1]))

    def is_refused() -> bool:
        with driver.step():
            pass
        return bool(driver.attachments)

    until(is_refused)
    ((_, what, why),) = driver.attachments
    assert what == "refused"
    assert why.startswith("storage has the components ['mamba', 'swa', 'index'], and this rank's cache has ['index'")
    finish(driver)


def test_memory_that_was_left_is_taken_back_only_where_it_is_large_enough() -> None:
    held = SimpleNamespace(released=False)
    asked: list[PageViews] = []

    class Late:
        leading, statuses = 0, ()

        @property
        def released(self) -> bool:
            return bool(held.released)

    def late_first(keys: Sequence[bytes], pages: PageViews) -> Any:
        asked.append(pages)
        return Late() if len(asked) == 1 else SimpleNamespace(released=True, leading=0, statuses=())

    staged = Staged(cast(Backend, SimpleNamespace(get_into=late_first)))
    small, large = (PageViews.whole(np.zeros(2 * size, np.uint8), size) for size in (64, 4096))
    staged.get([b"0", b"1"], small)
    held.released = True
    staged.get([b"0", b"1"], large)
    assert [views.page_bytes for views in asked] == [64, 4096]


def test_large_rows_move_a_few_at_a_time() -> None:
    assert [rows_at_once(size) for size in (1, 2 << 20, 3 << 20, 100 << 20, 1 << 40)] == [128, 128, 85, 2, 1]
