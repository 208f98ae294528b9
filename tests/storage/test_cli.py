"""`isoradix storage`."""

import json
from pathlib import Path
from typing import Any

import pytest

from isoradix.cli.app import run
from isoradix.storage import Backend, Outcome, Status
from isoradix.storage.check import Checker


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = run(["storage", *arguments])
    out, err = capsys.readouterr()
    return code, out, err


def test_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"file://{tmp_path}/kv"
    code, out, err = shown(capsys, "check", url, "--page-bytes", "10k", "--pages", "4", "--rounds", "2")
    assert (code, err) == (0, "")
    assert out.count("yes") == len(list(Checker.__new__(Checker).promises()))
    assert "MB/s" in out
    assert not list((tmp_path / "kv").glob("pages/*/*")), "what was put is removed"


def test_check_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = shown(capsys, "check", f"file://{tmp_path}/kv", "--page-bytes", "1000", "--rounds", "1", "--json")
    document: dict[str, Any] = json.loads(out)
    assert (code, document["kept"], document["command"]) == (0, True, "storage check")
    assert [speed["pages"] for speed in document["speeds"]] == [32, 32]


def test_a_broken_promise(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def forgets(self: Backend, keys: Any, views: Any, **_: Any) -> Outcome:
        return Outcome((Status.DONE,) * len(keys), None)

    monkeypatch.setattr(Backend, "put_from", forgets)
    code, out, _ = shown(capsys, "check", f"file://{tmp_path}/kv", "--page-bytes", "1000", "--rounds", "0")
    assert code == 1
    assert "NO: get gave missing" in out


def test_stats_and_clear(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"file://{tmp_path}/kv?limit=1M"
    from isoradix.storage import open_storage

    with open_storage(url) as store:
        keys, views, _ = Checker(store, 100, 3).fresh(3)
        assert store.put_from(keys, views).done == 3
    code, out, _ = shown(capsys, "stats", url, "--json")
    assert (code, json.loads(out)["pages"], json.loads(out)["capabilities"]["checked"]) == (0, 3, True)
    code, out, _ = shown(capsys, "stats", url)
    assert (code, "limit_bytes" in out and "1,000,000" in out) == (0, True)
    assert shown(capsys, "clear", url, "--yes")[0] == 0
    assert json.loads(shown(capsys, "stats", url, "--json")[1])["pages"] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("check", "nosuch://x"), "no storage engine for nosuch"),
        (("stats", "file:///tmp/kv?a=1"), "does not know: a"),
        (("check", "file:///tmp/kv", "--pages", "1"), "--pages is 1"),
        (("check", "file:///tmp/kv", "--page-bytes", "1Gi", "--pages", "4096"), "the limit is"),
    ],
)
def test_what_is_refused(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str) -> None:
    code, out, err = shown(capsys, *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert "hint: " in err
