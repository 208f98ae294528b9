"""Cluster replays in real processes: clean, under faults, and to a bad end."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from isoradix import Record, read_records
from isoradix.cluster import launcher
from isoradix.cluster.faults import parse_faults
from isoradix.cluster.job import Job, WorkloadOf
from isoradix.cluster.launcher import Launcher, Outcome
from isoradix.cluster.result import RankFailure
from isoradix.cluster.steps import unpacked
from isoradix.cluster.summary import Summary
from isoradix.journal.diff import compare
from isoradix.journal.folder import find
from isoradix.journal.reader import Decisions, Journal
from isoradix.journal.rerun import Rerun

pytestmark = pytest.mark.cluster

CLI = [sys.executable, "-m", "isoradix.cli"]
COMMAND = [*CLI, "replay", "--workload", "agent"]
FATAL_MS = 3_000
ALL_DECIDE_MS = 150
"""Steps as long as that: all ranks, on a busy machine too, decide a step before one of them finds that it parted."""
# what a rank takes beyond the threshold to notice, and to end
SLACK_S = 6.0
FAULTS = {
    "ack-delay": "ack-delay:rank=1,ms=5..50",
    "alloc-fail": "alloc-fail:rank=1,p=0.2",
    "short-pool": "short-pool:rank=2,pages=1000",
    "copy-slow": "copy-slow:rank=3,ms=10",
    "sleep": "sleep:rank=0,ms=10,p=0.1",
}


def replay(*faults: str, requests: WorkloadOf | None = None, **changed: Any) -> Outcome:
    """A small run that evicts, backs up and loads back."""
    fields: dict[str, Any] = {
        "requests": requests or WorkloadOf("agent", 200, 1),
        "tp": 2,
        "pp": 2,
        "capacity": 100_000,
        "host_capacity": 400_000,
        "batch": 4,
        "step_ms": 5,
        "report_ms": 1_000,
        "fatal_ms": 20_000,
    }
    return Launcher(Job(**{**fields, "faults": faults, **changed})).run()


def agreed(outcome: Outcome) -> Summary:
    """The summary of a run without a finding, in which bytes were moved and checked."""
    summary = Summary(outcome)
    assert summary.findings == [], {rank: one.message for rank, one in outcome.failures.items()}
    assert not outcome.killed
    for one in summary.results:
        assert one.checked_tokens > 0
        assert one.totals["backed_up_tokens"] > 0
        assert one.totals["evicted_tokens"] > 0
    return summary


def survivors_name(outcome: Outcome, lost: int) -> None:
    """Every survivor has ended by itself, in time, with an error that names the rank."""
    topology = outcome.job.topology
    assert not outcome.results
    assert set(outcome.failures) == set(range(topology.ranks))
    assert set(outcome.killed) <= {lost}
    for rank, failure in outcome.failures.items():
        if rank != lost:
            assert failure.error in {"PlaneLost", "DivergenceError"}, failure
            assert failure.named == (lost,), failure
            assert f"rank {lost}" in failure.message
    survivors = [failure for rank, failure in outcome.failures.items() if rank != lost]
    last_ns = max(failure.at_ns for failure in survivors)
    assert (last_ns - fault_ns(outcome, survivors)) / 1e9 < outcome.job.fatal_ms / 1e3 + SLACK_S


def fault_ns(outcome: Outcome, survivors: list[RankFailure]) -> int:
    """When the run's fault came, at the latest: a survivor had ended the step before."""
    (fault,) = parse_faults(outcome.job.faults, outcome.job.topology.ranks)
    ends = []
    for log in (unpacked(failure.steps) for failure in survivors):
        before = log["start"][: fault.number("step") - 1] + log["step"][: fault.number("step") - 1]
        ends.append(int(before[-1]))
    return min(ends)


def test_a_clean_run_and_its_faulty_twin_decide_the_same_of_what_is_no_timing() -> None:
    clean = agreed(replay())
    assert clean.requests == 200
    assert len({one.digests for one in clean.results}) == 1
    assert clean.host_hits > 0
    assert clean.results[0].totals["loaded_back_tokens"] == clean.host_hits
    faulty = agreed(replay(*FAULTS.values()))
    assert faulty.requests == 200
    assert {kind for one in faulty.results for _, kind in one.events} == set(FAULTS)


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_each_fault_alone(fault: str) -> None:
    summary = agreed(replay(fault))
    assert any(one.events for one in summary.results), "it was at work"
    assert summary.requests == 200


@pytest.mark.parametrize(("tp", "pp", "cp", "dp"), [(1, 4, 1, 1), (4, 1, 1, 1), (2, 1, 2, 1), (2, 1, 1, 2)])
def test_topologies(tp: int, pp: int, cp: int, dp: int) -> None:
    summary = agreed(replay(tp=tp, pp=pp, cp=cp, dp=dp, requests=WorkloadOf("agent", 200 * dp, 1)))
    assert len(summary.domains) == dp
    assert [one.requests for one in summary.domains] == [200] * dp


@pytest.mark.parametrize("plane", ["piggyback", "chain"])
def test_other_planes(plane: str) -> None:
    summary = agreed(replay(plane=plane))
    assert all(one.counts["frames"] == len(one.digests) // 8 for one in summary.results)


def test_copies_take_no_time_of_the_scheduler() -> None:
    outcome = replay("copy-slow:ms=20", tp=2, pp=1, batch=2, step_ms=30)
    for one in agreed(outcome).results:
        log = one.step_log()
        for phase in ("cache", "close"):
            assert sorted(log[phase])[len(log[phase]) // 2] < 20e6, "a median step waits for no copy"
        assert log["copies"].sum() > 20e6, "the forward pass waits for its own"


@pytest.mark.parametrize(
    ("rank", "store_rank"), [(0, 0), (3, 0), (2, 2)], ids=["leader", "follower", "rendezvous host"]
)
def test_a_killed_rank_is_named_by_all_others(rank: int, store_rank: int) -> None:
    outcome = replay(f"kill:rank={rank},step=10", store_rank=store_rank, fatal_ms=FATAL_MS)
    survivors_name(outcome, rank)
    assert outcome.failures[rank].message == "killed by SIGKILL"
    assert not outcome.killed


@pytest.mark.parametrize(
    ("rank", "store_rank"),
    [(0, 1), (2, 2), pytest.param(3, 0, marks=pytest.mark.slow)],
    ids=["leader", "rendezvous host", "follower"],
)
def test_a_stopped_rank_is_named_by_all_others(rank: int, store_rank: int) -> None:
    outcome = replay(f"stop:rank={rank},step=10", store_rank=store_rank, fatal_ms=FATAL_MS)
    survivors_name(outcome, rank)
    assert outcome.killed == [rank]


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["kill", "stop"])
@pytest.mark.parametrize("rank", [0, 1, 3])
def test_a_lost_rank_is_named_where_frames_ride_along(rank: int, fault: str) -> None:
    survivors_name(replay(f"{fault}:rank={rank},step=20", plane="piggyback", fatal_ms=FATAL_MS), rank)


def test_a_rank_that_decides_otherwise_is_named() -> None:
    outcome = replay("diverge:rank=1,step=12", fatal_ms=FATAL_MS, step_ms=ALL_DECIDE_MS)
    survivors_name(outcome, 1)
    own = outcome.failures[1]
    assert (own.error, own.named) == ("DivergenceError", (1,))
    both = (
        r"divergence at step 12 seq \d+: rank 1 decided insert .*, ranks 0,2,3 decided insert .*; last common step 11"
    )
    for failure in outcome.failures.values():
        assert re.search(both, failure.message), failure


def test_a_leader_that_decides_otherwise_is_named_by_all(tmp_path: Path) -> None:
    outcome = replay("diverge:rank=0,step=12", fatal_ms=FATAL_MS, step_ms=ALL_DECIDE_MS, journal=str(tmp_path))
    assert {failure.named for failure in outcome.failures.values()} == {(0,)}
    (group,) = find(tmp_path)
    parting = compare(group).parting
    assert parting is not None
    assert (parting.step, parting.culprits) == (12, (0,))


def test_journals_of_a_run_that_parts(tmp_path: Path) -> None:
    """The replay, `diff`, `replay-journal` and `view` tell the same story."""
    folder, page = tmp_path / "journals", tmp_path / "page.html"
    ranks = ["--tp", "2", "--pp", "2", "--capacity", "100k", "--host-capacity", "400k", "--batch", "4"]
    lie = ["--inject", "diverge:rank=3,step=40", "--journal", str(folder), "--step-ms", str(ALL_DECIDE_MS)]
    done = subprocess.run([*COMMAND, *ranks, *lie], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    told = re.search(
        r"^error: (divergence at step (\d+) seq (\d+): rank 3 decided .*, ranks 0,1,2 decided .*; "
        r"last common step (\d+))\n"
        r"hint: this rank's journal is (\S+); see isoradix diff (\S+)$",
        done.stderr,
        re.MULTILINE,
    )
    assert told is not None, done.stderr
    parted, step, seq, last, own, run = told.groups()
    assert 40 <= int(step) < 60, "at the first insert from step 40 on"
    assert int(last) == int(step) - 1

    diff = subprocess.run([*CLI, "diff", run, "--json"], capture_output=True, text=True, check=False)
    assert diff.returncode == 1
    (group,) = json.loads(diff.stdout)["groups"]
    parting = group["parting"]
    assert (parting["step"], parting["seq"], parting["last_common_frame"]) == (int(step), int(seq), int(step))
    assert (parting["culprits"], parting["undetermined"]) == ([3], False)
    assert re.fullmatch(r"token \d+ of the key of insert", parting["input"]["name"])
    assert parting["decisions"]["3"]["text"] in parted

    for rank in range(4):
        path = Path(own).with_name(f"rank-{rank:04}.000.journal")
        again = subprocess.run([*CLI, "replay-journal", path, "--json"], capture_output=True, text=True, check=False)
        assert again.returncode == 0, again.stderr
        assert json.loads(again.stdout)["steps"] >= 40
    view = subprocess.run([*CLI, "view", str(folder), "-o", str(page)], capture_output=True, text=True, check=False)
    assert view.returncode == 0, view.stderr
    assert parted in page.read_text(encoding="utf-8")


def test_tiers_that_are_off_move_nothing() -> None:
    summary = Summary(replay(tiers="l1"))
    assert summary.findings == []
    for one in summary.results:
        assert (one.totals["backed_up_tokens"], one.totals["loaded_back_tokens"]) == (0, 0)
        assert one.totals["evicted_tokens"] > 0


def test_tiers_are_switched_by_all_ranks_at_one_step(tmp_path: Path) -> None:
    """Off for a while, and on again: what is decided is as equal as ever, and can be done again from a journal."""
    summary = agreed(replay(tiers_at=((15, "l1"), (40, "l2")), journal=str(tmp_path)))
    assert summary.host_hits > 0
    (group,) = find(tmp_path)
    assert compare(group).parting is None
    for journal in group.journals:
        assert [(one.step, one.a) for one in records(journal) if one.kind == "tiers"] == [(15, 1), (40, 2)]
    again = Rerun(group.journals[2])
    assert len(list(again.run())) == len(summary.results[2].digests) // 8
    assert again.cache.tree_digest == summary.results[2].tree_digest


def records(journal: Journal) -> list[Record]:
    return [
        record for entry in journal.entries() if isinstance(entry, Decisions) for record in read_records(entry.data)
    ]


def test_a_divergence_that_is_observed_ends_no_rank() -> None:
    summary = Summary(replay("diverge:rank=1,step=12", mode="observe"))
    assert not summary.outcome.failures
    assert {one.rank for one in summary.results} == {0, 1, 2, 3}
    observed = {one.rank: one.observed for one in summary.results}
    assert (observed[1] or "").startswith("divergence before step 13: rank 1 has digest ")
    assert all("rank 1 has digest " in (told or "") for told in observed.values()), observed
    assert any(finding.startswith("decision digests differ from step 13 on") for finding in summary.findings)
    assert any(finding.startswith("rank 1 observed: divergence before step 13") for finding in summary.findings)


def test_what_no_rank_compares_is_found_at_the_end() -> None:
    summary = Summary(replay("diverge:rank=1,step=12", mode="off"))
    assert not summary.outcome.failures
    assert [one.observed for one in summary.results] == [None] * 4
    assert any(finding.startswith("decision digests differ from step 13 on") for finding in summary.findings)


@pytest.mark.parametrize("rank", [0, 3])
def test_a_rank_that_hangs_in_its_own_copy_is_told_apart_from_the_network(rank: int) -> None:
    outcome = replay(f"copy-hang:rank={rank},step=20", report_ms=400, fatal_ms=FATAL_MS)
    assert not outcome.results
    for other, failure in outcome.failures.items():
        if other != rank:
            assert failure.named == (rank,), failure
            assert f"rank {rank} waits for its own copy " in failure.message, failure
            assert "the network is ruled out" in failure.message


def test_a_wrong_byte_is_found() -> None:
    outcome = replay("corrupt:rank=2,step=20", fatal_ms=FATAL_MS)
    survivors_name(outcome, 2)
    own = outcome.failures[2]
    assert own.error == "WrongBytesError"
    assert re.match(r"wrong bytes on rank 2, layer 2, k, token \d+, slot \d+: ", own.message)


def test_a_rank_that_hangs_while_it_exits_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sitecustomize.py").write_text("import os, time\nos._exit = lambda code: time.sleep(600)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(launcher, "_GRACE_S", 1.0)
    outcome = replay(tp=1, pp=1, requests=WorkloadOf("agent", 20, 1))
    assert outcome.killed == [0]
    assert list(outcome.results) == [0], "it had said all it had to say"
    assert outcome.wall_s < 60


def test_the_command_line(tmp_path: Path) -> None:
    report = tmp_path / "page.html"
    arguments = ["--requests", "60", "--seed", "1", "--tp", "2", "--capacity", "100k", "--host-capacity", "400k"]
    command = [*COMMAND, *arguments, "--batch", "2", "--inject", "sleep:p=0.2,ms=3", "--json", "--report", str(report)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["verdict"] == "ok"
    assert document["topology"] == {"tp": 2, "pp": 1, "cp": 1, "dp": 1, "ranks": 2}
    assert [one["rank"] for one in document["ranks"]] == [0, 1]
    assert document["ranks"][0]["decision_digest"] == document["ranks"][1]["decision_digest"]
    assert set(document["ranks"][0]["times"]) == {"input", "plane", "cache", "close", "copies", "forward", "step"}
    page = report.read_text(encoding="utf-8")
    assert "Where the time went" in page
    assert "Hits by tier" in page


def test_a_failed_run_ends_with_1_and_one_table(tmp_path: Path) -> None:
    report = tmp_path / "page.html"
    arguments = ["--tp", "2", "--capacity", "100k", "--fatal-ms", str(FATAL_MS), "--report-ms", "1000"]
    command = [*COMMAND, *arguments, "--inject", "kill:rank=1,step=5", "--report", str(report)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert re.search(r"^0 +PlaneLost +1 ", done.stdout, re.MULTILINE), done.stdout
    assert re.search(r"^1 +Died +nobody +killed by SIGKILL", done.stdout, re.MULTILINE), done.stdout
    assert "Traceback" not in done.stderr
    assert "Died" in report.read_text(encoding="utf-8")


def children(of: int) -> list[int]:
    """The processes that a process has started."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(status.read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError):
            continue
        if parent == of:
            found.append(int(status.parent.name))
    return found


def is_gone(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def wait_until(condition: Any, seconds: float, what: str) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, what
        time.sleep(0.05)


def endless(folder: Path, *more: str) -> subprocess.Popen[str]:
    """A run of two ranks that takes long, in a process group of its own as a shell starts it; it leaves files there."""
    arguments = ["--requests", "100000", "--tp", "2", "--capacity", "100k", "--step-ms", "20", *more]
    return subprocess.Popen(
        [*COMMAND, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "TMPDIR": str(folder)},
    )


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes in /proc")
def test_an_interrupt_ends_everything_without_a_traceback(tmp_path: Path) -> None:
    with endless(tmp_path) as run:
        wait_until(lambda: len(children(run.pid)) == 2, 20, "two ranks")
        ranks = children(run.pid)
        time.sleep(4)
        os.killpg(run.pid, signal.SIGINT)
        out, err = run.communicate(timeout=20)
    assert run.returncode == 130
    assert (out, err) == ("", "error: interrupted\n")
    assert all(map(is_gone, ranks))
    assert not list(tmp_path.glob("isoradix-*/*")), "nor are files left"


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes in /proc")
def test_ranks_die_with_their_launcher(tmp_path: Path) -> None:
    with endless(tmp_path, "--inject", "stop:rank=1,step=3") as run:
        wait_until(lambda: len(children(run.pid)) == 2, 20, "two ranks")
        ranks = children(run.pid)
        time.sleep(5)
        run.kill()
        run.communicate()
        wait_until(lambda: all(map(is_gone, ranks)), 10, "a stopped rank dies too")


MATRIX = [
    (sizes, plane, write_policy)
    for sizes in ((2, 2, 1), (1, 4, 1), (4, 1, 1), (2, 1, 2))
    for plane in ("gloo", "piggyback")
    for write_policy in ("through:1", "through:2", "back:20000")
]


@pytest.mark.slow
@pytest.mark.parametrize(("sizes", "plane", "write_policy"), MATRIX)
@pytest.mark.parametrize("workload", ["chat", "agent", "rag"])
def test_the_matrix(sizes: tuple[int, int, int], plane: Any, write_policy: str, workload: str) -> None:
    tp, pp, dp = sizes
    outcome = replay(
        *FAULTS.values(),
        requests=WorkloadOf(workload, 300, 2),
        tp=tp,
        pp=pp,
        dp=dp,
        plane=plane,
        write_policy=write_policy,
        page_size=16,
    )
    summary = Summary(outcome)
    assert summary.findings == [], {rank: one.message for rank, one in outcome.failures.items()}
    assert summary.requests == 300


def test_a_stopped_rank_that_nobody_watches_is_ended_by_the_launcher() -> None:
    """Of a domain of one rank there is no survivor to notice."""
    outcome = replay("stop:rank=0,step=3", tp=1, pp=1, dp=1, fatal_ms=1_000)
    assert outcome.killed == [0]
    assert outcome.failures[0].error == "Hung"
