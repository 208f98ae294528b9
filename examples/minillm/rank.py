"""One rank: its memory, its cache, its shard of the model, and the loop that drives them."""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing import parent_process
from typing import Any

import torch

from isoradix import Control, SlotPool
from isoradix.chunking import ChunkModel, ChunkSizer, profile, profile_lengths
from isoradix.cluster.faults import parse_faults
from isoradix.cluster.injector import Injector
from isoradix.consensus import GlooPlane, LocalPlane
from isoradix.copies import Copy, engine_for
from isoradix.driver import Driver
from isoradix.kv import DevicePool, HostPool, MHAShape
from isoradix.storage import Fingerprint, PageKeys, Shard, open_storage
from isoradix.storage.tier import StorageTier
from minillm.links import Links
from minillm.requests import Request, Workload
from minillm.scheduler import Batch, Scheduler
from minillm.settings import Settings
from minillm.stage import Stage


@dataclass
class Report:
    """What a rank has to tell at its end."""

    rank: int
    steps: int = 0
    digest: int = 0
    requests: list[Request] = field(default_factory=list)
    distributions: dict[tuple[int, int], list[Any]] = field(default_factory=dict)
    computed_s: list[float] = field(default_factory=list)
    accepted: int = 0


@dataclass(frozen=True)
class Beat:
    """What a rank tells of a step: its batch, and the tokens found in each tier so far."""

    rank: int
    step: int
    digest: int
    batch: int
    running: int
    finished: int
    hits: tuple[int, ...]
    missed: int


class Rank:
    """One process of a deployment; `plane` and `model` are where the cache's and the model's groups meet."""

    def __init__(self, settings: Settings, rank: int, plane: str, model: str, workload: Workload) -> None:
        torch.set_num_threads(1)
        self._settings, topology, page = settings, settings.topology, settings.page_size
        self._place = place = topology.place(rank)
        self._links = Links(topology, rank, model)
        self._stage = Stage(settings, place, self._links)
        shape = settings.model
        kv = MHAShape(self._stage.kv_layers, shape.heads // topology.tp, shape.width // shape.heads, torch.float32)
        self._slots = SlotPool(settings.slots, page_size=page)
        self._device = DevicePool(kv, settings.slots)
        self._stage.kv = [(self._device.buffer(at, "k"), self._device.buffer(at, "v")) for at in range(kv.layers)]
        pages = settings.host_pages if settings.cache in ("l2", "l3") else 0
        self._host = HostPool(kv, pages, page, "page_first") if pages else None
        self._injector = Injector(parse_faults(settings.faults, topology.ranks), rank)
        engine = self._storage = tier = None
        if self._host is not None:
            host = self._host  # the fault that plants wrong bytes turns the signs of a page's keys
            engine = self._injector.engine(engine_for(self._device, host), lambda at: host.page(0, "k", at).neg_())
        if self._host is not None and settings.cache == "l3":
            self._storage = self._injector.storage(open_storage(str(settings.storage)))
            about = Fingerprint("minillm", repr(shape), "float32", kv.describe(), "layer", page, settings.drafts > 0)
            self._keys = PageKeys(about, Shard(self._stage.first_layer, kv.layers, place.tp, topology.tp))
            tier = StorageTier(self._storage, self._keys, self._host)
        at = GlooPlane.connect(topology, rank, plane, hosts_store=rank == 0) if topology.ranks > 1 else LocalPlane()
        options: dict[str, Any] = {"bigram": settings.drafts > 0, "prefetch_min": page}  # these prompts are short
        self._driver = Driver(at, engine, self._slots, page_size=page, host_pages=pages or None, l3=tier, **options)
        self._sizer = ChunkSizer(base=settings.chunk, page_size=page, context=settings.context, most=settings.chunk)
        self._scheduler = Scheduler(settings, self._slots, self._sizer, workload)
        self._report = Report(rank)

    def serve(self, tell: Callable[[Beat], None] = lambda beat: None) -> Report:
        """Serves the workload to its end."""
        driver, scheduler, report, parent = self._driver, self._scheduler, self._report, parent_process()
        under_way, loads = deque[tuple[int, Batch]](), list[Copy]()  # loads wait for the next batch
        self._injector.begin(driver)
        while not driver.stopped and (parent is None or parent.is_alive()):
            report.steps += 1
            self._injector.before(report.steps, driver)
            frame = driver.enter(self._controls(bool(under_way)))
            self._sizer.hear(frame.controls)
            report.digest = driver.digest
            # a batch has passed all stages when as many steps have gone by: the same step on every rank
            if under_way and under_way[0][0] <= report.steps - self._settings.pp:
                step, batch = under_way.popleft()
                chosen = self._links.hear(step, sum(row.chooses for row in batch), 2 + 2 * self._settings.drafts)
                scheduler.collect(driver.cache, batch, chosen)
            scheduler.admit(driver.cache)
            batch = scheduler.choose()
            driver.end()
            self._injector.after(driver)
            loads += driver.loads
            if batch:
                report.computed_s.append(self._stage.forward(report.steps, batch, loads))
                loads = []
                under_way.append((report.steps, batch))
            elif not under_way:
                time.sleep(0.0005)
            tell(self._beat(batch))
        return self._close()

    def _controls(self, busy: bool) -> list[Control]:
        """What the leader decides: at first how long chunks take, measured here; and at the end that all ranks stop."""
        settings, cache = self._settings, self._driver.cache
        if self._report.steps == 1 and settings.dynamic and self._place.leads:
            lengths = profile_lengths(settings.chunk, settings.context, settings.slots)
            model = ChunkModel.fit(*zip(*profile(self._stage.rehearse, lengths, time.thread_time), strict=True))
            return [] if model is None else self._sizer.controls(model)
        over = not (busy or self._scheduler.waiting or self._scheduler.running) and cache.issued == cache.retired
        return [Control.stop()] if over and self._place.leads else []

    def _beat(self, batch: Batch) -> Beat:
        asked = [*self._scheduler.finished, *self._scheduler.running]
        hits = tuple(sum(request.hits[tier] for request in asked) for tier in range(3))
        missed = sum(request.prompt for request in asked) - sum(hits)
        counts, report = (len(batch), len(self._scheduler.running), len(self._scheduler.finished)), self._report
        return Beat(report.rank, report.steps, report.digest, *counts, hits, missed)

    def _close(self) -> Report:
        self._driver.close()
        self._driver.cache.check(self._slots)
        for each in (self._storage, self._links, self._host, self._device):
            if each is not None:
                each.close()
        self._report.requests = self._scheduler.finished
        self._report.distributions, self._report.accepted = self._stage.distributions, self._stage.accepted
        return self._report
