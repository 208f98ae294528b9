"""isoradix, SGLang's four caches and the floor on the same work, in turns, in one run.

    python -m benches.peers.suite [--quick] [--trace FILE] [--out DIR] [--rounds N]

Writes RESULTS.md and RESULTS.json. Every row is the median over all rounds; in each round every implementation has its
turn, the first one another each time, so that a slow minute of the machine falls on all of them.
"""

import argparse
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benches import evidence

from . import floor, scenarios
from .adapters import EVERY, ISORADIX, Setup, make
from .machine import describe
from .replay import Replay, Workload, hit_lengths, workload
from .results import Results, Spread, write
from .rows import FLOOR
from .sglang_import import sglang
from .workers import Worker

NARROW = "isoradix-u32"
RESUME = "isoradix, resumed"
TRACE = Path(__file__).parents[3] / "shared" / "traces" / "mooncake_conversation_trace.jsonl"


@dataclass(frozen=True)
class Plan:
    """How much of everything."""

    sizes: scenarios.Sizes = field(default_factory=scenarios.Sizes)
    leaves: dict[str, int] = field(default_factory=lambda: {"10k": 10_000, "100k": 100_000, "1M": 1_000_000})
    large_eviction: int = 65_536
    rounds: int = 9
    samples: int = 20
    replays: int = 3
    requests: int = 12_031
    capacity: int = 4_000_000
    turn: int = 500
    evidence_requests: int = 300


QUICK = Plan(
    sizes=scenarios.QUICK,
    leaves={"10k": 400, "100k": 1000, "1M": 2000},
    large_eviction=1024,
    rounds=2,
    samples=3,
    replays=1,
    requests=60,
    capacity=200_000,
    turn=20,
    evidence_requests=5,
)


class Suite:
    """The workers, and what they measured."""

    def __init__(self, plan: Plan, trace: Path | None, workers: dict[str, Worker]) -> None:
        self.plan, self.trace, self.workers = plan, trace, workers
        self.samples: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        self.notes: dict[str, Any] = {}

    def turns(self, names: Sequence[str]) -> Iterator[str]:
        """Every name once a round, another one first each time."""
        for round_ in range(self.plan.rounds):
            first = round_ % len(names)
            yield from (*names[first:], *names[:first])

    def sample(self, names: Sequence[str], count: int) -> None:
        for name in self.turns(names):
            for row, values in self.workers[name].call("__call__", count).items():
                self.samples[row][name] += values

    # -- single operations

    def operation(self, name: str) -> None:
        """A scenario by its name in `scenarios` and `floor`."""
        say(name.replace("_", " "))
        names = (*EVERY, NARROW, FLOOR)
        for who in names:
            if who == FLOOR:
                self.workers[who].build(getattr(floor, name), self.plan.sizes)
            else:
                self.workers[who].build(getattr(scenarios, name), who, self.plan.sizes)
        self.sample(names, self.plan.samples)

    def leaves(self, label: str, names: Sequence[str], evictions: dict[str, int], *, weigh: bool = False) -> None:
        """Eviction from, and memory of, a tree of so many leaves."""
        say(f"{label} leaves")
        count = self.plan.leaves[label]
        for who in names:
            if who == FLOOR:
                self.workers[who].build(floor.Leaves, count, evictions)
            else:
                self.workers[who].build(scenarios.Leaves, who, count, evictions)
            if weigh:
                self.samples["bytes a token"][who].append(self.workers[who].call("bytes_per_token"))
        self.sample(names, max(3, self.plan.samples // 4))
        for who in names:
            self.workers[who].drop()

    def evictions(self) -> None:
        everyone = (*EVERY, FLOOR)
        self.leaves("10k", everyone, {"evict 1, 10k leaves": 1})
        large = {"evict 1, 100k leaves": 1, "evict 64k, 100k leaves": self.plan.large_eviction}
        self.leaves("100k", everyone, large, weigh=True)
        # Two at a time: the Python trees of this size do not fit beside each other.
        self.leaves("1M", (ISORADIX, "sgl-rust-raw", FLOOR), {"evict 1, 1M leaves": 1})

    # -- the replay

    def replay(self) -> None:
        work = workload(self.trace, self.plan.requests, self.plan.capacity)
        self.notes["replay"] = f"{work.source.name}, {work.source.total} requests, {work.capacity} tokens"
        hits = hit_lengths(make(ISORADIX, Setup(work.page_size)), work)
        for number in range(self.plan.replays):
            say(f"replay {number + 1} of {self.plan.replays}")
            self._replay_once(work, hits)

    def _replay_once(self, work: Workload, hits: list[int]) -> None:
        names = (*EVERY, NARROW, RESUME, FLOOR)
        for who in names:
            self.workers[who].build(*replay_builder(who, work, hits))
        running = list(names)
        while running:
            running = [who for who in running if self.workers[who].call("advance", self.plan.turn)]
        for who in names:
            self.samples["replay"][who].append(self.workers[who].call("requests_per_second"))
            for operation, spent in self.workers[who].call("spent").items():
                self.samples[f"replay: {operation}"][who].append(spent / len(hits))
        digests = {who: self.workers[who].call("hitseq") for who in names}
        if len(set(digests.values())) != 1:
            raise SystemExit(f"the caches disagree about the hits of the replay: {digests}")
        self.notes["hitseq"] = digests[ISORADIX]
        self.notes["hit rate"] = round(self.workers[ISORADIX].call("hit_rate"), 4)

    def evidence(self) -> None:
        """Counted, not timed, so the workers may be gone."""
        say("evidence")
        try:
            self.notes["evidence"] = evidence.shares(self.plan.evidence_requests, page_size=64)
        except FileNotFoundError as missing:
            self.notes["evidence"] = {f"not counted: {missing.filename} is not installed": 0.0}

    def rows(self) -> dict[str, dict[str, Spread]]:
        return {row: {who: Spread.of(values) for who, values in cells.items()} for row, cells in self.samples.items()}


def replay_of(who: str, work: Workload, resume: bool) -> Replay:
    return Replay(make(who, Setup(work.page_size)), work, resume)


def floor_replay(work: Workload, hits: list[int]) -> Replay:
    return Replay(floor.Replay(work.capacity, hits), work)


def replay_builder(who: str, work: Workload, hits: list[int]) -> tuple[Callable[..., Replay], *tuple[Any, ...]]:
    if who == FLOOR:
        return floor_replay, work, hits
    if who == RESUME:
        return replay_of, ISORADIX, work, True
    return replay_of, who, work, False


def say(what: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {what}", file=sys.stderr, flush=True)


def measure(plan: Plan, trace: Path | None) -> Results:
    started, machine = time.monotonic(), describe()
    say("importing sglang")
    sglang("unified_radix_cache")
    sglang("rust_tree_core.extension")
    floor.build()
    with ExitStack() as stack:
        names = (*EVERY, NARROW, RESUME, FLOOR)
        workers = {name: stack.enter_context(Worker(name)) for name in names}
        suite = Suite(plan, trace, workers)
        for name in ("match_flat", "match_deep", "insert_tail", "insert_large", "lock_path"):
            suite.operation(name)
        suite.evictions()
        suite.replay()
    suite.evidence()
    command = " ".join(["python -m benches.peers.suite", *sys.argv[1:]])
    return Results(machine, suite.rows(), suite.notes, command, round(time.monotonic() - started))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="tiny sizes: shows that everything runs, measures nothing")
    parser.add_argument("--trace", type=Path, default=TRACE, help="Mooncake JSONL; a built-in workload where absent")
    parser.add_argument("--rounds", type=int, help="turns of every implementation (default: 9)")
    parser.add_argument("--out", type=Path, help="folder to write to (default: benches, with --quick: out)")
    return parser.parse_args()


def main() -> int:
    """Exit code 1: the results are written, and a ratio is not met."""
    options = arguments()
    plan = QUICK if options.quick else Plan()
    if options.rounds:
        plan = Plan(**{**vars(plan), "rounds": options.rounds})
    trace = options.trace if options.trace.is_file() else None
    root = Path(__file__).parents[2]
    out = options.out or root / ("out" if options.quick else "benches")
    results = measure(plan, trace)
    for path in write(results, out, quick=options.quick):
        say(f"wrote {path}")
    if not options.quick and not results.all_gates_hold():
        say("some ratios are not met")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
