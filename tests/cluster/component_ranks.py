"""One rank of a model with a side-car, a window and recurrent states: real bytes on the device, on host and in storage.

What `tests.consensus.ranks.run` starts, given as its `main`. A row's bytes follow from all tokens up to its own, the
rank, what it belongs to, the layer and the part: any other row is found out.
"""

import pickle
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch

from isoradix import Control, Patience, SlotPool, Start
from isoradix.cluster.bytes import Words, prefix_words, salt
from isoradix.cluster.engines import EngineWrapper
from isoradix.consensus.topology import Place, Topology
from isoradix.copies import ComponentPools, Copy, CopyEngine, engine_for
from isoradix.copies.cpu import CpuCopyEngine
from isoradix.copies.seeded import SeededCopyEngine
from isoradix.driver import Driver
from isoradix.kv import DevicePool, HostPool, KVShape, MHAShape, MLAShape, StateShape
from isoradix.storage import ComponentPages, Fingerprint, PageKeys, Shard, open_storage
from isoradix.storage.tier import StorageTier

PAGE: Final = 4
SLOTS, PAGES = 40 * PAGE, 60
COMPONENTS: Final = ("index=side_car", "swa=window:8", "mamba=state")
INDEX, WINDOW, STATE = 1, 2, 4
BOTH, ALL = INDEX | WINDOW, INDEX | WINDOW | STATE
PROMPT: Final = list(range(10 * PAGE))
ENDS: Final = (4, 10)
"""Pages after which states are kept."""

LAYERS: Final = {"kv": range(5), "index": range(2), "swa": range(1, 4), "mamba": (2, 4)}
"""Of the whole model. The second of two stages begins with layer 2: it has no index, and the first has no states."""
STAGES: Final = {1: (range(5),), 2: (range(2), range(2, 5))}


class Rows:
    """One pair of pools, and what belongs into them."""

    def __init__(self, name: str, layers: Sequence[int], rank: int) -> None:
        shapes: dict[str, KVShape] = {
            "kv": MHAShape(len(layers), 1, 8, torch.uint8),
            "index": MLAShape(len(layers), 8, torch.uint8),
            "swa": MHAShape(len(layers), 1, 8, torch.uint8),
            "mamba": StateShape(len(layers), 8, torch.uint8),
        }
        self.name, self.shape = name, shapes[name]
        self.span = PAGE if name == "mamba" else 1
        self.device = DevicePool(self.shape, SLOTS // self.span)
        self.host = HostPool(self.shape, PAGES, PAGE // self.span, "page_first", pinned=False)
        self._views: dict[str, tuple[Words, np.uint64]] = {}
        for at, layer in enumerate(layers):
            for number, part in enumerate(self.shape.parts):
                mark = salt(rank, list(LAYERS).index(name), layer, number)
                view = self.device.buffer(at, part).numpy().view(np.uint64)[:, 0]
                self._views[f"layer {layer} {part}"] = view, np.uint64(mark)

    def _places(self, slots: npt.NDArray[np.int64], words: Words) -> tuple[npt.NDArray[np.int64], Words]:
        """Rows of whole pages, and the word of each."""
        return slots[:: self.span] // self.span, words[self.span - 1 :: self.span]

    def write(self, slots: npt.NDArray[np.int64], words: Words) -> None:
        """What a forward pass leaves."""
        rows, belong = self._places(slots, words)
        for view, mark in self._views.values():
            view[rows] = belong ^ mark

    def wrong(self, slots: npt.NDArray[np.int64], words: Words) -> list[str]:
        """Where other bytes lie than those that belong there."""
        rows, belong = self._places(slots, words)
        return [
            f"{self.name} {name}" for name, (view, mark) in self._views.items() if (view[rows] != belong ^ mark).any()
        ]

    def close(self) -> None:
        self.device.close()
        self.host.close()


class Memory:
    """All that one rank keeps; None for a component that its stage has no layers of."""

    def __init__(self, place: Place, topology: Topology) -> None:
        own = STAGES[topology.pp][place.stage]
        layers = {name: [layer for layer in of_model if layer in own] for name, of_model in LAYERS.items()}
        self.kv = Rows("kv", layers.pop("kv"), place.rank)
        self.beside = [Rows(name, at, place.rank) if at else None for name, at in layers.items()]
        self.there = [rows for rows in self.beside if rows is not None]
        self.elsewhere = [name for name, at in layers.items() if not at]
        self.pools = [
            None if rows is None else ComponentPools(rows.name, rows.device, rows.host) for rows in self.beside
        ]
        self._shard = Shard(own.start, len(own), place.tp, topology.tp)

    def tier(self, store: Any) -> StorageTier:
        about = Fingerprint("model", "1", "uint8", self.kv.shape.describe(), "layer", PAGE)

        def keys(rows: Rows) -> PageKeys:
            return PageKeys(replace(about, component=rows.name, kv=rows.shape.describe()), self._shard)

        beside = [
            None if rows is None else ComponentPages.of_pool(rows.name, keys(rows), rows.host) for rows in self.beside
        ]
        return StorageTier(store, PageKeys(about, self._shard), self.kv.host, components=beside)

    def poison(self) -> None:
        """The device holds nothing any more."""
        for rows in (self.kv, *self.there):
            rows.device.poison(range(rows.device.num_slots))

    def close(self) -> None:
        for rows in (self.kv, *self.there):
            rows.close()


class Claims(CpuCopyEngine):
    """Says that it copies components, and copies none."""

    copies_components = True


class Told(EngineWrapper):
    """Remembers what it was to copy."""

    def __init__(self, inner: CopyEngine) -> None:
        super().__init__(inner)
        self.effects: list[Start] = []

    def start(self, effect: Start) -> Copy:
        self.effects.append(effect)
        return super().start(effect)


class Member:
    """What one rank's process has."""

    def __init__(self, driver: Driver, memory: Memory, engine: Told, plant: tuple[int, str] | None) -> None:
        self.driver, self.memory, self.engine, self._plant = driver, memory, engine, plant
        self.digests: list[int] = []

    def step(self) -> Any:
        if isinstance(self.engine.inner, SeededCopyEngine):
            self.engine.inner.run(7)
        self.digests.append(self.driver.digest)
        return self.driver.step()

    def settle(self) -> None:
        """Until nothing is under way, and nothing follows from it: a store follows a backup."""
        deadline, quiet = time.monotonic() + 30, 0
        while quiet < 5:
            assert time.monotonic() < deadline, "operations never end"
            with self.step() as cache:
                quiet = quiet + 1 if cache.issued == cache.retired else 0
            time.sleep(0.001)

    def compute(self, pages: int) -> None:
        """Caches so much of the prompt, with the states at its end."""
        driver, key = self.driver, PROMPT[: pages * PAGE]
        with self.step() as cache:
            slots = driver.slots.alloc(len(key))
            for rows in (self.memory.kv, *self.memory.there):
                rows.write(slots, prefix_words(np.array(key)))
            done = cache.insert(key, slots)
            driver.slots.free(slots[: done.prefix_len])
            cache.keep_states(done.node)

    def forget(self) -> None:
        """Evicts all that is on the device."""
        with self.step() as cache:
            self.driver.slots.free(cache.evict(cache.sizes.evictable).slots)
        assert self.driver.slots.available == SLOTS
        self.memory.poison()

    def plant(self) -> None:
        """One wrong byte on host, if this rank is to have one: in the row of the last page of the prompt."""
        with self.step() as cache:  # on all ranks: to look is to use
            page = int(cache.node_pages(cache.match_prefix(PROMPT).host_node)[-1])
        rank, name = self._plant or (-1, "")
        if rank == self.driver.plane.place.rank:
            (rows,) = [rows for rows in self.memory.there if rows.name == name]
            rows.host.page_bytes(page)[0] ^= 1

    def load(self, shift: int) -> list[str]:
        """Loads the prompt back into other slots than it had; what is wrong there."""
        driver, before = self.driver, len(self.engine.effects)
        with self.step() as cache:
            found = cache.match_prefix(PROMPT)
            assert (found.hit_tokens, found.host_tokens) == (0, len(PROMPT))
            receipt = cache.host_lock(found.host_node)
            apart = driver.slots.alloc(shift * PAGE)
            assert cache.load_back(receipt, driver.slots.alloc(cache.load_back_need(receipt))) == len(PROMPT)
            driver.slots.free(apart)
        for copy in driver.loads:
            copy.wait_layer(0)  # all that lies beside is there with any layer
        (effect,) = [effect for effect in self.engine.effects[before:] if effect.kind == "load_back"]
        wrong = self.wrong_beside(effect)
        for copy in driver.loads:
            for layer in range(self.memory.kv.shape.layers):
                copy.wait_layer(layer)
        self.parts = effect.parts.tolist()
        return wrong + self.memory.kv.wrong(effect.slots.astype(np.int64), prefix_words(np.array(PROMPT)))

    def wrong_beside(self, effect: Start) -> list[str]:
        """Of the parts that were named."""
        slots, words = effect.slots.astype(np.int64), prefix_words(np.array(PROMPT))
        wrong = []
        for bit, rows in enumerate(self.memory.beside):
            if rows is not None:
                named = np.repeat(effect.parts & 1 << bit != 0, PAGE)
                wrong += rows.wrong(slots[named], words[named])
        return wrong

    def stop(self) -> None:
        self.settle()
        with self.driver.step([Control.stop()] if self.driver.plane.place.leads else ()):
            pass


def comes_back_from_host(member: Member) -> dict[str, Any]:
    """Computes, backs up, evicts, loads back."""
    for pages in ENDS:
        member.compute(pages)
    member.settle()
    member.forget()
    member.plant()
    wrong = member.load(shift=3)
    member.settle()
    with member.step() as cache:
        assert cache.match_prefix(PROMPT).hit_tokens == len(PROMPT)
    member.stop()
    return {"wrong": wrong, "parts": member.parts, "digests": member.digests}


def comes_back_from_storage(member: Member) -> dict[str, Any]:
    """A rank that has computed nothing: prefetches, loads back."""
    member.memory.poison()
    with member.step() as cache:
        assert cache.prefetch([*PROMPT, *range(900, 920)]) is not None
    member.settle()
    member.plant()
    wrong = member.load(shift=5)
    member.stop()
    return {"wrong": wrong, "parts": member.parts, "digests": member.digests}


def make_engine(kind: str, memory: Memory, rank: int) -> CopyEngine:
    device, host = memory.kv.device, memory.kv.host
    if kind == "claims":
        return Claims(device, host)
    if kind == "seeded":
        return SeededCopyEngine(device, host, seed=rank, components=memory.pools)
    return engine_for(device, host, memory.pools)


def main(rank: int, *shared: Any) -> None:
    """One rank: the answer of its body, or the error that it or the start raised."""
    plane, topology, body, folder, given, patience, _, address, _, answers = shared
    kind, store, plant = given
    torch.set_num_threads(1)
    driver, answer = None, None
    try:
        connected = plane.connect(
            topology, rank, address, hosts_store=rank == 0, patience=Patience(*patience), wait_board=folder
        )
        memory = Memory(connected.place, topology)
        engine = Told(make_engine(kind, memory, rank))
        with open_storage(f"file://{store}") as storage:
            driver = Driver(
                connected,
                engine,
                SlotPool(SLOTS, page_size=PAGE),
                page_size=PAGE,
                host_pages=PAGES,
                l3=memory.tier(storage),
                prefetch_min=PAGE,
                load_back_min=1,
                components=COMPONENTS,
                components_elsewhere=memory.elsewhere,
            )
            answer = body(Member(driver, memory, engine, plant))
            driver.close()
        memory.close()
    except BaseException as error:
        answer = error
        if driver is not None:
            driver.close()
    answers.put((rank, pickle.dumps(answer)))
