"""The built-in workloads: the same requests for a seed everywhere, in the documented shapes; and the replay itself."""

import hashlib
from itertools import islice

import numpy as np
import pytest

from isoradix import InvalidInputError
from isoradix.replay.blocks import Tokens
from isoradix.replay.draws import Draws, Zipf
from isoradix.replay.runner import ReplayConfig, Replayer
from isoradix.replay.source import WorkloadSource
from isoradix.replay.workloads import WORKLOADS, generate


def digest(kind: str, seed: int, count: int) -> str:
    running = hashlib.sha256()
    for prompt in islice(generate(kind, seed), count):
        running.update(len(prompt).to_bytes(8, "little"))
        running.update(prompt.astype("<u4").tobytes())
    return running.hexdigest()[:12]


@pytest.mark.parametrize(
    ("kind", "seed", "expected"),
    [
        ("chat", 0, "1d768893f060"),
        ("chat", 1, "dd0dda3b0677"),
        ("agent", 0, "62f5b1020a5c"),
        ("rag", 0, "91a5c24e1d43"),
    ],
)
def test_a_seed_gives_the_same_requests_everywhere(kind: str, seed: int, expected: str) -> None:
    assert digest(kind, seed, 200) == expected


@pytest.mark.parametrize("kind", WORKLOADS)
def test_a_source_can_be_read_again(kind: str) -> None:
    source = WorkloadSource(kind, 50, 3)
    assert source.total == 50
    first, second = list(source), list(source)
    assert len(first) == 50
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))
    assert {prompt.dtype for prompt in first} == {np.dtype(np.uint32)}


def shared(one: Tokens, other: Tokens) -> int:
    """Length of the common prefix."""
    length = min(len(one), len(other))
    different = np.flatnonzero(one[:length] != other[:length])
    return int(different[0]) if len(different) else length


def test_seeds_and_kinds_share_no_tokens_by_accident() -> None:
    heads = [next(generate(kind, seed))[:64] for kind in ("chat", "agent") for seed in range(4)]
    for index, head in enumerate(heads):
        # equal seeds number their token runs alike, so only different seeds are compared
        assert all(shared(head, other) < 4 for place, other in enumerate(heads) if place % 4 != index % 4)


def test_chat_has_eight_system_prompts_and_growing_conversations() -> None:
    prompts = list(islice(generate("chat", 5), 600))
    assert len({prompt[:200].tobytes() for prompt in prompts}) <= 8
    assert all(256 + 4 <= len(prompt) <= 32_768 + 2048 for prompt in prompts)
    grown = sum(any(shared(prompt, old) == len(old) for old in prompts[:i]) for i, prompt in enumerate(prompts[:150]))
    assert grown > 75


def test_agent_contexts_are_long_and_bounded() -> None:
    lengths = [len(prompt) for prompt in islice(generate("agent", 2), 1500)]
    assert min(lengths) >= 4096 + 16
    assert max(lengths) <= 65_536 + 16_384
    assert np.median(lengths) > 10_000


def test_rag_requests_share_the_instruction_and_popular_documents() -> None:
    prompts = list(islice(generate("rag", 2), 400))
    assert len({prompt[:400].tobytes() for prompt in prompts}) == 1
    assert all(400 + 64 + 16 <= len(prompt) <= 400 + 6 * 6144 + 256 for prompt in prompts)
    assert len({prompt[:464].tobytes() for prompt in prompts}) < len(prompts) * 0.9


def test_draws_follow_their_distributions() -> None:
    draws = Draws(11)
    lengths = [draws.lognormal(300, 1.0, 16, 10_000) for _ in range(4000)]
    assert 270 < np.median(lengths) < 330
    assert min(lengths) >= 16
    assert abs(np.mean([draws.geometric(0.02) for _ in range(4000)]) - 49) < 4
    assert {draws.integer(3, 5) for _ in range(200)} == {3, 4, 5}
    ranks = np.bincount([draws.pick(Zipf(4, 1.0)) for _ in range(4000)], minlength=4) / 4000
    assert np.allclose(ranks, np.array([12, 6, 4, 3]) / 25, atol=0.04)


@pytest.mark.parametrize("policy", ["lru", "lfu", "slru:2", "tlru:4096,512"])
def test_a_replay_accounts_for_every_token(policy: str) -> None:
    replayer = Replayer(ReplayConfig(page_size=16, capacity=30_010, policy=policy))
    result = replayer.run(WorkloadSource("chat", 400, 1))
    assert result.requests + result.skipped == 400
    assert result.config.usable_capacity == 30_000
    assert replayer.cache.total_size == result.series.used[-1] <= 30_000
    cached = result.tokens - result.hit_tokens - result.evicted_tokens
    assert replayer.cache.total_size == cached
    assert replayer.pool.available + replayer.cache.total_size == replayer.pool.total
    assert replayer.cache.protected_size == 0
    replayer.cache.check(replayer.pool)
    operations = result.operations()
    assert {operations[name].count for name in ("match", "slots", "lock", "insert", "unlock")} == {result.requests}
    assert operations["evict"].count > 0


def test_resumed_inserts_give_the_same_hits_under_lru() -> None:
    plain, resumed = (
        Replayer(ReplayConfig(page_size=16, capacity=60_000, resume=resume)).run(WorkloadSource("agent", 150, 1))
        for resume in (False, True)
    )
    assert plain.hitseq == resumed.hitseq
    assert plain.evicted_tokens == resumed.evicted_tokens > 0


def test_a_request_longer_than_the_capacity_is_served_and_not_cached() -> None:
    tokens = np.arange(1000, dtype=np.uint32)
    replayer = Replayer(ReplayConfig(page_size=64, capacity=400))
    result = replayer.run([tokens[:320], tokens, tokens[:320], tokens[:63]])
    assert result.series.hits.tolist() == [0, 320, 320]
    assert (result.requests, result.uncached, result.skipped) == (3, 1, 1)
    assert result.evicted_tokens == 0
    replayer.cache.check(replayer.pool)


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="hint: "):
        Replayer(ReplayConfig(page_size=64, capacity=400, policy="lruu"))


def test_progress_ends_at_the_number_of_requests() -> None:
    heard: list[int] = []
    Replayer(ReplayConfig(page_size=64, capacity=100_000)).run(WorkloadSource("rag", 150, 0), heard.append)
    assert heard == [64, 128, 150]
