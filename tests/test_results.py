"""The comparison with peers: ratios, RESULTS.md and the picture, from made-up numbers; SGLang is not needed."""

import json
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from benches import plot
from benches.peers.adapters import EVERY, ISORADIX, SGLANG
from benches.peers.gates import GATES, Ceiling, Gate
from benches.peers.reasons import REASONS
from benches.peers.results import Results, Spread, markdown, number, write
from benches.peers.rows import FLOOR, LABELS, best, times_floor

SVG = "{http://www.w3.org/2000/svg}"


def made_up(**changed: dict[str, float]) -> Results:
    """Every ratio met and no row over three times the floor, but for what is changed (underscores are spaces)."""
    times = {**dict.fromkeys(SGLANG, 900_000.0), ISORADIX: 8000.0, FLOOR: 4000.0}
    rows = {row: dict(times) for row in LABELS}
    rows["replay"] = {**dict.fromkeys(SGLANG, 1000.0), ISORADIX: 8000.0, FLOOR: 16_000.0}
    rows["bytes a token"] = {**dict.fromkeys(SGLANG, 40.0), ISORADIX: 8.0, FLOOR: 4.0}
    for row, cells in changed.items():
        rows[row.replace("_", " ")].update(cells)
    spreads = {row: {who: Spread.of([value]) for who, value in cells.items()} for row, cells in rows.items()}
    notes = {
        "replay": "a trace",
        "hit rate": 0.5,
        "hitseq": "0123456789ab",
        "evidence": {"journal": 0.25, "rest": 0.75},
    }
    return Results({"processor": "a processor"}, spreads, notes, "python -m benches.peers.suite", 7)


def section(page: str, title: str) -> str:
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1].strip()


def test_best_and_times_the_floor_know_which_way_is_better() -> None:
    cells = {"sgl-rust": 3.0, "sgl-py-radix": 5.0, ISORADIX: 4.0, FLOOR: 2.0}
    assert best("match flat", cells) == 3
    assert best("replay", cells) == 5
    assert best("match flat", cells, ("sgl-py-radix", "sgl-rust-raw")) == 5
    assert best("match flat", {ISORADIX: 4.0}) is None
    assert times_floor("match flat", cells) == 2
    assert times_floor("replay", cells) == 0.5
    assert times_floor("match flat", {ISORADIX: 4.0}) is None


def test_a_gate_is_an_upper_limit_on_times_and_a_lower_one_on_rates() -> None:
    table = {
        "match flat": {ISORADIX: 2.0, "sgl-rust": 8.0, "sgl-py-radix": 4.0},
        "replay": {ISORADIX: 9.0, "sgl-rust": 3.0},
    }
    gate = Gate("a time", "match flat", 0.5)
    assert gate.ratio(table) == 0.5
    assert gate.holds(0.5)
    assert not gate.holds(0.51)
    rate = Gate("a rate", "replay", 3.0)
    assert rate.ratio(table) == 3
    assert rate.holds(3.0)
    assert not rate.holds(2.99)


def test_a_gate_may_name_its_peers_or_another_row() -> None:
    table = {
        "insert new": {ISORADIX: 2.0, "sgl-rust": 1.0, "sgl-py-radix": 4.0},
        "evict 1, 1M leaves": {ISORADIX: 6.0},
        "evict 1, 10k leaves": {ISORADIX: 3.0, "sgl-rust": 1.0},
        "bytes a token": {ISORADIX: 7.0, "sgl-rust": 1.0},
    }
    assert Gate("one peer", "insert new", 1.0, theirs=("sgl-py-radix",)).ratio(table) == 0.5
    assert Gate("itself", "evict 1, 1M leaves", 3.0, against="evict 1, 10k leaves").ratio(table) == 2
    assert Ceiling("no peer", "bytes a token", 15.0).ratio(table) == 7
    assert Gate("absent", "lock path", 0.2).ratio(table) is None


def test_every_gate_and_reason_is_about_a_row() -> None:
    rows = {gate.row for gate in GATES} | {gate.against for gate in GATES if gate.against}
    assert rows | REASONS.keys() <= LABELS.keys()


def test_numbers_have_as_many_digits_as_a_person_reads() -> None:
    shown = [number(value) for value in (None, 0.0443, 0.5, 1.234, 12.34, 123.4, 12_345.6)]
    assert shown == ["", "0.044", "0.5", "1.23", "12.3", "123", "12,346"]


def test_a_spread_is_the_quartiles() -> None:
    assert Spread.of([1.0, 2.0, 3.0, 4.0, 5.0]) == Spread(3.0, 2.0, 4.0, 5)
    assert Spread.of([7.0]) == Spread(7.0, 7.0, 7.0, 1)


def test_a_run_that_meets_everything_explains_nothing() -> None:
    results = made_up()
    assert results.all_gates_hold()
    page = markdown(results, quick=False)
    assert "**no**" not in page
    assert "mean nothing" not in page
    assert section(page, "Not met, or over three times the floor, and why") == "No row."
    assert len(section(page, "Ratios").splitlines()) == len(GATES) + 5
    assert "| processor | a processor |" in page
    assert "| 25.0% | journal |" in page
    assert "mean nothing" in markdown(results, quick=True)


def test_every_row_is_shown_with_its_median_in_microseconds() -> None:
    lines = section(markdown(made_up(), quick=False), "Medians").splitlines()
    (flat,) = (line for line in lines if line.startswith(f"| {LABELS['match flat']} |"))
    columns = [cell.strip() for cell in flat.strip("|").split("|")]
    assert columns[1:] == ["900"] * len(SGLANG) + ["8.00", "4.00", "0.0089", "2.00"]
    assert [line.split(" | ")[0].strip("| ") for line in lines if line.startswith("| ")][2:] == list(LABELS.values())
    (replay,) = (line for line in lines if line.startswith(f"| {LABELS['replay']} |"))
    assert replay.endswith("| 8,000 | 16,000 | 8.00 | 2.00 |")


def test_rows_that_miss_or_are_far_from_the_floor_are_explained() -> None:
    results = made_up(
        insert_new={ISORADIX: 1_000_000.0, FLOOR: 500_000.0}, match_flat={FLOOR: 1000.0}, unlock_path={FLOOR: 2000.0}
    )
    assert not results.all_gates_hold()
    page = markdown(results, quick=False)
    assert page.count("**no**") == 1
    assert section(page, "Not met, or over three times the floor, and why").splitlines() == [
        f"- **{LABELS['match flat']}**: 8.00 times the floor. {REASONS['match flat']}",
        f"- **{LABELS['insert new']}**: 1.11, not ≤ 1.00. {REASONS['insert new']}",
        f"- **{LABELS['unlock path']}**: 4.00 times the floor. No reason is on record.",
    ]


def test_what_was_not_measured_is_not_met() -> None:
    results = made_up()
    del results.rows["lock path"]
    assert not results.all_gates_hold()
    page = markdown(results, quick=False)
    assert "| lock a path of 256 nodes |  | ≤ 0.2 | not measured |  |" in page
    assert f"| {LABELS['lock path']} |" not in page


@pytest.fixture
def written(tmp_path: Path) -> Path:
    page, data = write(made_up(), tmp_path / "out", quick=False)
    assert page.read_text(encoding="utf-8") == markdown(made_up(), quick=False)
    return data


def test_the_file_holds_rows_and_ratios(written: Path) -> None:
    held = json.loads(written.read_text(encoding="utf-8"))
    assert held["rows"]["match flat"][ISORADIX] == {"median": 8000.0, "low": 8000.0, "high": 8000.0, "samples": 1}
    assert held["ratios"]["replay in 4M tokens, requests/s"] == 8
    assert set(held["rows"]["lock path"]) == {*EVERY, FLOOR}


def test_the_picture_is_drawn_from_the_file(written: Path, tmp_path: Path) -> None:
    target = tmp_path / "img" / "peers.svg"
    plot.main([str(written), str(target)])
    image = ElementTree.parse(target).getroot()
    assert image.tag == f"{SVG}svg"
    shown = [text.text for text in image.iter(f"{SVG}text")]
    assert set(plot.ROWS.values()) <= set(shown)
    assert {"a processor", "8.0x", "112x"} <= set(shown), "ratios of the replay and of the rest"
    assert len([dot for dot in image.iter(f"{SVG}circle") if dot.get("class") == "ours"]) == len(plot.ROWS) + 1
    width = float(image.attrib["viewBox"].split()[2])
    assert all(0 < float(dot.attrib["cx"]) < width for dot in image.iter(f"{SVG}circle"))


def test_the_picture_takes_times_from_rates_and_leaves_out_what_has_no_pair() -> None:
    rows = {
        "replay": {ISORADIX: {"median": 20_000.0}, "sgl-rust": {"median": 2000.0}, "sgl-py-radix": {"median": 4000.0}},
        "match flat": {ISORADIX: {"median": 500.0}, "sgl-rust": {"median": 1000.0}, FLOOR: {"median": 250.0}},
        "lock path": {ISORADIX: {"median": 500.0}},
        "insert new": {"sgl-rust": {"median": 500.0}},
    }
    assert plot.read_rows(rows) == [
        plot.Row(plot.ROWS["replay"], 50.0, 250.0, None),
        plot.Row(plot.ROWS["match flat"], 0.5, 1.0, 0.25),
    ]
    assert [row.ratio for row in plot.read_rows(rows)] == ["5.0x", "2.0x"]


def test_a_file_without_pairs_is_refused(tmp_path: Path) -> None:
    empty = tmp_path / "RESULTS.json"
    empty.write_text('{"rows": {}, "machine": {}}', encoding="utf-8")
    with pytest.raises(SystemExit, match="no row with both isoradix and SGLang in it\nhint: make bench-peers"):
        plot.main([str(empty), str(tmp_path / "peers.svg")])
    assert not (tmp_path / "peers.svg").exists()
