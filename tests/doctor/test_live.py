"""Incidents made anew by real processes: what is found in their evidence, whatever the machine's timing made of it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.doctor.recorded import RECORDED

from isoradix.doctor.diagnosis import diagnose

pytestmark = pytest.mark.cluster


def check(name: str, folder: Path) -> None:
    incident = RECORDED[name]
    incident.record(folder)
    found = diagnose([folder])
    assert str(found.found.form) == incident.form, found.found
    if not (incident.by_chance and found.found.sure == "undetermined"):
        assert found.found.culprits == incident.culprits, found.found
    assert found.next.step == incident.next
    for words in incident.says:
        assert words in found.found.condition.text


@pytest.mark.parametrize("name", [name for name, incident in RECORDED.items() if not incident.slow])
def test_incident(name: str, tmp_path: Path) -> None:
    check(name, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, incident in RECORDED.items() if incident.slow])
def test_other_incidents(name: str, tmp_path: Path) -> None:
    if RECORDED[name].needs_stacks and shutil.which("py-spy") is None:
        pytest.skip("stacks need py-spy on the path: pip install py-spy")
    check(name, tmp_path)
