"""`isoradix topology`."""

import json

import pytest

from isoradix.cli.app import run


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = run(["topology", *arguments])
    out, err = capsys.readouterr()
    return code, out, err


def test_domains_are_drawn_stage_by_stage(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = shown(capsys, "--tp", "2", "--pp", "2", "--dp", "2", "--layers", "61")
    assert code == 0
    lines = [line.split() for line in out.splitlines()]
    assert lines[0] == ["domain", "0:", "4", "ranks,", "*", "leads"]
    assert lines[2] == ["0", "0-29", "rank", "0", "*", "rank", "1"]
    assert lines[6] == ["0", "0-29", "rank", "2", "*", "rank", "3"]
    assert lines[-1] == ["7", "1", "3", "1", "1", "0", "3", "-", "yes", "layers", "30-60,", "tp", "1", "of", "2"]


def test_the_document_names_shards_and_writers(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = shown(capsys, "--tp", "2", "--cp", "2", "--ep", "2", "--latent", "--json")
    assert code == 0
    ranks = json.loads(out)["ranks"]
    assert [rank["stores"] for rank in ranks] == [True, False, True, False], "one of the ranks with equal bytes"
    assert [rank["shard"] for rank in ranks] == [f"layers 0-31, cp {cp} of 2" for cp in (0, 0, 1, 1)]
    assert [rank["ep"] for rank in ranks] == [0, 0, 1, 1]
    assert [rank["frames_from"] for rank in ranks] == [None, 0, 1, 1]
    assert [rank["frames_to"] for rank in ranks] == [[1], [2, 3], [], []]


def test_what_is_no_deployment_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = shown(capsys, "--tp", "2", "--ep", "3")
    assert (code, out) == (2, "")
    assert err.startswith("error: ep is 3, and a stage has")
    assert shown(capsys, "--pp", "8", "--layers", "4")[0] == 2


def test_many_ranks_are_counted_and_not_listed(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = shown(capsys, "--tp", "8", "--pp", "16")
    assert "128; --json lists them" in out
