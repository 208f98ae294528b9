"""Hangs of real ranks, told apart: by each rank's log once a wait is long, and by the error that ends it."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

from tests.consensus.hangs import OrdinalPlane, SkippingPlane, hangs, looks_on, waits_for_its_own
from tests.consensus.ranks import run

from isoradix.consensus import GlooPlane, PlaneLost, Topology

SQUARE = Topology(tp=2, pp=2)
LATE = {"report_ms": 400, "fatal_ms": 2_500}


def told(answers: list[object], ranks: set[int], case: str) -> list[tuple[PlaneLost, str]]:
    """Of each of these ranks the error that ended it, and a line of its log with that case."""
    found = []
    for rank in sorted(ranks):
        answer = answers[rank]
        assert isinstance(answer, tuple), answers
        error, lines = answer
        assert isinstance(error, PlaneLost), answers
        of_case = [line for line in lines if f": {case}: " in line]
        assert of_case, lines
        found.append((error, of_case[0]))
    return found


def test_a_rank_that_skips_a_vote(tmp_path: Path) -> None:
    answers = run(SkippingPlane, SQUARE, hangs, tmp_path, **LATE)
    for error, line in told(answers, {0, 1, 3}, "missing"):
        assert "ranks 0,1,3 are in vote 20 for " in line
        assert "rank 2 is not: rank 2 has completed 20 votes" in line
        assert error.ranks == (2,)
        assert "rank 2 is not" in str(error)


def test_ranks_in_collectives_of_different_ordinals(tmp_path: Path) -> None:
    answers = run(OrdinalPlane, SQUARE, hangs, tmp_path, **LATE)
    for error, line in told(answers, {0, 1, 2, 3}, "ordinals"):
        assert "all ranks are in collectives" in line
        assert "ranks 0,1,3 in vote 20, rank 2 in vote 21; rank 2 has skipped or repeated one" in line
        assert error.ranks == (2,)


@pytest.mark.parametrize("rank", [0, 1, 3])
def test_a_rank_that_waits_for_its_own_queue(rank: int, tmp_path: Path) -> None:
    answers = run(GlooPlane, SQUARE, waits_for_its_own, tmp_path, rank, **LATE)
    for error, line in told(answers, {0, 1, 2, 3} - {rank}, "own"):
        assert f"rank {rank} waits for its own copy 12 (has 3) for " in line
        assert "the network is ruled out" in line
        assert error.ranks == (rank,)


def test_the_command_says_the_same(tmp_path: Path) -> None:
    """Another process reads the boards of ranks that hang."""
    answers = run(GlooPlane, SQUARE, looks_on, tmp_path, 1, report_ms=400, fatal_ms=20_000)
    (shown,) = {answer for answer in answers if answer is not None}
    assert "rank 1 waits for its own copy 12 (has 3) for " in shown
    assert "ranks 0,2,3 wait for rank 1" in shown
