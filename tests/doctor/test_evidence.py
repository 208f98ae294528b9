"""`isoradix replay --evidence`, and what `isoradix doctor` makes of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Answer

pytestmark = pytest.mark.cluster


def test_from_a_replay_to_its_culprit(answer: Answer, tmp_path: Path) -> None:
    folder = tmp_path / "incident"
    run = ("replay", "--workload", "agent", "--requests", "40", "--tp", "2", "--step-ms", "5")
    code, _, _ = answer(*run, "--inject", "kill:rank=1,step=8", "--evidence", folder, "--json")
    assert code == 1
    kept = {path.relative_to(folder).parts[0] for path in folder.rglob("*") if path.is_file()}
    assert {"rank-0000.log", "rank-0001.log", "journals", "replay.json"} <= kept
    code, out, _ = answer("doctor", folder, "--json")
    document: dict[str, Any] = json.loads(out)
    assert (code, document["form"]) == (1, "killed")
    assert document["culprits"] == [{"rank": 1, "name": "rank 1"}]
    assert {file["kind"] for file in document["files"]} == {"log", "journal", "replay"}
    code, _, err = answer(*run, "--evidence", folder)
    assert (code, "which is not empty" in err) == (2, True)


def test_what_a_replay_says_is_enough(answer: Answer, tmp_path: Path) -> None:
    """Without logs and journals: `replay.json` alone."""
    folder = tmp_path / "incident"
    run = ("replay", "--workload", "agent", "--requests", "40", "--tp", "2", "--step-ms", "5")
    answer(*run, "--inject", "kill:rank=0,step=8", "--evidence", folder)
    code, out, _ = answer("doctor", folder / "replay.json", "--json")
    assert (code, json.loads(out)["form"]) == (1, "killed")
    assert [one["rank"] for one in json.loads(out)["culprits"]] == [0]
