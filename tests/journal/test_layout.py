"""The form of journals: what is written is read, and what is cut off or damaged is the end."""

from __future__ import annotations

import io
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.journal.rig import Domain, lone_cache

from isoradix import InvalidInputError, IsoradixError
from isoradix._isoradix import JournalLog
from isoradix.journal import layout
from isoradix.journal.layout import Ending, Kind
from isoradix.journal.reader import Journal, open_journal
from isoradix.journal.verbs import VERBS, CallReader, Verb

CACHE = lone_cache()
SEQUENCES = {CACHE.root: 0, **{node.handle: node.sequence for node in CACHE.walk()}}

_U64 = st.integers(0, 2**64 - 2)
_NODE = st.sampled_from(list(SEQUENCES))
_TEXT = st.none() | st.text(max_size=8).filter(lambda text: text.isprintable())
_BEGINNINGS = [list(range(100)), list(range(50)) + [7] * 50, [1, 2, 3]]


@st.composite
def keys(draw: st.DrawFn) -> Any:
    """Keys that have much in common, and some that have nothing."""
    beginning = draw(st.sampled_from([*_BEGINNINGS, []]))
    rest = draw(st.lists(st.integers(0, 2**32 - 1), max_size=6))
    tokens = beginning[: draw(st.integers(0, 100))] + rest
    dtype = draw(st.sampled_from([None, np.int64, "<u4"]))
    return tokens if dtype is None else np.array(tokens, dtype)


_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "key": keys(),
    "namespace": st.none() | st.tuples(_TEXT, _TEXT),
    "point": st.none() | st.tuples(_NODE, _U64),
    "anchor": st.none() | _NODE,
    "node": _NODE,
    "hold": _U64,
    "number": _U64,
    "signed": st.integers(-(2**63), 2**63 - 1),
    "slots": st.integers(0, 2**31),
}


@st.composite
def calls(draw: st.DrawFn) -> list[tuple[Verb, tuple[Any, ...]]]:
    verbs = draw(st.lists(st.sampled_from(list(VERBS.values())), max_size=12))
    return [(verb, tuple(draw(_VALUES[kind]) for _, kind in verb.arguments)) for verb in verbs]


def named(kind: str, value: Any) -> Any:
    """As a journal names it."""
    match kind:
        case "key":
            return list(value)
        case "namespace":
            return value or (None, None)
        case "point" if value is not None:
            return SEQUENCES[value[0]], value[1]
        case "node" | "anchor" if value is not None:
            return SEQUENCES[value]
        case _:
            return value


def encoded(log: JournalLog, verb: Verb, arguments: tuple[Any, ...]) -> bytes:
    size = log.call(CACHE, verb.code, verb.forms, arguments)
    block = log.take()
    assert block is not None
    assert len(block) == size
    calls = [data for kind, data in layout.entries(bytes(block)) if kind is Kind.CALL]
    (data,) = calls
    return data


@settings(max_examples=60, deadline=None, derandomize=True)
@given(calls())
def test_calls_are_read_as_they_were_written(given_calls: list[tuple[Verb, tuple[Any, ...]]]) -> None:
    log, reader = JournalLog(), CallReader()
    for verb, arguments in given_calls:
        read, values = reader.decode(encoded(log, verb, arguments))
        assert read is verb
        for (_, kind), value, written in zip(verb.arguments, values, arguments, strict=True):
            assert (value.tolist() if kind == "key" else value) == named(kind, written)


def test_a_damaged_call_is_no_call() -> None:
    """Each byte of some calls, with another value or missing: it is read as another call, or refused by ValueError."""
    verbs = [
        (VERBS["match_prefix"], ([1, 2, 70_000], ("lora", "ä"), (CACHE.root, 0))),
        (VERBS["insert"], ([1, 2], 2, None, -1, None)),
        (VERBS["prefetch"], ([1, 2], (None, "salt"), None)),
    ]
    for verb, arguments in verbs:
        data = encoded(JournalLog(), verb, arguments)
        for at in range(len(data)):
            with pytest.raises(ValueError, match=r"cut short|damaged|bytes that are no argument|is not known"):
                CallReader().decode(data[:at])
            for value in (0, 1, 5, 255):
                with suppress(ValueError):
                    CallReader().decode(data[:at] + bytes([value]) + data[at + 1 :])


def test_what_a_cache_decides_is_written_behind_its_call() -> None:
    cache, log = lone_cache(), JournalLog()
    cache.take_records()
    found = cache.match_prefix([1, 9])
    log.call(cache, 0, "knp", ([1, 9], None, None))
    cache.lock(found.node)
    log.decisions(cache)
    log.decisions(cache)
    entries = list(layout.entries(bytes(log.take() or b"")))
    assert [kind for kind, _ in entries] == [Kind.CALL, Kind.DECISIONS, Kind.DECISIONS]
    assert b"".join(data for kind, data in entries if kind is Kind.DECISIONS) == cache.journal_bytes()[-128:]
    assert log.take() is None


@pytest.mark.parametrize(
    ("forms", "arguments"),
    [("u", (-1,)), ("o", (12345,)), ("uu", (1,)), ("uk", (1, [1])), ("x", (1,)), ("n", (3,)), ("k", (["a"],))],
)
def test_what_cannot_be_written_leaves_nothing(forms: str, arguments: tuple[Any, ...]) -> None:
    log = JournalLog()
    with pytest.raises(IsoradixError):
        log.call(CACHE, 0, forms, arguments)
    assert log.take() is None


def test_the_same_key_takes_no_room_the_second_time() -> None:
    log, key, verb = JournalLog(), np.arange(10_000), VERBS["match_prefix"]
    first = encoded(log, verb, (key, None, None))
    second = encoded(log, verb, (key, None, None))
    longer = encoded(log, verb, (np.arange(10_100), None, None))
    other = encoded(log, verb, (np.concatenate((np.arange(5_000), [1] * 300)), None, None))
    assert [len(data) for data in (first, second, longer, other)] == [17_531, 31, 234, 740]
    log.forget()
    assert encoded(log, verb, (key, None, None)) == first


def test_a_caller_may_go_on_writing_to_its_key() -> None:
    log, reader = JournalLog(), CallReader()
    key = np.arange(64, dtype="<u4")
    verb = VERBS["match_prefix"]
    reader.decode(encoded(log, verb, (key, None, None)))
    key[63] = 0
    _, (read, _, _) = reader.decode(encoded(log, verb, (key, None, None)))
    assert read.tolist() == key.tolist()


def test_every_verb_has_a_code_of_its_own() -> None:
    assert len({verb.code for verb in VERBS.values()}) == len(VERBS)
    assert {kind for verb in VERBS.values() for _, kind in verb.arguments} == set(_VALUES)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A small journal of one rank, as bytes."""
    folder = tmp_path_factory.mktemp("journals")
    domain = Domain(folder, 1)
    (driver,) = (member.driver for member in domain.members)
    for key in ([1, 2, 3, 4], [1, 2, 3, 4, 5, 6, 7, 8]):
        with driver.step() as cache:
            found = cache.match_prefix(key)
            lock = cache.lock(found.node)
            cache.insert(key, driver.slots.alloc(len(key) - found.hit_tokens), resume=found)
            cache.unlock(lock)
        assert driver.journal is not None
        driver.journal.hand_over()
    domain.stop()
    (path,) = folder.glob("*/*.journal")
    return path.read_bytes()


def read(data: bytes, folder: Path) -> tuple[list[Any], str]:
    """What can be read of it, and how it ends."""
    path = folder / "rank-0000.000.journal"
    path.write_bytes(data)
    journal = Journal([path])
    return [repr(entry) for entry in journal.entries()], journal.ending


def blocks_of(data: bytes) -> tuple[list[bytes], Ending | None]:
    """The blocks that can be read, and what ends them early."""
    found: list[bytes] = []
    try:
        found.extend(layout.blocks(io.BytesIO(data), len(data)))
    except Ending as ending:
        return found, ending
    return found, None


def begins(data: bytes) -> list[int]:
    """Where its blocks begin, and where it ends."""
    stream, at = io.BytesIO(data), [layout.EMPTY_BYTES]
    at.extend(stream.tell() for _ in layout.blocks(stream, len(data)))
    return at


def test_a_journal_that_is_cut_off_anywhere_ends_there(written: bytes, tmp_path: Path) -> None:
    blocks, _ = blocks_of(written)
    begin = begins(written)
    assert len(blocks) == 4, "a head, and three steps"
    for size in range(len(written)):
        some, ending = blocks_of(written[:size])
        whole = sum(end <= size for end in begin[1:])
        assert some == blocks[:whole]
        if size in begin:
            assert ending is None
        else:
            assert ending is not None
            assert (ending.at, ending.damaged) == (max((at for at in begin if at < size), default=0), False)
    entries, ending_text = read(written, tmp_path)
    assert (ending_text, len(entries)) == ("", 31)
    for size in (*begin[2:], *range(begin[1], len(written), 61)):
        some_entries, how = read(written[:size], tmp_path)
        at = max(at for at in begin if at <= size)
        assert some_entries == entries[: len(some_entries)]
        assert how == ("" if size == at else f"rank-0000.000.journal is cut short at byte {at}")


def test_a_byte_that_is_wrong_is_the_end_of_what_is_read(written: bytes, tmp_path: Path) -> None:
    blocks, _ = blocks_of(written)
    begin = begins(written)
    entries, _ = read(written, tmp_path)
    for at in range(layout.EMPTY_BYTES, len(written)):
        damaged = bytearray(written)
        damaged[at] ^= 0x40
        some, ending = blocks_of(bytes(damaged))
        assert some == blocks[: sum(end <= at for end in begin[1:])]
        assert ending is not None
        if at % 61 == 0 and at >= begin[1]:
            some_entries, how = read(bytes(damaged), tmp_path)
            assert some_entries == entries[: len(some_entries)]
            assert how.startswith("rank-0000.000.journal is ")


@pytest.mark.parametrize(
    ("data", "named"),
    [
        (b"", "is cut short at byte 0, and has no head"),
        (b"IRXJ", "is cut short at byte 0, and has no head"),
        (b"#!/bin/sh\n" * 10, "it does not begin as a journal does"),
        (layout.MAGIC + (9).to_bytes(4, "little"), "version 9, and this release reads version 2"),
        (layout.mark() + layout.block(layout.entry(Kind.CALL, b"\x0e")), "it has no head"),
        (layout.mark() + layout.block(layout.entry(Kind.HEAD, layout.head({"rank": 1}))), "it has no head"),
    ],
)
def test_what_is_no_journal_is_refused(data: bytes, named: str, tmp_path: Path) -> None:
    path = tmp_path / "rank-0000.000.journal"
    path.write_bytes(data)
    with pytest.raises(InvalidInputError) as caught:
        open_journal(path)
    assert named in str(caught.value)
    assert "\nhint: " in str(caught.value)


def test_entries_of_a_later_release_are_the_end(written: bytes, tmp_path: Path) -> None:
    strange = layout.block(layout.entry(Kind.CALL, b"\xc8"))
    _, how = read(written + strange, tmp_path)
    assert how == f"rank-0000.000.journal is damaged at byte {len(written)}; what follows is not read"


def test_the_head_says_what_the_rank_was(written: bytes, tmp_path: Path) -> None:
    path = tmp_path / "rank-0000.000.journal"
    path.write_bytes(written)
    head = open_journal(path).head
    assert (head["rank"], head["members"], head["segment"], head["step"]) == (0, [0], 0, 1)
    assert head["options"]["policy"] == "lru"
    assert json.dumps(head)


def test_an_ending_says_where() -> None:
    assert str(Ending(7, False)) == "cut short at byte 7"
