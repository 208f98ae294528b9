"""What is switched off in a server, to find out whose fault something is, changes no token."""

from dataclasses import replace

import pytest

from .engines import Engines
from .outcomes import sound, uncached
from .scenario import Outcome, Scenario

pytestmark = pytest.mark.sglang


def switched(engines: Engines, backend: str, **environment: str) -> Outcome:
    plain = Scenario(backend=backend, tp=2, l2=True)
    outcome = sound(engines.run(replace(plain, environment=environment)))
    assert outcome.tokens == sound(engines.run(uncached(plain))).tokens
    assert outcome.cached_by_tier["device"] > 0
    return outcome


def test_without_lower_tiers_host_memory_is_left_alone(engines: Engines, backend: str) -> None:
    assert switched(engines, backend).cached_by_tier["host"] > 0, "it would have been used"
    assert switched(engines, backend, ISORADIX_TIERS="l1").cached_by_tier["host"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["observe", "off"])
def test_another_mode_serves_alike(engines: Engines, backend: str, mode: str) -> None:
    outcome = switched(engines, backend, ISORADIX_MODE=mode)
    assert outcome.cached_by_tier == switched(engines, backend).cached_by_tier
