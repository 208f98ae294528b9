"""The floor (`floor.c`) on the scenarios: what any implementation pays on this machine."""

import importlib.util
import subprocess
import sysconfig
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from time import perf_counter_ns as now
from typing import Any

import numpy as np

from benches.trees import NODE, PAGE, random_tokens, shuffled_slots

from .adapters import native_key
from .scenarios import Sampler, Samples, Sizes, evict_each, timed

SOURCE = Path(__file__).with_name("floor.c")
BUILD = Path(__file__).parents[2] / "target" / "floor"
ARENA_NODES = 200_000


def build() -> Path:
    """Compile the floor for this very machine."""
    BUILD.mkdir(parents=True, exist_ok=True)
    target = BUILD / f"floor{sysconfig.get_config_var('EXT_SUFFIX')}"
    include = sysconfig.get_paths()["include"]
    command = ["cc", "-O3", "-march=native", "-shared", "-fPIC", f"-I{include}", str(SOURCE), "-o", str(target)]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
    except FileNotFoundError:
        raise SystemExit("floor.c needs a C compiler\nhint: install gcc or clang as `cc`") from None
    except subprocess.CalledProcessError as failed:
        raise SystemExit(f"floor.c did not compile:\n{failed.stderr}\nhint: Python.h is needed") from None
    return target


@cache
def floor() -> Any:
    """The module, loaded once a process."""
    spec = importlib.util.spec_from_file_location("floor", build())
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def match_flat(sizes: Sizes) -> Sampler:
    key = native_key(random_tokens(1, sizes.flat))
    floor().build_path(key, sizes.flat, PAGE, ARENA_NODES)
    return lambda count: {"match flat": timed(count, 50, floor().match, key, PAGE)}


def match_deep(sizes: Sizes) -> Sampler:
    key = native_key(random_tokens(2, sizes.deep))
    floor().build_path(key, NODE, PAGE, ARENA_NODES)
    floor().build_store(4 * sizes.deep, PAGE)

    def match_and_read() -> None:
        floor().match(key, PAGE)
        floor().read_slots(np.empty(sizes.deep, dtype=np.int64), sizes.deep)

    def sample(count: int) -> Samples:
        return {
            "match deep": timed(count, 5, floor().match, key, PAGE),
            "match deep + slots": timed(count, 5, match_and_read),
        }

    return sample


def insert_tail(sizes: Sizes) -> Sampler:
    key = native_key(random_tokens(3, sizes.deep + sizes.tail))
    slots = shuffled_slots(3, len(key))
    floor().build_path(key[: sizes.deep], NODE, PAGE, ARENA_NODES)
    floor().build_store(4 * len(key), PAGE)

    def match_and_insert() -> None:
        floor().match(key, PAGE)
        floor().insert(key, slots, sizes.deep)

    def sample(count: int) -> Samples:
        return {
            "insert tail": timed(count, 1, match_and_insert),
            "insert tail, prefix known": timed(count, 1, floor().insert, key, slots, sizes.deep),
        }

    return sample


def insert_large(sizes: Sizes) -> Sampler:
    key, slots = native_key(random_tokens(4, sizes.large)), shuffled_slots(4, sizes.large)
    floor().build_store(4 * sizes.large, PAGE)
    return lambda count: {"insert new": timed(count, 1, floor().insert, key, slots, 0)}


def lock_path(sizes: Sizes) -> Sampler:
    key = native_key(random_tokens(5, sizes.path_nodes * PAGE))
    floor().build_path(key, PAGE, PAGE, ARENA_NODES)

    def sample(count: int) -> Samples:
        rows: Samples = {"lock path": [], "unlock path": []}
        for _ in range(count):
            for row, delta in (("lock path", 1), ("unlock path", -1)):
                rows[row] += timed(1, 1, floor().lock, delta)
        return rows

    return sample


class Leaves:
    """Leaves in LRU order; four bytes a token and a page's slot number are all that must be kept.

    Evicted leaves are not made again, unlike in the trees; a whole run of `suite.Plan` takes less than half of them.
    """

    bytes_per_token = (PAGE * 4 + 4) / PAGE

    def __init__(self, leaves: int, evictions: dict[str, int]) -> None:
        self.evictions = evictions
        floor().build_leaves(leaves, PAGE)

    def __call__(self, count: int) -> Samples:
        return evict_each(self.evictions, self._evict, count)

    def _evict(self, tokens: int) -> float:
        start = now()
        dropped = floor().evict(tokens, np.empty(max(tokens, PAGE), dtype=np.int64))
        took = now() - start
        assert dropped >= tokens
        return took


class Replay:
    """The traffic of a replay whose hits are known; behind the adapters' interface, as far as a replay needs it."""

    def __init__(self, capacity: int, hits: list[int]) -> None:
        self.hits: Iterator[int] = iter(hits)
        floor().build_store(capacity, PAGE)

    def key(self, tokens: Any) -> Any:
        return native_key(tokens)

    def slots(self, slots: Any) -> Any:
        return slots

    def match(self, key: Any) -> tuple[int, int]:
        hit = next(self.hits)
        floor().compare(key, hit)
        return hit, hit

    def indices(self, node: int) -> Any:
        out = np.empty(node, dtype=np.int64)
        floor().read_slots(out, node)
        return out

    def insert(self, key: Any, slots: Any, *, known: int = 0, node: Any = None) -> int:
        return int(floor().insert(key, slots, known))

    def lock(self, node: int) -> int:
        floor().nothing()
        return node

    def unlock(self, receipt: int) -> None:
        floor().nothing()

    def evict(self, num_tokens: int) -> int:
        whole = -(-num_tokens // PAGE) * PAGE
        floor().read_slots(np.empty(whole, dtype=np.int64), whole)
        return whole
