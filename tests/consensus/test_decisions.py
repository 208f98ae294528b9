"""The queue of decisions and the agreed minimum: one rank, real processes, and a storm of aborts."""

import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from tests.consensus import storm as storms
from tests.consensus.decision_bodies import late_member, minima, other_settings, parts, stays
from tests.consensus.ranks import run
from tests.consensus.steps import main, two_planes
from tests.consensus.storm import Storm, storm

from isoradix import BackpressureError, DivergenceError, InputTypeError, InvalidInputError, ProtocolError
from isoradix.consensus import AgreedMin, Decisions, LocalSteps, NotReady, PlaneLost, SteppedPlane, Topology


def start(topology: Topology, body: Any, folder: Path, *given: Any, **options: Any) -> list[Any]:
    return run(SteppedPlane, topology, body, folder, *given, main=main, **options)


# one rank


def test_one_rank_decides_by_itself() -> None:
    with Decisions(LocalSteps(), patience_ms=10_000) as decisions:
        decisions.ask(7)
        assert decisions.step() == []
        assert decisions.report(7, 1, "ready")
        assert not decisions.report(7, 1, "failed"), "it comes too late, and is kept"
        (one,) = decisions.step()
        assert (one.request, one.epoch, one.verdict, one.rank) == (7, 1, "ready", None)
        one.require_ready()
        decisions.ask(7, 2)
        (two,) = decisions.step()
        with pytest.raises(NotReady, match="request 7, epoch 2: rank 0 will not get it"):
            two.require_ready()
        assert decisions.remembered == 1
        decisions.forget(7)
        assert decisions.remembered == 0
        assert decisions.step(last=True) == []
        with pytest.raises(ProtocolError, match="the last one was entered"):
            decisions.step()


def test_bad_input_changes_nothing() -> None:
    decisions = Decisions(LocalSteps(), window=1)
    decisions.ask(1)
    digest = decisions.digest
    with pytest.raises(BackpressureError, match="1 are open, limit 1"):
        decisions.ask(2)
    with pytest.raises(ProtocolError, match="has an open question"):
        decisions.ask(1, 2)
    for epoch in (0, -1, 2**32):
        with pytest.raises(InvalidInputError, match=rf"epoch {epoch} is out of range: 1 to 4294967295\nhint: "):
            decisions.ask(1, epoch)
    with pytest.raises(InputTypeError, match="epoch is"):
        decisions.ask(1, 1.5)  # type: ignore[arg-type]
    with pytest.raises(ProtocolError, match="request 9 has no open question"):
        decisions.retract(9)
    with pytest.raises(InvalidInputError, match='report is "late"'):
        decisions.report(1, 1, "late")  # type: ignore[arg-type]
    with pytest.raises(InputTypeError, match="report is"):
        decisions.report(1, 1, 3)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="window"):
        Decisions(LocalSteps(), window=0)
    with pytest.raises(InvalidInputError, match="limit 1"):
        LocalSteps(Topology(tp=2))
    with pytest.raises(DivergenceError, match="digest of the ruling") as parted:
        decisions.queue.apply(Decisions(LocalSteps()).queue.rule(0))
    assert parted.value.kind == "decisions"
    with pytest.raises(ProtocolError, match="a frame"):
        decisions.queue.apply(b"IRXD")
    assert (decisions.digest, decisions.open) == (digest, 1)


def test_a_minimum_of_one_rank() -> None:
    with AgreedMin(LocalSteps(), 2) as agreed:
        assert agreed.step().minimum is None
        agreed.offer([5, -6], number=3)
        found = agreed.step([9])
        assert (found.step, found.number, found.minimum, found.said) == (2, 3, (5, -6), (9,))
        for wrong, error in [([1], InvalidInputError), ([1, 2**63], InvalidInputError), ([1, 0.5], InputTypeError)]:
            with pytest.raises(error):
                agreed.offer(wrong)  # type: ignore[arg-type]
        assert agreed.step(last=True).minimum == (5, -6), "what was agreed stays"


def test_one_rank_needs_no_torch() -> None:
    script = (
        "import sys; sys.modules['torch'] = None; from isoradix.consensus import AgreedMin, Decisions, LocalSteps;"
        "decisions, agreed = Decisions(LocalSteps()), AgreedMin(LocalSteps(), 1); decisions.ask(1);"
        "agreed.offer([4]); print(decisions.step(), agreed.step().minimum)"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (run.stdout, run.stderr) == ("[] (4,)\n", "")


# processes


def test_who_holds_a_request_up_is_named_on_every_rank(tmp_path: Path) -> None:
    said = start(Topology(pp=3), late_member, tmp_path)
    assert said[0] == said[1] == said[2]
    assert sorted(said[0]) == [
        "request 1, epoch 1: rank 2 has not reported within 300 ms",
        "request 2, epoch 1: rank 2 still waits after 300 ms",
        "request 3 is ready",
    ]


def test_a_rank_that_asks_otherwise_ends_the_plane(tmp_path: Path) -> None:
    errors = start(Topology(tp=2), parts, tmp_path)
    assert all(isinstance(error, DivergenceError | PlaneLost) for error in errors)
    assert isinstance(errors[1], DivergenceError)
    assert "digest of the ruling" in str(errors[1])


def test_a_rank_that_never_comes_to_the_end_is_named(tmp_path: Path) -> None:
    *left, shown = start(Topology(tp=3), stays, tmp_path, report_ms=200, fatal_ms=1500)
    assert shown == [("leave", 0), ("leave", 1)]
    for error in left:
        assert isinstance(error, PlaneLost), error
        assert error.ranks == (2,)
        assert "leave 1 of all ranks" in str(error)


def test_settings_are_compared(tmp_path: Path) -> None:
    errors = start(Topology(tp=2), other_settings, tmp_path)
    assert all("rank 1 starts decisions of window 65" in str(error) for error in errors), errors


@pytest.mark.parametrize("by_address", [True, False])
def test_two_planes_meet_in_one_store(tmp_path: Path, by_address: bool) -> None:
    said = run(SteppedPlane, Topology(tp=2), main, tmp_path, by_address, main=two_planes)
    assert said == [[(1, "ready"), (2, "ready")]] * 2


def test_a_minimum_is_of_one_question_and_comes_at_one_step(tmp_path: Path) -> None:
    found = start(Topology(pp=3), minima, tmp_path)
    assert found[0] == found[1] == found[2]
    minimum = [one for _, one in found[0]]
    assert minimum[:20] == [(10 * number, 10 * number - 2) for number in range(20)]


# a storm of aborts


def check(stages: int, folder: Path) -> None:
    topology = Topology(pp=stages, dp=2)
    ranks: list[Storm] = start(topology, storm, folder, fatal_ms=20_000)
    for found in ranks:
        assert isinstance(found, Storm), found
    for domain in range(2):
        group = [ranks[topology.rank_of(domain, member)] for member in range(stages)]
        first = group[0]
        for other in group:
            assert (other.occupied, other.open, other.remembered) == (0, 0, 0)
            assert (other.verdicts, other.digests, other.asked) == (first.verdicts, first.digests, first.asked)
            assert other.refused == other.said_late
        assert sum(other.refused for other in group) > 10 * stages, "words after the last one do not count"
        tokens = Counter(first.asked)
        verdicts = Counter((request, epoch) for _, request, epoch, _, _ in first.verdicts)
        assert set(tokens.values()) == {1}
        assert verdicts == tokens, "one token, one verdict"
        assert {request for request, _ in tokens} == set(range(storms.REQUESTS))
        kinds = Counter(verdict for _, _, _, verdict, _ in first.verdicts)
        assert kinds["aborted"] > 100, kinds
        assert kinds["ready"] > 100, kinds
        assert kinds["failed"] > 10, kinds


@pytest.mark.cluster
def test_a_thousand_aborts_in_two_groups_of_four_stages(tmp_path: Path) -> None:
    check(4, tmp_path)


@pytest.mark.cluster
@pytest.mark.slow
def test_a_thousand_aborts_in_two_groups_of_eight_stages(tmp_path: Path) -> None:
    check(8, tmp_path)
