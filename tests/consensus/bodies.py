"""What ranks do in the tests of planes: functions of a module, so that a process can be told to run them."""

import threading
import time
from contextlib import nullcontext
from typing import Any

import pytest
from tests.consensus.lock import lock_wanted
from tests.consensus.ranks import Member

from isoradix import Control, InvalidInputError, ProtocolError
from isoradix.consensus import GlooPlane, PiggybackPlane, Topology, all_waits

STEPS = 60
LOCK_STEPS = 200
SIZES = [0, 8, 9, 1000, 1, 1024]


def steps(member: Member) -> tuple[list[int], int, int]:
    """So many steps of inserts; digests at entry, and how many votes and frames there were."""
    driver = member.driver
    digests: list[int] = []
    while not driver.stopped:
        last = len(digests) == STEPS - 1
        with driver.step([Control.stop()] if member.leads and last else ()):
            digests.append(driver.digest)
            member.insert(16 * len(digests))
    driver.close()
    return digests, driver.plane.counts.votes, driver.plane.counts.frames


def relay(member: Member) -> list[int]:
    """Frames ride on a message of the schedulers', here a file a step."""
    driver, plane = member.driver, member.driver.plane
    assert isinstance(plane, PiggybackPlane)
    digests = []
    for number in range(STEPS):
        message = member.folder / f"message{number}"
        if member.leads:
            driver.enter([Control.stop()] if number == STEPS - 1 else ())
            message.write_bytes(plane.take())
        member.barrier.wait(10)
        if not member.leads:
            if number == 0:
                with pytest.raises(ProtocolError, match="no frame of step 1 was delivered"):
                    plane.enter()
            plane.deliver(message.read_bytes())
            driver.enter()
        elif number == 0:
            with pytest.raises(ProtocolError, match="take out of order"):
                plane.take()
        digests.append(driver.digest)
        member.insert(16 * number)
        driver.end()
    return digests


def many_controls(member: Member) -> list[int]:
    sizes = []
    for count in SIZES:
        controls = [Control.mode(number, number * number) for number in range(count)]
        seen = member.driver.enter(controls if member.leads else ())
        assert [(control.key, control.value) for control in seen.controls] == [
            (number, number * number) for number in range(count)
        ]
        sizes.append(len(seen.controls))
        member.driver.end()
    with member.driver.step([Control.stop()] if member.leads else ()):
        pass
    return sizes


def keeps_the_lock(member: Member) -> tuple[int, int, int]:
    """Steps of the leader beside a thread that wants the interpreter's lock: how many gave it away, how many waited for
    room, and how often the thread got it."""
    driver, counts = member.driver, member.driver.plane.counts
    given_away = waited = 0
    with lock_wanted() if member.leads else nullcontext([0]) as turns:
        for _ in range(LOCK_STEPS):
            before, waits = turns[0], sum(counts.waits.values())
            driver.enter()
            if sum(counts.waits.values()) > waits:
                waited += 1
            else:
                given_away += turns[0] > before
            driver.end()
            time.sleep(0.005)
    with driver.step([Control.stop()] if member.leads else ()):
        pass
    return given_away, waited, turns[0]


def held_back(member: Member) -> int:
    """Each stage begins later than the one before, which waits until then; the wait board says for whom."""
    driver, plane = member.driver, member.driver.plane
    assert isinstance(plane, GlooPlane)
    if member.rank == 1:
        time.sleep(0.8)
        waits = [wait for board in all_waits(member.folder) if board.rank == 0 for wait in board.waits]
        assert [(wait.operation, wait.peer) for wait in waits if wait.operation != "vote"] == [("send", 1)]
    if member.rank == 2:
        time.sleep(1.6)
    most = done = 0
    while not driver.stopped:
        done += 1
        with driver.step([Control.stop()] if member.leads and done == 40 else ()):
            most = max(most, plane.in_flight)
    return most


def fails(member: Member) -> None:
    """Steps until the given rank fails, or parts, in the given step."""
    rank, at, how = member.given
    for number in range(10 * at):
        with member.driver.step():
            member.insert(16 * number)
            if (member.rank, number) == (rank, at):
                if how == "raises":
                    raise ZeroDivisionError("this rank's own matter")
                member.insert(100_000)  # one decision that nobody else takes


def is_told(member: Member) -> str:
    """A rank that waits for nothing of its plane hears that it is lost."""
    plane, lost = member.driver.plane, threading.Event()
    plane.when_lost(lost.set)
    with member.driver.step():
        member.insert(16)
    member.barrier.wait(20)
    assert not lost.is_set()
    if member.rank == member.given[0]:
        with member.driver.step():
            raise ZeroDivisionError("this rank's own matter")
    assert lost.wait(20)
    late = threading.Event()
    plane.when_lost(late.set)
    assert late.is_set(), "at once"
    return "told"


def stands_still(member: Member) -> None:
    for number in range(1000):
        with member.driver.step():
            member.insert(16 * number)
        if (member.rank, number) == (member.given[0], 20):
            time.sleep(6)


def pauses(member: Member) -> str:
    for number in range(40):
        with member.driver.step([Control.stop()] if member.leads and number == 39 else ()):
            member.insert(16 * number)
        if (member.rank, number) == (1, 20):
            member.driver.board.pause()
            time.sleep(2.5)
            member.driver.board.pause(False)
    return "done"


def out_of_order(member: Member) -> None:
    driver, plane = member.driver, member.driver.plane
    with pytest.raises(ProtocolError, match="has been started"):
        plane.start(driver.rank, driver.board, driver.votes, lambda: None)
    with driver.step([Control.stop()] if member.leads else ()):
        pass
    with pytest.raises(ProtocolError, match="stop frame was the last"):
        driver.enter()
    driver.close()
    driver.close()
    with pytest.raises(ProtocolError, match="the plane is closed"):
        plane.enter()
    with pytest.raises(ProtocolError, match="the plane is closed"):
        plane.gather(b"")


def stays_behind(member: Member) -> list[str]:
    """What is left of a rank when it is closed."""
    steps(member)
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("isoradix")]


def gathers(member: Member) -> list[bytes]:
    own = bytes([member.rank]) * (member.rank * 1000)
    found = member.driver.plane.gather(own)
    with member.driver.step([Control.stop()] if member.leads else ()):
        pass
    return found


class Late(GlooPlane):
    """Rank 2 does not come."""

    def __init__(self, topology: Topology, rank: int, *args: Any, **options: Any) -> None:
        if rank == 2:
            raise KeyError("not today")
        super().__init__(topology, rank, *args, **options)


def decides(member: Member) -> None:
    if not member.leads:
        with pytest.raises(ProtocolError, match="1 controls were given by rank 1"):
            member.driver.enter([Control.stop()])
        with pytest.raises(ProtocolError, match=r"tiers were switched by rank 1 .*, which follows"):
            member.driver.switch_tiers("l1")
    with pytest.raises(InvalidInputError, match='top is "l4"'):
        member.driver.switch_tiers("l4")
    with member.driver.step([Control.stop()] if member.leads else ()):
        pass


def switches(member: Member) -> list[str]:
    """The highest tier that is on, step by step: the leader switches with steps 10 and 20."""
    driver = member.driver
    tops: list[str] = []
    for number in range(1, 31):
        if member.leads and number in (10, 20):
            driver.switch_tiers("l2" if number == 10 else "l3")
        with driver.step([Control.stop()] if member.leads and number == 30 else ()) as cache:
            tops.append(cache.top_tier)
            member.insert(16 * number)
    return tops


def parts_and_goes_on(member: Member) -> tuple[list[int], str | None, int | None]:
    """Rank 1 decides otherwise in step 20; digests at entry, what was observed, and what the wait board says."""
    driver = member.driver
    digests: list[int] = []
    while not driver.stopped:
        last = len(digests) == STEPS - 1
        with driver.step([Control.stop()] if member.leads and last else ()):
            digests.append(driver.digest)
            member.insert(16 * len(digests) + (8 if member.rank == 1 and len(digests) == 20 else 0))
        time.sleep(0.005)  # votes are to see it as well
    member.barrier.wait(20)
    board = next(board for board in all_waits(member.folder) if board.rank == member.rank)
    member.barrier.wait(20)
    driver.close()
    return digests, None if driver.divergence is None else str(driver.divergence), board.parted
