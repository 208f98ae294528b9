"""External storage below the ranks of a replay: what one run stores the next finds, and no fault shows in a byte."""

import subprocess
from pathlib import Path

import pytest

from .replays import COMMAND, cached, replay

FAULTS = [
    "storage-short:rank=1,p=0.5",
    "storage-fail:rank=1",
    "storage-slow:rank=0,ms=5..50",
    "storage-hang:rank=1,step=40",
    "ack-delay:rank=1",
    "alloc-fail:rank=0,p=0.2",
]


@pytest.mark.cluster
def test_a_fresh_run_finds_what_another_has_stored(tmp_path: Path) -> None:
    paced = ["--tp", "2", "--step-ms", "3"]  # or the run may be over before storage has taken much
    first = replay(tmp_path.as_uri(), paced)
    second = replay(tmp_path.as_uri(), paced)
    assert second["storage_hit_tokens"] > first["storage_hit_tokens"]
    assert cached(second) > cached(first)
    assert {rank["stored_tokens"] > 0 for rank in first["ranks"]} == {True}
    assert {rank["prefetched_tokens"] > 0 for rank in second["ranks"]} == {True}


@pytest.mark.cluster
def test_all_faults_of_storage_at_once_show_in_no_byte(tmp_path: Path) -> None:
    replay(tmp_path.as_uri(), ["--tp", "2"])
    faulty = replay(tmp_path.as_uri(), ["--tp", "2"], *(word for fault in FAULTS for word in ("--inject", fault)))
    assert all(rank["faults_at_work"] > 0 for rank in faulty["ranks"])
    assert all(rank["operations"]["prefetch"]["aborted_failed"] > 0 for rank in faulty["ranks"]), "on one, so on both"


@pytest.mark.cluster
def test_what_others_have_computed_meanwhile_is_no_hit_of_storage(tmp_path: Path) -> None:
    always = ["--inject", "storage-fail:p=1", "--breaker", "none"]
    nothing = replay(tmp_path.as_uri(), ["--tp", "2"], *always, requests=400)
    assert {rank["prefetched_tokens"] for rank in nothing["ranks"]} == {0}
    assert nothing["storage_hit_tokens"] == 0
    assert all(rank["operations"]["prefetch"]["issued"] > 0 for rank in nothing["ranks"])


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["best_effort", "wait_complete"])
def test_requests_wait_as_they_are_told(tmp_path: Path, policy: str) -> None:
    ranks = ["--tp", "2", "--pp", "2"]
    replay(tmp_path.as_uri(), ranks)
    again = replay(tmp_path.as_uri(), ranks, "--prefetch-policy", policy)
    for rank in again["ranks"]:
        assert rank["operations"]["prefetch"]["issued"] > 0
        assert rank["operations"]["prefetch"]["aborted_time_out"] == 0, "nothing is given up but by the policy"
    assert policy == "best_effort" or again["storage_hit_tokens"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [["--tp", "2", "--pp", "2"], ["--pp", "4"]], ids=["tp2xpp2", "pp4"])
@pytest.mark.parametrize("fault", [*FAULTS[:4], "all"])
def test_each_fault_of_storage_on_each_topology(tmp_path: Path, ranks: list[str], fault: str) -> None:
    replay(tmp_path.as_uri(), ranks, requests=300)
    faults = FAULTS if fault == "all" else [fault]
    faulty = replay(tmp_path.as_uri(), ranks, *(word for one in faults for word in ("--inject", one)), requests=300)
    for rank in {one.partition("rank=")[2][0] for one in faults}:
        assert faulty["ranks"][int(rank)]["faults_at_work"] > 0, rank
    if fault.startswith(("storage-short", "storage-slow")):
        assert faulty["storage_hit_tokens"] > 0, "what all ranks have is served"


def test_what_makes_no_sense_is_refused(tmp_path: Path) -> None:
    for options, named in (
        (["--storage", "file:///tmp/kv"], "without host memory"),
        (["--prefetch-policy", "timeout"], "without --storage"),
        (["--host-capacity", "1k", "--storage", "nope://x"], "nope"),
        (["--host-capacity", "1k", "--inject", "storage-fail"], "external storage"),
        (["--host-capacity", "1k", "--storage", f"file://{tmp_path}", "--prefetch-policy", "never"], "never"),
    ):
        done = subprocess.run([*COMMAND[:-1], "--tp", "2", *options], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (2, ""), options
        assert named in done.stderr, options
