"""The grammar of faults, and the engines that have some."""

from __future__ import annotations

import re
import threading
import time
from types import SimpleNamespace
from typing import Any, cast

import pytest

from isoradix import Board, InvalidInputError, OperationError, Start
from isoradix.cluster.engines import CorruptEngine, HungEngine, LateEngine, SlowEngine
from isoradix.cluster.faults import KINDS, Span, parse_faults
from isoradix.cluster.injector import Injector


def test_defaults_are_filled_in() -> None:
    slow, delay, sleep = parse_faults(["copy-slow", "ack-delay:rank=1", "sleep:rank=2,p=0.5,seed=9"], 4)
    assert (slow.rank, slow.values) == (None, {"ms": Span(20, 20)})
    assert (delay.rank, delay.values) == (1, {"ms": Span(5, 50)})
    assert (sleep.rank, sleep.seed, sleep.values) == (2, 9, {"ms": Span(20, 20), "p": Span(0.5, 0.5)})
    assert [slow.on(3), delay.on(1), delay.on(0)] == [True, True, False]


def test_numbers() -> None:
    kill, short, late = parse_faults(["kill:rank=0,step=7", "short-pool:pages=12", "ack-delay:ms=1.5..2.5"], 1)
    assert (kill.number("step"), short.number("pages")) == (7, 12)
    assert late.values["ms"] == Span(1.5, 2.5)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("slep", "there is no fault 'slep'; there are ack-delay, alloc-fail,"),
        ("", "there is no fault ''"),
        ("sleep:", "nothing stands behind the colon"),
        ("sleep:rank", "'rank' is no name=value"),
        ("sleep:rank=", "'rank=' is no name=value"),
        ("sleep:rank=1,,ms=2", "'' is no name=value"),
        ("sleep:rank=1,rank=2", "rank is given twice"),
        ("sleep:pages=3", "sleep takes ms, p, rank, seed, not pages"),
        ("sleep:rank=4", "rank is '4', limits 0 to 3"),
        ("sleep:rank=-1", "rank is '-1', limits 0 to 3"),
        ("sleep:rank=9999999999999", "limits 0 to 3"),
        ("sleep:p=1.5", "p is '1.5', limits 0 to 1"),
        ("sleep:p=nan", "p is 'nan', limits 0 to 1"),
        ("sleep:ms=inf", "ms is 'inf', limits 0 to 60000"),
        ("sleep:ms=60001", "ms is '60001', limits 0 to 60000"),
        ("sleep:ms=5..", "ms is '5..', limits"),
        ("ack-delay:ms=50..5", "the range ends before it starts"),
        ("kill:rank=0", "kill needs step"),
        ("kill", "kill needs rank and step"),
        ("kill:rank=0,step=0", "step is '0', limits 1 to"),
        ("short-pool:rank=1", "short-pool needs pages"),
        ("short-pool:pages=1e3", "pages is '1e3', limits 1 to"),
    ],
)
def test_what_is_refused(text: str, named: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        parse_faults([text], 4)
    what, hint = str(caught.value).split("\n")
    assert what.startswith(f"fault {text!r}: ")
    assert named in what
    assert re.fullmatch("hint: .+", hint)


def test_every_example_in_a_hint_is_accepted() -> None:
    for kind in KINDS:
        with pytest.raises(InvalidInputError) as caught:
            parse_faults([f"{kind}:bogus=1"], 4)
        parse_faults([str(caught.value).partition("for example ")[2]], 4)


# engines


class Log:
    """An engine and a board in one that write down what they hear."""

    def __init__(self) -> None:
        self.heard: list[tuple[Any, ...]] = []
        self.board: Any = None

    def attach(self, board: Any) -> None:
        self.board = board

    def start(self, effect: Any) -> Any:
        self.heard.append(("start", effect.operation))
        self.board.ended(effect.operation, True)
        return SimpleNamespace(operation=effect.operation, wait_layer=lambda layer: self.heard.append(("wait", layer)))

    def cancel(self, operation: int) -> None:
        self.heard.append(("cancel", operation))

    def poll(self) -> None:
        self.heard.append(("poll",))

    def close(self) -> None:
        self.heard.append(("close",))

    def ended(self, operation: int, succeeded: bool) -> None:
        self.heard.append(("ended", operation, succeeded))

    def finish(self, operation: int) -> None:
        self.heard.append(("finish", operation))


def effect(operation: int, kind: str = "backup", pages: tuple[int, ...] = (4,)) -> Start:
    return cast(Start, SimpleNamespace(operation=operation, kind=kind, pages=pages))


def test_late_reports_come_when_they_are_due() -> None:
    log = Log()
    engine = LateEngine(log, lambda operation: 0.05)
    engine.attach(cast(Board, log))
    engine.start(effect(0))
    engine.poll()
    assert log.heard == [("start", 0), ("poll",)]
    time.sleep(0.06)
    engine.poll()
    assert log.heard[2:] == [("poll",), ("ended", 0, True)]
    engine.start(effect(1))
    log.board.finish(7)
    assert log.heard[-1] == ("finish", 7), "all but the ends is reported at once"
    engine.close()
    assert log.heard[-2:] == [("close",), ("ended", 1, True)]


def test_a_slow_copy_is_slow_on_another_thread() -> None:
    log = Log()
    engine = SlowEngine(log, lambda operation: 0.5)
    engine.attach(cast(Board, log))
    begun = time.monotonic()
    copies = [engine.start(effect(number, "load_back")) for number in range(2)]
    assert time.monotonic() - begun < 0.5
    copies[1].wait_layer(1)
    assert time.monotonic() - begun >= 1.0, "one after the other"
    assert [one for one in log.heard if one[0] == "start"] == [("start", 0), ("start", 1)]
    assert log.heard[-1] == ("wait", 1)
    engine.close()


def test_a_slow_copy_is_cancelled_before_it_begins() -> None:
    log = Log()
    engine = SlowEngine(log, lambda operation: 60.0)
    engine.attach(cast(Board, log))
    copy = engine.start(effect(3))
    engine.cancel(3)
    engine.cancel(2)
    assert log.heard == [("finish", 3), ("cancel", 2)]
    with pytest.raises(OperationError):
        copy.wait_layer(0)
    left = engine.start(effect(4))
    engine.close()
    left.wait_layer(0)
    assert ("start", 4) in log.heard, "what was started ends, without delay"
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("slow-")]


def test_a_slow_copy_that_cannot_begin_is_told() -> None:
    class Refusing(Log):
        def start(self, effect: Any) -> Any:
            if effect.operation == 5:
                raise ValueError("no such page")
            return super().start(effect)

    log = Refusing()
    engine = SlowEngine(log, lambda operation: 0.0)
    engine.attach(cast(Board, log))
    copies = [engine.start(effect(number)) for number in (5, 6)]
    with pytest.raises(OperationError, match="operation 5 could not begin: no such page"):
        copies[0].wait_layer(0)
    copies[1].wait_layer(0)
    with pytest.raises(ValueError, match="no such page"):
        engine.poll()
    engine.poll()
    engine.close()


def test_one_page_is_corrupted() -> None:
    log, flipped = Log(), list[int]()
    engine = CorruptEngine(log, flipped.append)
    engine.attach(cast(Board, log))
    engine.start(effect(0, "load_back"))
    engine.armed = True
    engine.start(effect(1, "backup"))
    assert flipped == []
    engine.start(effect(2, "load_back", (9, 8)))
    engine.start(effect(3, "load_back", (7,)))
    assert flipped == [9]


def test_one_load_back_hangs() -> None:
    log = Log()
    engine = HungEngine(log)
    engine.attach(cast(Board, log))
    engine.armed = True
    engine.start(effect(0, "backup"))
    hung = engine.start(effect(1, "load_back"))
    engine.start(effect(2, "load_back"))
    assert [one for one in log.heard if one[0] == "start"] == [("start", 0), ("start", 2)]
    waiting = threading.Thread(target=hung.wait_layer, args=(0,), daemon=True)
    waiting.start()
    waiting.join(0.05)
    assert waiting.is_alive()


def test_delays_follow_from_the_operation_whoever_asks_first() -> None:
    def delays(operations: list[int]) -> dict[int, float]:
        engine = Injector(parse_faults(["copy-slow:ms=1..9,seed=4"], 1), 0).engine(Log(), lambda page: None)
        return {operation: cast(Any, engine)._delay(operation) for operation in operations}

    drawn = delays(list(range(20)))
    assert drawn == delays(list(range(19, -1, -1)))
    assert len(set(drawn.values())) == 20
    assert all(0.001 <= one < 0.009 for one in drawn.values())


def test_faults_repeat_with_their_seed() -> None:
    def sleeps(seed: int) -> list[int]:
        injector = Injector(parse_faults([f"sleep:ms=0,p=0.3,seed={seed}"], 1), 0)
        steps = []
        for step in range(1, 60):
            before = len(injector.events)
            injector.before(step, cast(Any, None))
            steps += [step] * (len(injector.events) - before)
        return steps

    assert sleeps(1) == sleeps(1) != sleeps(2)
    assert 5 < len(sleeps(1)) < 35
