"""The offline optimum against brute force, and sweeps on units against replays on tokens."""

from functools import cache
from itertools import combinations

import numpy as np
import pytest

from isoradix.replay.blocks import Tokens
from isoradix.replay.optimal import OfflineOptimal
from isoradix.replay.runner import ReplayConfig, Replayer
from isoradix.replay.source import WorkloadSource
from isoradix.replay.sweep import OPTIMAL, Sweep
from isoradix.replay.units import page_units, unit_policy

Request = tuple[int, ...]
Node = Request  # a page is told apart by the whole prefix that ends with it
Held = frozenset[Node]


def path_of(request: Request) -> Held:
    return frozenset(request[:end] for end in range(1, len(request) + 1))


@cache
def closed_subsets(nodes: Held, limit: int) -> tuple[Held, ...]:
    """Every prefix-closed subset of at most `limit` pages."""
    ordered = sorted(nodes)
    subsets = (frozenset(kept) for size in range(limit + 1) for kept in combinations(ordered, size))
    return tuple(kept for kept in subsets if all(len(node) == 1 or node[:-1] in kept for node in kept))


def best_hits(requests: list[Request], capacity: int) -> int:
    """Most pages hit, by trying every choice."""
    states: dict[Held, int] = {frozenset(): 0}
    for request in requests:
        path = path_of(request)
        following: dict[Held, int] = {}
        for held, hits in states.items():
            for kept in closed_subsets(held | path, capacity):
                fits = len(path) > capacity or len(kept | path) <= capacity
                if fits and following.get(kept, -1) < hits + len(held & path):
                    following[kept] = hits + len(held & path)
        states = following
    return max(states.values())


@pytest.mark.parametrize("seed", range(40))
def test_the_offline_optimum_is_what_brute_force_finds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    requests = [tuple(rng.integers(0, 2, int(rng.integers(1, 5))).tolist()) for _ in range(7)]
    plan = OfflineOptimal([np.array(request, dtype=np.uint32) for request in requests])
    assert plan.total == sum(len(request) for request in requests)
    for capacity in range(1, 7):
        assert plan.hits(capacity) == best_hits(requests, capacity), (requests, capacity)


def test_the_optimum_with_room_for_all_is_every_repeated_page() -> None:
    prompts = list(page_units(WorkloadSource("chat", 200, 4), 16))
    replayer = Replayer(ReplayConfig(page_size=1, capacity=10**6))
    assert OfflineOptimal(prompts).hits(10**6) == replayer.run(prompts).hit_tokens


@pytest.mark.parametrize("policy", ["lru", "lfu", "fifo", "mru", "filo", "priority", "slru:3", "tlru:1000,300"])
@pytest.mark.parametrize("page_size", [4, 48])
def test_units_give_the_hits_of_tokens(policy: str, page_size: int) -> None:
    source = WorkloadSource("agent", 120, 6)
    capacity = 90_000
    direct = Replayer(ReplayConfig(page_size, capacity, policy)).run(source)
    sweep = Sweep(page_units(source, page_size), page_size, [capacity], [policy], optimal=False)
    (point,) = sweep.points(lambda _what, _done: None)
    assert direct.evicted_tokens > 0
    assert (point.hit_tokens, point.tokens, point.evicted_tokens, point.uncached) == (
        direct.hit_tokens,
        direct.tokens,
        direct.evicted_tokens,
        direct.uncached,
    )


@pytest.mark.parametrize(
    ("policy", "page_size", "scaled"),
    [
        ("lru", 64, "lru"),
        ("slru:2", 64, "slru:2"),
        ("tlru", 64, "tlru"),
        ("tlru:640,0", 64, "tlru:10,0"),
        ("tlru:650,0", 64, "tlru:10,0"),
        ("tlru:0,650", 64, "tlru:0,11"),
        ("tlru:700,50", 64, "tlru:10,0"),
        ("tlru:0,0", 64, "tlru:0,0"),
    ],
)
def test_policies_are_scaled_to_units(policy: str, page_size: int, scaled: str) -> None:
    assert unit_policy(policy, page_size) == scaled


def test_equal_pages_and_only_those_are_equal_units() -> None:
    rng = np.random.default_rng(9)
    prompts: list[Tokens] = [rng.integers(0, 3, int(rng.integers(0, 40))).astype(np.uint32) for _ in range(60)]
    units = list(page_units(prompts, 4))
    seen: dict[bytes, int] = {}
    for prompt, run in zip(prompts, units, strict=True):
        assert len(run) == len(prompt) // 4
        for index, unit in enumerate(run.tolist()):
            assert seen.setdefault(prompt[4 * index : 4 * index + 4].tobytes(), unit) == unit
    assert len(set(seen.values())) == len(seen)


def test_no_policy_passes_the_optimum() -> None:
    units = page_units(WorkloadSource("rag", 300, 2), 64)
    sweep = Sweep(units, 64, [20_000, 100_000, 500_000], ["lru", "lfu", "slru", "fifo", "mru"])
    points = list(sweep.points(lambda _what, _done: None))
    assert len(points) == sweep.runs
    best = {point.capacity: point.hit_tokens for point in points if point.policy == OPTIMAL}
    assert all(point.hit_tokens <= best[point.capacity] for point in points)
    assert sorted(best.values()) == [best[capacity] for capacity in sorted(best)]
