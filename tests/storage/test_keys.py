"""Keys of pages: no two different tuples have one, and a change of anything is another."""

import hashlib
import struct
from dataclasses import fields, replace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isoradix import InputTypeError, InvalidInputError
from isoradix.storage import Fingerprint, PageKeys, SGLangKeys, Shard
from isoradix.storage.keys import encode

ABOUT = Fingerprint("org/model", "abc123", "bfloat16", "mha heads=8 head_dim=128", "layer", 4)
SHARD = Shard(0, 16, 1, 4)

values = st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=6))
texts = st.text(max_size=8)
pairs = st.tuples(st.none() | texts, st.none() | texts)
fingerprints = st.builds(Fingerprint, texts, texts, texts, texts, texts, st.integers(1, 1024), bigram=st.booleans())


@st.composite
def shards(draw: st.DrawFn) -> Shard:
    tp_size, cp_size = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    return Shard(
        draw(st.integers(0, 3)),
        draw(st.integers(1, 3)),
        draw(st.integers(0, tp_size - 1)),
        tp_size,
        draw(st.integers(0, cp_size - 1)),
        cp_size,
        replicated=draw(st.booleans()),
    )


@given(st.lists(values, max_size=5), st.lists(values, max_size=5))
def test_different_values_are_different_bytes(left: list[Any], right: list[Any]) -> None:
    same = [(type(value), value) for value in left] == [(type(value), value) for value in right]
    assert (encode(*left) == encode(*right)) == same


@given(fingerprints, pairs, shards(), fingerprints, pairs, shards())
def test_no_two_tuples_share_a_key(
    about: Fingerprint, pair: Any, shard: Shard, other: Fingerprint, other_pair: Any, other_shard: Shard
) -> None:
    left, right = PageKeys(about, shard), PageKeys(other, other_shard)
    assert (left.seed(pair) == right.seed(other_pair)) == ((about, pair) == (other, other_pair))
    token = [1] * 1025
    same = (about, pair, shard.parts) == (other, other_pair, other_shard.parts)
    assert (left.of(token, pair)[0] == right.of(token, other_pair)[0]) == same


@pytest.mark.parametrize("name", [each.name for each in fields(Fingerprint)])
def test_a_change_of_the_fingerprint_is_another_key(name: str) -> None:
    value = getattr(ABOUT, name)
    changed: Any = not value if isinstance(value, bool) else value + 1 if isinstance(value, int) else value + " "
    tokens = list(range(40))
    keys, others = PageKeys(ABOUT, SHARD).of(tokens), PageKeys(replace(ABOUT, **{name: changed}), SHARD).of(tokens)
    assert not set(keys) & set(others)


near = st.sampled_from([each.name for each in fields(Fingerprint)])
TEXTS = ("model", "revision", "dtype", "kv", "layout", "component")


@given(fingerprints, near, st.integers(1, 1024), texts)
def test_a_tuple_that_differs_in_one_field_has_another_key(
    about: Fingerprint, name: str, number: int, text: str
) -> None:
    changed: Any = {"page_size": number, "bigram": not about.bigram}.get(name, text)
    other = replace(about, **{name: changed})
    assert (PageKeys(about, SHARD).seed() == PageKeys(other, SHARD).seed()) == (about == other)


@given(st.tuples(*[texts] * len(TEXTS)), st.integers(0, len(TEXTS) - 2), st.integers(0, 8))
def test_text_that_moves_to_the_next_field_is_another_key(words: tuple[str, ...], place: int, length: int) -> None:
    """What stands in both is the same, one after another."""
    moved = list(words)
    whole = words[place] + words[place + 1]
    moved[place], moved[place + 1] = whole[:length], whole[length:]
    about, other = (replace(ABOUT, **cast(Any, dict(zip(TEXTS, each, strict=True)))) for each in (words, moved))
    assert (PageKeys(about, SHARD).seed() == PageKeys(other, SHARD).seed()) == (list(words) == moved)


OTHERS = {
    "first_layer": Shard(1, 16, 1, 4, 0, 2),
    "layers": Shard(0, 17, 1, 4, 0, 2),
    "tp_rank": Shard(0, 16, 2, 4, 0, 2),
    "tp_size": Shard(0, 16, 1, 8, 0, 2),
    "cp_rank": Shard(0, 16, 1, 4, 1, 2),
    "cp_size": Shard(0, 16, 1, 4, 0, 3),
    "replicated": Shard(0, 16, 1, 4, 0, 2, replicated=True),
}


def test_each_field_of_a_shard_is_tried() -> None:
    shard = Shard(0, 16, 1, 4, 0, 2)
    for name, other in OTHERS.items():
        assert other == replace(shard, **{name: getattr(other, name)}) != shard
    assert list(OTHERS) == [each.name for each in fields(Shard)]


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_shards_share_hashes_and_no_keys(other: Shard) -> None:
    shard = Shard(0, 16, 1, 4, 0, 2)
    keys, others = PageKeys(ABOUT, shard).of(range_of(16)), PageKeys(ABOUT, other).of(range_of(16))
    assert [key[:32] for key in keys] == [key[:32] for key in others]
    assert not set(keys) & set(others)
    assert all(len(key) == 64 for key in keys)


def test_ranks_with_equal_bytes_share_keys_and_one_writes() -> None:
    ranks = [Shard(0, 60, rank, 8, replicated=True) for rank in range(8)]
    keys = {tuple(PageKeys(ABOUT, shard).of(range_of(8))) for shard in ranks}
    assert len(keys) == 1
    assert keys == {tuple(PageKeys(ABOUT, Shard(0, 60, 3, 4, replicated=True)).of(range_of(8)))}
    assert [shard.writes for shard in ranks] == [True] + [False] * 7
    assert all(Shard(0, 60, rank, 8).writes for rank in range(8))


@given(st.lists(st.integers(0, 2**32 - 1), max_size=40), st.integers(0, 40), st.booleans())
def test_a_key_names_all_tokens_before_it(tokens: list[int], place: int, bigram: bool) -> None:
    make = PageKeys(replace(ABOUT, bigram=bigram), SHARD)
    keys = make.of(tokens)
    assert len(keys) == max(0, len(tokens) - bigram) // 4
    assert make.of(np.array(tokens, np.uint32)) == keys
    if place < len(tokens):
        changed = [*tokens[:place], tokens[place] ^ 1, *tokens[place + 1 :]]
        other = make.of(changed)
        first = max(0, place - bigram) // 4
        assert other[:first] == keys[:first]
        assert not set(other[first:]) & set(keys[first:])


@pytest.mark.parametrize("bigram", [False, True])
def test_a_long_key_goes_on(bigram: bool) -> None:
    make = PageKeys(replace(ABOUT, bigram=bigram), SHARD)
    tokens = list(range(100, 150))
    keys = make.of(tokens, ("lora", "tenant"))
    assert make.of(tokens[20:], previous=keys[4]) == keys[5:]
    with pytest.raises(InvalidInputError, match="of another shard"):
        PageKeys(ABOUT, Shard(0, 1)).of(tokens, previous=keys[4])


def test_namespaces_are_pairs() -> None:
    make = PageKeys(ABOUT, SHARD)
    pairs: list[Any] = [None, (None, ""), ("", None), ("ab", "c"), ("a", "bc"), ("ab", None), (None, "ab")]
    assert len({make.of(range_of(4), pair)[0] for pair in pairs}) == len(pairs)
    assert make.of(range_of(4), (None, None)) == make.of(range_of(4))


def test_the_chain_is_plain_sha256() -> None:
    make = PageKeys(ABOUT, SHARD)
    first = hashlib.sha256(make.seed() + struct.pack("<4I", 0, 1, 2, 3)).digest()
    second = hashlib.sha256(first + struct.pack("<4I", 4, 5, 6, 7)).digest()
    assert [key[:32] for key in make.of(range_of(9))] == [first, second]


def test_what_is_no_value_is_refused() -> None:
    with pytest.raises(InputTypeError, match="model is 3, expected str"):
        replace(ABOUT, model=3)  # type: ignore[arg-type]
    with pytest.raises(InputTypeError, match="page_size is True"):
        replace(ABOUT, page_size=True)
    with pytest.raises(InvalidInputError, match="page_size is 0"):
        replace(ABOUT, page_size=0)
    with pytest.raises(InvalidInputError, match="rank 4 of 4"):
        Shard(0, 1, 4, 4)
    with pytest.raises(InvalidInputError, match="0 layers"):
        Shard(0, 0)
    make = PageKeys(ABOUT, SHARD)
    with pytest.raises(InputTypeError, match="expected a pair"):
        make.of([1], ("a",))  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="no text"):
        make.of([1], ("\ud800", None))
    with pytest.raises(InvalidInputError, match="token"):
        make.of([1, -1])


def sglang_hash(tokens: list[int], previous: str | None) -> str:
    """As SGLang 0.5.23 hashes a page."""
    hasher = hashlib.sha256(bytes.fromhex(previous) if previous else b"")
    for token in tokens:
        hasher.update(token.to_bytes(4, "little"))
    return hasher.hexdigest()


def test_the_names_of_sglang() -> None:
    make = SGLangKeys("org/model", 4, tp_rank=1, tp_size=2)
    first = sglang_hash([0, 1, 2, 3], None)
    second = sglang_hash([4, 5, 6, 7], first)
    names = [f"{page}_org-model_1_2".encode() for page in (first, second)]
    assert make.of(range_of(10)) == names
    assert make.of(range_of(10)[4:], previous=names[0]) == names[1:]
    assert make.of(range_of(4), (None, None)) == names[:1]
    seed = hashlib.sha256(b"sglang-cache-namespace-v1\1\4\0\0\0\0\0\0\0lora\0").hexdigest()
    assert make.of(range_of(4), ("lora", None)) == [f"{sglang_hash([0, 1, 2, 3], seed)}_org-model_1_2".encode()]
    pairs: list[Any] = [None, (None, ""), ("", None), ("ab", "c"), ("a", "bc")]
    assert len({make.of(range_of(4), pair)[0] for pair in pairs}) == len(pairs)


@pytest.mark.parametrize(
    ("options", "suffix"),
    [
        ({}, "_m_0_1"),
        ({"mla": True, "tp_rank": 1, "tp_size": 2}, "_m"),
        ({"tp_size": 2, "pp_rank": 1, "pp_size": 4}, "_m_0_2_4_1"),
        ({"mla": True, "pp_rank": 2, "pp_size": 4}, "_m_4_2"),
        ({"pp_rank": 1, "pp_size": 2, "cp_rank": 1, "cp_size": 3}, "_m_0_1_2_1_cp1_3"),
    ],
)
def test_the_suffixes_of_sglang(options: dict[str, Any], suffix: str) -> None:
    make = SGLangKeys("m", 1, **options)
    assert make.of([5]) == [f"{sglang_hash([5], None)}{suffix}".encode()]
    assert make.writes == (not options.get("mla") or options.get("tp_rank", 0) == 0)


def range_of(count: int) -> list[int]:
    return list(range(count))
