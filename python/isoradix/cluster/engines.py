"""Copy engines with faults: wrappers around an engine that works. None of them holds up the scheduler's thread."""

import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, cast

from isoradix import Board, OperationError, Start
from isoradix.copies.engine import Copy, CopyEngine

Delay = Callable[[int], float]
"""The seconds by which an operation is delayed. It is asked by any thread."""


class EngineWrapper:
    """Passes every call on."""

    def __init__(self, inner: CopyEngine) -> None:
        self.inner = inner

    @property
    def copies_components(self) -> bool:
        return getattr(self.inner, "copies_components", False)

    @property
    def components(self) -> tuple[str | None, ...]:
        return tuple(getattr(self.inner, "components", ()))

    def attach(self, board: Board) -> None:
        self.inner.attach(board)

    def start(self, effect: Start) -> Copy:
        return self.inner.start(effect)

    def cancel(self, operation: int) -> None:
        self.inner.cancel(operation)

    def poll(self) -> None:
        self.inner.poll()

    def close(self) -> None:
        self.inner.close()


class LateReports:
    """Stands between an engine and its board: the end of a copy is reported when it is due, everything else at once."""

    def __init__(self, board: Board, delay: Delay) -> None:
        self._board, self._delay = board, delay
        self._lock = threading.Lock()
        self._held: list[tuple[float, int, bool]] = []

    def ended(self, operation: int, succeeded: bool) -> None:
        with self._lock:
            self._held.append((time.monotonic() + self._delay(operation), operation, succeeded))

    def report(self, until: float) -> None:
        with self._lock:
            due = [held for held in self._held if held[0] <= until]
            self._held = [held for held in self._held if held[0] > until]
        for _, operation, succeeded in due:
            self._board.ended(operation, succeeded)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._board, name)


class LateEngine(EngineWrapper):
    """Copies end in their time, and their rank hears of it late."""

    def __init__(self, inner: CopyEngine, delay: Delay) -> None:
        super().__init__(inner)
        self._delay = delay
        self._reports: LateReports | None = None

    def attach(self, board: Board) -> None:
        self._reports = LateReports(board, self._delay)
        self.inner.attach(cast(Board, self._reports))

    def poll(self) -> None:
        self.inner.poll()
        self._report(time.monotonic())

    def close(self) -> None:
        self.inner.close()
        self._report(float("inf"))

    def _report(self, until: float) -> None:
        if self._reports is not None:
            self._reports.report(until)


class _SlowCopy:
    """A copy that begins later."""

    def __init__(self, effect: Start) -> None:
        self.effect = effect
        self._known = threading.Event()
        self._copy: Copy | None = None
        self._failure: Exception | None = None

    @property
    def operation(self) -> int:
        return self.effect.operation

    def begins(self, copy: Copy) -> None:
        """It has begun."""
        self._copy = copy
        self._known.set()

    def never_begins(self, failure: Exception | None = None) -> None:
        """It was cancelled before, or could not begin."""
        self._failure = failure
        self._known.set()

    def wait_layer(self, layer: int) -> None:
        self._known.wait()
        if self._failure is not None:
            raise OperationError(
                f"the copy of operation {self.operation} could not begin: {self._failure}"
            ) from self._failure
        if self._copy is None:
            raise OperationError(f"the copy of operation {self.operation} was cancelled before it began")
        self._copy.wait_layer(layer)


class SlowEngine(EngineWrapper):
    """Each copy takes longer: a thread for each direction hands copies to the engine, one after the other."""

    def __init__(self, inner: CopyEngine, delay: Delay) -> None:
        super().__init__(inner)
        self._delay = delay
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._held: dict[int, _SlowCopy] = {}
        self._lanes: dict[str, SimpleQueue[_SlowCopy | None]] = {}
        self._threads: list[threading.Thread] = []
        self._board: Board | None = None
        self._fault: Exception | None = None

    def attach(self, board: Board) -> None:
        self._board = board
        self.inner.attach(board)

    def start(self, effect: Start) -> Copy:
        copy = _SlowCopy(effect)
        with self._lock:
            self._held[effect.operation] = copy
        self._lane(effect.kind).put(copy)
        return copy

    def cancel(self, operation: int) -> None:
        with self._lock:
            copy = self._held.pop(operation, None)
            if copy is None:
                self.inner.cancel(operation)
                return
        copy.never_begins()
        if self._board is not None:
            self._board.finish(operation)

    def poll(self) -> None:
        self.inner.poll()
        with self._lock:
            fault, self._fault = self._fault, None
        if fault is not None:
            raise fault

    def close(self) -> None:
        self._closing.set()
        for lane in self._lanes.values():
            lane.put(None)
        for thread in self._threads:
            thread.join()
        self._threads.clear()
        self.inner.close()

    def _lane(self, kind: str) -> "SimpleQueue[_SlowCopy | None]":
        if kind not in self._lanes:
            lane = self._lanes[kind] = SimpleQueue()
            thread = threading.Thread(target=self._serve, args=(lane,), name=f"slow-{kind}", daemon=True)
            self._threads.append(thread)
            thread.start()
        return self._lanes[kind]

    def _serve(self, lane: "SimpleQueue[_SlowCopy | None]") -> None:
        while (copy := lane.get()) is not None:
            self._closing.wait(self._delay(copy.operation))
            with self._lock:
                if self._held.pop(copy.operation, None) is None:
                    continue  # cancelled meanwhile
                try:
                    copy.begins(self.inner.start(copy.effect))
                except Exception as error:  # the lane goes on; the scheduler is told by the copy and by its next poll
                    self._fault = self._fault or error
                    copy.never_begins(error)


class CorruptEngine(EngineWrapper):
    """Flips a bit of the host page with which the next load-back begins, once it is armed."""

    def __init__(self, inner: CopyEngine, flip: Callable[[int], None]) -> None:
        super().__init__(inner)
        self._flip = flip
        self.armed = False

    def start(self, effect: Start) -> Copy:
        if self.armed and effect.kind == "load_back":
            self.armed = False
            self._flip(int(effect.pages[0]))
        return self.inner.start(effect)


class _HungCopy:
    """A copy that never begins."""

    def __init__(self, operation: int) -> None:
        self.operation = operation

    def wait_layer(self, layer: int) -> None:
        threading.Event().wait()


class HungEngine(EngineWrapper):
    """The next load-back never ends, once it is armed, and nothing is ever reported of it."""

    def __init__(self, inner: CopyEngine) -> None:
        super().__init__(inner)
        self.armed = False

    def start(self, effect: Start) -> Copy:
        if self.armed and effect.kind == "load_back":
            self.armed = False
            return _HungCopy(effect.operation)
        return self.inner.start(effect)
