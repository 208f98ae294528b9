"""What one cluster replay is asked to do: the form in which the launcher tells its workers."""

from pathlib import Path
from typing import Final, Literal

import msgspec

from isoradix.cluster.prefetch import PrefetchPolicy
from isoradix.consensus.topology import Topology
from isoradix.replay.source import Source, TraceSource, WorkloadSource

PlaneName = Literal["gloo", "chain", "piggyback"]
MODES: Final = ("off", "observe", "enforce")
TIER_NAMES: Final = ("l1", "l2", "l3")
PLANES: Final[tuple[PlaneName, ...]] = ("gloo", "chain", "piggyback")


class TraceOf(msgspec.Struct, frozen=True, tag="trace"):
    """The first `limit` requests of a trace file."""

    path: str
    limit: int | None = None

    def open(self) -> Source:
        return TraceSource(Path(self.path), self.limit)


class WorkloadOf(msgspec.Struct, frozen=True, tag="workload"):
    """The first `total` requests of a built-in workload."""

    kind: str
    total: int
    seed: int = 0

    def open(self) -> Source:
        return WorkloadSource(self.kind, self.total, self.seed)


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One run. Capacities count tokens and are cut down to whole pages; `host_capacity` 0 leaves the host tier out."""

    requests: TraceOf | WorkloadOf
    tp: int = 1
    pp: int = 1
    cp: int = 1
    dp: int = 1
    plane: PlaneName = "gloo"
    page_size: int = 64
    capacity: int = 4_000_000
    host_capacity: int = 0
    policy: str = "lru"
    write_policy: str = "through:1"
    batch: int = 8
    step_ms: float = 0.0
    faults: tuple[str, ...] = ()
    report_ms: int = 5_000
    fatal_ms: int = 60_000
    store_rank: int = 0
    storage: str | None = None
    """The URL of external storage, without which there is none."""
    prefetch_policy: PrefetchPolicy = "timeout"
    mode: str = "enforce"
    tiers: str | None = None
    """The highest tier that is on at first; None for all that there are."""
    tiers_at: tuple[tuple[int, str], ...] = ()
    """Steps with which tiers are switched, and the highest one that is on from there."""
    breaker: tuple[int, int, int, int] | None = (5, 10_000, 2, 30_000)
    """The option `storage_breaker` of `TieredCache`."""
    attach_at: int | None = None
    """The step with which storage is attached; None if it is there from the start."""
    detach_at: int | None = None
    """The step with which storage is detached; None for never."""
    journal: str | None = None
    """A folder in which every rank writes its journal."""

    @property
    def topology(self) -> Topology:
        return Topology(self.tp, self.pp, self.cp, self.dp)

    @property
    def plane_used(self) -> str:
        """What connects the ranks: one rank a replica needs nothing."""
        return "local" if self.topology.members == 1 else self.plane

    @property
    def slots(self) -> int:
        return self.capacity // self.page_size * self.page_size

    @property
    def host_pages(self) -> int:
        return self.host_capacity // self.page_size


class Task(msgspec.Struct, frozen=True):
    """One rank's part of a job: where the ranks find each other, and the folder in which they may leave files."""

    job: Job
    rank: int
    port: int
    folder: str
