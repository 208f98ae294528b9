"""How options read numbers, lists and ranges."""

import pytest

from isoradix import InvalidInputError, PrefixCache, SlotPool
from isoradix.cli.errors import UsageError
from isoradix.cli.values import LARGEST_PAGE, MOST_TOKENS, capacities, count, counts, policies


def test_counts_read_as_people_write_them() -> None:
    shown = {"7": 7, "4M": 4_000_000, "64k": 64_000, "1.5m": 1_500_000, "64Ki": 65_536, "1_000": 1000, "2g": 2 * 10**9}
    assert {text: count("--n", text, 1) for text in shown} == shown
    assert counts("--n", "1k, 2k,1k", 1) == [1000, 2000]
    for text in ("", "k", "1e6", "1,5", "0x10", "½", "1.0005k", "--4"):
        with pytest.raises(UsageError):
            count("--n", text, 1)


def test_capacities_are_lists_or_doubling_ranges() -> None:
    assert capacities("--capacity", "1M..8M", 64) == [10**6, 2 * 10**6, 4 * 10**6, 8 * 10**6]
    assert capacities("--capacity", "1M..3M", 64) == [10**6, 2 * 10**6, 3 * 10**6]
    assert capacities("--capacity", "64k..64k", 64) == [64_000]
    assert capacities("--capacity", "4M,1M,1M", 64) == [10**6, 4 * 10**6]


def test_policies_keep_their_own_commas() -> None:
    assert policies("lru, slru:3,tlru:1000,200,lfu,lru") == ["lru", "slru:3", "tlru:1000,200", "lfu"]


def test_the_limits_are_those_of_the_core() -> None:
    PrefixCache(page_size=LARGEST_PAGE)
    SlotPool(MOST_TOKENS, page_size=LARGEST_PAGE)
    with pytest.raises(InvalidInputError):
        PrefixCache(page_size=LARGEST_PAGE + 1)
    with pytest.raises(InvalidInputError):
        SlotPool(MOST_TOKENS + LARGEST_PAGE, page_size=LARGEST_PAGE)
