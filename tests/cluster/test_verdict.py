"""What is compared between ranks, and how their results travel."""

from __future__ import annotations

import io
from typing import Any

import msgspec
import numpy as np

from isoradix import DivergenceError
from isoradix.cluster.result import Message, MessageReader, Progress, RankFailure, RankResult, write_message
from isoradix.cluster.verdict import findings
from isoradix.consensus import PlaneLost, Topology
from isoradix.consensus.plane import named_by

TOPOLOGY = Topology(tp=2, dp=2)


def result(rank: int, digests: tuple[int, ...] = (1, 2, 3), **changed: Any) -> RankResult:
    fields: dict[str, Any] = {
        "rank": rank,
        "requests": 5,
        "skipped": 0,
        "uncached": 0,
        "hitseq": "abc",
        "digests": np.array(digests, dtype="<u8").tobytes(),
        "tree_digest": 9,
        "steps": {},
        "served": {},
        "events": [(1, "sleep")],
        "totals": {},
        "operations": {},
        "counts": {"votes": 4, "frames": 3},
        "waits": {},
        "checked_tokens": 0,
        "written_tokens": 0,
        "cpu_ms": 0.0,
        "scheduler_ms": 0.0,
        "journal_ms": 0.0,
        "finding": None,
    }
    return RankResult(**{**fields, **changed})


def found(*results: RankResult, failures: tuple[RankFailure, ...] = ()) -> list[str]:
    return findings(TOPOLOGY, {one.rank: one for one in results}, {one.rank: one for one in failures})


def test_equal_ranks_and_domains_that_differ() -> None:
    assert found(result(0), result(1), result(2, (7, 8)), result(3, (7, 8))) == []


def test_the_first_step_that_differs_is_named() -> None:
    (one,) = found(result(0), result(1, (1, 5, 3)), result(2), result(3))
    assert one == ("decision digests differ from step 2 on: rank 0 0000000000000002, rank 1 0000000000000005")


def test_other_lengths() -> None:
    assert found(result(0), result(1, (1, 2)), result(2), result(3)) == ["steps differ: rank 0 3, rank 1 2"]


def test_everything_else_that_is_equal() -> None:
    changed: dict[str, tuple[dict[str, Any], str]] = {
        "hitseq": ({"hitseq": "abd"}, "hitseq differ: rank 2 abc, rank 3 abd"),
        "tree": ({"tree_digest": 10}, "tree digest differ: rank 2 0000000000000009, rank 3 000000000000000a"),
        "votes": ({"counts": {"votes": 5, "frames": 3}}, "votes differ: rank 2 4, rank 3 5"),
        "frames": ({"counts": {"votes": 4, "frames": 2}}, "frames differ: rank 2 3, rank 3 2"),
        "requests": ({"requests": 4}, "requests differ: rank 2 5, rank 3 4"),
    }
    for changes, said in changed.values():
        assert found(result(0), result(1), result(2), result(3, **changes)) == [said]


def test_a_rank_that_found_something() -> None:
    assert found(result(0), result(1), result(2), result(3, finding="node 7")) == ["rank 3: node 7"]


def test_ranks_without_a_result() -> None:
    failure = RankFailure(rank=1, error="PlaneLost", message="lost")
    assert found(result(0), result(3), failures=(failure,)) == [
        "rank ended early: 1 by PlaneLost",
        "rank 2 sent no result",
    ]


def test_whom_ranks_that_ended_name() -> None:
    errors = ("PlaneLost", "Died", "PlaneLost", "PlaneLost")
    named = ((1,), (), (1,), (0, 1))
    failures = [RankFailure(rank=rank, error=errors[rank], message="", named=named[rank]) for rank in range(4)]
    (one,) = found(failures=tuple(failures))
    ended, *blamed = one.split("; ")
    assert ended == "ranks ended early: 0 by PlaneLost, 1 by Died, 2 by PlaneLost, 3 by PlaneLost"
    assert blamed == ["rank 0 is named by 1", "rank 1 is named by 3"]


def test_whom_an_error_names() -> None:
    assert named_by(PlaneLost("lost", (3,)), TOPOLOGY, 1) == (3,)
    assert named_by(ValueError("no"), TOPOLOGY, 1) == ()
    error = DivergenceError("parted")
    error.ranks = (1,)
    assert named_by(error, TOPOLOGY, 1) == (3,), "a member of domain 1"


def test_messages_travel_in_pieces() -> None:
    sent: list[Message] = [Progress(3), result(1), RankFailure(rank=2, error="Died", message="x", named=(0,))]
    stream = io.BytesIO()
    for message in sent:
        write_message(stream, message)
    reader, came = MessageReader(), []
    data = stream.getvalue()
    for start in range(0, len(data), 7):
        came += list(reader.feed(data[start : start + 7]))
    assert [msgspec.to_builtins(one) for one in came] == [msgspec.to_builtins(one) for one in sent]
