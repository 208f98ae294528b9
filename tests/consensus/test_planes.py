"""Planes over real gloo: ranks in processes, which step, end, fail and part."""

import pickle
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

from tests.consensus.bodies import (
    LOCK_STEPS,
    SIZES,
    STEPS,
    Late,
    decides,
    fails,
    gathers,
    held_back,
    is_told,
    keeps_the_lock,
    many_controls,
    out_of_order,
    parts_and_goes_on,
    pauses,
    relay,
    stands_still,
    stays_behind,
    steps,
    switches,
)
from tests.consensus.ranks import run

from isoradix import Control, DivergenceError, InvalidInputError, ProtocolError, SlotPool
from isoradix.consensus import ChainPlane, GlooPlane, LocalPlane, PiggybackPlane, PlaneLost, Topology, all_waits
from isoradix.driver import Driver

TOPOLOGIES = [Topology(tp=2), Topology(pp=3), Topology(tp=2, pp=2), Topology(tp=2, dp=2), Topology(cp=2, pp=2)]
SQUARE = Topology(tp=2, pp=2)


@pytest.mark.parametrize("plane", [GlooPlane, ChainPlane])
@pytest.mark.parametrize("topology", TOPOLOGIES, ids=repr)
def test_all_ranks_take_the_same_steps_and_leave_together(plane: type, topology: Topology, tmp_path: Path) -> None:
    answers = run(plane, topology, steps, tmp_path)
    assert all(isinstance(answer, tuple) for answer in answers), answers
    for domain in range(topology.dp):
        members = [answers[topology.rank_of(domain, member)] for member in range(topology.members)]
        assert len(set(members[0][0])) == STEPS
        assert all(answer == members[0] for answer in members), "digests, votes and frames"
    assert all_waits(tmp_path) == [], "every board is gone with its rank"


def test_frames_ride_on_the_schedulers_messages(tmp_path: Path) -> None:
    answers = run(PiggybackPlane, SQUARE, relay, tmp_path)
    assert all(answer == answers[0] for answer in answers), answers
    assert len(answers[0]) == STEPS


@pytest.mark.parametrize("plane", [GlooPlane, ChainPlane])
def test_a_frame_of_many_decisions_arrives_whole(plane: type, tmp_path: Path) -> None:
    assert run(plane, SQUARE, many_controls, tmp_path) == [SIZES] * 4


def test_the_leader_runs_ahead_by_no_more_than_the_pipeline(tmp_path: Path) -> None:
    answers = run(GlooPlane, Topology(pp=3), held_back, tmp_path, report_ms=200, fatal_ms=10_000)
    assert answers == [4, 4, 0], answers


def test_the_leaders_step_keeps_the_interpreters_lock(tmp_path: Path) -> None:
    given_away, waited, turns = run(GlooPlane, SQUARE, keeps_the_lock, tmp_path)[0]
    assert given_away == 0
    assert waited < LOCK_STEPS // 2 < turns, "most steps had room, and the lock was wanted"


@pytest.mark.parametrize("plane", [GlooPlane, ChainPlane])
@pytest.mark.parametrize("rank", [0, 1, 3])
def test_what_goes_wrong_on_one_rank_is_named_on_all(plane: type, rank: int, tmp_path: Path) -> None:
    answers = run(plane, SQUARE, fails, tmp_path, rank, 20, "raises")
    assert isinstance(answers[rank], ZeroDivisionError)
    for survivor in set(range(4)) - {rank}:
        error = answers[survivor]
        assert isinstance(error, PlaneLost), error
        assert error.ranks == (rank,)
        assert "ZeroDivisionError: this rank's own matter" in str(error)
    assert all_waits(tmp_path) == []


@pytest.mark.parametrize("plane", [GlooPlane, ChainPlane])
@pytest.mark.parametrize("rank", [0, 1, 2, 3])
def test_a_rank_that_parts_is_found_and_everybody_ends(plane: type, rank: int, tmp_path: Path) -> None:
    answers = run(plane, SQUARE, fails, tmp_path, rank, 20, "parts")
    assert all(isinstance(answer, DivergenceError | PlaneLost) for answer in answers), answers
    found = [answer for answer in answers if isinstance(answer, DivergenceError)]
    assert found, answers
    if rank:
        assert all(rank in answer.ranks for answer in answers), answers


@pytest.mark.parametrize("plane", [GlooPlane, ChainPlane])
def test_the_loss_of_a_plane_is_told(plane: type, tmp_path: Path) -> None:
    """On the leader, which is in no call of the plane, and on the followers."""
    answers = run(plane, SQUARE, is_told, tmp_path, 2)
    assert [*answers[:2], answers[3]] == ["told"] * 3, answers


@pytest.mark.parametrize("rank", [0, 1, 3])
def test_a_rank_that_stands_still_is_named_by_those_that_wait(rank: int, tmp_path: Path) -> None:
    """Its vote thread lives and no connection breaks: it is the one that waits for nobody."""
    answers = run(GlooPlane, SQUARE, stands_still, tmp_path, rank, report_ms=300, fatal_ms=1_500)
    for survivor in set(range(4)) - {rank}:
        assert isinstance(answers[survivor], PlaneLost), answers
        assert answers[survivor].ranks == (rank,), answers[survivor]
        assert "waits for nobody" in str(answers[survivor])


def test_a_pause_is_no_fault(tmp_path: Path) -> None:
    assert run(GlooPlane, SQUARE, pauses, tmp_path, report_ms=300, fatal_ms=1_200) == ["done"] * 4


def test_ranks_that_were_set_up_differently_do_not_start(tmp_path: Path) -> None:
    settings = [{"dtype": "float16"}, {"dtype": "bfloat16"}]
    answers = run(GlooPlane, Topology(tp=2), steps, tmp_path, settings=settings)
    for answer in answers:
        assert isinstance(answer, ProtocolError), answer
        assert all(text in str(answer) for text in ("dtype", "float16", "bfloat16")), answer
    answers = run(GlooPlane, Topology(tp=2), steps, tmp_path, policy=["lru", "lfu"])
    assert all(isinstance(answer, ProtocolError) and "policy" in str(answer) for answer in answers), answers


def test_a_rank_that_does_not_come_is_named(tmp_path: Path) -> None:
    answers = run(Late, Topology(pp=3), steps, tmp_path, report_ms=200, fatal_ms=1_500)
    assert [type(answer) for answer in answers] == [PlaneLost, PlaneLost, KeyError]
    assert all(answer.ranks == (2,) and "rank 2 did not come" in str(answer) for answer in answers[:2])


@pytest.mark.parametrize("plane", [GlooPlane, ChainPlane])
def test_calls_out_of_order_are_refused(plane: type, tmp_path: Path) -> None:
    assert run(plane, Topology(tp=2), out_of_order, tmp_path) == [None, None]


@pytest.mark.parametrize("plane", [GlooPlane, ChainPlane])
def test_no_thread_and_no_board_stays_behind(plane: type, tmp_path: Path) -> None:
    assert run(plane, Topology(tp=2), stays_behind, tmp_path) == [[], []]
    assert all_waits(tmp_path) == []


def test_bytes_of_unequal_lengths_are_gathered(tmp_path: Path) -> None:
    """Before the votes begin, as the start does it; here on the chain, which has no vote thread."""
    answers = run(ChainPlane, SQUARE, gathers, tmp_path)
    assert answers == [[bytes([rank]) * (rank * 1000) for rank in range(4)]] * 4


@pytest.mark.parametrize("address", ["nowhere", ":1", "host:", "127.0.0.1:99999", "127.0.0.1:x"])
def test_an_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(InvalidInputError, match="expected host:port"):
        GlooPlane.connect(Topology(), 0, address)


def test_a_backend_that_is_unknown_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="backend is 'mpi'"):
        GlooPlane(Topology(), 0, None, backend="mpi")


def test_an_error_keeps_what_it_names_on_its_way_between_processes() -> None:
    error = pickle.loads(pickle.dumps(PlaneLost("lost", (1, 2), "why")))
    assert (str(error), error.ranks, error.reason) == ("lost", (1, 2), "why")


def test_one_rank_needs_no_process() -> None:
    driver = Driver(LocalPlane(), None, SlotPool(64, page_size=4), page_size=4)
    for number in range(10):
        with driver.step([Control.stop()] if number == 9 else ()) as cache:
            if number == 0:
                cache.insert(list(range(8)), driver.slots.alloc(8))
    driver.close()
    assert (driver.plane.counts.frames, driver.plane.counts.votes) == (10, 2), "its first vote, and its first backable"
    with pytest.raises(InvalidInputError, match="limit 1"):
        LocalPlane(Topology(tp=2))


def test_a_followers_decisions_are_refused(tmp_path: Path) -> None:
    answers = run(GlooPlane, Topology(tp=2), decides, tmp_path)
    assert answers == [None, None]


@pytest.mark.parametrize("plane", [GlooPlane, ChainPlane])
@pytest.mark.parametrize("tiers", ["l1", "l3"])
def test_all_ranks_switch_tiers_with_the_same_step(plane: type, tiers: str, tmp_path: Path) -> None:
    answers = run(plane, SQUARE, switches, tmp_path, tiers=tiers)
    assert answers == [[tiers] * 9 + ["l2"] * 10 + ["l3"] * 11] * 4


@pytest.mark.parametrize("plane", [GlooPlane, ChainPlane])
def test_a_divergence_that_is_observed_is_told_once_and_all_go_on(plane: type, tmp_path: Path) -> None:
    answers = run(plane, SQUARE, parts_and_goes_on, tmp_path, mode="observe")
    assert all(isinstance(answer, tuple) for answer in answers), answers
    digests = [answer[0] for answer in answers]
    assert [len(each) for each in digests] == [STEPS] * 4
    assert digests[0][:20] == digests[1][:20]
    assert digests[0] == digests[2] == digests[3]
    assert digests[0][20] != digests[1][20]
    told = answers[1][1]
    assert told is not None
    assert told.startswith("divergence before step 21: rank 1 has digest ")
    assert answers[1][2] == 21
    if plane is GlooPlane:  # the chain asks the later stages nothing
        assert all("divergence at step 20: rank 1 has digest " in answers[rank][1] for rank in (0, 2, 3)), answers


def test_nothing_is_compared_where_that_is_off(tmp_path: Path) -> None:
    answers = run(GlooPlane, SQUARE, parts_and_goes_on, tmp_path, mode="off")
    assert [answer[1:] for answer in answers] == [(None, None)] * 4
    assert len({tuple(answer[0]) for answer in answers}) == 2


def test_ranks_of_different_modes_do_not_start(tmp_path: Path) -> None:
    answers = run(GlooPlane, Topology(tp=2), steps, tmp_path, mode=["observe", "enforce"], tiers=["l1", "l3"])
    for answer in answers:
        assert isinstance(answer, ProtocolError), answers
        assert all(text in str(answer) for text in ("mode", "observe", "enforce", "tiers", "l1", "l3")), answer


def test_one_rank_needs_no_torch() -> None:
    script = (
        "import sys; from isoradix import SlotPool;"
        "from isoradix.consensus import LocalPlane; from isoradix.driver import Driver;"
        "Driver(LocalPlane(), None, SlotPool(64, page_size=4), page_size=4); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
