"""Threads, re-entry, forks, copies: each works, or has a clear answer."""

from __future__ import annotations

import copy
import gc
import pickle
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import pytest

from isoradix import ConcurrentUseError, InputTypeError, NodeFacts, PolicyError, PrefixCache, SlotPool

LONG = 1 << 18  # tokens; well past the size from which a call gives up the GIL
DEADLINE = 60.0  # seconds; only ever reached by a deadlock


@pytest.fixture
def eager_switching() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def in_threads(count: int, work: Callable[[int], Any]) -> list[Any]:
    with ThreadPoolExecutor(count) as threads:
        futures = [threads.submit(work, number) for number in range(count)]
        return [future.result(DEADLINE) for future in futures]


@pytest.mark.usefixtures("eager_switching")
@pytest.mark.parametrize("policy", ["lru", "lfu", lambda facts: facts.seq], ids=["lru", "lfu", "callable"])
def test_many_threads_use_one_cache(policy: Any) -> None:
    pool = SlotPool(1 << 16, page_size=4)
    cache = PrefixCache(page_size=4, policy=policy)

    def work(number: int) -> None:
        random = np.random.default_rng(number)
        name = (f"thread {number}", None)
        for _ in range(150):
            key = random.integers(0, 3, size=32)
            found = cache.match_prefix(key, name)
            receipt = cache.lock(found.node)
            slots = pool.alloc(32 - found.hit_tokens)
            done = cache.insert(key, slots, name, resume=found)
            assert (done.prefix_len, done.length) == (found.hit_tokens, 32)
            cache.unlock(receipt)
            pool.free(cache.evict(8))

    in_threads(4, work)
    assert cache.protected_size == 0
    cache.check(pool)


@pytest.mark.usefixtures("eager_switching")
def test_long_calls_of_many_threads_take_turns() -> None:
    cache = PrefixCache(page_size=64)
    key = np.arange(LONG)

    def work(number: int) -> None:
        for _ in range(5):
            cache.insert(key, key, (f"thread {number}", None))
            assert cache.match_prefix(key, (f"thread {number}", None)).hit_tokens == LONG
            cache.check()
            assert cache.namespace_size((f"thread {number}", None)) == LONG
            assert len(cache.remove_namespace((f"thread {number}", None))) == LONG

    in_threads(3, work)
    assert cache.total_size == 0


def runs_meanwhile(call: Callable[[], object], tries: int) -> bool:
    """Whether another thread gets to run during `call`, in a process where threads switch only when they must."""
    seen, may_run = threading.Event(), threading.Semaphore(0)

    def other() -> None:
        may_run.acquire()
        seen.set()

    thread = threading.Thread(target=other)
    before = sys.getswitchinterval()
    thread.start()
    try:
        sys.setswitchinterval(1000)
        may_run.release()
        for _ in range(tries):
            call()
            if seen.is_set():
                return True
        return False
    finally:
        sys.setswitchinterval(before)
        thread.join(DEADLINE)


def test_long_calls_give_up_the_gil_and_short_ones_do_not() -> None:
    cache = PrefixCache()
    key = np.arange(LONG)
    cache.insert(key, key)
    node = cache.match_prefix(key).node
    pool = SlotPool(LONG)
    pool.alloc(LONG)
    long: list[Callable[[], object]] = [
        lambda: cache.probe(key),
        lambda: cache.match_prefix(key),
        lambda: cache.slots(node),
        lambda: cache.node_tokens(node),
        lambda: cache.node_slots(node),
        lambda: cache.dfs_weight_order([node] * (LONG // 64)),
        lambda: cache.check(),
        lambda: cache.check(pool),
    ]
    for call in long:
        assert runs_meanwhile(call, tries=10_000)
    short: list[Callable[[], object]] = [
        lambda: cache.match_prefix(key[:1000]),
        lambda: cache.slots(cache.match_prefix(key[:1000]).node),
        lambda: cache.dfs_weight_order([node] * 100),
        lambda: cache.walk(),
        lambda: cache.evict(0),
        lambda: cache.remove_namespace(("nobody", None)),
        lambda: cache.namespace_size(),
    ]
    for call in short:
        assert not runs_meanwhile(call, tries=100)


@pytest.mark.parametrize(
    "drop",
    [
        lambda cache: cache.evict(LONG),
        lambda cache: cache.remove_namespace((None, None)),
        lambda cache: cache.reset(),
    ],
    ids=["evict", "remove_namespace", "reset"],
)
def test_dropping_much_gives_up_the_gil(drop: Callable[[PrefixCache], object]) -> None:
    key = np.arange(LONG)
    cache = PrefixCache()

    def fill_and_drop() -> None:
        for start in range(0, LONG, LONG // 8):  # short calls: they keep the GIL
            cache.insert(key[start : start + LONG // 8], key[start : start + LONG // 8])
        drop(cache)

    assert LONG // 8 < 1 << 16
    assert runs_meanwhile(fill_and_drop, tries=1000)


def test_walking_many_nodes_gives_up_the_gil() -> None:
    cache = PrefixCache()
    for token in range(LONG // 64):
        cache.insert([token], [token])
    assert runs_meanwhile(lambda: cache.walk(), tries=10_000)


def test_a_large_pool_gives_up_the_gil() -> None:
    pool = SlotPool(LONG)
    slots = pool.alloc(LONG)
    pool.free(slots)

    def alloc() -> None:
        pool.alloc(LONG)
        pool.reset()

    def free() -> None:
        for _ in range(8):
            pool.alloc(LONG // 8)
        pool.free(slots)

    for call in (alloc, free, lambda: pool.reset(), lambda: SlotPool(LONG)):
        assert runs_meanwhile(call, tries=1000)
    small = SlotPool(1024)

    def there_and_back() -> None:
        small.free(small.alloc(1024))

    assert not runs_meanwhile(there_and_back, tries=100)


def test_a_cache_with_a_key_function_keeps_the_gil() -> None:
    cache = PrefixCache(policy=lambda facts: facts.seq)
    key = np.arange(LONG)
    cache.insert(key, key)
    assert not runs_meanwhile(lambda: cache.probe(key), tries=20)


@pytest.mark.parametrize(
    "enter",
    [
        lambda cache: cache.total_size,
        lambda cache: cache.match_prefix([1]),
        lambda cache: cache.evict(1),
        lambda cache: cache.decision_digest,
        lambda cache: next(cache.walk()),
        lambda cache: cache.check(SlotPool(1)),
    ],
)
def test_a_key_function_may_not_enter_its_own_cache(enter: Callable[[PrefixCache], object]) -> None:
    def key(facts: NodeFacts) -> int:
        enter(caches[0])
        return 0

    caches = [PrefixCache(policy=key)]
    cache = caches[0]
    cache.insert([1, 2], [3, 4])
    with pytest.raises(PolicyError, match="entered again from its own key function") as caught:
        cache.evict(1)
    assert isinstance(caught.value.__cause__, ConcurrentUseError)
    assert "\nhint: " in str(caught.value.__cause__)
    assert cache.total_size == 2
    cache.check()


def test_a_key_function_may_use_another_cache_and_show_its_own() -> None:
    other = PrefixCache()
    shown = []

    def key(facts: NodeFacts) -> int:
        shown.append(repr(caches[0]))
        return other.insert([facts.seq], [0]).new_tokens

    caches = [PrefixCache(policy=key)]
    caches[0].insert([1, 2], [3, 4])
    assert caches[0].evict(2).tolist() == [3, 4]
    assert other.total_size > 0
    assert "not usable here" in shown[0]


def test_another_thread_waits_for_a_key_function() -> None:
    inside, calling = threading.Event(), threading.Event()

    def key(facts: NodeFacts) -> int:
        inside.set()
        assert calling.wait(DEADLINE)
        for _ in range(1000):  # time for the other thread to get to the lock
            threading.Event().wait(0)
        return facts.seq

    cache = PrefixCache(policy=key)

    def look(_: int) -> int:
        assert inside.wait(DEADLINE)
        calling.set()
        return cache.total_size

    with ThreadPoolExecutor(1) as threads:
        size = threads.submit(look, 0)
        cache.insert([1, 2, 3], [4, 5, 6])
        assert size.result(DEADLINE) == 3


@pytest.mark.parametrize("fails", [False, True])
def test_a_cache_and_its_key_function_are_collected_together(fails: bool) -> None:
    class Key:
        cache: PrefixCache

        def __call__(self, facts: NodeFacts) -> int:
            if fails:
                raise RuntimeError(self)
            return facts.seq

    key = Key()
    key.cache = PrefixCache(policy=key)
    key.cache.insert([1], [1])
    seen = weakref.ref(key)
    del key
    gc.collect()
    assert seen() is None


def test_walks_are_shared_and_outlive_changes() -> None:
    cache = PrefixCache()
    for token in range(100):
        cache.insert([token], [token])
    walk = cache.walk()
    handles = in_threads(4, lambda _: [info.handle for info in walk])
    assert len({handle for part in handles for handle in part}) == sum(map(len, handles)) == 100
    walk = cache.walk()
    assert next(walk).parent == cache.root
    cache.reset()
    assert list(walk) == []


def test_a_walk_outlives_its_cache_but_not_its_key_function() -> None:
    class Key:
        walk: Any

        def __call__(self, facts: NodeFacts) -> int:
            return facts.seq

    key = Key()
    cache = PrefixCache(policy=key)
    cache.insert([1, 2], [3, 4])
    key.walk = walk = cache.walk()
    del cache
    seen = weakref.ref(key)
    del key
    gc.collect()
    assert seen() is None, "a walk keeps the tree only"
    assert [info.length for info in walk] == [2]


FORK = """
import os
from isoradix import ConcurrentUseError, PrefixCache, SlotPool

cache, pool = PrefixCache(policy=POLICY), SlotPool(8)
node = cache.insert([1, 2], [3, 4]).node
walk = cache.walk()
reader, writer = os.pipe()
child = os.fork()
if child == 0:
    answers = []
    for call in (
        lambda: cache.match_prefix([1]), lambda: cache.lock(node), lambda: cache.evict(1), lambda: cache.total_size,
        lambda: cache.check(), lambda: next(walk),
        lambda: pool.alloc(1), lambda: pool.free([0]), lambda: pool.available,
    ):
        try:
            answers.append(f"no error: {call()}")
        except ConcurrentUseError as error:
            assert "made before a fork" in str(error) and "hint: " in str(error)
    fresh = PrefixCache()
    fresh.insert([1, 2], [3, 4])
    assert fresh.total_size == 2 and SlotPool(4).available == 4
    repr(cache), repr(pool), cache.page_size, cache.policy, pool.total
    del cache, pool, walk
    if not os.fork():  # a grandchild cannot use what its parent made either
        try:
            fresh.total_size
        except ConcurrentUseError:
            os._exit(0)
        os._exit(1)
    answers.append(f"grandchild {os.wait()[1]}")
    os.write(writer, repr(answers).encode())
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
print(os.read(reader, 10000).decode())
cache.check()
assert cache.evict(2).tolist() == [3, 4]
"""


@pytest.mark.skipif(not hasattr(sys.modules["os"], "fork"), reason="no fork")
@pytest.mark.parametrize("policy", ["'lru'", "lambda facts: facts.seq"])
def test_a_forked_child_is_refused(policy: str) -> None:
    script = FORK.replace("POLICY", policy)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=DEADLINE)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "['grandchild 0']"


FORK_IN_LONG_CALL = """
import os, threading
import numpy as np
from isoradix import ConcurrentUseError, PrefixCache

cache = PrefixCache()
key = np.arange(1 << 18)
stop = threading.Event()

def churn():
    while not stop.is_set():
        cache.insert(key, key)
        cache.reset()

thread = threading.Thread(target=churn)
thread.start()
for _ in range(20):
    child = os.fork()
    if child == 0:
        try:
            cache.total_size
        except ConcurrentUseError:
            del cache
            os._exit(0)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
stop.set()
thread.join()
"""


@pytest.mark.skipif(not hasattr(sys.modules["os"], "fork"), reason="no fork")
def test_a_fork_during_a_long_call_does_not_hang() -> None:
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORK_IN_LONG_CALL]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=DEADLINE)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("made", [PrefixCache(), SlotPool(4)], ids=["cache", "pool"])
def test_copies_are_refused(made: Any) -> None:
    ways: list[Callable[[], object]] = [lambda: copy.copy(made), lambda: copy.deepcopy(made)]
    ways += [partial(pickle.dumps, made, protocol) for protocol in range(pickle.HIGHEST_PROTOCOL + 1)]
    ways.append(lambda: copy.deepcopy({"inside": [made]}))
    for way in ways:
        with pytest.raises(InputTypeError, match="cannot be copied or pickled\nhint: "):
            way()
        with pytest.raises(TypeError):
            way()
