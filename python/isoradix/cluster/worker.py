"""One rank's process: `python -m isoradix.cluster.worker FD`.

Its task comes on standard input, what it has to say goes to the file descriptor. Standard input stays open as long as
the launcher lives; where it ends, so does this process.
"""

import contextlib
import ctypes
import faulthandler
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import msgspec
import numpy as np

from isoradix import InvariantError, IsoradixError, Patience, SlotPool
from isoradix.cluster.bytes import PARTS, WORD_BYTES, KvBytes
from isoradix.cluster.faults import PLANE_FAULTS, parse_faults
from isoradix.cluster.injector import Injector
from isoradix.cluster.intake import Feed, Intake, OwnIntake
from isoradix.cluster.job import Job, PlaneName, Task
from isoradix.cluster.prefetch import Prefetches, patience
from isoradix.cluster.result import Progress, RankFailure, RankResult, Ready, write_message
from isoradix.cluster.scheduler import Scheduler
from isoradix.cluster.totals import operation_totals, token_totals
from isoradix.consensus.plane import Plane, PlaneCounts, first_line, named_by
from isoradix.consensus.topology import Place
from isoradix.driver import Driver

if TYPE_CHECKING:
    from isoradix.attaching import Opener
    from isoradix.cluster.handover import Handover

LAYERS: Final = 2
_PROGRESS_S: Final = 0.2
_PR_SET_PDEATHSIG: Final = 1


def main(descriptor: int) -> int:
    """Serves one task; 0 if it came to its end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the launcher hears it, and ends its workers
    faulthandler.register(signal.SIGUSR1)  # the launcher's last question to a rank that hangs
    _die_with_parent()
    outbox = os.fdopen(descriptor, "wb")
    task = msgspec.json.decode(sys.stdin.buffer.readline(), type=Task)
    worker = Worker(task, outbox)
    try:
        memory = Memory(task.job, task.job.topology.place(task.rank))
        write_message(outbox, Ready())
        sys.stdin.buffer.readline()  # all ranks are ready: who meets now need not wait for another one's imports
        threading.Thread(target=_watch_launcher, name="launcher", daemon=True).start()
        result = worker.run(memory)
    except Exception as error:
        traceback.print_exc()  # in this rank's log
        write_message(outbox, worker.failure(error))
        return 1
    write_message(outbox, result)
    return 0


def _die_with_parent() -> None:
    """On Linux the kernel sees to it, also where this process is stopped."""
    if hasattr(libc := ctypes.CDLL(None), "prctl"):
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _watch_launcher() -> None:
    while os.read(sys.stdin.fileno(), 1):
        pass
    os._exit(1)


class Worker:
    """One rank from its plane to its result."""

    def __init__(self, task: Task, outbox: BinaryIO) -> None:
        self._task, self._job, self._outbox = task, task.job, outbox
        self._place = self._job.topology.place(task.rank)
        self._faults = parse_faults(self._job.faults, self._job.topology.ranks)
        self._injector = Injector(self._faults, task.rank)
        self._driver: Driver | None = None
        self._scheduler: Scheduler | None = None
        self._told = 0.0

    def run(self, memory: "Memory") -> RankResult:
        """Serves this rank's requests."""
        feed = Feed(self._job.requests.open(), self._job.page_size, self._place.domain, self._job.dp)
        plane = connect(self._task)
        try:
            return self._serve(memory, feed, plane)
        except BaseException as error:
            with contextlib.suppress(Exception):  # it is the first error that counts
                if self._driver is not None:
                    self._driver.fail(error)
                named = named_by(error, self._job.topology, self._place.domain)
                plane.fail(f"{type(error).__name__}: {first_line(error)}", named or None)
            raise

    def _serve(self, memory: "Memory", feed: Feed, plane: Plane) -> RankResult:
        """From the plane to the result. Where it fails, what is open is left to the end of the process."""
        job, place = self._job, self._place
        # before the plane votes: then nothing else may be gathered
        intake, handover = self._intake(feed, plane), self._handover(plane)
        slots = SlotPool(job.slots, page_size=job.page_size)
        engine, opens, tier = None, None, None
        if memory.host is not None:
            from isoradix.copies import engine_for

            engine = self._injector.engine(engine_for(memory.device, memory.host), memory.flip)
            if job.storage is not None:
                from isoradix.cluster.storage import open_tier

                opens = partial(open_tier, job, place, LAYERS, memory.host, self._injector)
                tier = opens() if job.attach_at is None else None
        driver = self._driver = Driver(
            plane,
            engine,
            slots,
            page_size=job.page_size,
            host_pages=job.host_pages or None,
            settings={"kv": memory.device.shape.describe()},
            l3=tier,
            prefetch_patience=patience(job.prefetch_policy),
            journal=None if job.journal is None else Path(job.journal),
            mode=job.mode,
            tiers=job.tiers or "l3",
            policy=job.policy,
            writing=job.write_policy,
            storage_breaker=job.breaker,
        )
        kv = KvBytes(memory.views(), place.rank)
        prefetches = (
            None if job.storage is None or memory.host is None else Prefetches(job.prefetch_policy, place.leads)
        )
        self._scheduler = scheduler = Scheduler(
            driver,
            kv,
            feed,
            intake,
            self._injector,
            batch=job.batch,
            step_ms=job.step_ms,
            prefetches=prefetches,
            handover=handover,
        )
        begun, thread_begun = time.process_time_ns(), time.thread_time_ns()
        self._steps(driver, scheduler, opens)
        driver.close()
        times = {
            "cpu_ms": (time.process_time_ns() - begun) / 1e6,
            "scheduler_ms": (time.thread_time_ns() - thread_begun) / 1e6,
            "journal_ms": 0.0 if driver.journal is None else driver.journal.writing_ms,
        }
        finding = _finding(driver, slots)
        result = self._result(driver, scheduler, feed, kv, times, finding)
        memory.close()
        return result

    def _steps(self, driver: Driver, scheduler: Scheduler, opens: "Opener | None") -> None:
        self._injector.begin(driver)
        job, leads = self._job, self._place.leads
        switches = dict(job.tiers_at) if leads else {}
        attach_at = job.attach_at if leads else 1  # who follows says how, and waits to be asked
        while not driver.stopped:
            if (top := switches.get(scheduler.step_number + 1)) is not None:
                driver.switch_tiers(top)
            if opens is not None and job.attach_at is not None and scheduler.step_number + 1 == attach_at:
                driver.attach(opens)
            if leads and scheduler.step_number + 1 == job.detach_at:
                driver.detach()
            scheduler.step()
            if self._place.leads and time.monotonic() - self._told > _PROGRESS_S:
                self._told = time.monotonic()
                write_message(self._outbox, Progress(scheduler.done))

    def _intake(self, feed: Feed, plane: Plane) -> Intake:
        from isoradix.cluster.relay import RelayedIntake
        from isoradix.consensus import PiggybackPlane

        if not isinstance(plane, PiggybackPlane):
            return OwnIntake(feed)
        return RelayedIntake(feed, plane, Path(self._task.folder), self._job.fatal_ms)

    def _handover(self, plane: Plane) -> "Handover | None":
        """Only where a fault is about it: it costs a message a step."""
        from isoradix.consensus.remote import RemotePlane

        if not any(fault.kind == "batch" for fault in self._faults) or not isinstance(plane, RemotePlane):
            return None
        from isoradix.cluster.handover import Handover

        return Handover(plane, Path(self._task.folder), self._job.fatal_ms)

    def _result(
        self,
        driver: Driver,
        scheduler: Scheduler,
        feed: Feed,
        kv: KvBytes,
        times: dict[str, float],
        finding: str | None,
    ) -> RankResult:
        served = scheduler.served
        return RankResult(
            rank=self._place.rank,
            requests=len(served.lengths),
            skipped=feed.skipped,
            uncached=served.uncached,
            hitseq=served.hitseq(),
            digests=np.array(scheduler.digests, dtype="<u8").tobytes(),
            tree_digest=driver.cache.tree_digest,
            steps=scheduler.log.packed(),
            served={name: getattr(served, name).tobytes() for name in ("lengths", "device", "host", "storage")},
            events=self._injector.events,
            totals=token_totals(driver.cache),
            operations=operation_totals(driver.cache),
            counts=_counts(driver.plane.counts),
            waits=dict(driver.plane.counts.waits),
            checked_tokens=kv.checked,
            written_tokens=kv.written,
            **times,
            finding=finding,
            breaker=[(step, state) for step, state in driver.cache.breaker_changes],
            attachments=driver.attachments,
            observed=None if driver.divergence is None else str(driver.divergence),
        )

    def failure(self, error: Exception) -> RankFailure:
        """What this rank has to say of its early end."""
        scheduler = self._scheduler
        return RankFailure(
            rank=self._place.rank,
            error=type(error).__name__,
            message=str(error),
            named=named_by(error, self._job.topology, self._place.domain),
            step=None if scheduler is None else scheduler.step_number,
            at_ns=time.monotonic_ns(),
            steps={} if scheduler is None else scheduler.log.packed(),
            events=self._injector.events,
        )


def connect(task: Task) -> Plane:
    """This rank's end of the plane that the job names, with its faults; of a domain of one rank there is nothing to
    connect."""
    job, topology = task.job, task.job.topology
    from isoradix.consensus import ChainPlane, GlooPlane, LocalPlane, PiggybackPlane

    if topology.members == 1:
        return LocalPlane(topology, task.rank)
    kinds: Mapping[PlaneName, type[GlooPlane] | type[ChainPlane] | type[PiggybackPlane]] = {
        "gloo": GlooPlane,
        "chain": ChainPlane,
        "piggyback": PiggybackPlane,
    }
    kind, options = kinds[job.plane], {}
    faults = [fault for fault in parse_faults(job.faults, topology.ranks) if fault.kind in PLANE_FAULTS]
    if own := [fault for fault in faults if fault.on(task.rank)]:
        from isoradix.cluster.disturbed import DisturbedPlane

        kind, options = DisturbedPlane, {"faults": own}
    return kind.connect(
        topology,
        task.rank,
        f"127.0.0.1:{task.port}",
        hosts_store=task.rank == job.store_rank,
        patience=Patience(job.report_ms, job.fatal_ms),
        **options,
    )


class Memory:
    """The KV of one rank, small: two layers a stage, eight bytes a token in each part, so that a token is a word."""

    def __init__(self, job: Job, place: Place) -> None:
        import torch

        from isoradix.kv import DevicePool, HostPool, Layout, MHAShape

        torch.set_num_threads(1)
        shape = MHAShape(layers=LAYERS, heads=1, head_dim=WORD_BYTES, dtype=torch.uint8)
        self._first_layer = place.stage * LAYERS
        self.device = DevicePool(shape, job.slots)
        layout: Layout = "layer_first" if job.storage is None else "page_first"
        self.host = HostPool(shape, job.host_pages, job.page_size, layout, pinned=False) if job.host_pages else None

    def views(self) -> dict[tuple[int, str], Any]:
        """A word for each slot, by layer of the whole model and part."""
        return {
            (self._first_layer + layer, part): self.device.buffer(layer, part).numpy().view(np.uint64)[:, 0]
            for layer in range(LAYERS)
            for part in PARTS
        }

    def flip(self, page: int) -> None:
        """Flips a bit of a host page."""
        if self.host is not None:
            self.host.page(0, PARTS[0], page)[0, 0] ^= 1

    def close(self) -> None:
        if self.host is not None:
            self.host.close()
        self.device.close()


def _finding(driver: Driver, slots: SlotPool) -> str | None:
    """What the checks of tree, pools and operations say once everything has come to rest."""
    cache = driver.cache
    try:
        cache.check(slots)
        cache.check_ended()
    except (InvariantError, IsoradixError) as error:
        return str(error)
    return None


def _counts(counts: PlaneCounts) -> dict[str, float]:
    return {
        "votes": counts.votes,
        "frames": counts.frames,
        "votes_framed": counts.votes_framed,
        "vote_age_ms": counts.vote_age_ms,
        "wait_s": sum(counts.wait_seconds.values()),
    }


if __name__ == "__main__":
    code = main(int(sys.argv[1]))
    sys.stdout.flush()
    sys.stderr.flush()
    # all is said, and what has to be closed is: an interpreter's end could wait for threads of a broken group
    os._exit(code)
