"""`isoradix storage`."""

import io
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from isoradix.cli.app import run
from isoradix.storage import Backend, Outcome, PageViews, Status, open_storage
from isoradix.storage.check import Checker
from isoradix.storage.engines.file import FileEngine

from .conftest import make_server
from .mooncake_server import MooncakeServer


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = run(["storage", *arguments])
    out, err = capsys.readouterr()
    return code, out, err


KEYS = [bytes([place]) * 32 for place in range(3)]


def put(url: str, pages: int) -> None:
    with open_storage(url) as store:
        assert store.put_from(KEYS[:pages], PageViews.whole(bytearray(pages * 100), 100)).done == pages


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
    put(url, 3)
    code, out, _ = shown(capsys, "stats", url, "--json")
    assert (code, json.loads(out)["pages"], json.loads(out)["capabilities"]["checked"]) == (0, 3, True)
    code, out, _ = shown(capsys, "stats", url)
    assert (code, "limit_bytes" in out and "1,000,000" in out) == (0, True)
    assert shown(capsys, "clear", url, "--yes")[0] == 0
    assert json.loads(shown(capsys, "stats", url, "--json")[1])["pages"] == 0


@pytest.mark.parametrize("command", [("stats",), ("clear", "--yes")])
@pytest.mark.parametrize("place", ["typo", "."])
def test_a_look_at_what_is_not_there_makes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: tuple[str, ...], place: str
) -> None:
    code, out, err = shown(capsys, command[0], f"file://{tmp_path}/{place}", *command[1:])
    assert (code, out) == (2, "")
    assert f"there is no store at file://{tmp_path}/{place}\nhint: " in err
    assert not list(tmp_path.iterdir())


def test_stats_of_a_folder_of_sglang(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "key.bin").write_bytes(b"page")
    code, out, _ = shown(capsys, "stats", f"file://{tmp_path}?format=sglang", "--json")
    assert (code, json.loads(out)["pages"]) == (0, 1)
    code, _, err = shown(capsys, "stats", f"file://{tmp_path}/typo?format=sglang")
    assert (code, "there is no store" in err) == (2, True)


@pytest.mark.parametrize(("typed", "code"), [("", 130), ("n\n", 0), ("y\n", 0)])
def test_clear_asks_and_takes_no_end_of_input_for_an_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, typed: str, code: int
) -> None:
    url = f"file://{tmp_path}/kv"
    put(url, 3)
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    assert shown(capsys, "clear", url)[0] == code
    assert json.loads(shown(capsys, "stats", url, "--json")[1])["pages"] == (0 if typed == "y\n" else 3)


def test_stats_and_clear_have_their_own_deadline(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"file://{tmp_path}/kv?timeout=0.001"
    put(f"file://{tmp_path}/kv", 1)
    over = threading.Event()
    work = {verb: getattr(FileEngine, verb) for verb in ("usage", "clear")}
    for verb in work:  # as on a store with very many pages

        def slow(engine: Any, call: Any, do: Any = work[verb]) -> Any:
            over.wait(1.2)
            return do(engine, call)

        monkeypatch.setattr(FileEngine, verb, slow)
    assert shown(capsys, "stats", url)[0] == 0
    assert shown(capsys, "clear", url, "--yes")[0] == 0
    over.clear()
    for command in (("stats", url), ("clear", url, "--yes")):
        code, out, err = shown(capsys, *command, "--timeout", "1")
        assert (code, out) == (1, "")
        assert f"{command[0]} was not over after 1 s" in err
        assert "--timeout" in err
    over.set()


@pytest.mark.parametrize(
    "engine", ["redis", *(pytest.param(one, marks=pytest.mark.slow) for one in ("s3", "mooncake"))]
)
def test_a_server(engine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server = make_server(engine, tmp_path)
    try:
        quick = ("--page-bytes", "1000", "--pages", "4", "--rounds", "1")
        code, out, err = shown(capsys, "check", server.url, *quick)
        assert (code, "NO" in out, "MB/s" in out) == (0, False, True), out + err
        put(server.url, 3)
        facts = json.loads(shown(capsys, "stats", server.url, "--json")[1])
        assert facts["engine"] == engine
        assert facts.get("pages", 3) == 3
        assert shown(capsys, "clear", server.url, "--yes")[0] == 0
        with open_storage(server.url) as store:
            assert store.exists(KEYS).flags == (False,) * 3
        server.kill()
        if isinstance(server, MooncakeServer):
            server.master.end()
        down = f"{server.url}{'&' if '?' in server.url else '?'}connect=3&timeout=3"
        for command in (("check", down, *quick), ("stats", down), ("clear", down, "--yes")):
            code, out, err = shown(capsys, *command, *(() if command[0] == "check" else ("--timeout", "3")))
            assert code == 1, command
            assert "hint: " in err or "NO: " in out
            assert "Traceback" not in err
    finally:
        server.close()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("check", "nosuch://x"), "no storage engine for nosuch"),
        (("stats", "file:///tmp/kv?a=1"), "does not know: a"),
        (("stats", "file:///tmp/kv", "--timeout", "0"), "--timeout is 0"),
        (("clear", "redis://x/y", "--yes"), "names the database"),
        (("stats", "s3://"), "names no bucket"),
        (("stats", "mooncake://master"), "names no master and port"),
        (("check", "file:///tmp/kv", "--pages", "1"), "--pages is 1"),
        (("check", "file:///tmp/kv", "--page-bytes", "1Gi", "--pages", "4096"), "the limit is"),
    ],
)
def test_what_is_refused(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str) -> None:
    code, out, err = shown(capsys, *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert "hint: " in err
