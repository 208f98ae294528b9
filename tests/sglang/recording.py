"""Makes recordings of what a real scheduler asks of its cache.

    python -m tests.sglang.recording FOLDER [NAME ...]      # of SCENARIOS; all, if none is named

runs engines of one rank on the server's own cache and writes each call of its cache's public interface, as the
scheduler made it, and what came of it, in the form of `recorded`. What the cache calls within itself is left out.
"""

import argparse
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import msgspec

from . import recorded as r
from .engine import import_engine, run
from .scenario import Outcome, Scenario

PATH: Final = "ISORADIX_TEST_RECORD"
"""The environment of an engine names its recording; without that name nothing is recorded."""
SCENARIOS: Final[dict[str, Scenario]] = {
    "l1": Scenario(),
    "l1-tokens": Scenario(page_size=1, schedule_policy="dfs-weight", extra_keys=2, cache_salts=3, overlap=False),
    "l1-crowded": Scenario(schedule_policy="fcfs", concurrency=8, new_tokens=48, max_total_tokens=640),
    "l1-lfu": Scenario(engine_args={"radix_eviction_policy": "lfu"}),
    "l1-slru": Scenario(engine_args={"radix_eviction_policy": "slru"}),
    "l1-fifo": Scenario(engine_args={"radix_eviction_policy": "fifo"}),
    "l1-mru": Scenario(engine_args={"radix_eviction_policy": "mru"}),
    "l1-filo": Scenario(engine_args={"radix_eviction_policy": "filo"}),
    "l1-priority": Scenario(
        schedule_policy="fcfs",
        concurrency=6,
        new_tokens=32,
        priorities=3,
        engine_args={
            "radix_eviction_policy": "priority",
            "enable_priority_scheduling": True,
            "max_running_requests": 3,
        },
    ),
    "l2-through": Scenario(l2=True),
    "l2-selective": Scenario(l2=True, write_policy="write_through_selective"),
    "l2-back": Scenario(l2=True, write_policy="write_back"),
}


def record(scenario: Scenario, path: Path) -> Outcome:
    """Runs an engine of one rank on the server's own cache and records it. What was planted here stays planted.

    Raises:
        ValueError: the scenario has another cache, or several ranks.
    """
    if scenario.backend != "default" or scenario.ranks != 1:
        raise ValueError(f"recorded is the server's own cache on one rank, not {scenario.backend} on {scenario.ranks}")
    import_engine()
    plant()
    environment = {**scenario.environment, PATH: str(path)}
    return run(replace(scenario, consensus_checker=False, environment=environment))


class Recorder:
    """Writes down what is called on one cache."""

    def __init__(self, path: Path, cache: Any) -> None:
        self._file = path.open("wb")
        self.cache = cache
        self.depth = 0
        self.subject: Any = None
        self._requests: dict[str, Any] = {}
        self._told: dict[str, int] = {}
        self._numbers: dict[int, tuple[int, Any]] = {}
        self._last = 0
        self._host = 0
        allocator, memory = cache.token_to_kv_pool_allocator, _memory()
        self.write(
            r.Setting(
                slots=allocator.size,
                page_size=cache.page_size,
                row_length=cache.req_to_token_pool.req_to_token.shape[1],
                host_ratio=memory.hicache_ratio if memory.enable_hierarchical_cache else 0.0,
                write_policy=memory.hicache_write_policy,
                policy=memory.radix_eviction_policy,
            )
        )

    def write(self, event: r.Event) -> None:
        self._file.write(r.line(event))
        self._file.flush()  # the scheduler is killed in the end

    def tell(self, request: Any, tokens: Any, length: int) -> list[int]:
        """What is new of a request's first `length` tokens."""
        rid = request.rid
        if rid not in self._told:
            prompt = list(request.origin_input_ids)
            self.write(
                r.Asked(
                    rid=rid,
                    extra_key=request.extra_key,
                    cache_salt=request.cache_salt,
                    priority=request.priority or 0,
                    prompt=prompt,
                )
            )
            self._told[rid] = len(prompt)
        self._requests[rid] = request
        known = self._told[rid]
        self._told[rid] = max(known, length)
        return list(tokens[known:length])

    def number(self, lock: Any) -> int | None:
        """A new number for a lock."""
        if lock is None:
            return None
        self._last += 1
        self._numbers[id(lock)] = self._last, lock
        return self._last

    def ended(self, lock: Any) -> int | None:
        found = self._numbers.pop(id(lock), None)
        return None if found is None else found[0]

    def owner(self, kv: Any) -> str:
        """Whose row it is."""
        return next(rid for rid, request in self._requests.items() if request.kv is kv)

    # calls of the cache

    def match_prefix(self, result: Any, params: Any) -> None:
        length = len(params.key.token_ids) if params.key.limit is None else params.key.limit
        request = params.req
        if request is None:
            raise RuntimeError("a match without a request: the recording does not know whose")
        more = self.tell(request, params.key.token_ids, length)
        self.write(
            r.Match(
                rid=request.rid,
                length=length,
                more=more,
                device=result.device_prefix_len,
                host=result.host_hit_length,
            )
        )

    def lock(self, result: Any, node: Any, *_: Any, **__: Any) -> None:
        if result is not None:
            self._write_lock(result, node, host=False)

    def inc_host_lock_ref(self, result: Any, node: Any) -> None:
        self._write_lock(("host", node), node, host=True)

    def _write_lock(self, lock: Any, node: Any, host: bool) -> None:
        request = self.subject
        if request is None:
            raise RuntimeError("a lock outside of an admission: the recording does not know whose")
        number = self.number(lock)
        assert number is not None
        if host:
            self._host = number
        self.write(r.Lock(number=number, rid=request.rid, promised=host or node != request.last_node, host=host))

    def unlock(self, _: Any, lock: Any) -> None:
        if (number := self.ended(lock)) is not None:
            self.write(r.Unlock(number=number))

    def dec_host_lock_ref(self, _: Any, *__: Any) -> None:
        self.write(r.Unlock(number=self._host))

    def evict(self, result: Any, params: Any, wanted: int) -> None:
        self.write(r.Evict(wanted=wanted, evicted=result.num_tokens_evicted))

    def init_load_back(self, result: Any, params: Any) -> None:
        self.write(r.LoadBack(rid=params.req.rid, promised=params.host_hit_length, loaded=result[0]))

    def checkpoint(self, _: Any, request: Any, *, up_to: int, **__: Any) -> None:
        more = self.tell(request, request.full_untruncated_fill_ids, up_to)
        number = self._numbers[id(request.lock)][0] if id(request.lock) in self._numbers else self.number(request.lock)
        self.write(r.Checkpoint(rid=request.rid, up_to=up_to, more=more, finished=request.finished(), number=number))

    def free_kv_row(self, _: Any, kv: Any, ranges: Any) -> None:
        ranges = [(int(low), int(high)) for low, high in ranges]
        self.write(r.Free(rid=self.owner(kv), ranges=ranges, protected=kv.cache_protected_len))

    def on_release(self, _: Any, request: Any, **__: Any) -> None:
        self.write(r.Release(rid=request.rid))

    def dfs_weight_order(self, result: Any, nodes: Any) -> None:
        rids = [next(rid for rid, one in reversed(self._requests.items()) if one.last_node == node) for node in nodes]
        self.write(r.Order(rids=rids, order=list(result)))

    def check_hicache_events(self, _: Any) -> None:
        self.write(r.Poll())

    def flush_pending_backups(self, _: Any) -> None:
        self.write(r.Submit())

    def ready_to_load_host_cache(self, result: Any) -> None:
        self.write(r.Launch(waits=result >= 0))

    def reset(self, _: Any) -> None:
        self.write(r.Reset())

    # the scheduler around them

    def step(self, _: Any) -> None:
        free, cache = self.cache.token_to_kv_pool_allocator.available_size(), self.cache
        self.write(r.Step(free=free, evictable=cache.full_evictable_size(), held=cache.full_protected_size()))

    def extend(self, batch: Any) -> None:
        for request in batch.reqs:
            row = batch.req_to_token_pool.req_to_token[request.kv.req_pool_idx]
            start = request.prefix_len
            self.write(r.Extend(rid=request.rid, start=start, slots=row[start : request.extend_end].tolist()))

    def decode(self, batch: Any) -> None:
        rows = batch.req_to_token_pool.req_to_token
        ends = [(request.kv.req_pool_idx, request.kv.kv_allocated_len - 1) for request in batch.reqs]
        self.write(r.Decode(rids=[one.rid for one in batch.reqs], slots=[int(rows[row, end]) for row, end in ends]))


_NOTED: Final = (
    "match_prefix",
    "lock",
    "unlock",
    "inc_host_lock_ref",
    "dec_host_lock_ref",
    "init_load_back",
    "checkpoint",
    "free_kv_row",
    "on_release",
    "dfs_weight_order",
    "check_hicache_events",
    "flush_pending_backups",
    "ready_to_load_host_cache",
    "reset",
)


def plant() -> None:
    """Makes every scheduler that is forked from this process record what it asks, if `PATH` says where."""
    from sglang.srt.managers.schedule_batch import ScheduleBatch
    from sglang.srt.managers.schedule_policy import PrefillAdder
    from sglang.srt.managers.scheduler import Scheduler
    from sglang.srt.mem_cache.unified_radix_cache import UnifiedRadixCache

    if UnifiedRadixCache.__init__.__module__ == __name__:
        return  # it is there
    recorders: list[Recorder] = []
    plain = {name: getattr(UnifiedRadixCache, name) for name in (*_NOTED, "__init__", "evict", "evict_for_alloc")}

    def construct(cache: Any, *args: Any, **options: Any) -> None:
        plain["__init__"](cache, *args, **options)
        if PATH in os.environ:
            recorders[:] = [Recorder(Path(os.environ[PATH]), cache)]

    def noted(name: str) -> Callable[..., Any]:
        def call(cache: Any, *args: Any, **options: Any) -> Any:
            return _outermost(recorders, lambda: plain[name](cache, *args, **options), name, *args, **options)

        return call

    def evicting(name: str) -> Callable[..., Any]:
        def call(cache: Any, params: Any, **options: Any) -> Any:
            wanted = cache.token_to_kv_pool_allocator.available_size() + params.num_tokens
            return _outermost(recorders, lambda: plain[name](cache, params, **options), "evict", params, wanted)

        return call

    def each(name: str) -> Callable[[Any], None]:
        def note(subject: Any) -> None:
            for one in recorders:
                getattr(one, name)(subject)

        return note

    for name in _NOTED:
        setattr(UnifiedRadixCache, name, noted(name))
    UnifiedRadixCache.__init__ = construct
    UnifiedRadixCache.evict = evicting("evict")
    UnifiedRadixCache.evict_for_alloc = evicting("evict_for_alloc")

    _around(Scheduler, "ingest_requests", before=each("step"))
    _around(ScheduleBatch, "prepare_for_extend", after=each("extend"))
    _around(ScheduleBatch, "prepare_for_decode", after=each("decode"))
    admit = PrefillAdder.add_one_req

    def add_one_req(adder: Any, request: Any, *args: Any, **options: Any) -> Any:
        for one in recorders:
            one.subject = request
        try:
            return admit(adder, request, *args, **options)
        finally:
            for one in recorders:
                one.subject = None

    PrefillAdder.add_one_req = add_one_req


def _outermost(recorders: list[Recorder], call: Callable[[], Any], name: str, *args: Any, **options: Any) -> Any:
    """Makes a call, and notes it unless it is part of another."""
    if not recorders:
        return call()
    recorder = recorders[0]
    recorder.depth += 1
    try:
        result = call()
    finally:
        recorder.depth -= 1
    if recorder.depth == 0:
        getattr(recorder, name)(result, *args, **options)
    return result


def _around(
    owner: Any, name: str, before: Callable[[Any], None] | None = None, after: Callable[[Any], None] | None = None
) -> None:
    plain = getattr(owner, name)

    def call(self: Any, *args: Any, **options: Any) -> Any:
        if before is not None:
            before(self)
        result = plain(self, *args, **options)
        if after is not None:
            after(self)
        return result

    setattr(owner, name, call)


def _memory() -> Any:
    from sglang.srt.runtime_context import get_memory

    return get_memory()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", choices=[*SCENARIOS, []], default=[])
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    completed = True
    for name in given.names or SCENARIOS:
        outcome = record(SCENARIOS[name], given.folder / f"{name}.jsonl")
        print(name, msgspec.json.encode(outcome.summary()).decode(), flush=True)
        completed &= outcome.status == "ok"
    return 0 if completed else 1


if __name__ == "__main__":
    sys.exit(main())
