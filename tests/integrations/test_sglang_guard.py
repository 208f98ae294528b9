"""When the ranks are lost to each other, the server ends, wherever its scheduler is."""

import logging
import os
import signal
import threading
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("torch")

from isoradix.consensus.plane import PlaneLost
from isoradix.integrations.sglang import guard, plugin

WITHIN_S = 30


class Plane:
    """One that can be lost."""

    def __init__(self) -> None:
        self.lost = False
        self.checks = 0

    def when_lost(self, tell: Callable[[], None]) -> None:
        self._tell = tell

    def lose(self) -> None:
        self.lost = True
        self._tell()

    def check(self) -> None:
        self.checks += 1
        if self.lost:
            raise PlaneLost("the plane is lost at step 3: rank 1 gives no sign of life", (1,), "silent")


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Set when the parent of this process is asked to end."""
    ended = threading.Event()

    def kill(pid: int, number: int) -> None:
        assert (pid, number) == (os.getppid(), signal.SIGQUIT)
        ended.set()

    monkeypatch.setattr(os, "kill", kill)
    monkeypatch.setattr(guard, "GRACE_S", 0.1)
    monkeypatch.setattr(guard, "VERDICT_S", 0.1)
    return ended


def test_a_scheduler_that_does_not_come_back_is_ended(ended: threading.Event, caplog: pytest.LogCaptureFixture) -> None:
    plane: Any = Plane()
    guarded = guard.Guard(plane)
    assert not ended.wait(0.3)
    assert plane.checks == 0, "it is told, and does not ask"
    plane.lose()
    assert ended.wait(WITHIN_S)
    guarded.stop()
    assert [record.message for record in caplog.records if record.levelno == logging.ERROR] == [
        "the plane is lost at step 3: rank 1 gives no sign of life",
        "the scheduler did not come to its next step within 0.1 s: the server ends",
    ]


def test_a_server_that_ends_in_order_is_left_alone(ended: threading.Event) -> None:
    plane: Any = Plane()
    guard.Guard(plane).stop()
    plane.lose()
    assert not ended.wait(0.5)


def test_an_error_that_another_rank_has_caused_is_explained(
    ended: threading.Event, caplog: pytest.LogCaptureFixture
) -> None:
    plane: Any = Plane()
    guarded = guard.Guard(plane)
    assert not guarded.explains()
    plane.lose()
    assert guarded.explains()
    guarded.stop()
    assert sum("rank 1" in record.message for record in caplog.records) == 1


def test_what_ends_a_scheduler_reaches_the_cache_and_goes_on() -> None:
    heard: list[Exception] = []

    class Cache:
        def fail(self, error: Exception) -> None:
            heard.append(error)

    class Scheduler:
        tree_cache: Any = Cache()

    def run(_scheduler: Any) -> None:
        raise RuntimeError("no memory")

    with pytest.raises(RuntimeError, match="no memory") as raised:
        plugin.run_event_loop(run, Scheduler())
    assert heard == [raised.value]
    Scheduler.tree_cache = object()  # of another back end
    with pytest.raises(RuntimeError, match="no memory"):
        plugin.run_event_loop(run, Scheduler())
