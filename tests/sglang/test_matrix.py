"""The scenarios cover what they say: each pair that a server allows, each value three times."""

from collections import Counter
from itertools import combinations, product

import pytest

from . import matrix

pytestmark = pytest.mark.sglang


def test_every_pair_meets() -> None:
    allowed = [row for row in product(*matrix.SETTINGS.values()) if matrix.possible(row)]
    wanted = {pair for row in allowed for pair in combinations(enumerate(row), 2)}
    met = {pair for row in matrix.rows() for pair in combinations(enumerate(row), 2)}
    assert met == wanted


def test_every_value_runs_three_times() -> None:
    runs = Counter(one for row in matrix.rows() for one in enumerate(row))
    assert len(runs) == sum(len(values) for values in matrix.SETTINGS.values())
    assert min(runs.values()) >= 3
