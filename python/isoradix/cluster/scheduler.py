"""The scheduler of one rank: the same code on every rank, fed by the request stream and by its own cache's answers.

Nothing that it decides reads a clock, a copy, or a number that is this rank's alone.
"""

import hashlib
import time
from array import array
from collections import deque
from dataclasses import dataclass
from time import monotonic_ns
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from isoradix import BatchHeader, Control, LockReceipt, TieredCache, TieredMatchResult
from isoradix.cluster.bytes import KvBytes, Words, prefix_words
from isoradix.cluster.injector import Injector
from isoradix.cluster.intake import Feed, Intake, Request
from isoradix.cluster.prefetch import Prefetches
from isoradix.cluster.steps import StepLog
from isoradix.driver import Driver

if TYPE_CHECKING:
    from isoradix.cluster.handover import Handover

SAMPLE = 64
# an idle loop need not burn a processor that other ranks want
_IDLE_S = 0.0005

SlotArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Running:
    """A request in the batch: its leading `cached` tokens are the cache's; those from `hit` on were loaded for it."""

    request: Request
    slots: SlotArray
    hit: int
    cached: int
    lock: LockReceipt
    ends: int


@dataclass
class Served:
    """What became of the requests, for each in the order of their admission."""

    lengths: "array[int]"
    device: "array[int]"
    host: "array[int]"
    storage: "array[int]"
    uncached: int = 0

    def hitseq(self) -> str:
        """As `isoradix replay` prints it: over what each request found, in all tiers."""
        found = sum(np.array(tier, dtype="<u8") for tier in (self.device, self.host, self.storage))
        return hashlib.sha256(np.asarray(found).tobytes()).hexdigest()[:12]


class Scheduler:
    """Serves a feed to its end.

    Args:
        driver: the rank.
        kv: its KV.
        feed: the requests of its domain.
        intake: which of them arrive when.
        injector: its faults.
        batch: requests that are admitted in a step at most.
        step_ms: what a forward pass takes beside the work on bytes.
        prefetches: what requests wait for before they are admitted; None without external storage.
        handover: compares each batch with that of the stage before; None where nobody looks.
        patience_s: how long the leader waits at the end for what is under way.
    """

    def __init__(
        self,
        driver: Driver,
        kv: KvBytes,
        feed: Feed,
        intake: Intake,
        injector: Injector,
        *,
        batch: int,
        step_ms: float = 0.0,
        prefetches: Prefetches | None = None,
        handover: "Handover | None" = None,
        patience_s: float = 30.0,
    ) -> None:
        self._driver, self._kv, self._feed, self._intake, self._injector = driver, kv, feed, intake, injector
        self._batch, self._step_s, self._patience_s = batch, step_ms / 1e3, patience_s
        self._prefetches = prefetches
        self._handover = handover
        self._waiting: deque[Request] = deque()
        self._running: deque[Running] = deque()
        self._step = 0
        self._finished: float | None = None
        self.served = Served(array("q"), array("q"), array("q"), array("q"))
        self.digests = array("Q")
        self.log = StepLog()

    @property
    def step_number(self) -> int:
        """The step that was entered last."""
        return self._step

    @property
    def done(self) -> int:
        """Requests that have been admitted."""
        return len(self.served.lengths)

    def step(self) -> None:
        """One step, to the end of its forward pass."""
        driver, started = self._driver, monotonic_ns()
        self._injector.before(self._step + 1, driver)
        disturbed = monotonic_ns()
        self._waiting.extend(self._intake.arrivals(self._batch - len(self._waiting)))
        controls = self._controls()
        begun = monotonic_ns()
        with driver.step(controls) as cache:
            self._intake.relay()
            entered = monotonic_ns()
            self._step += 1
            self.digests.append(driver.digest)
            self._finish(cache)
            fresh = [] if driver.stopped else self._admit(cache)
            decided = monotonic_ns()
        closed = monotonic_ns()
        self._injector.after(driver)
        if self._handover is not None:
            self._handover.exchange(self._header(fresh))
        copies = self._forward(fresh)
        ended = monotonic_ns()
        before = (begun - disturbed, entered - begun, decided - entered, closed - decided)
        self.log.add(started, *before, copies, ended - closed - copies, ended - started)

    # the end

    def _idle(self) -> bool:
        return self._feed.exhausted and not self._waiting and not self._running

    def _controls(self) -> list[Control]:
        """The leader says when it is over: once nothing runs and nothing is under way, or takes too long to end."""
        if not self._driver.plane.place.leads:
            return []
        if not self._idle():
            return [] if self._prefetches is None else self._prefetches.controls()
        now, cache = time.monotonic(), self._driver.cache
        if self._finished is None:
            self._finished = now
        rests = cache.issued == cache.retired
        return [Control.stop()] if rests or now - self._finished > self._patience_s else []

    # verbs

    def _finish(self, cache: TieredCache) -> None:
        """Requests whose time is over: what they computed is cached, what was cached meanwhile is given back."""
        for _ in range(len(self._running)):
            running = self._running.popleft()
            if running.ends > self._step:
                self._running.append(running)
                continue
            key = self._injector.key(self._step, running.request.key, running.cached)
            done = cache.insert(key, running.slots[: len(key)])
            self._driver.slots.free(running.slots[running.cached : done.prefix_len])
            cache.unlock(running.lock)

    def _admit(self, cache: TieredCache) -> list[Running]:
        """Requests join in their order, past those that wait for storage, until one does not fit."""
        fresh: list[Running] = []
        for request in self._ready(cache):
            found = cache.match_prefix(request.key)
            if len(request.key) > self._driver.slots.total:
                self.served.uncached += 1
                self._note(request, found.hit_tokens, 0, 0)
                if self._prefetches is not None:
                    self._prefetches.brought(cache, request, 0)
            elif (running := self._try(cache, request, found)) is not None:
                fresh.append(running)
                stored = 0 if self._prefetches is None else self._prefetches.brought(cache, request, running.cached)
                loaded = running.cached - running.hit
                self._note(request, running.hit, loaded - min(stored, loaded), min(stored, loaded))
            else:
                break
            self._waiting.remove(request)
            if len(fresh) == self._batch:
                break
        self._running.extend(fresh)
        return fresh

    def _ready(self, cache: TieredCache) -> list[Request]:
        """Who could be admitted. Who is new asks storage first."""
        if self._prefetches is None:
            return list(self._waiting)
        for request in self._waiting:
            self._prefetches.ask(cache, request)
        return [request for request in self._waiting if self._prefetches.is_over(cache, request)]

    def _try(self, cache: TieredCache, request: Request, found: TieredMatchResult) -> Running | None:
        lock = cache.lock(found.node)
        need = len(request.key) - found.hit_tokens
        if not self._make_room(cache, need):
            cache.unlock(lock)
            return None
        node = found.node
        loaded = self._load(cache, found)
        if loaded:
            cache.unlock(lock)
            node = found.host_node
            lock = cache.lock(node)
        slots = np.concatenate((cache.slots(node), self._driver.slots.alloc(need - loaded)))
        cached = found.hit_tokens + loaded
        return Running(request, slots, found.hit_tokens, cached, lock, self._step + request.steps)

    def _make_room(self, cache: TieredCache, need: int) -> bool:
        missing = need - self._driver.slots.available
        if missing > cache.evictable_size:
            return False  # running requests and copies hold the rest, on all ranks alike
        if missing > 0:
            self._driver.slots.free(cache.evict(missing).slots)
        return True

    def _load(self, cache: TieredCache, found: TieredMatchResult) -> int:
        """Brings what is on host alone onto the device; how many tokens, 0 where that is declined. There is room."""
        if not found.host_tokens:
            return 0
        promise = cache.host_lock(found.host_node)
        need = cache.load_back_need(promise)
        slots = self._driver.slots.alloc(need)
        loaded = cache.load_back(promise, slots) if need else 0
        if not loaded:
            cache.unlock_host(promise)
            self._driver.slots.free(slots)
        return loaded

    def _note(self, request: Request, device: int, host: int, storage: int) -> None:
        self.served.lengths.append(len(request.key))
        self.served.device.append(device)
        self.served.host.append(host)
        self.served.storage.append(storage)

    # the forward pass

    def _header(self, fresh: list[Running]) -> BatchHeader:
        """What this rank has in its batch."""
        place = self._driver.plane.place
        lengths = [(one.request.index, one.cached, len(one.request.key) - one.cached) for one in fresh]
        told = self._injector.lengths(self._step, lengths, self._driver.slots.page_size)
        return BatchHeader.make(self._step, told, rank=place.rank, ordinal=self._step)

    def _forward(self, fresh: list[Running]) -> int:
        """Layer by layer: what is loaded has come, what is read is right, what is missing is computed.

        Returns:
            Nanoseconds waited for copies.
        """
        words = [prefix_words(running.request.key) for running in fresh]
        waited = 0
        for number, layer in enumerate(self._kv.layers):
            begun = monotonic_ns()
            for load in self._driver.loads:
                load.wait_layer(number)
            waited += monotonic_ns() - begun
            for running, expected in zip(fresh, words, strict=True):
                self._read(layer, running, expected)
        for running, expected in zip(fresh, words, strict=True):
            self._kv.write(running.slots[running.cached :], expected[running.cached :])
        pause = self._step_s if self._running else _IDLE_S
        if pause:
            time.sleep(pause)
        return waited

    def _read(self, layer: int, running: Running, expected: Words) -> None:
        """All that was loaded for a request, and a sample of what it found on the device."""
        sample = np.unique(np.linspace(0, running.hit - 1, min(running.hit, SAMPLE), dtype=np.int64))
        offsets = np.concatenate((sample, np.arange(running.hit, running.cached)))
        if len(offsets):
            self._kv.check(layer, running.slots[offsets], expected[offsets], offsets)
