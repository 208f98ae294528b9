"""The Mooncake reader, the expansion of hash ids, and replays of the published trace where it is present."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from isoradix.replay.blocks import BLOCK_TOKENS, BlockTable, expand
from isoradix.replay.runner import ReplayConfig, Replayer
from isoradix.replay.source import TraceSource
from isoradix.replay.trace import TraceError, count_requests, read_trace

if TYPE_CHECKING:
    from .conftest import Answer

GOOD = '{"timestamp": 5, "input_length": 700, "output_length": 3, "hash_ids": [4, 9]}'
NEAR = Path(__file__).resolve().parents[2] / "shared/traces/mooncake_conversation_trace.jsonl"
CONVERSATION = Path(os.environ.get("ISORADIX_TRACE", NEAR))
needs_the_trace = pytest.mark.skipif(not CONVERSATION.exists(), reason="the published trace is not here")


def write(folder: Path, *lines: str) -> Path:
    path = folder / "trace.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def reference_block(hash_id: int) -> list[int]:
    """The expansion in plain integers."""
    tokens = []
    for index in range(BLOCK_TOKENS):
        mixed = (index + hash_id * 512 + 1) * 0x9E3779B97F4A7C15 % 2**64
        mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        tokens.append((mixed ^ mixed >> 27) % 151936)
    return tokens


@pytest.mark.parametrize("hash_id", [0, 1, 182_789, 2**40 + 7, 2**63 - 1])
def test_a_block_expands_as_in_plain_integers(hash_id: int) -> None:
    assert expand(np.array([hash_id], dtype=np.uint64))[0].tolist() == reference_block(hash_id)


def test_a_prompt_is_its_blocks_cut_to_its_length() -> None:
    table = BlockTable()
    expected = reference_block(4) + reference_block(9)
    assert table.tokens([4, 9], 700).tolist() == expected[:700]
    assert table.tokens([4, 9, 4], 1500).tolist() == (expected + reference_block(4))[:1500]
    assert table.tokens([], 0).tolist() == []


def test_blocks_past_the_length_are_not_expanded() -> None:
    table = BlockTable()
    assert table.tokens([0] * 10**6, 1).tolist() == reference_block(0)[:1]
    assert table.tokens(range(9), 512).tolist() == reference_block(0)
    assert len(table) == 1


def test_the_table_stays_bounded_and_right() -> None:
    table = BlockTable(limit_bytes=4 * BLOCK_TOKENS * 4)
    rng = np.random.default_rng(3)
    for _ in range(200):
        ids = rng.integers(0, 9, int(rng.integers(1, 7))).tolist()
        got = table.tokens(ids, len(ids) * BLOCK_TOKENS)
        assert np.array_equal(got, expand(np.array(ids, dtype=np.uint64)).ravel())
        assert len(table) <= 4


def test_requests_come_in_order_and_blank_lines_do_not_count(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD, "", "  ", '{"input_length": 0, "hash_ids": [], "more": 1}', "")
    requests = list(read_trace(path))
    assert [(request.input_length, request.hash_ids) for request in requests] == [(700, [4, 9]), (0, [])]
    assert requests[0].timestamp == 5
    assert requests[0].output_length == 3
    assert count_requests(path) == 2
    assert len(list(read_trace(path, limit=1))) == 1
    assert TraceSource(path, 1).total == 1
    assert [len(prompt) for prompt in TraceSource(path)] == [700, 0]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (GOOD[:40], "cut off"),
        (GOOD[:-1], "cut off"),
        ("hello", "not json"),
        ("[1, 2]", "expected `object`"),
        ('{"input_length": 512}', "hash_ids"),
        ('{"hash_ids": [1]}', "input_length"),
        ('{"input_length": "512", "hash_ids": [1]}', "expected `int`"),
        ('{"input_length": 51.5, "hash_ids": [1]}', "expected `int`"),
        ('{"input_length": -1, "hash_ids": []}', ">= 0"),
        ('{"input_length": 512, "hash_ids": [-1]}', ">= 0"),
        ('{"input_length": 512, "hash_ids": ["a"]}', "expected `int`"),
        ('{"input_length": 512, "hash_ids": [18446744073709551616]}', "hash_ids"),
        ('{"input_length": 512, "hash_ids": [36028797018963968]}', "a hash id is too large"),
        pytest.param('{"x": ' + "[" * 100_000 + "]" * 100_000 + "}", "nested too deeply", id="deep"),
        ('{"input_length": 513, "hash_ids": [1]}', "takes 2 hash_ids, the line has 1"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: str, reason: str) -> None:
    requests = read_trace(write(tmp_path, GOOD, "", line, GOOD))
    next(requests)
    with pytest.raises(TraceError, match=r"line 3: ") as caught:
        next(requests)
    assert caught.value.line == 3
    assert reason in caught.value.reason
    assert "\nhint: " in str(caught.value)


def test_bytes_that_are_no_text_are_named(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_bytes(GOOD.encode() + b"\n\xff\xfe\x00\n")
    with pytest.raises(TraceError, match="line 2"):
        list(read_trace(path))


def test_a_byte_order_mark_is_named(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text(GOOD, encoding="utf-8-sig")
    with pytest.raises(TraceError, match=r"line 1: (.|\n)*byte order mark"):
        list(read_trace(path))


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    for path, reason in ((tmp_path / "absent", "no such file"), (tmp_path, "directory")):
        with pytest.raises(TraceError, match=reason) as caught:
            list(read_trace(path))
        assert caught.value.line is None
        with pytest.raises(TraceError, match=reason):
            count_requests(path)


def test_an_empty_file_is_no_trace(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no request"):
        list(read_trace(write(tmp_path, "")))


@needs_the_trace
@pytest.mark.parametrize(
    ("page_size", "limit", "requests", "hitseq"),
    [
        (64, 3000, 3000, "5eef936c9135"),
        (16, 1500, 1500, "99693fa8a466"),
        (64, None, 12_031, "9d1057909e13"),
        (1, None, 12_031, "4c6aa6b8e744"),
    ],
)
def test_the_published_trace_gives_the_known_hits(
    page_size: int, limit: int | None, requests: int, hitseq: str
) -> None:
    replayer = Replayer(ReplayConfig(page_size=page_size, capacity=4_000_000))
    result = replayer.run(TraceSource(CONVERSATION, limit))
    assert result.hitseq == hitseq
    assert result.requests == requests
    assert result.skipped == result.uncached == 0
    replayer.cache.check(replayer.pool)


@needs_the_trace
def test_the_command_gives_the_known_hit_rate_of_the_published_trace(answer: Answer) -> None:
    code, out, err = answer("replay", CONVERSATION, "--page-size", 64, "--capacity", 4_000_000, "--json")
    assert code == 0, err
    document = json.loads(out)
    assert (document["requests"], document["hit_rate"], document["check"]) == (12_031, 0.1796, "ok")
    assert document["hitseq"] == "9d1057909e13"
