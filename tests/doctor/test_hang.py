"""Who is waited for: by wait boards, by stacks, by timeouts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from isoradix.consensus.waits import ALL, WaitBoard, WaitEntry
from isoradix.doctor.collect import collect
from isoradix.doctor.evidence import Board, Evidence, Frame, Sign, Source, Stack
from isoradix.doctor.findings import Form, Sure
from isoradix.doctor.rules import decide
from isoradix.doctor.rules.boards import by_boards
from isoradix.doctor.rules.stacks import by_stacks
from isoradix.doctor.rules.timeouts import by_timeouts

NOWHERE = Source(Path("evidence"), 1, "")
Wait = tuple[str, int, int, int, float]
"""Operation, peer, want, have, age."""


def boards(*waits: list[Wait], gone: tuple[int, ...] = ()) -> Evidence:
    evidence = Evidence()
    for rank, entries in enumerate(waits):
        evidence.roster.see(str(rank))
        shown = tuple(WaitEntry(name, "frames", peer, want, have, age) for name, peer, want, have, age in entries)
        evidence.boards.append(Board(rank, rank, rank not in gone, shown, True, NOWHERE))
    return evidence


def vote(age: float, want: int = 9) -> Wait:
    return "vote", ALL, want, want - 1, age


def test_whoever_waits_for_nobody_is_at_the_end_of_the_line() -> None:
    found = by_boards(
        boards([("send", 1, 31, 30, 8.0)], [("send", 2, 31, 30, 9.0)], [vote(0.1)], [("frame", 1, 32, 31, 7.0)])
    )
    assert found is not None
    assert (found.form, found.culprits, found.sure) == (Form.HANG, (2,), Sure.CERTAIN)
    assert (found.condition.operation, found.condition.want, found.condition.have) == ("send", "31", "30")
    assert found.condition.age_s == 9.0
    assert found.not_the_network is not None


def test_a_rank_without_a_board_is_named_less_surely() -> None:
    found = by_boards(boards([("frame", 3, 8, 7, 9.0)], [vote(0.1)]))
    assert found is not None
    assert (found.culprits, found.sure) == ((3,), Sure.LIKELY)
    assert found.not_the_network is None


def test_a_rank_that_waits_for_its_own_copies() -> None:
    found = by_boards(boards([("send", 1, 31, 30, 8.0)], [("ack", 0, 5, 4, 9.0)]))
    assert found is not None
    assert found.culprits == (1,)
    assert "own copies: ack 5 (has 4), 9.0 s" in found.condition.text


def test_ranks_in_a_ring_name_nobody() -> None:
    found = by_boards(boards([("send", 1, 31, 30, 8.0)], [("frame", 0, 32, 31, 9.0)]))
    assert found is not None
    assert (found.culprits, found.sure) == ((), Sure.UNDETERMINED)


def test_a_vote_that_does_not_end() -> None:
    found = by_boards(boards([vote(9.0)], [vote(9.0)], [vote(9.0, want=8)]))
    assert found is not None
    assert found.culprits == (2,)
    all_alike = by_boards(boards([vote(9.0)], [vote(9.0)]))
    assert all_alike is not None
    assert all_alike.culprits == ()


def test_a_rank_that_never_comes_to_the_end() -> None:
    leave: Wait = ("leave", ALL, 1, 0, 9.0)
    found = by_boards(boards([leave, vote(0.1)], [leave], [vote(0.1)]))
    assert found is not None
    assert found.culprits == (2,)
    assert "leave 1 does not end: rank 2 has not come to it" in found.condition.text


def test_a_rank_that_has_only_just_come_to_the_end_is_not_late() -> None:
    leave: Wait = ("leave", ALL, 1, 0, 9.0)
    found = by_boards(boards([leave], [("leave", ALL, 1, 0, 1.0)], [vote(0.1)], [vote(0.1)]))
    assert found is not None
    assert found.culprits == (2, 3)
    assert "ranks 2,3 have not come to it" in found.condition.text


def test_each_plane_is_looked_at_by_itself() -> None:
    evidence = boards([vote(0.1)], [vote(0.1)])
    second = boards([("leave", ALL, 1, 0, 9.0)], [vote(0.1)])
    evidence.boards += [replace(board, plane="handover") for board in second.boards]
    found = by_boards(evidence)
    assert found is not None
    assert found.culprits == (1,)


@pytest.mark.parametrize("waits", [[], [vote(0.2)], [("frame", 0, 8, 7, 4.9)]])
def test_short_waits_are_none(waits: list[Wait]) -> None:
    assert by_boards(boards(waits, [vote(0.1)])) is None
    assert decide(boards(waits, [vote(0.1)])).form is Form.NONE


def test_how_long_is_long_is_asked() -> None:
    evidence = boards([("frame", 1, 8, 7, 2.0)], [vote(0.1)])
    assert by_boards(evidence) is None
    found = by_boards(evidence, after_s=1.0)
    assert found is not None
    assert found.culprits == (1,)


def test_a_pause_is_no_hang() -> None:
    evidence = boards([("frame", 1, 8, 7, 20.0), ("pause", ALL, 0, 1, 19.0)], [("pause", ALL, 0, 1, 19.0)])
    assert by_boards(evidence) is None


def test_a_process_that_is_gone() -> None:
    found = by_boards(boards([("frame", 1, 8, 7, 0.5)], [vote(0.1)], gone=(1,)))
    assert found is not None
    assert (found.form, found.culprits) == (Form.KILLED, (1,))


def test_a_board_of_an_earlier_run_says_nothing() -> None:
    evidence = boards([vote(0.1)], [vote(0.1)])
    left = replace(evidence.boards[1], alive=False)
    evidence.boards.append(left)
    assert by_boards(evidence) is None


def test_boards_of_two_servers_say_nothing() -> None:
    evidence = boards([("frame", 1, 8, 7, 9.0)], [vote(0.1)])
    evidence.boards.append(replace(evidence.boards[0], waits=()))
    assert by_boards(evidence) is None


def test_boards_as_ranks_write_them(tmp_path: Path) -> None:
    written = [WaitBoard(tmp_path, rank, rank, 0) for rank in range(2)]
    written[0].begin("send", 1, 8, 7)
    try:
        found = by_boards(collect([tmp_path]), after_s=0.0)
    finally:
        for board in written:
            board.close()
    assert found is not None
    assert (found.culprits, found.condition.operation) == ((1,), "send")


# stacks


def stacks(*calls: list[str]) -> Evidence:
    evidence = Evidence()
    for rank, frames in enumerate(calls):
        evidence.roster.see(str(rank))
        made = tuple(Frame(function, file, 1) for function, _, file in (one.partition(" ") for one in frames))
        evidence.stacks.append(Stack(str(rank), made, True, NOWHERE))
    return evidence


REDUCE = ["all_reduce torch/distributed/distributed_c10d.py", "check tree.py"]
BROADCAST = ["broadcast torch/distributed/distributed_c10d.py", "relay receiver.py"]
RECEIVE = ["recv torch/distributed/distributed_c10d.py", "step loop.py"]
SEND = ["send torch/distributed/distributed_c10d.py", "step loop.py"]
STORAGE = ["recv socket.py", "get store.py", "step loop.py"]
IDLE = ["poll zmq.py", "recv_requests receiver.py"]


def test_one_on_its_own_and_the_others_in_a_collective() -> None:
    found = by_stacks(stacks(REDUCE, STORAGE, REDUCE))
    assert found is not None
    assert (found.culprits, found.sure) == ((1,), Sure.CERTAIN)
    assert "get (store.py:1), called by step, on its own; ranks 0,2 wait for it in all_reduce" in found.condition.text
    assert found.not_the_network is not None


def test_boards_say_what_the_others_want() -> None:
    evidence = stacks(REDUCE, STORAGE)
    evidence.boards = boards([("send", 1, 31, 30, 9.0)], [vote(0.1)]).boards
    found = by_stacks(evidence)
    assert found is not None
    assert (found.culprits, found.condition.want, found.condition.age_s) == ((1,), "31", 9.0)
    assert found.condition.operation == "get (store.py:1), called by step"
    assert "rank 0 waits for it: send 31 (has 30), 9.0 s" in found.condition.text


def test_a_thread_that_is_at_work_may_be_on_its_way() -> None:
    evidence = stacks(REDUCE, STORAGE)
    evidence.stacks = [replace(one, idle=False) for one in evidence.stacks]
    found = by_stacks(evidence)
    assert found is not None
    assert found.sure is Sure.LIKELY


def test_not_all_stacks_are_there() -> None:
    evidence = stacks(REDUCE, STORAGE)
    evidence.roster.see("2")
    found = by_stacks(evidence)
    assert found is not None
    assert found.sure is Sure.LIKELY


def test_unequal_collectives_name_the_few() -> None:
    found = by_stacks(stacks(BROADCAST, REDUCE, BROADCAST))
    assert found is not None
    assert (found.culprits, found.sure) == ((1,), Sure.LIKELY)
    of_two = by_stacks(stacks(BROADCAST, REDUCE))
    assert of_two is not None
    assert (of_two.culprits, of_two.sure) == ((), Sure.UNDETERMINED)


def test_messages_in_different_places_name_nobody() -> None:
    found = by_stacks(stacks(SEND, RECEIVE, RECEIVE))
    assert found is not None
    assert found.culprits == ()
    assert found.not_the_network is None


@pytest.mark.parametrize("calls", [[REDUCE, REDUCE], [IDLE, BROADCAST], [STORAGE, STORAGE], [STORAGE]])
def test_what_says_nothing(calls: list[list[str]]) -> None:
    assert by_stacks(stacks(*calls)) is None


# timeouts


def timeouts(slots: dict[int, tuple[str, int]], ranks: int, enqueued: dict[int, int] | None = None) -> Evidence:
    evidence = Evidence()
    for rank in range(ranks):
        evidence.roster.see(f"TP{rank}")
    for rank, (operation, number) in slots.items():
        values = {"operation": operation, "number": str(number), "ms": "600021"}
        evidence.signs.append(Sign("timeout", f"TP{rank}", values, NOWHERE))
    for rank, number in (enqueued or {}).items():
        evidence.signs.append(Sign("enqueued", f"TP{rank}", {"enqueued": str(number), "done": "1"}, NOWHERE))
    return evidence


def test_the_rank_that_never_came() -> None:
    found = by_timeouts(timeouts({0: ("ALLREDUCE", 7), 1: ("ALLREDUCE", 7), 3: ("ALLREDUCE", 7)}, 4))
    assert found is not None
    assert (found.culprits, found.sure) == ((2,), Sure.LIKELY)
    assert found.condition.age_s == 600.021


def test_the_rank_in_another_collective() -> None:
    found = by_timeouts(timeouts({0: ("ALLREDUCE", 7), 1: ("BROADCAST", 7), 2: ("ALLREDUCE", 7)}, 3))
    assert found is not None
    assert found.culprits == (1,)


def test_the_rank_that_asked_for_fewer() -> None:
    slots = dict.fromkeys(range(3), ("ALLREDUCE", 7))
    found = by_timeouts(timeouts(slots, 3, {0: 9, 1: 7, 2: 9}))
    assert found is not None
    assert found.culprits == (1,)
    alike = by_timeouts(timeouts(slots, 3, dict.fromkeys(range(3), 9)))
    assert alike is not None
    assert (alike.culprits, alike.sure) == ((), Sure.UNDETERMINED)
