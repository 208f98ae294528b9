"""Reports are whole, self-contained pages; `bench` measures every axis it is given."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from isoradix.bench.catalogue import BENCHES
from isoradix.bench.grid import Grid
from isoradix.report.scale import fitted, human, linear, logarithmic, microseconds, named, percent

if TYPE_CHECKING:
    from .conftest import Answer


@pytest.mark.parametrize(
    ("what", "options"),
    [
        ("match", "--length 256,1k --repeat 3"),
        ("insert", "--length 256,1k --repeat 3"),
        ("lock", "--repeat 3"),
        ("evict", "--leaves 500,2k --repeat 3"),
        ("replay", "--requests 20"),
        ("memory", "--leaves 500,2k"),
    ],
)
def test_bench(answer: Answer, tmp_path: Path, what: str, options: str) -> None:
    report = tmp_path / "bench.html"
    code, out, err = answer("bench", what, "--page-size", "16", *options.split(), "--json", "--report", report)
    assert code == 0, err
    rows = json.loads(out)["results"][what]
    assert rows
    for row in rows:
        assert row["page_size"] == 16
        if what == "memory":
            assert row["counted_bytes_per_token"] > 4, "a token alone takes four"
        elif what == "replay":
            assert row["requests_per_s"] > 0
        else:
            assert 0 < row["median_us"] <= row["p99_us"] <= row["max_us"]
    is_self_contained(report)


@pytest.mark.parametrize("what", BENCHES)
def test_a_bench_names_the_axes_that_it_reads(what: str) -> None:
    read: set[str] = set()

    class Watched(Grid):
        def __getattribute__(self, name: str) -> object:
            read.add(name)
            return super().__getattribute__(name)

    assert BENCHES[what].cases(Watched())
    assert read & {field.name for field in fields(Grid)} == BENCHES[what].axes


def test_bench_shows_a_table(answer: Answer) -> None:
    arguments = ["--policy", "lru,slru:3", "--leaves", "500", "--locked-fraction", "0,0.5", "--repeat", "2"]
    code, out, _ = answer("bench", "evict", *arguments)
    assert code == 0
    assert "locked fraction" in out
    assert "slru:3" in out
    assert "…" not in out


def test_replay_report(answer: Answer, tmp_path: Path) -> None:
    report = tmp_path / "out" / "replay.html"
    arguments = ["--workload", "agent", "--requests", "80", "--capacity", "100k", "--report", report]
    code, out, err = answer("replay", *arguments)
    assert code == 0, err
    page = is_self_contained(report)
    hitseq = re.search(r"hitseq +([0-9a-f]{12})", out)
    assert hitseq is not None
    for shown in (hitseq[1], "Hit rate", "Occupancy", "Latency distribution", "Branches by depth", "Shape"):
        assert shown in page


def test_an_empty_replay_still_makes_a_report(answer: Answer, tmp_path: Path) -> None:
    trace = tmp_path / "short.jsonl"
    trace.write_text('{"input_length": 3, "hash_ids": [1]}\n', encoding="utf-8")
    report = tmp_path / "replay.html"
    code, _, err = answer("replay", trace, "--report", report)
    assert code == 0, err
    is_self_contained(report)


def is_self_contained(report: Path) -> str:
    """A whole page that loads nothing, whose elements nest."""
    page = report.read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert not re.search(r"<(script|link|img|iframe)|url\(|@import", page)
    assert "nan" not in re.sub(r"<[a-z]+>[^<]*", "", page).lower().replace("dominant", "")
    opened: list[str] = []
    for closing, tag in re.findall(r"<(/?)([a-z0-9]+)", page):
        if closing:
            assert opened.pop() == tag
        elif tag != "meta":
            opened.append(tag)
    assert opened == []
    return page


def test_sweep_report(answer: Answer, tmp_path: Path) -> None:
    report = tmp_path / "new" / "sweep.html"
    arguments = ["--workload", "rag", "--requests", "60", "--capacity", "20k..160k", "--report", report]
    code, out, err = answer("sweep", *arguments)
    assert code == 0, err
    assert "offline-optimal" in out
    assert str(report) in err
    assert "Share of the offline optimum" in is_self_contained(report)


def test_numbers_read_well() -> None:
    assert [human(value) for value in (0, 7, 999, 1000, 15_360, 4e6, 2.5e9)] == [
        "0", "7", "999", "1k", "15.4k", "4M", "2.5G",
    ]  # fmt: skip
    assert [microseconds(value) for value in (0, 0.25, 12.3, 4100, 2.5e6)] == [
        "0",
        "250 ns",
        "12.3 µs",
        "4.1 ms",
        "2.5 s",
    ]
    assert percent(0.1796) == "18 %"


def test_scales_cover_their_range_with_few_ticks() -> None:
    for low, high in ((0.0, 1.0), (0.0, 0.37), (0.0, 12_031.0), (0.0, 4e6), (3.0, 3.0), (0.0, 0.0)):
        for scale in (linear(low, high), fitted(low, high)):
            assert scale.at(scale.low) == 0
            assert scale.at(max(high, scale.low)) <= 1
            assert 1 <= len(scale.ticks) <= 9
    for low, high in ((1.0, 1.0), (0.3, 8000.0), (5.0, 7.0), (1e-3, 1e9)):
        scale = logarithmic(low, high)
        assert scale.low <= low < high * 1.01
        assert 0 <= scale.at(low) <= scale.at(high) <= 1
        assert 1 <= len(scale.ticks) <= 9
    assert [shown for _, shown in named([1e6, 4e6, 1e6], human, log=True).ticks] == ["1M", "4M"]
    assert 0 < named([5], human, log=True).at(5) < 1
