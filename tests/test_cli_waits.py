"""`isoradix waits`, on boards that this test writes."""

import json
import os
import re
import time
from pathlib import Path
from typing import Any

import pytest

from isoradix.cli.app import run
from isoradix.consensus.waits import SELF, WaitBoard


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


def test_what_the_boards_say_together_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("isoradix.cli.waits.LONG_S", 0.02)
    boards = [WaitBoard(tmp_path, rank, rank, 0, 0, 3) for rank in range(3)]
    for board in boards:
        board.entered(41)
    boards[2].begin("copy", SELF, 12, 3)
    boards[0].begin("frame", 2, 42, 41)
    boards[1].begin("frame", 0, 42, 41)
    boards[1].parted(40)
    time.sleep(0.05)
    code, out, _ = shown(capsys, str(tmp_path))
    assert code == 0
    assert re.search(r"\n2 +\d+ +copy +own +itself +12 +3 +0\.\d s", out)
    assert re.search(r"rank 1 +has parted before step 40\n", out)
    said = r"rank 2 waits for its own copy 12 \(has 3\) for 0\.\d s, at step 41"
    behind = "; ranks 0,1 wait for rank 2, so the network is ruled out"
    assert re.search(rf"domain 0 +{said}{behind}\n", out), out
    code, out, _ = shown(capsys, str(tmp_path), "--json")
    document: dict[str, Any] = json.loads(out)
    (found,) = document["diagnoses"]
    assert {name: found[name] for name in ("domain", "case", "ranks", "waiting")} == {
        "domain": 0,
        "case": "own",
        "ranks": [2],
        "waiting": [0, 1],
    }
    assert [rank["parted"] for rank in document["ranks"]] == [None, 40, None]
    assert {rank["step"] for rank in document["ranks"]} == {41}
    for board in boards:
        board.close()


def test_no_ranks_and_no_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = shown(capsys, str(tmp_path))
    assert (code, f"no rank keeps a wait board in {tmp_path}" in out) == (0, True)
    code, _, err = shown(capsys, str(tmp_path / "nowhere"))
    assert (code, "is no folder" in err) == (2, True)
