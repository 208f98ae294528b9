"""Options of a cluster replay that make no sense are refused, before any process starts."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from isoradix.cluster.faults import KINDS
from isoradix.cluster.intake import Feed
from isoradix.replay.source import WorkloadSource

if TYPE_CHECKING:
    from ..conftest import Answer

DOCUMENT = Path(__file__).parents[2] / "docs" / "cluster.md"


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--plane", "chain"], "--plane is given without ranks or a host tier"),
        (["--inject", "sleep", "--step-ms", "3"], "--step-ms and --inject are given without ranks"),
        (["--tp", "2", "--resume"], "--resume is given with ranks"),
        (["--tp", "0"], "--tp is 0; the limits are 1 to 4,096"),
        (["--tp", "x"], "--tp is 'x'"),
        (["--tp", "4000", "--pp", "2"], "are 8000 ranks, limit 4096"),
        (["--tp", "2", "--plane", "nccl"], "--plane is 'nccl'; there are gloo, chain, piggyback"),
        (["--dp", "2", "--plane", "gloo"], "--plane is given with one rank a replica"),
        (["--host-capacity", "1M", "--store-rank", "0"], "--store-rank is given with one rank a replica"),
        (["--tp", "2", "--store-rank", "2"], "--store-rank is 2; the limits are 0 to 1"),
        (["--tp", "2", "--write-policy", "through:1"], "--write-policy is given without a host tier"),
        (["--tp", "2", "--host-capacity", "1M", "--write-policy", "through:0"], "through"),
        (["--tp", "2", "--host-capacity", "1M", "--write-policy", "sometimes"], "sometimes"),
        (["--tp", "2", "--policy", "lruu"], "lruu"),
        (["--tp", "2", "--host-capacity", "63"], "--host-capacity is 63 tokens"),
        (["--tp", "2", "--batch", "0"], "--batch is 0"),
        (["--tp", "2", "--fatal-ms", "50"], "--fatal-ms is 50"),
        (["--tp", "2", "--fatal-ms", "500", "--report-ms", "501"], "--report-ms is 501; the limits are 1 to 500"),
        (["--tp", "2", "--inject", "slep"], "there is no fault 'slep'"),
        (["--tp", "2", "--inject", "sleep", "--inject", "sleep:rank=2"], "rank is '2', limits 0 to 1"),
        (["--tp", "2", "--inject", "copy-slow"], "'copy-slow' is about host memory, and there is none"),
        (["--tp", "2", "--inject", "net-slow", "--plane", "chain"], "'net-slow' is on the way between ranks"),
        (["--host-capacity", "1M", "--inject", "revote:rank=0,step=3"], "is on the way between ranks"),
        (["--tp", "2", "--inject", "batch:rank=0,step=3"], "is between pipeline stages, and there is one"),
        (["--tp", "2", "--evidence", "."], "--evidence is '.', which is not empty"),
        (["--tp", "2", "--evidence", "Makefile"], "--evidence is 'Makefile', which cannot be used: not a directory"),
        (["--tp", "2", "--report", "."], "which is a folder"),
        (["--mode", "observe"], "--mode is given without ranks or a host tier"),
        (["--tp", "2", "--mode", "watch"], "--mode is 'watch'; there are off, observe, enforce"),
        (["--tiers", "l1"], "--tiers is given without ranks or a host tier"),
        (["--tp", "2", "--tiers", "l1"], "--tiers is given without a host tier"),
        (["--host-capacity", "1M", "--tiers", "l4"], "--tiers is 'l4'; there are l1, l2, l3"),
        (["--host-capacity", "1M", "--tiers-at", "l1"], "--tiers-at is 'l1'; it has no '='"),
        (["--host-capacity", "1M", "--tiers-at", "0=l1"], "--tiers-at is 0; the limits are 1 to"),
        (["--host-capacity", "1M", "--tiers-at", "5=l0"], "--tiers-at is 'l0'; there are l1, l2, l3"),
        (["--host-capacity", "1M", "--tiers-at", "5=l1", "--tiers-at", "5=l2"], "--tiers-at names step 5 twice"),
    ],
)
def test_bad_usage_is_refused(answer: Answer, arguments: list[str], named: str) -> None:
    code, out, err = answer("replay", "--workload", "chat", *arguments)
    assert (code, out) == (2, "")
    assert re.fullmatch(r"error: [^\n]+\nhint: [^\n]+\n", err), err
    assert named in err


def test_a_pipe_is_refused(answer: Answer, tmp_path: Path) -> None:
    pipe = tmp_path / "trace.pipe"
    os.mkfifo(pipe)
    code, out, err = answer("replay", pipe, "--tp", "2")
    assert (code, out) == (2, "")
    assert "trace.pipe is a pipe" in err


def test_missing_torch_is_named(answer: Answer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("isoradix.cli.cluster.find_spec", lambda name: None)
    code, out, err = answer("replay", "--workload", "chat", "--tp", "2")
    assert (code, out) == (2, "")
    assert 'hint: pip install "isoradix[torch]"' in err


@pytest.mark.cluster
def test_a_bad_trace_is_bad_input(answer: Answer, tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    trace.write_text('{"input_length": 9', encoding="utf-8")
    code, out, err = answer("replay", trace, "--host-capacity", "1M")
    assert (code, out) == (2, "")
    assert err.startswith(f"error: {trace}, line 1: the line is cut off")


@pytest.mark.cluster
def test_one_rank_with_a_host_tier(answer: Answer, tmp_path: Path) -> None:
    arguments = ["--requests", 80, "--capacity", "100k", "--host-capacity", "400k"]
    code, out, err = answer("replay", "--workload", "agent", *arguments, "--page-size", 16)
    assert (code, err) == (0, "")
    assert "1: one alone, local plane" in out


def test_the_document_has_every_fault() -> None:
    document = DOCUMENT.read_text(encoding="utf-8")
    for name, kind in KINDS.items():
        row = next(line for line in document.splitlines() if line.startswith("|") and f"`{name}`" in line)
        for key in (*kind.needs, *kind.defaults):
            assert f"`{key}" in row


def test_domains_take_turns() -> None:
    source = WorkloadSource("chat", 20, 3)
    feeds = [Feed(source, 64, domain, 2) for domain in range(2)]
    taken = [[*feed.take(3), *feed.take(100)] for feed in feeds]
    assert [[request.index for request in turn] for turn in taken] == [list(range(0, 20, 2)), list(range(1, 20, 2))]
    assert all(feed.exhausted for feed in feeds)
    prompts = list(source)
    for request in taken[1]:
        assert np.array_equal(request.key, prompts[request.index][: len(request.key)])
        assert len(request.key) % 64 == 0
        assert 1 <= request.steps <= 4


def test_short_requests_are_skipped() -> None:
    feed = Feed(WorkloadSource("chat", 20, 3), 1024)
    taken = feed.take(100)
    assert feed.skipped == 20 - len(taken) > 0
