"""The faults of one rank at work, step by step. What they do when follows from seed and rank."""

import os
import signal
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, cast

import numpy as np

from isoradix.cluster.engines import CorruptEngine, Delay, HungEngine, LateEngine, SlowEngine
from isoradix.cluster.faults import KINDS, Fault, Span
from isoradix.cluster.storages import KINDS as STORAGE_KINDS
from isoradix.cluster.storages import FaultyBackend
from isoradix.copies.engine import CopyEngine
from isoradix.driver import Driver
from isoradix.replay.blocks import Tokens
from isoradix.replay.draws import Draws
from isoradix.storage import TemporaryStorageError

if TYPE_CHECKING:
    from isoradix.storage import Backend

_ALL_PAGES: Final = 2**32 - 1
Lengths = tuple[int, int, int]
"""Of a request in a batch: its index, its cached tokens, and those to be computed."""
EVENTS_MAX: Final = 2000


class Injector:
    """Calls come from the scheduler's thread, around every step.

    Args:
        faults: those of the whole run.
        rank: the rank of the deployment whose faults these are.
    """

    def __init__(self, faults: Sequence[Fault], rank: int) -> None:
        self._faults = [fault for fault in faults if fault.on(rank)]
        self._rank = rank
        self._draws = [self._drawn(fault) for fault in self._faults]
        self._withdrawn = self._lied = self._cut = False
        self._short = sum(fault.number("pages") for fault in self._faults if fault.kind == "short-pool")
        self._corrupt: CorruptEngine | None = None
        self._storage: FaultyBackend | None = None
        self._hung: HungEngine | None = None
        self.events: list[tuple[int, str]] = []
        """When (monotonic nanoseconds) which fault was at work; the first 2,000."""

    def engine(self, engine: CopyEngine, flip: Callable[[int], None]) -> CopyEngine:
        """The engine with this rank's faults around it; `flip` flips a bit of a host page."""
        for fault in self._faults:
            if fault.kind == "copy-slow":
                engine = SlowEngine(engine, self._delay(fault))
        for fault in self._faults:
            if fault.kind == "ack-delay":
                engine = LateEngine(engine, self._delay(fault))
            elif fault.kind == "corrupt":
                engine = self._corrupt = CorruptEngine(engine, flip)
            elif fault.kind == "copy-hang":
                engine = self._hung = HungEngine(engine)
        return engine

    def storage(self, backend: "Backend") -> "Backend":
        """The storage with this rank's faults in front of it."""
        faults = [fault for fault in self._faults if fault.kind in STORAGE_KINDS]
        if not faults:
            return backend
        if any(fault.kind == "storage-unopened" for fault in faults):
            self._note("storage-unopened")
            backend.close()
            raise TemporaryStorageError("the engine cannot be opened: the fault has seen to it")
        self._storage = FaultyBackend(backend, faults, self._drawn, self._note)
        return cast("Backend", self._storage)

    def begin(self, driver: Driver) -> None:
        """Before the first step."""
        if self._short:
            self._note("short-pool")
            driver.rank.withdraw(self._short)

    def before(self, step: int, driver: Driver) -> None:
        """Before the rank enters a step."""
        for fault, draws in zip(self._faults, self._draws, strict=True):
            match fault.kind:
                case "sleep" if draws.chance(fault.values["p"].low):
                    self._note(fault.kind)
                    time.sleep(_seconds(fault.values["ms"], draws))
                case "alloc-fail" if draws.chance(fault.values["p"].low):
                    self._note(fault.kind)
                    self._withdrawn = True
                    driver.rank.withdraw(_ALL_PAGES)
                case "corrupt" if step == fault.number("step") and self._corrupt is not None:
                    self._note(fault.kind)
                    self._corrupt.armed = True
                case "storage-hang" if self._storage is not None:
                    self._storage.hangs = fault.number("step") <= step < fault.number("until")
                case "storage-fail" if self._storage is not None:
                    self._storage.fails = step < fault.number("until")
                case "pause" if step == fault.number("step"):
                    self._note(fault.kind)
                    driver.board.pause()
                    time.sleep(_seconds(fault.values["ms"], draws))
                    driver.board.pause(False)
                case "copy-hang" if step == fault.number("step") and self._hung is not None:
                    self._note(fault.kind)
                    self._hung.armed = True
                case "kill" if step == fault.number("step"):
                    os.kill(os.getpid(), signal.SIGKILL)
                case "stop" if step == fault.number("step"):
                    os.kill(os.getpid(), signal.SIGSTOP)

    def key(self, step: int, key: Tokens, cached: int) -> Tokens:
        """A key to be inserted, as this rank is given it: once, from the fault's step on, with another last token.

        Where all of it is cached, without the last token: its slots are the cache's, and cannot hold another page.
        """
        for fault in self._faults:
            if fault.kind == "diverge" and step >= fault.number("step") and not self._lied:
                self._lied = True
                self._note(fault.kind)
                return key[:-1] if cached == len(key) else np.concatenate((key[:-1], key[-1:] ^ 1))
        return key

    def lengths(self, step: int, lengths: list[Lengths], page_size: int) -> list[Lengths]:
        """What this rank says of its batch: once, from the fault's step on, a page is elsewhere than on others."""
        for fault in self._faults:
            if fault.kind == "batch" and step >= fault.number("step") and lengths and not self._cut:
                self._cut = True
                self._note(fault.kind)
                (index, cached, fresh), *others = lengths
                moved = page_size if fresh > page_size else -page_size
                return [(index, cached + max(moved, 0), fresh - moved), *others]
        return lengths

    def after(self, driver: Driver) -> None:
        """After the step is closed."""
        if self._withdrawn:
            self._withdrawn = False
            driver.rank.restore(_ALL_PAGES)
            driver.rank.withdraw(self._short)

    def _drawn(self, fault: Fault, *operation: int) -> Draws:
        return Draws(fault.seed, self._rank, list(KINDS).index(fault.kind), *operation)

    def _delay(self, fault: Fault) -> Delay:
        """Delays, each of them noted. Threads ask in any order, so each operation has a stream of its own."""

        def delay(operation: int) -> float:
            self._note(fault.kind)
            return _seconds(fault.values["ms"], self._drawn(fault, operation))

        return delay

    def _note(self, kind: str) -> None:
        if len(self.events) < EVENTS_MAX:
            self.events.append((time.monotonic_ns(), kind))


def _seconds(span: Span, draws: Draws) -> float:
    return (span.low + (span.high - span.low) * draws.share()) / 1e3
