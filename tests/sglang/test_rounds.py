"""Conversations of seven rounds that a real server's device cannot hold: see rounds.py."""

from pathlib import Path

import pytest

from .engines import Engines
from .outcomes import sound
from .rounds import hit_rates, scenario

pytestmark = [pytest.mark.sglang, pytest.mark.slow]


def test_lower_tiers_keep_what_the_device_cannot(engines: Engines, backend: str, tmp_path: Path) -> None:
    asked = [scenario(tiers, tmp_path, backend) for tiers in ("l1", "l3")]
    alone, all_tiers = (hit_rates(one, sound(engines.run(one))) for one in asked)
    print("device alone", [round(rate, 2) for rate in alone], "all tiers", [round(rate, 2) for rate in all_tiers])
    assert max(alone[3:]) < 0.35
    assert min(all_tiers[3:]) > 0.70
