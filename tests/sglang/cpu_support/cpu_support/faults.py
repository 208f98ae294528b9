"""Faults on some ranks of a real server, in the grammar of `isoradix replay --inject`.

The server's own cache gets them in the server's own classes, isoradix by the injector of its cluster replay.

Each fault draws from a sequence that its seed, its kind and the rank alone determine. Each time that one takes place,
the rank logs `[fault KIND]`.
"""

import logging
import os
import random
import time
from collections.abc import Sequence
from typing import Any, Final

from isoradix.cluster.faults import Fault, parse_faults
from isoradix.cluster.injector import Injector

from .storage_faults import KINDS as STORAGE_KINDS
from .storage_faults import HungEngine, keep_server_from_opening, plant_in_server

logger = logging.getLogger(__name__)
RANKS_MAX: Final = 1024


def plant_faults(texts: str) -> None:
    """Plants faults, given as texts separated by blanks, in this process.

    Raises:
        ValueError: a fault is not understood, or none that a server can have.
    """
    faults = parse_faults(texts.split(), RANKS_MAX)
    if unknown := [fault.kind for fault in faults if fault.kind not in _SERVER]:
        raise ValueError(f"a server takes {', '.join(_SERVER)}, not {', '.join(unknown)}")
    if os.environ.get("ISORADIX_TEST_BACKEND") == "isoradix":
        inject_isoradix(faults)
        return
    for fault in faults:
        _SERVER[fault.kind](Source(fault))


def inject_isoradix(faults: Sequence[Fault]) -> None:
    """Plants faults in isoradix's cache, where the server makes it."""
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    def make_with_faults(create: Any, ctx: Any) -> Any:
        import torch.distributed

        from isoradix.integrations.sglang import assembly, storage

        injector = _Logged(faults, torch.distributed.get_rank() if torch.distributed.is_initialized() else 0)
        make_engine = assembly.make_engine
        assembly.make_engine = lambda device, host: injector.engine(make_engine(device, host), lambda page: None)
        stores: Any = storage
        open_storage = stores.open_storage
        stores.open_storage = lambda url: injector.storage(injector.hung(open_storage(url)))
        cache = create(ctx)
        injector.begin(cache.driver)
        begin_step, end_step = cache.begin_step, cache.end_step

        def begin(scheduler: Any) -> None:
            injector.before(0, cache.driver)
            begin_step(scheduler)

        def end() -> None:
            end_step()
            injector.after(cache.driver)

        cache.begin_step, cache.end_step = begin, end
        return cache

    HookRegistry.register("sglang.srt.mem_cache.kv_cache_builder.create_tree_cache", make_with_faults, HookType.AROUND)


class _Logged(Injector):
    """Says when it is at work, where the harness counts it.

    The step of `storage-hang` is not read: a server's rounds have no number that a test could know.
    """

    def hung(self, backend: Any) -> Any:
        """The backend, over an engine that does not return if there is such a fault here."""
        if any(fault.kind == "storage-hang" for fault in self._faults):
            backend._engine = HungEngine(backend._engine)
        return backend

    def _note(self, kind: str) -> None:
        super()._note(kind)
        logger.warning("[fault %s]", kind)


class Source:
    """When a fault takes place on this rank, and how badly."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        self._random: random.Random | None = None

    def here(self) -> bool:
        """Whether this process is a rank that has the fault."""
        import torch.distributed

        return torch.distributed.is_initialized() and self.fault.on(torch.distributed.get_rank())

    def strikes(self) -> bool:
        """Whether it takes place now, on this rank; with probability p where it has one. Logs it if so."""
        if not self.here() or ("p" in self.fault.values and self._draws().random() >= self.fault.values["p"].low):
            return False
        logger.warning("[fault %s]", self.fault.kind)
        return True

    def delay_s(self) -> float:
        span = self.fault.values["ms"]
        return self._draws().uniform(span.low, span.high) / 1000

    def _draws(self) -> random.Random:
        if self._random is None:  # the rank is known only now
            import torch.distributed

            self._random = random.Random(f"{self.fault.seed} {self.fault.kind} {torch.distributed.get_rank()}")
        return self._random


class LateEvent:
    """An event that is done `delay_s` after now, and not before its original."""

    def __init__(self, event: Any, delay_s: float) -> None:
        self._event = event
        self._due = time.monotonic() + delay_s

    def query(self) -> bool:
        return time.monotonic() >= self._due and bool(self._event.query())

    def synchronize(self) -> None:
        time.sleep(max(0.0, self._due - time.monotonic()))
        self._event.synchronize()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._event, name)


def _ack_delay(source: Source) -> None:
    """The server hears late that a page has reached the host."""
    from sglang.srt.mem_cache.l2_transfer import L2TransferEngine

    submit = L2TransferEngine.submit_device_to_host

    def submit_late(self: Any, *args: Any, **kwargs: Any) -> Any:
        completion = submit(self, *args, **kwargs)
        if not source.strikes():
            return completion
        return completion._replace(finish_event=LateEvent(completion.finish_event, source.delay_s()))

    L2TransferEngine.submit_device_to_host = submit_late


def _copy_slow(source: Source) -> None:
    """Copies in both directions take longer, and the scheduler waits for each."""
    from sglang.srt.mem_cache.l2_transfer import L2TransferEngine

    def slowed(submit: Any) -> Any:
        def submit_slowly(self: Any, *args: Any, **kwargs: Any) -> Any:
            if source.strikes():
                time.sleep(source.delay_s())
            return submit(self, *args, **kwargs)

        return submit_slowly

    L2TransferEngine.submit_device_to_host = slowed(L2TransferEngine.submit_device_to_host)
    L2TransferEngine.submit_host_to_device = slowed(L2TransferEngine.submit_host_to_device)


def _alloc_fail(source: Source) -> None:
    """The host pool has no memory, as it were, for some of the calls."""
    from sglang.srt.mem_cache.pool_host.base import HostKVCache

    alloc = HostKVCache.alloc

    def alloc_or_fail(self: Any, need_size: int, *args: Any, **kwargs: Any) -> Any:
        return None if source.strikes() else alloc(self, need_size, *args, **kwargs)

    HostKVCache.alloc = alloc_or_fail


def _short_pool(source: Source) -> None:
    """So many pages of the host pool can never be allocated."""
    from sglang.srt.mem_cache.pool_host.base import HostKVCache

    clear = HostKVCache.clear

    def clear_short(self: Any) -> None:
        clear(self)
        if source.strikes():
            self.free_slots = self.free_slots[source.fault.number("pages") * self.page_size :]

    HostKVCache.clear = clear_short


def _sleep(source: Source) -> None:
    """The scheduler sleeps before some of its steps."""
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    def sleep(*_: Any, **__: Any) -> None:
        if source.strikes():
            time.sleep(source.delay_s())

    HookRegistry.register("sglang.srt.managers.scheduler.Scheduler.ingest_requests", sleep, HookType.BEFORE)


_SERVER: Final = {
    "ack-delay": _ack_delay,
    "copy-slow": _copy_slow,
    "alloc-fail": _alloc_fail,
    "short-pool": _short_pool,
    "sleep": _sleep,
    **dict.fromkeys(STORAGE_KINDS, plant_in_server),
    "storage-unopened": keep_server_from_opening,
}
