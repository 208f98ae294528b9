"""The wait board, as another process reads it."""

import os
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from isoradix import InvalidInputError
from isoradix.consensus import all_waits, read_waits
from isoradix.consensus.waits import SELF, WaitBoard, WaitEntry


@pytest.fixture
def board(tmp_path: Path) -> WaitBoard:
    return WaitBoard(tmp_path, rank=5, member=1, epoch=9)


def test_a_wait_is_seen_from_outside_while_it_lasts(board: WaitBoard) -> None:
    assert read_waits(board.path).waits == ()
    board.begin("frame", 3, 8, 7)
    with board.waiting("vote", -1, 2, 1):
        time.sleep(0.02)
        seen = read_waits(board.path)
        assert (seen.pid, seen.rank, seen.member, seen.epoch, seen.alive) == (os.getpid(), 5, 1, 9, True)
        shown = [(wait.operation, wait.group, wait.peer, wait.want, wait.have) for wait in seen.waits]
        assert shown == [("frame", "frames", 3, 8, 7), ("vote", "votes", -1, 2, 1)]
        assert 0.02 <= seen.waits[1].age_s <= seen.waits[0].age_s < 60
        assert [entry.operation for entry, _ in board.going_on()] == ["frame", "vote"]
    assert [wait.operation for wait in read_waits(board.path).waits] == ["frame"]
    assert board.end("frame") >= 0.02
    assert read_waits(board.path).waits == ()


def test_a_board_says_where_its_rank_is(tmp_path: Path) -> None:
    board = WaitBoard(tmp_path, rank=5, member=1, epoch=9, domain=2, members=4)
    for step, votes, parted in [(-1, 0, None), (7, 3, None), (8, 3, 8)]:
        if step > 0:
            board.entered(step)
            board.voted(votes)
        if parted is not None:
            board.parted(parted)
        time.sleep(0.01)
        seen = read_waits(board.path)
        assert (seen.domain, seen.members, seen.step, seen.votes, seen.parted) == (2, 4, step, votes, parted)
        assert 0.01 <= seen.still_s < 60
    own = board.now()
    assert (own.rank, own.member, own.epoch, own.domain, own.members) == (5, 1, 9, 2, 4)
    assert (own.step, own.votes, own.alive, own.stopped) == (8, 3, True, False)


def test_a_wait_for_something_of_its_own_is_told_apart(board: WaitBoard) -> None:
    with board.waiting("copy", SELF, 12, 3), board.waiting("frame", 0, 2, 1):
        own = {wait.operation: (wait.own, wait.peer) for wait in read_waits(board.path).waits}
    assert own == {"frame": (False, 0), "copy": (True, SELF)}


def test_a_board_of_the_release_before_is_read(tmp_path: Path) -> None:
    head = struct.pack("<4sHHIIIQ", b"IRXW", 1, 1, os.getpid(), 5, 1, 9).ljust(64, b"\0")
    slot = struct.pack("<IIQqqi24s24s", 2, 1, time.monotonic_ns(), 8, 7, 3, b"frame", b"frames").ljust(128, b"\0")
    path = tmp_path / "1-rank5.waits"
    path.write_bytes(head + slot)
    seen = read_waits(path)
    assert (seen.rank, seen.member, seen.epoch, seen.domain, seen.members, seen.step) == (5, 1, 9, 0, 0, -1)
    assert [(wait.operation, wait.want) for wait in seen.waits] == [("frame", 8)]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says whether a process is stopped")
def test_a_process_that_is_stopped_is_told(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from isoradix.consensus.waits import WaitBoard;"
        "board = WaitBoard(Path(sys.argv[1]), 3, 1, 0); print('ready', flush=True); sys.stdin.read(); board.close()"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as rank:
        assert rank.stdout is not None
        rank.stdout.readline()
        assert [seen.stopped for seen in all_waits(tmp_path)] == [False]
        rank.send_signal(signal.SIGSTOP)
        until = time.monotonic() + 10
        while [seen.stopped for seen in all_waits(tmp_path)] != [True]:
            assert time.monotonic() < until
        rank.send_signal(signal.SIGCONT)


def test_a_board_goes_with_its_rank_and_stays_if_that_was_killed(tmp_path: Path) -> None:
    board = WaitBoard(tmp_path, 0, 0, 0)
    assert [seen.rank for seen in all_waits(tmp_path)] == [0]
    board.close()
    board.close()
    assert all_waits(tmp_path) == []
    script = (
        "import os, sys; from pathlib import Path; from isoradix.consensus.waits import WaitBoard;"
        "WaitBoard(Path(sys.argv[1]), 3, 1, 0).begin('frame', 0, 5, 4); os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False)
    (seen,) = all_waits(tmp_path)
    assert (seen.rank, seen.alive) == (3, False)
    wait = seen.waits[0]
    assert wait == WaitEntry("frame", "frames", 0, 5, 4, wait.age_s)


def test_a_board_left_behind_a_day_ago_goes_with_the_next(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    living = WaitBoard(tmp_path, 0, 0, 0)
    for name, pid, days in [("old", ended.pid, 1.1), ("young", ended.pid, 0.9), ("living", os.getpid(), 9)]:
        data = bytearray(living.path.read_bytes())
        data[8:12] = pid.to_bytes(4, "little")
        path = tmp_path / f"{name}.waits"
        path.write_bytes(data)
        os.utime(path, (time.time() - days * 86_400,) * 2)
    strange = tmp_path / "strange.waits"
    strange.write_bytes(b"no board")
    os.utime(strange, (0, 0))
    again = WaitBoard(tmp_path, 1, 1, 0)
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {living.path.name, again.path.name, "young.waits", "living.waits", "strange.waits"}


def test_a_reader_never_sees_half_a_wait(tmp_path: Path) -> None:
    """Another process reads while this one writes nearly as fast as it can: want is have + 1, always."""
    script = (
        "import sys, time; from pathlib import Path; from isoradix.consensus import read_waits\n"
        "path, until, seen = Path(sys.argv[1]), time.monotonic() + 1.0, 0\n"
        "print('ready', flush=True)\n"
        "while time.monotonic() < until:\n"
        "    for wait in read_waits(path).waits:\n"
        "        assert wait.want == wait.have + 1, wait\n"
        "        seen += 1\n"
        "print(seen)"
    )
    board = WaitBoard(tmp_path, 0, 0, 0)
    with subprocess.Popen([sys.executable, "-c", script, str(board.path)], stdout=subprocess.PIPE, text=True) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == "ready\n"
        step = 0
        while reader.poll() is None:
            step += 1
            board.begin("frame", 0, step + 1, step)
            if step % 256 == 0:
                time.sleep(0.005)
            board.end("frame")
        assert reader.returncode == 0
        assert int(reader.stdout.read()) > 0


def test_what_is_no_board_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "1-rank0.waits"
    path.write_bytes(b"something else")
    with pytest.raises(InvalidInputError, match="is no wait board"):
        read_waits(path)
    path.write_bytes(b"IRXW\x07\x00" + bytes(200))
    with pytest.raises(InvalidInputError, match="version 7"):
        read_waits(path)
    assert all_waits(tmp_path) == []
    with pytest.raises(InvalidInputError, match="cannot be written"):
        WaitBoard(path, 0, 0, 0)
