"""Every incident in the folder `incidents`: its evidence leads to form, culprit, condition and next step.

Most were recorded from real processes, by `recorded.py`; the others are built from the signatures of public reports, in
words of our own.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.doctor.recorded import INCIDENTS, RECORDED

from isoradix.doctor.diagnosis import diagnose

FOLDERS = sorted(path for path in INCIDENTS.iterdir() if path.is_dir())


def expected(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "expected.json").read_text())
    return found


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_what_is_found(folder: Path) -> None:
    found = diagnose([folder / "evidence"])
    right = expected(folder)
    assert str(found.found.form) == right["form"], found.found
    assert list(found.found.culprits) == right["culprit"], found.found
    assert found.found.condition.text == right["condition"]
    assert str(found.found.sure) == right["sure"]
    assert found.next.step == right["next"]
    assert not found.evidence.left_out


@pytest.mark.parametrize("name", RECORDED)
def test_what_is_recorded_is_what_was_planted(name: str) -> None:
    """The fixture says what the fault is known to be, and not what was found in it."""
    planted, right = RECORDED[name], expected(INCIDENTS / name)
    assert right["form"] == planted.form
    assert right["culprit"] == list(planted.culprits)
    assert right["next"] == planted.next
    for words in planted.says:
        assert words in right["condition"]


def test_there_are_enough_of_each() -> None:
    forms = [expected(folder)["form"] for folder in FOLDERS]
    incidents = [form for form in forms if form != "none"]
    assert len(incidents) >= 16
    assert forms.count("none") >= 4
    assert {"A", "B", "C", "divergence", "killed", "stopped", "failed", "none"} == set(forms)
    assert sum(folder.name.startswith("public-") for folder in FOLDERS) >= 4


def test_fixtures_name_no_place_of_the_machine_on_which_they_were_recorded() -> None:
    for path in INCIDENTS.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            for place in ("tmp", "home"):
                assert f"/{place}/".encode() not in data, path


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_evidence_that_is_missing_names_nobody_else(folder: Path) -> None:
    """Without any one file, the answer may be less sure: it names the same ranks, fewer, or nobody."""
    files = [path for path in (folder / "evidence").rglob("*") if path.is_file()]
    right = expected(folder)
    for left_out in files:
        rest = [path for path in files if path != left_out]
        if not rest:
            continue
        found = diagnose(rest).found
        if right["form"] == "none":
            assert str(found.form) == "none", left_out
        elif found.culprits and right["culprit"]:
            assert set(found.culprits) <= set(right["culprit"]), left_out
