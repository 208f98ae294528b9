"""One rank's transfers: pages of its shard, from the prefill rank that has computed them to the decode rank.

Nothing here decides anything. A transfer goes at its own speed, on a thread of its own, between storage and a pool of
host memory that is registered with it. So one that comes too late has touched nothing that another request owns.
"""

import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from isoradix import CopyProgress, OutOfSlotsError, SlotPool
from isoradix.consensus.decisions import Report
from isoradix.copies.rows import RowCopier
from isoradix.copies.transfer import Direction, Transfer
from isoradix.kv import DevicePool, HostPool
from isoradix.storage import Backend, Outcome, PageKeys, PageViews, StorageError

LOOK_AGAIN_S = 0.005
RELEASE_S = 5.0
PAGES, NOTE, ALL = slice(-1), slice(-1, None), slice(None)


@dataclass(eq=False)
class Job:
    """One request's pages on this rank. The last is a note with the first token of the answer; it is put after the
    others, and tells that there is nothing to wait for any more."""

    keys: list[bytes]
    pages: Any
    state: Report = "pending"
    wanted: bool = True
    outcome: Outcome | None = None  # of the newest call, which may still have the pages


class Transfers:
    """Host memory of so many pages, and the threads that move them."""

    def __init__(self, keys: PageKeys, storage: Backend, device: DevicePool, pages: int, threads: int) -> None:
        self.moved = 0  # pages of requests
        self._keys, self._storage, self._page = keys, storage, keys.fingerprint.page_size
        self._pool = HostPool(device.shape, pages, self._page, "page_first")
        self._free, self._dropped = SlotPool(pages), list[Job]()
        self._copier = RowCopier(device, self._pool)
        self._threads = ThreadPoolExecutor(threads, "transfer")
        storage.register(self._pool.memory.numpy())

    def give(self, name: str, tokens: list[int], start: int, slots: Any, first: int) -> None:
        """Prefill: puts the KV of a prompt from `start` on where the same rank of the other group looks for it."""
        job = self._job(name, tokens, start)
        if job.state == "pending":
            self._copy("backup", job, slots)
            self._note(job)[:8] = list(first.to_bytes(8, "little"))
            self._threads.submit(self._run, job, self._put)
        self.drop(job)

    def _put(self, job: Job) -> bool:
        stored = self._call(self._storage.put_from, job, PAGES)
        return self._call(self._storage.put_from, job, NOTE) and stored

    def fetch(self, name: str, tokens: list[int], start: int) -> Job:
        """Decode: begins to look for it; the job's state says how that goes."""
        job = self._job(name, tokens, start)
        if job.state == "pending":
            self._threads.submit(self._run, job, self._get)
        return job

    def _get(self, job: Job) -> bool:
        while not self._storage.exists(job.keys[NOTE]).leading:
            if not job.wanted:
                return False
            time.sleep(LOOK_AGAIN_S)
        arrived = self._call(self._storage.get_into, job, ALL)
        with suppress(StorageError):
            self._storage.remove(job.keys)  # nobody else will ask for it
        return arrived

    def land(self, job: Job, slots: Any) -> int:
        """Decode: brings what has arrived to the device; the first token of the answer."""
        self._copy("load_back", job, slots)
        return int.from_bytes(self._note(job)[:8].tobytes(), "little")

    def drop(self, job: Job) -> None:
        """Nobody asks for it any more. Its pages are free once no thread and no engine can touch them."""
        job.wanted = False
        self._dropped.append(job)

    def _job(self, name: str, tokens: list[int], start: int) -> Job:
        """What is named, with pages for it; failed where this rank has none left."""
        padded = tokens + [0] * (-len(tokens) % self._page)  # the last page need not be full
        keys = self._keys.of(padded, ("pages", name))[start // self._page :]
        keys += self._keys.of([0] * self._page, ("note", name))
        self._sweep()
        try:
            return Job(keys, self._free.alloc(len(keys)))
        except OutOfSlotsError:
            return Job(keys, self._free.alloc(0), "failed")

    def _note(self, job: Job) -> Any:
        return self._pool.page_bytes(int(job.pages[-1])).numpy()

    def _copy(self, direction: Direction, job: Job, slots: Any) -> None:
        self._copier.copy_all(Transfer(0, direction, slots, job.pages[PAGES]), CopyProgress())

    def _call(self, call: Callable[[list[bytes], PageViews], Outcome], job: Job, part: slice) -> bool:
        job.outcome = call(job.keys[part], PageViews.of_pool(self._pool, job.pages[part]))
        return job.outcome.leading == len(job.keys[part])

    def _run(self, job: Job, work: Callable[[Job], bool]) -> None:
        """On a thread. What goes wrong is this rank's failure, of which the others hear when it reports."""
        done = False
        try:
            done = work(job)
        except Exception as error:
            logging.getLogger("isoradix").warning("a transfer has failed: %s", error)
        job.state = "ready" if done else "failed"

    def _sweep(self) -> None:
        over = [job for job in self._dropped if job.state != "pending" and (not job.outcome or job.outcome.released)]
        for job in over:
            self._dropped.remove(job)
            self._free.free(job.pages)
            self.moved += len(job.pages[PAGES]) if job.state == "ready" else 0

    def close(self) -> None:
        """Ends the threads, each after the call that it is in, which has a deadline."""
        self._threads.shutdown()
        for job in self._dropped:
            if job.outcome:
                job.outcome.wait_released(RELEASE_S)
        self._sweep()
