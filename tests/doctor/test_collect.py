"""What is read, and what is refused: evidence comes from anywhere."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pytest

from isoradix import InvalidInputError
from isoradix.doctor import collect as collecting
from isoradix.doctor.collect import collect
from isoradix.doctor.rules import decide
from isoradix.doctor.text import lines

WAITS = (
    b'{"command": "waits", "ranks": [{"rank": 0, "pid": 1, "alive": true, "member": 0, "waits": '
    b'[{"operation": "frame", "group": "frames", "peer": 1, "want": 1, "have": 0, "age_s": 9.5}]}]}'
)
DEAD = "rank 1 has ended without a goodbye: killed, or crashed\n"


def refused(*paths: Path) -> str:
    with pytest.raises(InvalidInputError) as caught:
        collect(paths)
    what, hint = str(caught.value).split("\n")
    assert hint.startswith("hint: ")
    return what


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b"MZ\0\1", "is no text (byte 2 is 0)"),
        (gzip.compress(DEAD.encode(), mtime=0), "is packed with gzip"),
        (DEAD.encode("utf-16"), "is UTF-16, expected UTF-8"),
        (b'{"command": "sweep"}', "is a JSON object with command 'sweep'"),
        (b'{"command": "waits"}', "is no output of isoradix waits --json"),
        (b'{"command": "waits", "ranks": [{"rank": "x"}]}', "is no output of isoradix waits --json"),
        (b'{"command": "replay", "ranks": []}', "is no output of isoradix replay --json"),
        (WAITS.replace(b"9.5", b"NaN"), "an age is no number"),
        (
            b'{"command": "replay", "ranks": [], "topology": {"tp": 1, "cp": 1, "dp": 1, "ranks": 1000000000000}}',
            "1000000000000 ranks, limits 1 to 4096",
        ),
        (b"IRXW", "is no wait board"),
        (b"IRXW" + bytes(200), "is a wait board of version 0"),
        (b"IRXJ" + bytes(200), "is no journal"),
    ],
)
def test_a_file_that_is_no_evidence(tmp_path: Path, content: bytes, named: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    assert named in refused(path)


def test_in_a_folder_it_is_left_out_and_said(tmp_path: Path) -> None:
    (tmp_path / "core").write_bytes(b"\x7fELF\0")
    (tmp_path / "rank-0.log").write_text(DEAD)
    (tmp_path / ".hidden").write_bytes(b"\0")
    (tmp_path / "rank-0000.000.journal").write_bytes(b"IRXJ" + bytes(200))
    evidence = collect([tmp_path])
    assert [path.name for path, _ in evidence.left_out] == ["core", "rank-0000.000.journal"]
    assert [file.path.name for file in evidence.files] == ["rank-0.log"]


def test_nothing_to_read(tmp_path: Path) -> None:
    assert "there is no evidence in" in refused(tmp_path)
    (tmp_path / "core").write_bytes(b"\x7fELF\0")
    assert "1 files are none, the first: " in refused(tmp_path)
    assert "is not there" in refused(tmp_path / "nowhere")


def test_a_pipe_is_refused_before_it_is_opened(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert "is no file and no folder" in refused(pipe)


def test_a_file_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    (tmp_path / "rank-0.log").write_text(DEAD)
    monkeypatch.setattr(Path, "open", refuse)
    assert "cannot be read: permission denied" in refused(tmp_path / "rank-0.log")


def test_numbers_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    long = "9" * 5_000
    path.write_text(
        "rank 2 has been at step 8 for 1.2.3 s and waits for nobody\n"
        f"RuntimeError: shape '[{long}, -1, 3]' is invalid for input of size 7\n"
        f"rank {long} has ended without a goodbye\n"
        f"rank 2 has been at step 8 for {long} s and waits for nobody\n"
    )
    assert str(decide(collect([path])).form) == "none"


def test_more_labels_than_ranks_can_be(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_text("".join(f"[2026-09-02 02:47:31 TP{number}] on\n" for number in range(20_000)))
    assert len(collect([path]).roster.ranks) <= 8_192


def test_too_many_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collecting, "FILES_MAX", 3)
    for number in range(5):
        (tmp_path / f"{number}.log").write_text(DEAD)
    assert "more than 3 files" in refused(tmp_path)


def test_a_link_to_a_folder_above_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "rank-0.log").write_text(DEAD)
    (tmp_path / "again").symlink_to(tmp_path)
    assert len(collect([tmp_path]).files) == 1


def test_the_same_file_twice_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / "rank-0.log"
    path.write_text(DEAD)
    assert len(collect([path, tmp_path]).signs) == 1


def test_of_a_large_file_the_end_is_read(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_text("[2026-09-02 02:47:31 TP0] all is well\n" * 500 + DEAD)
    evidence = collect([path], limit=1_000)
    assert [sign.kind for sign in evidence.signs] == ["killed"]
    assert evidence.signs[0].source.line is None
    assert not evidence.files[0].whole
    assert len(list(lines(path, 1_000))) < 40


def test_bytes_that_are_no_text_and_lines_without_an_end(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_bytes(b"\xff\xfe\xfa"[2:] + b"x" * 100_000 + b"\n" + DEAD.encode() + b"y" * 100_000)
    evidence = collect([path])
    assert [(sign.kind, sign.source.line) for sign in evidence.signs] == [("killed", 2)]
    assert max(len(line) for _, line in lines(path)) <= 4 << 10


def test_a_traceback_that_never_ends_is_given_up(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    call = '  File "a.py", line 1, in f\n    f()\n'
    path.write_text("Traceback (most recent call last):\n" + call * 5_000 + DEAD)
    assert [sign.kind for sign in collect([path]).signs] == ["killed"]


def test_a_log_in_which_nothing_is_said(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_text("all is well\n")
    evidence = collect([path])
    assert [file.kind for file in evidence.files] == ["log"]
    assert str(decide(evidence).form) == "none"


def test_hostile_patterns_take_no_time(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    hostile = "divergence (form B): vote 1 says " + "is 1 " * 3_000
    path.write_text((hostile + "\nProcess 1: " + "(" * 15_000 + "\n" + "rank 1," * 2_000 + "\n") * 20)
    collect([path])


def test_a_document_of_waits(tmp_path: Path) -> None:
    path = tmp_path / "waits.json"
    path.write_bytes(WAITS)
    (board,) = collect([path]).boards
    assert (board.rank, board.waits[0].peer, board.waits[0].age_s) == (0, 1, 9.5)


def test_a_deep_document_is_no_waits(tmp_path: Path) -> None:
    path = tmp_path / "waits.json"
    path.write_text('{"a":' * 100_000)
    assert collect([path]).files[0].kind == "log"
    path.write_text(json.dumps({"command": "waits", "ranks": []}))
    assert collect([path]).files[0].kind == "waits"
