"""Ranks that hang on purpose, each run as `programs.py NAME RANK PORT FOLDER`, so that their stacks can be recorded."""

from __future__ import annotations

import socket
import sys
import time
from datetime import timedelta
from pathlib import Path

from isoradix import Patience, SlotPool
from isoradix.consensus import GlooPlane, Topology
from isoradix.driver import Driver

PAGE = 4
HANGS_AT = 20
LATE_RANK = 2


class SilentStorage:
    """A store whose server takes every question and answers none."""

    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self._connection = socket.create_connection(self._server.getsockname())

    def get_pages(self, keys: list[str]) -> bytes:
        self._connection.sendall("\n".join(keys).encode())
        return self._connection.recv(4096)


def storage(rank: int, port: int, folder: Path) -> None:
    """One of four ranks asks its storage on the scheduler's thread, and never hears."""
    topology = Topology(tp=2, pp=2)
    plane = GlooPlane.connect(
        topology, rank, f"127.0.0.1:{port}", hosts_store=rank == 0, patience=Patience(1_000, 600_000), wait_board=folder
    )
    store = SilentStorage()
    driver = Driver(plane, None, SlotPool(256, page_size=PAGE), page_size=PAGE)
    while True:
        with driver.step() as cache:
            key = [cache.clock[0]] * PAGE
            if cache.evictable_size >= 128:
                driver.slots.free(cache.evict(64).slots)
            cache.insert(key, driver.slots.alloc(PAGE))
            if rank == LATE_RANK and cache.clock[0] == HANGS_AT:
                prefetch(store, key)


def prefetch(store: SilentStorage, key: list[int]) -> bytes:
    """What no scheduler should do: it waits for I/O in order to decide."""
    return store.get_pages([str(token) for token in key])


def collectives(rank: int, port: int, folder: Path) -> None:
    """One of four ranks reduces once more than the others, which go on to a broadcast."""
    import torch
    import torch.distributed as dist

    address = f"tcp://127.0.0.1:{port}"
    dist.init_process_group("gloo", init_method=address, rank=rank, world_size=4, timeout=timedelta(seconds=600))
    finished = torch.zeros(1, dtype=torch.int64)
    for _ in range(3):
        check_progress(finished)
    (folder / f"arrived-{rank}").touch()
    if rank == 0:
        check_progress(finished)
    receive_requests(finished)


def check_progress(finished: object) -> None:
    """A vote for a request that is waited for."""
    import torch.distributed as dist

    dist.all_reduce(finished)


def receive_requests(first: object) -> None:
    import torch.distributed as dist

    dist.broadcast(first, src=0)
    time.sleep(600)


if __name__ == "__main__":
    name, rank, port, folder = sys.argv[1:]
    {"storage": storage, "collectives": collectives}[name](int(rank), int(port), Path(folder))
