"""What lower tiers are worth to a real server: conversations of seven rounds that its device cannot hold."""

import json
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from .engines import Engines
from .outcomes import sound
from .scenario import Outcome, Scenario, waves

pytestmark = [pytest.mark.sglang, pytest.mark.slow]

ROUNDS: Final = 7
CONVERSATIONS: Final = 16
ASKED: Final = {"requests": CONVERSATIONS * ROUNDS, "turns": ROUNDS, "concurrency": 2, "max_total_tokens": 1024}


def hit_rates(asked: Scenario, outcome: Outcome) -> list[float]:
    """Share of the prompts' tokens that was cached, round by round."""
    said: Counter[int] = Counter()
    prompts: list[int] = []
    for wave in waves(asked):
        for turn in wave:
            said[turn.conversation] += len(turn.tokens)
            prompts.append(said[turn.conversation])
            said[turn.conversation] += asked.new_tokens
    rounds = [slice(CONVERSATIONS * turn, CONVERSATIONS * (turn + 1)) for turn in range(ROUNDS)]
    return [sum(outcome.cached[turn]) / sum(prompts[turn]) for turn in rounds]


def test_lower_tiers_keep_what_the_device_cannot(engines: Engines, backend: str, tmp_path: Path) -> None:
    device = Scenario(backend=backend, **ASKED)  # type: ignore[arg-type]
    flags = {
        "hicache_storage_prefetch_policy": "wait_complete",
        "hicache_storage_backend_extra_config": json.dumps({"prefetch_threshold": 16}),
    }
    environment = {"ISORADIX_STORAGE": tmp_path.as_uri()}
    tiers = Scenario(backend=backend, l2=True, host_ratio=2.0, environment=environment, engine_args=flags, **ASKED)  # type: ignore[arg-type]
    alone, all_tiers = (hit_rates(asked, sound(engines.run(asked))) for asked in (device, tiers))
    print("device alone", [round(rate, 2) for rate in alone], "all tiers", [round(rate, 2) for rate in all_tiers])
    assert max(alone[3:]) < 0.35
    assert min(all_tiers[3:]) > 0.70
