"""What a rank would judge by itself, from a thread, a clock or its own idleness, is one decision of all ranks."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from tests.consensus.leader_bodies import flushes, health_checks, limited
from tests.consensus.ranks import run
from tests.consensus.steps import main

from isoradix.consensus import SteppedPlane, Topology


def start(topology: Topology, body: Any, folder: Path) -> list[Any]:
    return run(SteppedPlane, topology, body, folder, main=main)


def test_a_limit_that_threads_change_is_the_same_on_all_ranks_at_each_step(tmp_path: Path) -> None:
    found = start(Topology(pp=3), limited, tmp_path)
    limits = found[0][0]
    assert [each for each, _ in found] == [limits] * 3
    assert limits[-1][1] == 5, "the smallest of what they came to"
    assert len({limit for _, limit in limits}) > 3, "they changed on the way"
    offered = set().union(*(own for _, own in found), {1000})
    assert {limit for _, limit in limits} <= offered
    assert len({tuple(own) for _, own in found}) == 3, "each rank had limits of its own"


def test_a_flush_that_was_put_off_happens_at_one_step_or_on_no_rank(tmp_path: Path) -> None:
    found = start(Topology(pp=3), flushes, tmp_path)
    assert found[0] == found[1] == found[2]
    (flushed, one, verdict, tokens, _), (late, two, other, _, _) = found[0]
    assert (one, verdict, tokens, two, other) == (1, "ready", 0, 2, "timed_out")
    assert late > flushed > 2


def test_a_health_check_is_dropped_by_the_leaders_idleness_alone(tmp_path: Path) -> None:
    found = start(Topology(tp=3), health_checks, tmp_path)
    decided, idle = found[0]
    assert [each for each, _ in found] == [decided] * 3
    assert sorted(request for _, request, _ in decided) == list(range(1, 41))
    assert sorted(request for _, request, verdict in decided if verdict == "aborted") == idle
    assert all(own != idle for _, own in found[1:]), "each rank was idle at times of its own"
