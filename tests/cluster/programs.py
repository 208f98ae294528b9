"""Small programs for two ranks, each run as `programs.py NAME RANK PORT FOLDER`; what a rank saw is printed as JSON."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from isoradix import Board, Control, Patience, SlotPool, Start, StartRecord, agree, pages_within
from isoradix.consensus import GlooPlane, Topology
from isoradix.driver import Driver

PAGE = 4
ALL_PAGES = 2**32 - 1


class HandEngine:
    """Copies nothing: its owner says when a copy has ended, and how."""

    def __init__(self) -> None:
        self.open: list[int] = []
        self._begun: set[int] = set()
        self._board: Board | None = None

    @property
    def board(self) -> Board:
        assert self._board is not None
        return self._board

    def attach(self, board: Board) -> None:
        self._board = board

    def start(self, effect: Start) -> Any:
        self.open.append(effect.operation)
        self._begun.add(effect.operation)
        return SimpleNamespace(operation=effect.operation, wait_layer=lambda layer: None)

    def cancel(self, operation: int) -> None:
        if operation in self.open:
            self.open.remove(operation)
        elif operation in self._begun:
            return  # it has ended
        self.board.finish(operation)

    def poll(self) -> None:
        """Nothing: see `ended`."""

    def close(self) -> None:
        """Nothing is under way."""


class Ranks:
    """One of two ranks, connected."""

    def __init__(self, rank: int, port: int, folder: str) -> None:
        self.rank = rank
        topology = Topology(pp=2)
        patience = Patience(5_000, 30_000)
        address = f"127.0.0.1:{port}"
        board = Path(folder)
        self.plane = GlooPlane.connect(
            topology, rank, address, hosts_store=rank == 0, patience=patience, wait_board=board
        )

    def drive(self, host_pages: int) -> tuple[Driver, HandEngine]:
        engine = HandEngine()
        slots = SlotPool(64, page_size=PAGE)
        used = engine if host_pages else None
        return Driver(self.plane, used, slots, page_size=PAGE, host_pages=host_pages or None), engine

    def stop(self, driver: Driver) -> None:
        """The last step, and the end."""
        with driver.step([Control.stop()] if self.rank == 0 else []):
            pass
        driver.close()


def insert(driver: Driver, key: list[int]) -> None:
    slots = driver.slots.alloc(len(key))
    done = driver.cache.insert(key, slots)
    driver.slots.free(slots[: done.prefix_len])


def agreement(ranks: Ranks) -> dict[str, object]:
    """Row 18: stages whose tokens differ in bytes."""
    pages = pages_within(100 * 10**9, (12_464, 13_120)[ranks.rank], 64)
    agreed = agree(ranks.plane.gather(StartRecord(ranks.rank, 2, pages).to_bytes()))
    ranks.plane.gather(b"")  # neither leaves before both have read
    ranks.plane.fail("done")
    return {"own": pages * 64, "agreed": agreed.capacity_pages * 64}


def idle(ranks: Ranks) -> dict[str, object]:
    """Row 19: 10,000 idle steps."""
    driver, _ = ranks.drive(0)
    most = before = 0
    for step in range(10_000):
        with driver.step():
            pass
        most = max(most, ranks.plane.in_flight)
        if step == 5_000:  # buffers and rings are full
            before = resident_kib()
    grown = resident_kib() - before
    ranks.stop(driver)
    return {"in_flight": most, "grown_kib": grown, "steps": driver.cache.clock[0]}


def resident_kib() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))


def no_memory(ranks: Ranks) -> dict[str, object]:
    """Row 20: rank 1 has no memory for the pages of a backup."""
    driver, engine = ranks.drive(16)
    if ranks.rank == 1:
        driver.rank.withdraw(ALL_PAGES)
    with driver.step():
        insert(driver, list(range(16)))
    rest(driver, engine, lambda operation: engine.board.ended(operation, True))
    on_host = driver.cache.sizes.host_total
    issued = driver.cache.issued
    ranks.stop(driver)
    assert isinstance(driver.slots, SlotPool)
    driver.cache.check(driver.slots)
    driver.cache.check_ended()
    return {"on_host": on_host, "issued": issued, "votes": ranks.plane.counts.votes, "digest": driver.digest}


def late_failure(ranks: Ranks) -> dict[str, object]:
    """Row 21: rank 1 has said that its copy is there, and says then that it failed; its next copy does fail."""
    driver, engine = ranks.drive(16)
    seen: list[object] = []

    def end(operation: int) -> None:
        fails = operation == 1 and ranks.rank == 1
        if operation == 0 and ranks.rank == 1:
            engine.board.post_ready(operation, True)
            seen.append(engine.board.post_ready(operation, False))
            engine.board.finish(operation)
        else:
            engine.board.ended(operation, not fails)

    for key in (range(16), range(100, 116)):
        with driver.step():
            insert(driver, list(key))
        rest(driver, engine, end)
        seen.append(driver.cache.sizes.host_total)
    ranks.stop(driver)
    return {"on_host": seen[-2:], "votes": ranks.plane.counts.votes, "digest": driver.digest}


def rest(driver: Driver, engine: HandEngine, end: Callable[[int], None]) -> None:
    """Steps until nothing is under way; each copy ends in the step after its start."""
    while driver.cache.retired < driver.cache.issued:
        while engine.open:
            end(engine.open.pop(0))
        with driver.step():
            pass
        time.sleep(0.002)


if __name__ == "__main__":
    name, rank, port, folder = sys.argv[1:]
    programs = {one.__name__: one for one in (agreement, idle, no_memory, late_failure)}
    print(json.dumps(programs[name](Ranks(int(rank), int(port), folder))))
