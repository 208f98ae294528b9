"""Keys and slots in every accepted form: the same decisions, read where they lie."""

from __future__ import annotations

import array
import ctypes
import gc
import subprocess
import sys
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import numpy as np
import pytest

from isoradix import InputTypeError, InvalidInputError, PrefixCache, SlotPool

Make = Callable[[list[int]], Any]


def read_only(values: list[int]) -> Any:
    made = np.array(values, dtype=np.int64)
    made.flags.writeable = False
    return made


def sliced(values: list[int]) -> Any:
    """A contiguous part of something larger, as a scheduler's token table is."""
    return np.array([7, *values, 7], dtype=np.int32)[1:-1]


FORMS: dict[str, Make] = {
    "list": list,
    "tuple": tuple,
    "list of numpy ints": lambda values: [np.int32(value) for value in values],
    "array i": lambda values: array.array("i", values),
    "array I": lambda values: array.array("I", values),
    "array l": lambda values: array.array("l", values),
    "array q": lambda values: array.array("q", values),
    "int32": lambda values: np.array(values, dtype=np.int32),
    "uint32": lambda values: np.array(values, dtype=np.uint32),
    "int64": lambda values: np.array(values, dtype=np.int64),
    "longlong": lambda values: np.array(values, dtype=np.longlong),
    "native order by name": lambda values: np.array(values, dtype="<i8" if sys.byteorder == "little" else ">i8"),
    "read-only": read_only,
    "slice": sliced,
    "subclass": lambda values: np.array(values, dtype=np.int64).view(np.recarray),
    "memoryview": lambda values: memoryview(cast(Any, np.array(values, dtype=np.int64))),
    "memoryview of bytes": lambda values: memoryview(np.array(values, dtype=np.int32).tobytes()).cast("i"),
    "ctypes": lambda values: (ctypes.c_int32 * len(values))(*values),
}

forms = pytest.mark.parametrize("make", FORMS.values(), ids=FORMS.keys())


def history(make: Make) -> PrefixCache:
    """Every call that takes keys or slots, with parts that match, differ, resume and are empty."""
    cache = PrefixCache(page_size=2)
    first = cache.insert(make([1, 2, 3, 4, 5, 6]), make([10, 11, 12, 13, 14, 15]))
    cache.insert(make([1, 2, 3, 4, 9, 9]), make([20, 21, 22, 23, 24, 25]), ("lora", None))
    cache.insert(make([1, 2, 3, 4, 5, 6, 7, 8]), make([16, 17]), resume=first)
    assert cache.match_prefix(make([1, 2, 3, 5])).hit_tokens == 2
    assert cache.probe(make([1, 2, 3, 4, 5, 6, 7, 8, 9])) == 8
    assert cache.match_prefix(make([])).hit_tokens == 0
    cache.check()
    return cache


@forms
def test_every_form_gives_the_same_decisions(make: Make) -> None:
    reference, cache = history(list), history(make)
    assert cache.decision_digest == reference.decision_digest
    assert cache.tree_digest == reference.tree_digest
    assert cache.journal() == reference.journal()
    for ours, theirs in zip(cache.walk(), reference.walk(), strict=True):
        assert ours == theirs
        assert ours.handle != theirs.handle, "each cache has its own"
        assert cache.node_tokens(ours.handle).tolist() == reference.node_tokens(theirs.handle).tolist()
        assert cache.node_slots(ours.handle).tolist() == reference.node_slots(theirs.handle).tolist()


@forms
def test_every_form_is_freed_to_the_pool(make: Make) -> None:
    pool = SlotPool(8, page_size=2)
    slots = pool.alloc(6).tolist()
    pool.free(make(slots[2:]))
    assert pool.available == 6


def test_the_greatest_token_and_slot_pass_in_every_width_that_holds_them() -> None:
    token, slot = 2**32 - 1, 2**31 - 1
    cache = PrefixCache()
    for number, dtype in enumerate((np.uint32, np.int64)):
        node = cache.insert(np.array([number, token], dtype=dtype), np.array([0, slot], dtype=dtype)).node
        assert cache.node_tokens(node).tolist() == [number, token]
        assert cache.slots(node).tolist() == [0, slot]
    assert cache.probe([0, token]) == cache.probe((1, token)) == 2


def test_a_key_may_change_after_the_call() -> None:
    cache = PrefixCache()
    key, slots = np.arange(8), np.arange(8)
    node = cache.insert(key, slots).node
    key[:] = 5
    slots[:] = 5
    assert cache.node_tokens(node).tolist() == list(range(8))
    assert cache.slots(node).tolist() == list(range(8))


def test_no_reference_to_an_argument_is_kept() -> None:
    class Array(np.ndarray[Any, Any]):
        pass

    cache = PrefixCache()
    key = np.arange(8).view(Array)
    view = array.array("q", range(8))
    seen = weakref.ref(key)
    cache.insert(key, key)
    cache.match_prefix(key)
    cache.probe(view)
    with pytest.raises(InputTypeError):
        cache.probe(memoryview(view)[::2])
    view.append(1)  # would raise BufferError if a buffer were still taken
    del key
    gc.collect()
    assert seen() is None


@pytest.mark.parametrize("length", [0, 4, 1024, 1028, 100_000])
def test_answers_are_arrays_of_their_own(length: int) -> None:
    cache = PrefixCache(page_size=4)
    node = cache.insert(np.arange(length), np.arange(length)[::-1].copy()).node
    slots = cache.slots(node)
    assert slots.dtype == np.int64
    assert slots.shape == (length,)
    assert slots.flags.c_contiguous
    assert slots.flags.writeable
    assert slots.flags.aligned
    slots += 1
    assert cache.slots(node).tolist() == list(range(length))[::-1]
    freed = cache.evict(length)
    assert freed.tolist() == list(range(length))[::-1]
    del cache
    assert int(slots.sum()) == sum(range(length)) + length


# A copy of the key would take 64 MiB or more.
PEAK = """
import resource, sys
import numpy as np
from isoradix import PrefixCache

def peak():  # KiB on Linux, bytes on macOS
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // (1024 if sys.platform == "darwin" else 1)

cache = PrefixCache(page_size=64)
cache.insert(np.arange(1024), np.arange(1024))
key = np.arange(1 << 24, dtype=np.int64)
view = memoryview(key)
before = peak()
assert cache.probe(key) == cache.probe(view) == 1024
assert cache.match_prefix(key).hit_tokens == 1024
print(peak() - before)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no getrusage")
def test_a_large_key_is_not_copied() -> None:
    done = subprocess.run([sys.executable, "-c", PEAK], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 8 * 1024


def test_tensors() -> None:
    torch = pytest.importorskip("torch")
    reference = history(list)
    for dtype in (torch.int32, torch.int64, torch.uint32):
        cache = history(partial(torch.tensor, dtype=dtype))
        assert cache.decision_digest == reference.decision_digest
    table = torch.arange(32).reshape(4, 8)
    assert cache.probe(table[0]) == 0  # a row is contiguous
    slots = cache.slots(cache.match_prefix([1, 2, 3, 4]).node)
    tensor = torch.from_numpy(slots)
    assert tensor.dtype == torch.int64
    assert tensor.data_ptr() == slots.ctypes.data


def test_tensors_that_are_refused() -> None:
    torch = pytest.importorskip("torch")
    cache = PrefixCache()
    digest = cache.decision_digest
    refused = {
        "float32": torch.zeros(4),
        "torch.bfloat16": torch.zeros(4, dtype=torch.bfloat16),
        "torch.float32": torch.zeros(4, requires_grad=True),
        "bool": torch.zeros(4, dtype=torch.bool),
        "int16": torch.zeros(4, dtype=torch.int16),
        "2 dimensions": torch.zeros(4, 4, dtype=torch.int64),
        "0 dimensions": torch.tensor(4),
        "not contiguous": torch.arange(8)[::2],
        "on meta": torch.zeros(4, dtype=torch.int64, device="meta"),
    }
    if torch.cuda.is_available():
        refused["on cuda:0"] = torch.zeros(4, dtype=torch.int64, device="cuda:0")
    for words, tensor in refused.items():
        with pytest.raises(InputTypeError, match=words) as caught:
            cache.match_prefix(tensor)
        assert "\nhint: " in str(caught.value)
    assert cache.decision_digest == digest


def test_code_that_runs_while_slots_are_read_cannot_move_a_borrowed_key() -> None:
    key = np.arange(1 << 16)

    class Mover:
        def __index__(self) -> int:
            key.resize(1, refcheck=False)
            return 5

    cache = PrefixCache()
    with pytest.raises(InvalidInputError):  # the key that is read is the one that is left: one token
        cache.insert(key, cast(Any, [Mover(), *range(1, 1 << 16)]))
    assert cache.total_size == 0
    cache.check()


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, MemoryError])
def test_what_says_nothing_of_the_input_passes_as_it_is(error: type[BaseException]) -> None:
    class Raiser:
        def __index__(self) -> int:
            raise error

    with pytest.raises(error):
        PrefixCache().probe(cast(Any, [Raiser()]))
    with pytest.raises(error):
        PrefixCache().evict(cast(Any, Raiser()))
