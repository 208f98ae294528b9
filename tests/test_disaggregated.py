"""Prefill and decode on two groups of ranks: whatever becomes of a hand-over, the answers are those of one rank."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("torch")

from disaggregated.command import main
from disaggregated.deployment import GroupRank, Outcomes, run
from disaggregated.transfers import Job, Transfers
from isoradix import InvalidInputError, IsoradixError
from minillm import deployment
from minillm.requests import Workload
from minillm.settings import Settings

from .storage.mooncake_server import MooncakeServer
from .test_minillm import MOST_KL, worst_divergence

if TYPE_CHECKING:
    from minillm.deployment import Outcome

ROOT = Path(__file__).parent.parent
SHORT = Workload(users=4, rounds=2, system=48, question=40, answer=8)
LONG = Workload(users=8, rounds=3, system=48, question=40, answer=12)
TIGHT: dict[str, Any] = {"slots": 448, "batch": 2, "chunk": 96}
PATIENT: dict[str, Any] = {"patience_ms": 60_000}


class WrongPages(Transfers):
    """Gives pages whose keys have the other sign: well sealed, and wrong."""

    def _put(self, job: Job) -> bool:
        for page in job.pages[:-1]:
            self._pool.page(0, "k", int(page)).neg_()
        return super()._put(job)


class WrongRank(GroupRank):
    transfers = WrongPages


class LatePages(Transfers):
    """The second rank of a prefill group gives its pages when nobody waits for them any more."""

    def _put(self, job: Job) -> bool:
        if self._keys.shard.tp_rank == 1:
            time.sleep(1.0)
        return super()._put(job)


class LateRank(GroupRank):
    transfers = LatePages


@cache
def without_cache(workload: Workload) -> Outcome:
    """One rank that computes everything anew."""
    return deployment.run(Settings(cache="off", record=True, **TIGHT), workload)


def settings(url: str, tp: int = 2, pp: int = 1, **options: Any) -> Settings:
    return Settings(tp=tp, pp=pp, cache="l3", storage=url, host_pages=64, record=True, **TIGHT, **options)


def divergence(outcomes: Outcomes, workload: Workload) -> float:
    """As of `worst_divergence`, where all answers are the same."""
    truth = without_cache(workload)
    assert outcomes.decode.answers == truth.answers
    found = deployment.Outcome([], [], outcomes.distributions)
    assert {name: len(rows) for name, rows in found.distributions.items()} == {
        name: len(rows) for name, rows in truth.distributions.items()
    }
    return worst_divergence(found, truth)


def moved(outcomes: Outcomes, group: str) -> int:
    """Pages of requests that each rank of a group has given or taken: as many on all."""
    (pages,) = {report.pages for report in outcomes.reports if report.group == group}
    return pages


def verdicts(outcomes: Outcomes) -> Counter[str]:
    return Counter(verdict for _, _, verdict, _ in outcomes.verdicts)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[MooncakeServer]:
    server = MooncakeServer(tmp_path, 256 << 20)
    yield server
    server.close()


# what is right


@pytest.mark.parametrize("engine", ["file", "mooncake"])
def test_all_that_is_missing_is_handed_over_and_the_answers_are_right(
    engine: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = request.getfixturevalue("cluster").url if engine == "mooncake" else f"file://{tmp_path}/kv"
    each = settings(url)
    outcomes = run(each, each, SHORT, **PATIENT)
    assert divergence(outcomes, SHORT) < MOST_KL
    prompts = outcomes.decode.requests
    assert verdicts(outcomes) == {"ready": len(prompts)}
    lacking = sum(-(-(request.prompt - sum(request.hits)) // each.page_size) for request in prompts)
    assert moved(outcomes, "prefill") == moved(outcomes, "decode") == lacking
    assert sum(sum(request.hits) for request in prompts) > 0, "what the decode group has is not moved again"


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["file", "mooncake"])
def test_with_pipelines_under_faults(engine: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    url = request.getfixturevalue("cluster").url if engine == "mooncake" else f"file://{tmp_path}/kv"
    faults = (
        "copy-slow:ms=1..5",
        "alloc-fail:rank=0,p=0.2",
        "storage-fail:rank=3,p=0.05",
        "sleep:rank=1,ms=1..5,p=0.1",
    )
    outcomes = run(settings(url, 2, 2, faults=faults), settings(url, 2, 2, faults=faults), LONG, **PATIENT)
    assert divergence(outcomes, LONG) < MOST_KL
    assert verdicts(outcomes)["ready"] > 10
    stored = [sum(request.hits[2] for request in group.requests) for group in (outcomes.prefill, outcomes.decode)]
    assert max(stored) > 0, "what one group has stored, the other finds by a prefetch"


# what goes wrong


def test_a_wrong_page_is_noticed(tmp_path: Path) -> None:
    each = settings(f"file://{tmp_path}/kv", 1)
    outcomes = run(each, each, SHORT, rank=WrongRank, **PATIENT)
    assert outcomes.decode.answers != without_cache(SHORT).answers


def test_a_rank_that_cannot_fetch_makes_all_compute(tmp_path: Path) -> None:
    """Its storage fails in a third of all calls; pages that it got and others did not are used nowhere."""
    url = f"file://{tmp_path}/kv"
    faulty = settings(url, faults=("storage-fail:rank=1,p=0.3,seed=3",))
    outcomes = run(settings(url), faulty, SHORT, run="named, so that the same calls fail each time", **PATIENT)
    assert divergence(outcomes, SHORT) < MOST_KL
    assert verdicts(outcomes)["failed"] > 0
    assert {rank for _, _, verdict, rank in outcomes.verdicts if verdict == "failed"} == {1}


def test_pages_that_come_too_late_go_nowhere(tmp_path: Path) -> None:
    each = settings(f"file://{tmp_path}/kv")
    outcomes = run(each, each, SHORT, rank=LateRank, patience_ms=300, epochs=2)
    assert divergence(outcomes, SHORT) < MOST_KL
    assert verdicts(outcomes)["timed_out"] > 0
    assert [epoch for _, epoch, _, _ in outcomes.verdicts].count(2) > 0, "it is asked for again"


@pytest.mark.slow
@pytest.mark.parametrize(("tp", "pp"), [(2, 1), (2, 2)])
def test_the_memorys_owner_is_killed(cluster: MooncakeServer, tp: int, pp: int) -> None:
    def kill_when(ready: Callable[[], bool]) -> None:
        while not ready():
            time.sleep(0.02)
        cluster.kill()

    killer = threading.Thread(target=kill_when, args=(lambda: cluster.pages() > 20 * tp * pp,))
    killer.start()
    each = settings(f"{cluster.url}?timeout=1", tp, pp)
    outcomes = run(each, each, LONG, patience_ms=3000)
    killer.join(0)
    assert not killer.is_alive(), "it was killed in the middle"
    assert divergence(outcomes, LONG) < MOST_KL
    assert verdicts(outcomes)["ready"] > 0
    assert verdicts(outcomes)["ready"] < len(outcomes.decode.requests)


def test_groups_of_other_shapes_are_refused(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/kv"
    with pytest.raises(InvalidInputError, match=r"tp is 2 in the prefill group, 1 in the other\nhint: "):
        run(settings(url, 2), settings(url, 1), SHORT)


# the command line


def test_a_rank_that_is_gone_is_named_while_others_go_on(tmp_path: Path) -> None:
    whole = settings(f"file://{tmp_path}/kv", tp=1)
    dying = settings(f"file://{tmp_path}/kv", tp=1, faults=("kill:rank=0,step=20",))
    with pytest.raises(IsoradixError, match="decode 0 ended without a word, with -9"):
        run(whole, dying, SHORT, **PATIENT)


def test_the_command_says_what_was_moved_and_decided() -> None:
    arguments = ["--tp", "1", "--users", "3", "--rounds", "2", "--patience-ms", "60000", "--json"]
    line = [sys.executable, "-m", "examples.disaggregated", *arguments]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["right"] is True
    assert said["verdicts"] == {"ready": 6}
    assert [rank["group"] for rank in said["ranks"]] == ["prefill", "decode"]
    assert all(rank["moved_pages"] > 0 for rank in said["ranks"])


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--tp", "3"), "error: --tp is 3\nhint: "),
        (("--users", "0"), "error: --users is 0; the limits are 1 to 1,000\nhint: "),
        (("--decode-inject", "nonsense"), "error: fault 'nonsense': "),
        (("--decode-inject", "kill:rank=0,step=9"), "error: --decode-inject kill is not for a demo\nhint: "),
        (("--storage", ""), "error: --storage: "),
        (("--storage", "foo://bar"), "error: --storage: "),
        (("--storage", "file:///tmp?nonsense=1"), "error: --storage: "),
        (("--storage", "nothing"), "error: --storage: 'nothing' is no URL of a store\nhint: "),
        (("--strange",), "error: no such option: --strange"),
    ],
)
def test_what_cannot_be_run_is_refused(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], says: str
) -> None:
    code = main(arguments)
    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    assert err.startswith(says), err
