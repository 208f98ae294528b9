"""Ranks in processes of their own, over real gloo on loopback: each drives one rank through a test's `body`.

The processes are forked from a server that has loaded torch once, so a test costs milliseconds and not seconds.
"""

import multiprocessing
import pickle
import queue
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.ports import free_port

from isoradix import Patience, SlotPool
from isoradix.consensus import Topology
from isoradix.driver import Driver

PAGE = 4
SLOTS = 400
PATIENCE = Patience(500, 4_000)
LONGEST_S = 60.0

_server = multiprocessing.get_context("forkserver")
_server.set_forkserver_preload(["torch", "torch.distributed", "isoradix.driver", "isoradix.consensus.remote"])


class Member:
    """What one rank's process has: its driver, and what all ranks share."""

    def __init__(self, driver: Driver, barrier: Any, folder: Path, given: Sequence[Any]) -> None:
        self.driver = driver
        self.barrier = barrier
        self.folder = folder
        self.given = given
        self.rank = driver.plane.place.rank
        self.leads = driver.plane.place.leads

    def insert(self, first: int, tokens: int = 8) -> None:
        """Caches a key of its own for each `first`, with as many slots as it takes."""
        cache, slots = self.driver.cache, self.driver.slots
        key = list(range(first, first + tokens))
        if slots.available < tokens:
            slots.free(cache.evict(tokens - slots.available).slots)
        new = slots.alloc(tokens)
        done = cache.insert(key, new)
        slots.free(new[: done.prefix_len])


def run(
    plane: Any,
    topology: Topology,
    body: Callable[[Any], Any],
    folder: Path,
    *given: Any,
    report_ms: int = PATIENCE.report_ms,
    fatal_ms: int = PATIENCE.fatal_ms,
    main: Any = None,
    **options: Any,
) -> list[Any]:
    """What `body` gave on each rank, or the error that it or the start raised.

    `body` is a function of a module; `given` are arguments that it finds in `Member.given`, `options` are the
    driver's. `main` is what a process runs, if it is not a driver's rank.
    """
    address = f"127.0.0.1:{free_port()}"
    answers = _server.Queue()
    shared = (plane, topology, body, folder, given, (report_ms, fatal_ms), options, address)
    barrier = _server.Barrier(topology.ranks)
    processes = [
        _server.Process(target=main or _one, args=(rank, *shared, barrier, answers), daemon=True)
        for rank in range(topology.ranks)
    ]
    for process in processes:
        process.start()
    found: dict[int, Any] = {}
    until = time.monotonic() + LONGEST_S
    try:
        while len(found) < topology.ranks:
            try:
                rank, answer = answers.get(timeout=max(0.01, min(0.5, until - time.monotonic())))
                found[rank] = pickle.loads(answer)
            except queue.Empty:
                silent = [rank for rank, process in enumerate(processes) if rank not in found]
                gone = all(processes[rank].exitcode is not None for rank in silent)
                assert not gone, f"ranks {silent} died"
                assert time.monotonic() < until, f"ranks {silent} hang"
        for process in processes:
            process.join(10)
        assert [process.exitcode for process in processes] == [0] * topology.ranks, "an exit that hangs or fails"
    finally:
        for process in processes:
            process.kill()
    return [found[rank] for rank in range(topology.ranks)]


def _one(rank: int, *shared: Any) -> None:
    plane, topology, body, folder, given, patience, options, address, barrier, answers = shared
    import torch

    torch.set_num_threads(1)
    driver, answer = None, None
    try:
        connected = plane.connect(
            topology, rank, address, hosts_store=rank == 0, patience=Patience(*patience), wait_board=folder
        )
        slots = SlotPool(SLOTS, page_size=PAGE)
        own = {name: value[rank] if isinstance(value, list) else value for name, value in options.items()}
        driver = Driver(connected, None, slots, page_size=PAGE, **own)
        answer = body(Member(driver, barrier, folder, given))
        driver.close()
    except BaseException as error:
        answer = error
        if driver is not None:
            driver.close()
    answers.put((rank, pickle.dumps(answer)))
