"""What wait boards say together: cases made by hand, each with the rank that is at fault."""

from __future__ import annotations

from dataclasses import replace

import pytest

from isoradix.consensus import RankWaits, WaitEntry, diagnose
from isoradix.consensus.diagnosis import Case, domains
from isoradix.consensus.waits import ALL, SELF

MEMBERS = 4


def vote(want: int, age_s: float = 6.0) -> WaitEntry:
    return WaitEntry("vote", "votes", ALL, want, want - 1, age_s)


def gather(age_s: float = 6.0) -> WaitEntry:
    return WaitEntry("gather", "votes", ALL, 1, 0, age_s)


def frame(peer: int, age_s: float = 6.0) -> WaitEntry:
    return WaitEntry("frame", "frames", peer, 41, 40, age_s)


def send(peer: int, age_s: float = 6.0) -> WaitEntry:
    return WaitEntry("send", "frames", peer, 38, 37, age_s)


def leave(age_s: float = 6.0) -> WaitEntry:
    return WaitEntry("leave", "end", ALL, 1, 0, age_s)


def copy(age_s: float = 6.5) -> WaitEntry:
    return WaitEntry("copy", "own", SELF, 12, 3, age_s)


def rank(number: int, *waits: WaitEntry, step: int = 40, **changed: object) -> RankWaits:
    """Ranks of the deployment are ten above the members of their domain, so that none is taken for the other."""
    fields: dict[str, object] = {"domain": 0, "members": MEMBERS, "step": step, "still_s": 6.5, "votes": 16}
    return RankWaits(1, number + 10, number, 0, **{"alive": True, **fields, **changed}, waits=waits)  # type: ignore[arg-type]


def found(*boards: RankWaits) -> tuple[Case, tuple[int, ...], tuple[int, ...]]:
    one = diagnose(boards)
    assert str(one) == one.text
    assert "\n" not in one.text
    return one.case, one.ranks, one.waiting


def test_a_rank_that_is_not_in_the_collective() -> None:
    boards = [rank(0, vote(17)), rank(1, vote(17)), rank(2), rank(3, vote(17))]
    assert found(*boards) == ("missing", (12,), (10, 11, 13))
    text = diagnose(boards).text
    assert text.startswith("ranks 10,11,13 are in vote 17 for 6.0 s, rank 12 is not: ")
    assert text.endswith("rank 12 has completed 16 votes, is at step 40 and waits for nothing that it shows")


def test_a_rank_that_waits_for_another_one_and_is_not_in_the_collective() -> None:
    boards = [rank(0, vote(17)), rank(1, vote(17)), rank(2, frame(0, 0.1)), rank(3, vote(17))]
    assert found(*boards) == ("missing", (12,), (10, 11, 13))
    assert diagnose(boards).text.endswith("is at step 40 and waits for frame 41")


def test_all_ranks_in_collectives_and_not_in_the_same() -> None:
    boards = [rank(0, vote(17)), rank(1, vote(17)), rank(2, vote(18, 5.5)), rank(3, vote(17))]
    assert found(*boards) == ("ordinals", (12,), (10, 11, 13))
    text = diagnose(boards).text
    assert "ranks 10,11,13 in vote 17, rank 12 in vote 18" in text
    assert text.endswith("rank 12 has skipped or repeated one")


def test_another_collective_is_another_place() -> None:
    boards = [rank(0, vote(1)), rank(1, vote(1)), rank(2, gather()), rank(3, vote(1))]
    assert found(*boards)[:2] == ("ordinals", (12,))


def test_of_two_halves_neither_is_at_fault() -> None:
    boards = [rank(0, vote(17)), rank(1, vote(17)), rank(2, vote(18)), rank(3, vote(18))]
    assert found(*boards) == ("ordinals", (), (10, 11, 12, 13))


def test_a_rank_that_comes_late_is_looked_at_again() -> None:
    """What was heard of it may be as old as a beat."""
    boards = [rank(0, vote(17)), rank(1, vote(17)), rank(2, vote(16, 0.001)), rank(3, vote(17))]
    assert found(*boards)[:2] == ("nothing", ())
    boards = [rank(0, send(1)), rank(1, frame(0, 0.001), step=37), rank(2, frame(0)), rank(3, frame(1))]
    assert found(*boards) == ("busy", (11,), (10, 12, 13))


def test_later_stages_that_do_not_vote() -> None:
    """Under a chain only stage 0 counts; who waits for it is not at fault."""
    boards = [rank(0, vote(17)), rank(1), rank(2, frame(0)), rank(3, frame(1))]
    assert found(*boards) == ("missing", (11,), (10,))


def test_all_ranks_in_the_same_collective() -> None:
    boards = [rank(number, vote(17)) for number in range(MEMBERS)]
    assert found(*boards) == ("network", (), (10, 11, 12, 13))


@pytest.mark.parametrize("stuck", range(MEMBERS))
def test_a_rank_that_waits_for_its_own_queue(stuck: int) -> None:
    """Frames go from 0 to 1 and 2, and from 1 to 3: the others wait along these edges."""
    waits = {
        0: {1: frame(0), 2: frame(0), 3: frame(1)},
        1: {0: send(1), 2: frame(0), 3: frame(1)},
        2: {0: send(2), 1: frame(0), 3: frame(1)},
        3: {0: send(1), 1: send(3), 2: frame(0)},
    }[stuck]
    boards = [rank(number, waits.get(number, copy()), vote(17, 0.001)) for number in range(MEMBERS)]
    others = tuple(number + 10 for number in range(MEMBERS) if number != stuck)
    assert found(*boards) == ("own", (stuck + 10,), others)
    one = diagnose(boards)
    assert one.wait == copy()
    assert f"rank {stuck + 10} waits for its own copy 12 (has 3) for 6.5 s, at step 40" in one.text
    assert "the network is ruled out" in one.text


def test_a_rank_in_its_own_queue_that_misses_a_collective() -> None:
    boards = [rank(0, vote(17)), rank(1, copy()), rank(2, vote(17)), rank(3, vote(17))]
    assert found(*boards) == ("own", (11,), (10, 12, 13))


def test_a_short_wait_for_its_own_queue_is_not_why() -> None:
    boards = [rank(0, send(1)), rank(1, copy(0.01), step=37), rank(2, frame(0)), rank(3, frame(1))]
    assert found(*boards) == ("busy", (11,), (10, 12, 13))
    assert diagnose(boards).text.startswith("rank 11 has been at step 37 for 6.5 s and waits for nobody; ")


def test_of_several_that_wait_for_nobody_the_slowest_is_at_fault() -> None:
    boards = [rank(0, send(1)), rank(1, step=37), rank(2, frame(0)), rank(3, step=36, still_s=8.0)]
    boards[0] = rank(0, send(1), frame(3))
    assert found(*boards)[:2] in {("busy", (11,)), ("busy", (13,))}
    boards = [rank(0, send(1)), rank(1, step=37), rank(2, frame(3)), rank(3, step=36)]
    assert found(*boards) == ("busy", (13,), (10, 12))


def test_ranks_that_wait_for_each_other() -> None:
    boards = [rank(0, send(1)), rank(1, frame(0)), rank(2, frame(0)), rank(3, frame(1))]
    assert found(*boards) == ("network", (), (10, 11, 12, 13))
    assert "rank 10 for send 38 of rank 11; rank 11 for frame 41 of rank 10" in diagnose(boards).text


def test_ranks_that_are_gone_or_stopped() -> None:
    boards = [rank(0, vote(17)), rank(1, vote(17), alive=False), rank(2, vote(17)), rank(3, vote(17))]
    assert found(*boards) == ("gone", (11,), (10, 12, 13))
    boards[1] = rank(1, vote(17), stopped=True)
    assert found(*boards) == ("stopped", (11,), (10, 12, 13))


def test_a_rank_without_a_board() -> None:
    assert found(rank(0, vote(17)), rank(1, vote(17)), rank(3, vote(17))) == ("missing", (), (10, 11, 13))
    assert found(rank(0, send(2)), rank(1, frame(0)), rank(3, frame(1))) == ("missing", (), (10, 11, 13))


def test_no_long_wait_is_nothing() -> None:
    boards = [rank(0, vote(17, 0.1)), rank(1, vote(17, 0.1), copy(60.0)), rank(2), rank(3, frame(1, 4.9))]
    assert found(*boards) == ("nothing", (), ())
    assert diagnose(boards, 4.0).case == "own"


def test_boards_are_looked_at_by_domain() -> None:
    here = [rank(number) for number in range(MEMBERS)]
    other = [rank(number, domain=1) for number in range(2)]
    left = [rank(1, alive=False), rank(0, domain=2, alive=False)]
    assert domains([*other, *here, *left]) == [here, other]
    second = [replace(board, plane="handover") for board in here]
    assert domains([*second, *here]) == [here, second], "of one process"
    assert domains([*here, rank(2)]) == [], "two deployments: there is nothing to say"
    assert domains([here[0], rank(1, alive=False)]) == [[here[0], rank(1, alive=False)]]


def test_a_rank_that_never_comes_to_the_end() -> None:
    """It votes meanwhile, as all do."""
    left = [rank(number, leave(), vote(99, 0.01), step=41) for number in range(3)]
    assert found(*left, rank(3, vote(99, 0.01))) == ("busy", (13,), (10, 11, 12))
    assert found(*left, rank(3, copy())) == ("own", (13,), (10, 11, 12))
    assert found(*left, rank(3, leave(0.1), step=41)) == ("network", (), (10, 11, 12, 13))
