"""Dynamic chunks of a prefill in a pipeline: by the leader's coefficients, whatever another rank has fitted."""

from dataclasses import replace
from typing import Any, Final

import pytest

from .engines import LOG, Engines
from .outcomes import sound, uncached
from .scenario import Scenario

pytestmark = pytest.mark.sglang

CHUNKED: Final[dict[str, Any]] = {"enable_dynamic_chunking": True}


@pytest.mark.parametrize("ranks", [{"pp": 2}, pytest.param({"tp": 2, "pp": 2}, marks=pytest.mark.slow)])
@pytest.mark.parametrize("l2", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_a_fit_of_another_ranks_own_does_not_count(
    engines: Engines, backend: str, ranks: dict[str, Any], l2: bool
) -> None:
    plain = Scenario(
        backend=backend, l2=l2, max_total_tokens=2048, turn_tokens=200, requests=16, chunked_prefill_size=256, **ranks
    )
    last = {"ISORADIX_TEST_CHUNKS": f"rank={plain.ranks - 1}"}
    outcome = sound(engines.run(replace(plain, engine_args=CHUNKED, environment=last)))
    log = LOG.read_text()
    assert log.count("dynamic chunks by the leader's coefficients: 0.001, 0.001 ms") == plain.ranks
    assert log.count("#new-token: 64,") >= 2 * plain.pp, "chunks shrink as their history grows"
    assert outcome.tokens == sound(engines.run(uncached(plain))).tokens
