"""The report of a cluster replay: what is drawn follows from what was measured."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from array import array

import numpy as np
import pytest

from isoradix.cluster.job import Job, WorkloadOf
from isoradix.cluster.launcher import Outcome
from isoradix.cluster.result import RankFailure, RankResult
from isoradix.cluster.steps import StepLog
from isoradix.cluster.summary import Summary
from isoradix.report.cluster import cluster_page, failure_table, rank_table, time_table
from isoradix.report.timeline import Lane, Timeline

MS = 1_000_000


def result(rank: int) -> RankResult:
    log = StepLog()
    for step in range(50):
        # of ten ms: one of faults, then input, plane, cache, close, copies, forward
        log.add(step * 10 * MS, MS, 3 * MS, MS, MS, 0, 3 * MS, 10 * MS)
    totals = ("evicted", "demoted", "dropped_dirty", "host_evicted", "reclaimed", "backed_up", "loaded_back")
    return RankResult(
        rank=rank,
        requests=3,
        skipped=1,
        uncached=0,
        hitseq="abc",
        digests=np.arange(50, dtype="<u8").tobytes(),
        tree_digest=9,
        steps=log.packed(),
        served={name: array("q", [100, 200, 300]).tobytes() for name in ("lengths", "device", "host", "storage")},
        events=[(20 * MS, "sleep"), (20 * MS, "sleep"), (400 * MS, "ack-delay")],
        totals={f"{name}_tokens": 64 for name in totals},
        operations={"backup": {"issued": 5, "done": 2, "declined": 0, "aborted_short": 2, "aborted_failed": 1}},
        counts={"votes": 4, "frames": 50, "votes_framed": 3, "vote_age_ms": 1.5, "wait_s": 0.25},
        waits={"frame": 50},
        checked_tokens=7,
        written_tokens=8,
        cpu_ms=1.0,
        scheduler_ms=1.0,
        journal_ms=0.0,
        finding=None,
    )


def outcome(*failures: RankFailure) -> Outcome:
    job = Job(requests=WorkloadOf("chat", 3), tp=2, capacity=6400, host_capacity=6400)
    failed = {one.rank: one for one in failures}
    return Outcome(job, {rank: result(rank) for rank in range(2) if rank not in failed}, failed)


def shares(page: str, lane: str) -> dict[str, float]:
    """What the bands say of a lane, in per cent."""
    found = {}
    for part in page.split("<title>")[1:]:
        tip = part.partition("</title>")[0]
        if tip.startswith(f"{lane}: "):
            name, _, share = tip.removeprefix(f"{lane}: ").rpartition(", ")
            found[name] = float(share.partition(" %")[0])
    return found


def test_bands_have_the_shares_of_the_time() -> None:
    page = cluster_page(Summary(outcome()), "chat <workload>", "isoradix replay", "1.0")
    for lane in ("rank 0", "rank 1"):
        assert shares(page, lane) == pytest.approx({"plane": 30, "cache": 20, "forward": 30, "other": 20}, abs=0.2)
    assert page.count('class="fault"') == 4, "one tick for each moment and kind, on each rank"
    assert "sleep, 2 times" in page
    assert "&lt;workload&gt;" in page


def test_drawings_are_well_formed() -> None:
    failure = RankFailure(rank=1, error="Died <9>", message="killed by SIGKILL", named=(1,), at_ns=450 * MS)
    page = cluster_page(Summary(outcome(failure)), "chat", "isoradix replay", "1.0")
    drawings = page.split("<svg")[1:]
    assert len(drawings) >= 3
    for drawing in drawings:
        ElementTree.fromstring("<svg" + drawing.partition("</svg>")[0] + "</svg>")
    assert 'class="death"' in page
    assert "the run failed" in page


def test_a_run_of_which_nothing_is_left() -> None:
    gone = [RankFailure(rank=rank, error="Died", message="x") for rank in range(2)]
    assert "Where the time went" in cluster_page(Summary(outcome(*gone)), "chat", "isoradix replay", "1.0")


def test_tables() -> None:
    failure = RankFailure(rank=1, error="PlaneLost", message="lost\nhint: anew", named=(0, 1), step=1234)
    header, rows = failure_table(outcome(failure))
    assert dict(zip(header, rows[0], strict=True)) == {
        "rank": "1",
        "error": "PlaneLost",
        "names rank": "0, 1",
        "step": "1,234",
        "message": "lost",
    }
    header, rows = rank_table(Summary(outcome()))
    table = dict(zip(header, rows[1], strict=True))
    assert (table["place"], table["device hits"], table["aborted"], table["waited"]) == ("tp 1", "600", "3", "250 ms")
    header, rows = time_table(Summary(outcome()))
    assert dict(zip(header, rows[0], strict=True))["plane"] == "3 ms, 3 ms"


def test_spans_outside_and_none_at_all() -> None:
    spans = (np.array([0, 50]), np.array([10, 60]))
    lane = Lane("rank 0", {"plane": spans})
    timeline = Timeline([lane, Lane("rank 1", {})], {"plane": 0}, 0, 100, lambda value: f"{value:g} s")
    assert "plane, 20.0 % of the time" in timeline.draw("time")
