"""Digests and journal: equal for equal histories, different as soon as an input differs."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

import pytest

import isoradix
from isoradix import PrefixCache

MASK = (1 << 64) - 1
POLICIES = [
    "lru",
    "lfu",
    "fifo",
    "mru",
    "filo",
    "priority",
    "slru",
    "tlru:6,2",
    lambda facts: (facts.length, facts.seq),
]

Call = tuple[str, tuple[Any, ...], dict[str, Any]]


def call(verb: str, *args: Any, **named: Any) -> Call:
    return verb, args, named


# One of each verb. Nodes are numbered by creation, receipts by call; `play` looks them up.
HISTORY: list[Call] = [
    call("insert", [1, 2, 3, 4], [10, 11, 12, 13]),
    call("insert", [1, 2, 5, 6], [20, 21, 22, 23], ("lora", None), priority=2),
    call("advance_step"),
    call("insert", [1, 2, 7, 8], [30, 31, 32, 33], priority=1),
    call("match_prefix", [1, 2, 3, 9]),
    call("touch", 2),
    call("lock", 3),
    call("pin", 1),
    call("advance_step", 7),
    call("insert", [9, 9, 9, 9], [40, 41, 42, 43]),
    call("evict", 2),
    call("unlock", 0),
    call("unpin", 1),
    call("insert", [1, 2, 3], [50, 51, 52]),
    call("remove_namespace", ("lora", None)),
]


def play(history: Sequence[Call], **options: Any) -> PrefixCache:
    cache = PrefixCache(**options)
    receipts: list[int] = []
    for verb, args, named in history:
        if verb in ("touch", "lock", "pin"):
            args = (next(info.handle for info in cache.walk() if info.sequence == args[0]),)
        if verb in ("unlock", "unpin"):
            args = (receipts[args[0]],)
        answer = getattr(cache, verb)(*args, **named)
        if verb in ("lock", "pin"):
            receipts.append(answer)
    return cache


def evidence(cache: PrefixCache) -> tuple[int, int, bytes, tuple[int, int]]:
    return cache.decision_digest, cache.tree_digest, cache.journal_bytes(), cache.clock


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy if isinstance(policy, str) else "callable")
def test_equal_histories_have_equal_evidence(policy: Any) -> None:
    one, other = (play(HISTORY, policy=policy) for _ in range(2))
    assert evidence(one) == evidence(other)
    assert one.journal() == other.journal()


def changed(index: int, verb: str, *args: Any, **named: Any) -> list[Call]:
    """The history with the call at `index` replaced by another of the same verb."""
    assert HISTORY[index][0] == verb
    return [*HISTORY[:index], call(verb, *args, **named), *HISTORY[index + 1 :]]


OTHER_HISTORIES = {
    "a token": changed(0, "insert", [1, 2, 3, 5], [10, 11, 12, 13]),
    "a token in a tail": changed(9, "insert", [9, 9, 9, 8], [40, 41, 42, 43]),
    "one token more": changed(9, "insert", [9, 9, 9, 9, 9], [40, 41, 42, 43, 44]),
    "a namespace": changed(0, "insert", [1, 2, 3, 4], [10, 11, 12, 13], (None, "lora")),
    "the side of a name": changed(1, "insert", [1, 2, 5, 6], [20, 21, 22, 23], (None, "lora"), priority=2),
    "an empty salt": changed(1, "insert", [1, 2, 5, 6], [20, 21, 22, 23], ("lora", ""), priority=2),
    "a priority": changed(3, "insert", [1, 2, 7, 8], [30, 31, 32, 33], priority=3),
    "the depth of a match": changed(4, "match_prefix", [1, 2, 4, 9]),
    "the length of a key": changed(4, "match_prefix", [1, 2, 3, 9, 9]),
    "the namespace of a match": changed(4, "match_prefix", [1, 2, 3, 9], ("lora", None)),
    "a step": changed(8, "advance_step", 8),
    "a touched node": changed(5, "touch", 1),
    "a locked node": changed(6, "lock", 1),
    "a pinned node": changed(7, "pin", 3),
    "the size of an eviction": changed(10, "evict", 1),
    "a removed namespace": changed(14, "remove_namespace", ("nobody", None)),
    "an order": [HISTORY[1], HISTORY[0], *HISTORY[2:]],
    "a lost call": HISTORY[:-2] + HISTORY[-1:],
    "a call twice": [*HISTORY, HISTORY[-1]],
    "a match for a touch": [*HISTORY[:5], call("match_prefix", [1, 2, 3, 4]), *HISTORY[6:]],
}


@pytest.mark.parametrize("history", OTHER_HISTORIES.values(), ids=OTHER_HISTORIES)
def test_any_other_input_gives_another_digest(history: list[Call]) -> None:
    assert play(history).decision_digest != play(HISTORY).decision_digest


@pytest.mark.parametrize(
    "options", [{"page_size": 2}, {"policy": "lfu"}, {"policy": "slru:3"}, {"bigram": True}], ids=str
)
def test_other_settings_give_another_digest(options: dict[str, Any]) -> None:
    assert PrefixCache(**options).decision_digest != PrefixCache().decision_digest


def test_all_these_digests_differ() -> None:
    digests = [play(history).decision_digest for history in [HISTORY, *OTHER_HISTORIES.values()]]
    assert len(set(digests)) == len(digests)


def test_slots_are_not_in_the_digests() -> None:
    """Slot numbers are PerRank: ranks that agree may have other ones."""
    moved = [
        (verb, (args[0], [slot + 1000 for slot in args[1]], *args[2:]) if verb == "insert" else args, named)
        for verb, args, named in HISTORY
    ]
    one, other = play(HISTORY), play(moved)
    assert one.slots(next(one.walk()).handle).tolist() != other.slots(next(other.walk()).handle).tolist()
    assert evidence(one) == evidence(other)


def test_the_bounds_of_the_journal_are_not_in_the_digests() -> None:
    caches = [play(HISTORY, journal_records=records, kv_events=records == 5) for records in (0, 1, 5, 4096)]
    assert len({cache.decision_digest for cache in caches}) == 1
    assert len({cache.tree_digest for cache in caches}) == 1


LOOKS: list[Callable[[PrefixCache], object]] = [
    lambda cache: cache.probe([1, 2, 3, 9]),
    lambda cache: cache.probe([1], ("lora", None)),
    lambda cache: [(cache.node(i.handle), cache.slots(i.handle), cache.node_tokens(i.handle)) for i in cache.walk()],
    lambda cache: cache.dfs_weight_order([info.handle for info in cache.walk()]),
    lambda cache: (cache.namespaces(), cache.namespace_size(("lora", None)), cache.memory_bytes(), repr(cache)),
    lambda cache: (cache.journal(), cache.journal_bytes(), cache.take_events()),
    lambda cache: cache.check(),
]


@pytest.mark.parametrize("look", LOOKS)
def test_looking_changes_no_evidence(look: Callable[[PrefixCache], object]) -> None:
    cache = play(HISTORY)
    before = evidence(cache)
    look(cache)
    assert evidence(cache) == before


REFUSED: dict[str, Callable[[Any], object]] = {
    "token": lambda cache: cache.match_prefix([1, 2, -1]),
    "late token": lambda cache: cache.insert([1, 2, 3, 2**32], [0] * 4),
    "slot": lambda cache: cache.insert([5, 5], [0, 2**31]),
    "slot count": lambda cache: cache.insert([1, 2, 3, 4, 5], [0] * 4),
    "type": lambda cache: cache.match_prefix([1.5]),
    "handle": lambda cache: cache.touch(2**40 + 7),
    "resume": lambda cache: cache.match_prefix([1, 2], resume=(cache.root, 1)),
    "receipt": lambda cache: cache.unlock(2**62),
    "step": lambda cache: cache.advance_step(cache.clock[0]),
    "amount": lambda cache: cache.evict(-1),
    "held": lambda cache: cache.remove_namespace(("kept", None)),
}


@pytest.mark.parametrize("refused", REFUSED.values(), ids=REFUSED)
def test_a_refused_call_changes_no_evidence(refused: Callable[[PrefixCache], object]) -> None:
    cache = play(HISTORY)
    cache.lock(cache.insert([3, 1], [60, 61], ("kept", None)).node)
    before = evidence(cache)
    with pytest.raises(isoradix.IsoradixError):
        refused(cache)
    assert evidence(cache) == before
    cache.check()


def test_the_tree_digest_is_that_of_the_tree() -> None:
    cache = PrefixCache()
    empty = cache.tree_digest
    cache.insert([1, 2, 3, 4], [0, 1, 2, 3])
    whole = cache.tree_digest
    cache.match_prefix([1, 2, 3, 4])
    cache.touch(next(cache.walk()).handle)
    cache.advance_step()
    assert cache.tree_digest == whole != empty, "stamps are not in it"
    cache.match_prefix([1, 2])
    assert cache.tree_digest not in (whole, empty), "a split is"
    cache.evict(4)
    assert cache.tree_digest == empty
    cache.insert([1, 2], [0, 1])
    cache.reset()
    assert cache.tree_digest == empty


def test_the_decision_digest_survives_a_reset() -> None:
    cache = play(HISTORY)
    before, clock = cache.decision_digest, cache.clock
    cache.reset()
    assert cache.decision_digest != before
    assert cache.clock > clock
    assert cache.decision_digest != PrefixCache().decision_digest


# -- journal


RECORD = struct.Struct("<8Q")


@pytest.mark.parametrize("bound", [0, 1, 2, 7, 4096])
def test_the_journal_keeps_the_last_records(bound: int) -> None:
    whole = play(HISTORY).journal()
    cache = play(HISTORY, journal_records=bound)
    assert cache.journal() == whole[len(whole) - min(bound, len(whole)) :]
    assert len(cache.journal_bytes()) == 64 * len(cache.journal())


def test_the_bytes_of_a_record_are_little_endian_words() -> None:
    cache = play(HISTORY)
    records, data = cache.journal(), cache.journal_bytes()
    for record, (step, seq, kind, node, a, b, content, digest) in zip(records, RECORD.iter_unpack(data), strict=True):
        assert (record.step, record.seq, record.node) == (step, seq, node)
        assert (record.a, record.b, record.content, record.digest) == (a, b, content, digest)
        assert (KINDS[kind & 0xFF], kind >> 8) == (record.kind, record.resumed)
    assert records[-1].digest == cache.decision_digest
    assert [record.seq for record in records] == sorted({record.seq for record in records})


KINDS = [
    "start",
    "match",
    "insert",
    "lock",
    "unlock",
    "pin",
    "unpin",
    "evict",
    "evicted",
    "touch",
    "remove_namespace",
    "reset",
    "step",
]


def test_the_journal_tells_what_was_decided() -> None:
    cache = play(HISTORY)
    cache.reset()
    told = [record for record in cache.journal() if record.kind != "start"]
    verbs = {"match": "match_prefix", "step": "advance_step"}
    calls = [verbs.get(record.kind, record.kind) for record in told if record.kind != "evict"]
    assert calls == [verb if verb != "evict" else "evicted" for verb, _, _ in HISTORY] + ["reset"]
    assert {record.kind for record in cache.journal()} == set(KINDS)
    insert = told[0]
    assert (insert.step, insert.node, insert.a, insert.b) == (0, 1, 0, 4)
    match = next(record for record in told if record.kind == "match")
    assert (match.step, match.a, match.b) == (1, 3, 4), "three of four tokens hit, in step 1"
    victim = next(record for record in told if record.kind == "evict")
    asked = next(record for record in told if record.kind == "evicted")
    assert victim.a == asked.b
    assert asked.a == 2


def test_a_resumed_call_says_from_where() -> None:
    """It decides otherwise than a call from the top, on hits, so its record differs."""
    digests, uppers = [], []
    for resumed in (False, True):
        cache = PrefixCache()
        first = cache.insert([1, 2], [0, 1])
        if resumed:
            cache.insert([1, 2, 3], [2], resume=first)
        else:
            cache.insert([1, 2, 3], [0, 1, 2])
        digests.append(cache.decision_digest)
        uppers.append(RECORD.unpack(cache.journal_bytes()[-64:])[2] >> 8)
        assert cache.journal()[-1].resumed == uppers[-1]
        assert f"kind='insert', resumed={uppers[-1]}, " in repr(cache.journal()[-1])
    assert digests[0] != digests[1]
    assert uppers == [0, 2]


def fold(a: int, b: int) -> int:
    wide = a * b
    return ((wide & MASK) ^ (wide >> 64)) + (rotated(a, 23) ^ rotated(b, 41)) & MASK


def mix(a: int, b: int) -> int:
    return fold(a ^ 0xA0761D6478BD642F, b ^ 0xE7037ED1A0B428DB)


def rotated(word: int, by: int) -> int:
    return (word << by | word >> (64 - by)) & MASK


def test_the_chain_can_be_followed_from_the_records() -> None:
    """What a reader of a streamed journal does, with nothing but the bytes."""
    data = play(HISTORY).journal_bytes()
    chained = 0
    for step, seq, kind, node, a, b, content, digest in RECORD.iter_unpack(data):
        body = mix(step, seq) ^ rotated(mix(kind, node), 17) ^ rotated(mix(a, b), 34) ^ rotated(mix(content, node), 51)
        chained = mix(chained, body)
        assert chained == digest


def test_equal_histories_give_equal_events_and_none_unless_asked() -> None:
    one, other = (play(HISTORY, kv_events=True).take_events() for _ in range(2))
    assert one == other
    assert one
    assert play(HISTORY).take_events() == []


def test_equal_inserts_below_different_parents_are_different_decisions() -> None:
    def grown(under: int) -> PrefixCache:
        cache = PrefixCache()
        cache.insert([1, 1], [0, 1])
        cache.insert([2, 2], [2, 3])
        cache.insert([under, under, 7], [0, 1, 9])
        return cache

    assert grown(1).decision_digest != grown(2).decision_digest
    pairs = [PrefixCache(bigram=True), PrefixCache(bigram=True)]
    for first, cache in enumerate(pairs):
        cache.insert([first, 5], [0])
    assert pairs[0].decision_digest != pairs[1].decision_digest
