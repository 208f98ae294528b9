"""KV bytes: whatever is not what belongs into a slot is seen."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

from isoradix.cluster.bytes import PARTS, KvBytes, Words, prefix_words, salt
from isoradix.replay.blocks import stream_tokens

PAGE, SLOTS = 16, 256
KEY = stream_tokens(7, 96)
HELD = np.arange(100, 196)
OFFSETS = np.arange(96)


def views(first_layer: int = 0) -> dict[tuple[int, str], Words]:
    return {(first_layer + layer, part): np.zeros(SLOTS, dtype=np.uint64) for layer in range(2) for part in PARTS}


def written(rank: int = 1, first_layer: int = 0) -> tuple[KvBytes, dict[tuple[int, str], Words]]:
    memory = views(first_layer)
    kv = KvBytes(memory, rank)
    kv.write(HELD, prefix_words(KEY))
    return kv, memory


def check(kv: KvBytes, words: Words | None = None) -> None:
    for layer in kv.layers:
        kv.check(layer, HELD, prefix_words(KEY) if words is None else words, OFFSETS)


def test_what_was_written_is_right() -> None:
    kv, _ = written()
    check(kv)
    assert (kv.written, kv.checked) == (96, 2 * 96)


def test_prefixes_of_a_key_have_prefixes_of_its_words() -> None:
    assert (prefix_words(KEY[:40]) == prefix_words(KEY)[:40]).all()
    assert len(np.unique(prefix_words(KEY))) == len(KEY)


def test_a_token_counts_for_all_that_follow() -> None:
    other = KEY.copy()
    other[3] += 1
    assert (prefix_words(other)[3:] != prefix_words(KEY)[3:]).all()
    swapped = KEY.copy()
    swapped[[3, 4]] = swapped[[4, 3]]
    assert (prefix_words(swapped)[3:] != prefix_words(KEY)[3:]).all()


def swap_pages(memory: dict[tuple[int, str], Words]) -> None:
    view = memory[1, "v"]
    view[100:132] = np.concatenate((view[116:132], view[100:116]))


def stale_page(memory: dict[tuple[int, str], Words]) -> None:
    memory[1, "v"][116:132] = 0


def other_layer(memory: dict[tuple[int, str], Words]) -> None:
    memory[1, "v"][116:132] = memory[0, "v"][116:132]


def other_part(memory: dict[tuple[int, str], Words]) -> None:
    memory[1, "v"][116:132] = memory[1, "k"][116:132]


def other_rank(memory: dict[tuple[int, str], Words]) -> None:
    memory[1, "v"][116:132] = written(rank=2)[1][1, "v"][116:132]


def other_stage(memory: dict[tuple[int, str], Words]) -> None:
    memory[1, "v"][116:132] = written(first_layer=2)[1][3, "v"][116:132]


def other_prefix(memory: dict[tuple[int, str], Words]) -> None:
    key = np.concatenate((stream_tokens(8, PAGE), KEY[PAGE:]))  # the page is the same, what is before it is not
    memory[1, "v"][116:132] = prefix_words(key)[16:32] ^ np.uint64(salt(1, 1, 1))


def one_bit(memory: dict[tuple[int, str], Words]) -> None:
    memory[1, "v"][116] ^= np.uint64(1 << 40)


@pytest.mark.parametrize(
    "mistake",
    [swap_pages, stale_page, other_layer, other_part, other_rank, other_stage, other_prefix, one_bit],
    ids=lambda mistake: str(mistake.__name__),
)
def test_a_mistake_is_seen(mistake: Callable[[dict[tuple[int, str], Words]], None]) -> None:
    kv, memory = written()
    mistake(memory)
    token, slot = (0, 100) if mistake is swap_pages else (16, 116)
    with pytest.raises(AssertionError, match=f"rank 1, layer 1, v, token {token}, slot {slot}: ") as caught:
        check(kv)
    assert re.search(r"[0-9a-f]{16} where [0-9a-f]{16} belongs; \d+ of 96 tokens are wrong\nhint: ", str(caught.value))


def test_another_namespace_is_seen() -> None:
    kv, _ = written()
    with pytest.raises(AssertionError, match="96 of 96 tokens are wrong"):
        check(kv, prefix_words(KEY, namespace=1))
