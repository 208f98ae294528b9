"""Ranks in processes of their own that fetch from files while they step, and note when what happened.

A step's work is a sleep, as where a device computes: the processor is free meanwhile.
"""

import multiprocessing
import socket
import time
from bisect import bisect_right
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
import torch

from isoradix import Control, SlotPool
from isoradix.consensus import GlooPlane, Topology
from isoradix.copies import engine_for
from isoradix.driver import Driver
from isoradix.kv import DevicePool, HostPool, MHAShape
from isoradix.storage import Backend, Fingerprint, Outcome, PageKeys, PageViews, Presence, Shard, open_storage
from isoradix.storage.tier import StorageTier

PAGE: Final = 64
GAP: Final = 12
"""Steps without a prefetch before each."""


@dataclass(frozen=True)
class Plan:
    """What the ranks do."""

    folder: Path
    tp: int
    pp: int
    tokens: int
    """Of a prefetch."""
    prefetches: int
    layers: int
    step_ms: float


@dataclass
class Seen:
    """What one rank noted: nanoseconds of the machine's monotonic clock."""

    rank: int
    steps: list[int] = field(default_factory=list)
    """When it entered each step."""
    wished: list[int] = field(default_factory=list)
    over: list[int] = field(default_factory=list)
    """Numbers of steps: in which each prefetch was wished for, and from which on it is of use."""
    asked: list[tuple[int, int]] = field(default_factory=list)
    read: list[tuple[int, int]] = field(default_factory=list)
    """From when to when each question and each batch of pages took."""

    def step_at(self, moment: int) -> int:
        """The number of the step that it was in."""
        return bisect_right(self.steps, moment) - 1


class Timed:
    """A backend that notes how long its calls take."""

    def __init__(self, backend: Backend, seen: Seen) -> None:
        self._backend, self._seen = backend, seen

    def exists(self, keys: list[bytes]) -> Presence:
        begun = time.monotonic_ns()
        known = self._backend.exists(keys)
        self._seen.asked.append((begun, time.monotonic_ns()))
        return known

    def get_into(self, keys: list[bytes], views: PageViews) -> Outcome:
        begun = time.monotonic_ns()
        outcome = self._backend.get_into(keys, views)
        self._seen.read.append((begun, time.monotonic_ns()))
        return outcome

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)


class Fetcher:
    """One rank: its pages are in storage before it begins."""

    def __init__(self, plan: Plan, rank: int, address: str) -> None:
        self._plan, self.seen = plan, Seen(rank)
        topology = Topology(tp=plan.tp, pp=plan.pp)
        pages = -(-plan.tokens // PAGE)
        shape = MHAShape(layers=plan.layers, heads=2, head_dim=64, dtype=torch.float16)
        self._host = HostPool(shape, pages * (plan.prefetches + 1), PAGE, "page_first")
        self._host.memory.fill_(1)  # every page of it is there before anything is timed
        self._device = DevicePool(shape, 4 * PAGE)
        self._backend = open_storage(f"file://{plan.folder}")
        about = Fingerprint("bench", "1", "float16", shape.describe(), "layer", PAGE)
        place = topology.place(rank)
        shard = Shard(place.stage * plan.layers, plan.layers, place.tp, plan.tp)
        keys = PageKeys(about, shard)
        self._prompts = [np.arange(plan.tokens, dtype=np.int64) + (1 + turn) * 10**6 for turn in range(plan.prefetches)]
        for prompt in self._prompts:
            views = PageViews.of_pool(self._host, range(pages))
            assert self._backend.put_from(keys.of(prompt), views, timeout_s=60).done == pages
        plane = GlooPlane.connect(topology, rank, address, hosts_store=rank == 0)
        tier = StorageTier(cast(Backend, Timed(self._backend, self.seen)), keys, self._host)
        slots, engine = SlotPool(4 * PAGE, page_size=PAGE), engine_for(self._device, self._host)
        self._driver = Driver(
            plane, engine, slots, page_size=PAGE, host_pages=self._host.num_pages, prefetch_patience=None, l3=tier
        )

    def run(self) -> Seen:
        """All prefetches, one after another."""
        for prompt in self._prompts:
            for _ in range(GAP):
                self._step()
            self.seen.wished.append(len(self.seen.steps))
            ticket = self._step(prompt)
            assert ticket is not None, "a prefetch was declined"
            while self._driver.cache.prefetch_state(ticket) != "over":
                self._step()
            self.seen.over.append(len(self.seen.steps) - 1)
        assert self._driver.cache.totals.prefetched_tokens == self._plan.prefetches * self._plan.tokens
        self._step(stop=True)
        self._driver.close()
        self._backend.close()
        return self.seen

    def _step(self, prompt: Any = None, stop: bool = False) -> Any:
        stops = [Control.stop()] if stop and self._driver.plane.place.leads else []
        ticket = None
        with self._driver.step(stops) as cache:
            self.seen.steps.append(time.monotonic_ns())
            if prompt is not None:
                ticket = cache.prefetch(prompt, anchor=cache.match_prefix(prompt).host_node)
        time.sleep(self._plan.step_ms / 1e3)
        return ticket


def _rank(plan: Plan, rank: int, address: str, answers: Any) -> None:
    torch.set_num_threads(1)
    answers.put(Fetcher(plan, rank, address).run())


def run(plan: Plan) -> list[Seen]:
    """What each rank noted, in the order of ranks."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    spawn = multiprocessing.get_context("spawn")
    answers = spawn.Queue()
    ranks = [spawn.Process(target=_rank, args=(plan, rank, address, answers)) for rank in range(plan.tp * plan.pp)]
    for rank in ranks:
        rank.start()
    try:
        return sorted((answers.get(timeout=180) for _ in ranks), key=lambda seen: seen.rank)
    finally:
        for rank in ranks:
            rank.join(10)
            rank.kill()
