"""One process for each implementation, driven in turns.

The parent imports everything once and forks, so that the workers share the imports and nothing else: each has its own
heap, its own resident memory and its own garbage, and only one of them runs at any moment.
"""

import gc
import os
import traceback
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any, TypeAlias

Builder: TypeAlias = Callable[..., Any]

_fork = get_context("fork")


class WorkerError(RuntimeError):
    """A worker raised; the text is its traceback."""


def _pin() -> None:
    """The last processor that this process may use, so that no sample pays for a migration."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def _serve(pipe: Connection) -> None:
    gc.freeze()
    gc.disable()
    _pin()
    subject: Any = None
    while (order := pipe.recv()) is not None:
        method, arguments = order
        try:
            if callable(method):
                subject = None  # the old tree goes before the new one is built
                gc.collect()
                subject, answer = method(*arguments), None
            else:
                answer = getattr(subject, method)
                answer = answer(*arguments) if callable(answer) else answer
            pipe.send((True, answer))
        except Exception:
            pipe.send((False, traceback.format_exc()))


def _nothing() -> None:
    """The subject of an idle worker."""


class Worker:
    """A process that holds one subject at a time."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._pipe, child = _fork.Pipe()
        self._process = _fork.Process(target=_serve, args=(child,), daemon=True)
        self._process.start()
        child.close()

    def _ask(self, method: Any, *arguments: Any) -> Any:
        self._pipe.send((method, arguments))
        try:
            ok, answer = self._pipe.recv()
        except EOFError:
            raise WorkerError(f"the process of {self.name} died\nhint: out of memory?") from None
        if not ok:
            raise WorkerError(f"{self.name}:\n{answer}")
        return answer

    def build(self, builder: Builder, *arguments: Any) -> None:
        """Replace the subject by `builder(*arguments)`, made in the worker."""
        self._ask(builder, *arguments)

    def drop(self) -> None:
        """Give the subject's memory back."""
        self._ask(_nothing)

    def call(self, method: str, *arguments: Any) -> Any:
        """The answer of a method, or the value of an attribute, of the subject."""
        return self._ask(method, *arguments)

    def stop(self) -> None:
        self._pipe.send(None)
        self._process.join()
        self._process.close()

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *_exception: object) -> None:
        self.stop()
