"""The scheduler's time inside its prefix cache: this package's beside the server's own, with either tree core.

    python -m benches.sglang.scheduler                          # in an environment that has SGLang
    python -m benches.sglang.scheduler --page-size 1 --tiers --requests 100

All caches serve the same prompts in one process and take turns, a few rounds of the scheduler each. Time is the
processor time of the scheduler's thread in calls of the cache. Copies to and from host are left out: the server's,
which are made in these calls on a machine without a GPU, are taken off; this package's are on a thread of their own.

Prompts have the lengths and the common prefixes of a Mooncake trace where --trace names one, and are the built-in
conversations elsewhere. Answers are as long as the trace's, at most --answer-max.
"""

import argparse
import ctypes
import gc
import itertools
import json
import statistics
import sys
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path
from time import thread_time_ns as now
from typing import Any, Final

from isoradix.bench.resident import resident_bytes
from isoradix.replay.blocks import BlockTable
from isoradix.replay.trace import read_trace
from isoradix.replay.workloads import generate

from .loop import RUNNING_MAX, WAITING_MAX, Loop, Prompt
from .servers import CACHES, make, prepare_import

TURN: Final = 16
ROW_MAX: Final = 131_072


def prompts(trace: Path | None, requests: int, longest: int, answer_max: int) -> Iterator[Prompt]:
    """The first requests that fit."""
    if trace is None:
        for tokens in itertools.islice(generate("chat", 1), requests):
            yield Prompt(array("q", tokens.tolist()), answer_max)
        return
    table = BlockTable()
    for request in read_trace(trace, requests):
        expanded = table.tokens(request.hash_ids, request.input_length)
        if 0 < len(expanded) <= longest:
            yield Prompt(array("q", expanded.tolist()), max(1, min(request.output_length, answer_max)))


class Copies:
    """Processor time in the server's host copies, which a CPU makes while the cache is called."""

    def __init__(self) -> None:
        from sglang.srt.mem_cache.l2_transfer import L2TransferEngine

        self.spent = 0
        for name in ("submit_device_to_host", "submit_host_to_device"):
            setattr(L2TransferEngine, name, self._counted(getattr(L2TransferEngine, name)))

    def _counted(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **options: Any) -> Any:
            start = now()
            try:
                return call(*args, **options)
            finally:
                self.spent += now() - start

        return counted


def run(given: argparse.Namespace) -> dict[str, Any]:
    """One pass of all caches, in turns."""
    copies = Copies() if given.tiers else None
    outside = (lambda: copies.spent) if copies else (lambda: 0)
    loops = {name: _loop(name, given, outside) for name in given.caches}
    gc.collect()
    gc.disable()
    going = set(loops)
    for turn in itertools.count():
        names = list(loops)
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            if name in going and not all(loops[name].step() for _ in range(TURN)):
                going.remove(name)
        if not going:
            break
    gc.enable()
    hits = {name: loop.hits for name, loop in loops.items()}
    if not given.tiers and len(set(hits.values())) > 1:
        sys.exit(f"the caches decide differently: {hits} tokens hit")
    return {name: _figures(loop) for name, loop in loops.items()}


def _loop(name: str, given: argparse.Namespace, outside: Callable[[], int]) -> Loop:
    server = make(
        name,
        slots=given.slots,
        page_size=given.page_size,
        row_length=ROW_MAX,
        rows=RUNNING_MAX + WAITING_MAX,
        host_ratio=2.0 if given.tiers else 0.0,
    )
    source = prompts(given.trace, given.requests, given.slots // 4, given.answer_max)
    return Loop(server, source, given.order, given.tiers, outside)


def _figures(loop: Loop) -> dict[str, Any]:
    steps = loop.by_step["prefill"] + loop.by_step["decode"]
    return {
        "steps": len(steps),
        "requests": loop.served,
        "hit_rate": round(loop.hits / max(1, loop.prompt_tokens), 4),
        "step_us": _us(steps),
        "prefill_us": _us(loop.by_step["prefill"]),
        "decode_us": _us(loop.by_step["decode"]),
        "decode_median_us": round(statistics.median(loop.by_step["decode"]) / 1e3, 2),
        "by_call_us": {name: round(spent / 1e3 / loop.calls[name], 2) for name, spent in sorted(loop.spent.items())},
        "by_call_share": {name: round(t / sum(steps), 3) for name, t in sorted(loop.spent.items())},
        "cached_tokens": _total(loop.cache),
        **_memory(loop),
    }


def _us(samples: list[int]) -> float:
    return round(statistics.fmean(samples) / 1e3, 2) if samples else 0.0


def _total(cache: Any) -> int:
    total = cache.total_size()
    return int(total[0] if isinstance(total, tuple) else total)


def _memory(loop: Loop) -> dict[str, float]:
    """What the tree takes: as the cache counts it where it does, and what a reset gives back to the system."""
    cache = loop.cache
    tokens = max(1, _total(cache))
    figures = {}
    if loop.server.name == "isoradix":
        figures["reserved_bytes_per_token"] = round(cache.tree.memory_bytes() / tokens, 2)
    before = _settled()
    cache.reset()
    figures["freed_bytes_per_token"] = round((before - _settled()) / tokens, 2)
    return figures


def _settled() -> int:
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return resident_bytes()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trace", type=Path, help="a Mooncake trace; without it, built-in conversations")
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--answer-max", type=int, default=256, help="tokens of an answer, at most")
    parser.add_argument("--slots", type=int, default=512_000, help="device slots")
    parser.add_argument("--page-size", type=int, default=64)
    parser.add_argument("--tiers", action="store_true", help="with host memory of twice the device's")
    parser.add_argument("--order", choices=["lpm", "dfs-weight"], default="lpm")
    parser.add_argument("--caches", nargs="+", choices=CACHES, default=list(CACHES))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    given = parser.parse_args()
    if given.trace is not None and not given.trace.exists():
        sys.exit(f"{given.trace} is not there\nhint: leave --trace out to serve built-in conversations")
    prepare_import()
    import torch

    torch.set_num_threads(1)
    passes = [run(given) for _ in range(given.runs)]
    print(json.dumps(passes, indent=1) if given.json else table(passes))


def table(passes: list[dict[str, Any]]) -> str:
    """Medians over the passes, and what this package's are of each of the others'."""
    names = list(passes[0])
    keys = ("step_us", "prefill_us", "decode_us", "decode_median_us")
    lines = [f"{'':24}" + "".join(f"{name:>12}" for name in names) + f"{'ratio':>9} to the server's own"]
    for key in (*keys, *(f"by_call_us.{name}" for name in passes[0][names[0]]["by_call_us"])):
        medians = {name: statistics.median(_get(one[name], key) for one in passes) for name in names}
        lines.append(f"{key:24}" + "".join(f"{medians[name]:12.2f}" for name in names) + _ratios(medians))
    facts = ("steps", "requests", "hit_rate", "cached_tokens", "reserved_bytes_per_token", "freed_bytes_per_token")
    lines += [f"{key:24}" + "".join(f"{passes[-1][name].get(key, '-'):>12}" for name in names) for key in facts]
    return "\n".join(lines)


def _get(figures: dict[str, Any], key: str) -> float:
    first, _, rest = key.partition(".")
    return float(figures[first].get(rest, 0.0) if rest else figures[first])


def _ratios(medians: dict[str, float]) -> str:
    ours = medians.get("isoradix", 0.0)
    return "   " + " ".join(f"{ours / t:.2f}" for name, t in medians.items() if name != "isoradix" and t)


if __name__ == "__main__":
    main()
