"""Storage that fails, hangs, comes back, is attached and detached under the ranks of a replay: all of them see it at
one step, and no byte is wrong."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

REPLAY = [sys.executable, "-m", "isoradix.cli", "replay", "--workload", "agent", "--json", "--requests", "400"]
MEMORY = ["--capacity", "50k", "--host-capacity", "100k", "--step-ms", "5"]
TOPOLOGIES = {"tp2xpp2": ["--tp", "2", "--pp", "2"], "pp4": ["--pp", "4"]}
BREAKER = ["--breaker", "1,200,1,2000"]  # a loaded machine is no failing store
FAULTS = {"hang": "storage-hang:rank=1,step=10,until=150", "fail": "storage-fail:rank=1,p=1,until=150"}


def replay(folder: Path, *options: str) -> dict[str, Any]:
    command = [*REPLAY, *MEMORY, "--storage", f"file://{folder}", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=170, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    assert document["verdict"] == "ok"
    return document


def of_all(document: dict[str, Any], what: str) -> Any:
    """What is the same on all ranks."""
    one, *others = (rank[what] for rank in document["ranks"])
    assert all(other == one for other in others)
    return one


def degraded(folder: Path, ranks: list[str], fault: str) -> list[tuple[int, str]]:
    """The changes of the breaker in a run in which one rank's storage is away up to a step; it was filled before."""
    replay(folder, *ranks)
    document = replay(folder, *ranks, *BREAKER, "--inject", fault)
    changes = [(change["step"], change["state"]) for change in of_all(document, "breaker")]
    opened = [step for step, state in changes if state == "open"]
    closed = [step for step, state in changes if state == "closed"]
    assert opened, changes
    assert closed, changes
    assert opened[0] < closed[-1]
    assert changes[-1][1] == "closed"
    assert document["storage_hit_tokens"] > 0, "it is used again"
    assert document["ranks"][1]["faults_at_work"] > 0
    return changes


@pytest.mark.cluster
@pytest.mark.parametrize("fault", FAULTS)
def test_the_breaker_opens_and_closes_at_one_step_on_all_ranks(tmp_path: Path, fault: str) -> None:
    degraded(tmp_path, ["--tp", "2"], FAULTS[fault])


@pytest.mark.slow
@pytest.mark.parametrize("ranks", TOPOLOGIES.values(), ids=TOPOLOGIES)
@pytest.mark.parametrize("fault", FAULTS)
def test_so_it_does_on_larger_topologies(tmp_path: Path, ranks: list[str], fault: str) -> None:
    degraded(tmp_path, ranks, FAULTS[fault])


@pytest.mark.cluster
def test_storage_is_attached_and_detached_while_ranks_run(tmp_path: Path) -> None:
    replay(tmp_path, "--tp", "2")
    document = replay(tmp_path, "--tp", "2", "--attach-at", "6", "--detach-at", "30")
    told = of_all(document, "attachments")
    assert [change["what"] for change in told] == ["attached", "detached"]
    assert 6 <= told[0]["step"] < 30 <= told[1]["step"]
    assert document["storage_hit_tokens"] > 0
    assert of_all(document, "stored_tokens") + of_all(document, "given_up_tokens") > 0


@pytest.mark.cluster
def test_a_rank_that_cannot_open_its_storage_keeps_all_from_attaching(tmp_path: Path) -> None:
    document = replay(tmp_path, "--tp", "2", "--attach-at", "6", "--inject", "storage-unopened:rank=1")
    assert [[change["what"] for change in rank["attachments"]] for rank in document["ranks"]] == [["refused"]] * 2
    assert "cannot be opened" in document["ranks"][1]["attachments"][0]["why"]
    assert "another rank" in document["ranks"][0]["attachments"][0]["why"]
    assert of_all(document, "stored_tokens") == 0


def test_what_makes_no_sense_is_refused(tmp_path: Path) -> None:
    storage = ["--host-capacity", "1k", "--storage", f"file://{tmp_path}"]
    for options, named in (
        (["--host-capacity", "1k", "--attach-at", "5"], "without --storage"),
        (["--host-capacity", "1k", "--breaker", "1,1,1,1"], "without --storage"),
        ([*storage, "--breaker", "1,2"], "no four numbers"),
        ([*storage, "--breaker", "0,1,1,1"], "--breaker"),
        ([*storage, "--detach-at", "soon"], "--detach-at"),
    ):
        done = subprocess.run([*REPLAY[:-3], "--tp", "2", *options], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (2, ""), options
        assert named in done.stderr, options
