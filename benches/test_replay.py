"""A replay of built-in conversations: what an embedding scheduler pays for each request."""

from typing import Any

import pytest

from isoradix.replay.runner import ReplayConfig, Replayer, ReplayResult
from isoradix.replay.source import WorkloadSource

REQUESTS = 500


@pytest.mark.parametrize("page_size", [1, 16, 64])
@pytest.mark.parametrize("resume", [False, True], ids=["whole keys", "resumed"])
def test_replay(benchmark: Any, page_size: int, resume: bool) -> None:
    prompts = list(WorkloadSource("chat", REQUESTS, seed=1))
    config = ReplayConfig(page_size=page_size, capacity=500_000, resume=resume)

    def replay() -> ReplayResult:
        return Replayer(config).run(prompts)

    result = benchmark.pedantic(replay, rounds=3, warmup_rounds=1)
    assert result.requests == REQUESTS
