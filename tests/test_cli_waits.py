"""`isoradix waits`, on boards that this test writes."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from isoradix.cli.app import run
from isoradix.consensus.waits import WaitBoard


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = run(["waits", *arguments])
    out, err = capsys.readouterr()
    return code, out, err


def test_waits_of_all_ranks_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    boards = [WaitBoard(tmp_path, rank, rank, 0) for rank in (1, 0)]
    boards[0].begin("frame", 0, 8, 7)
    code, out, _ = shown(capsys, str(tmp_path))
    assert code == 0
    header, idle, waiting = out.split("\n")[1:4] if out.startswith("\n") else out.split("\n")[:3]
    assert header.split() == ["rank", "process", "operation", "group", "peer", "want", "have", "for"]
    assert idle.split()[:3] == ["0", str(os.getpid()), "-"]
    assert waiting.split()[:8] == ["1", str(os.getpid()), "frame", "frames", "member", "0", "8", "7"]
    code, out, _ = shown(capsys, str(tmp_path), "--json")
    document: dict[str, Any] = json.loads(out)
    assert [rank["rank"] for rank in document["ranks"]] == [0, 1]
    (wait,) = document["ranks"][1]["waits"]
    assert {name: wait[name] for name in ("operation", "peer", "want", "have")} == {
        "operation": "frame",
        "peer": 0,
        "want": 8,
        "have": 7,
    }
    for board in boards:
        board.close()


def test_no_ranks_and_no_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = shown(capsys, str(tmp_path))
    assert (code, f"no rank keeps a wait board in {tmp_path}" in out) == (0, True)
    code, _, err = shown(capsys, str(tmp_path / "nowhere"))
    assert (code, "is no folder" in err) == (2, True)
