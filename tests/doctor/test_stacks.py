"""Stack dumps of py-spy and of Python's faulthandler, and where a thread stands in them."""

from __future__ import annotations

import faulthandler
import sys
from pathlib import Path

import pytest

from isoradix.doctor.collect import collect
from isoradix.doctor.evidence import Evidence, Frame, Source, Stack
from isoradix.doctor.places import Place, place_of

DUMP = """Process 309: sglang::scheduler_TP6
Python v3.12.12 (/usr/bin/python3.12)

Thread 309 (active+gil): "MainThread"
    all_reduce (torch/distributed/distributed_c10d.py:3075)
    wrapper (torch/distributed/c10d_logger.py:81)
    check (sglang/srt/mem_cache/hiradix_cache.py:196)
    run (sglang/srt/managers/scheduler.py:10)
    <module> (<string>:1)
Thread 400 (idle): "Thread-3 (prefetch)"
    wait (threading.py:359)
    get (queue.py:180)
"""


def read(folder: Path, text: str, name: str = "stacks.txt") -> Evidence:
    path = folder / name
    path.write_text(text)
    return collect([path])


def stack(*calls: str) -> Stack:
    """`function file`, the innermost first."""
    frames = tuple(Frame(function, file, None) for function, _, file in (call.partition(" ") for call in calls))
    return Stack("0", frames, True, Source(Path("stacks"), 1, ""))


def test_a_dump_of_py_spy(tmp_path: Path) -> None:
    (one,) = read(tmp_path, DUMP).stacks
    assert (one.label, one.idle, len(one.frames)) == ("TP6", False, 5)
    assert str(one.frames[0]) == "all_reduce (torch/distributed/distributed_c10d.py:3075)"
    assert one.source.line == 4


def test_several_dumps_within_a_log(tmp_path: Path) -> None:
    other = DUMP.replace("309", "310").replace("TP6", "TP7").replace("all_reduce", "broadcast")
    text = (
        f"[2026-09-03 04:30:11 TP6] Pyspy dump for PID 309:\n{DUMP}\n[2026-09-03 04:30:11 TP7] Pyspy dump for PID "
        f"310:\n{other}\n[2026-09-03 04:30:11 TP7] IndexError: pop from empty list\n"
    )
    evidence = read(tmp_path, text, "server.log")
    assert {rank: place_of(one).operation for rank, one in evidence.stacks_by_rank().items()} == {
        6: "all_reduce",
        7: "broadcast",
    }
    assert [sign.kind for sign in evidence.signs] == ["pop"], "the log goes on behind a dump"
    assert [file.kind for file in evidence.files] == ["log"]


def test_a_file_of_dumps_alone_is_no_log(tmp_path: Path) -> None:
    assert [file.kind for file in read(tmp_path, DUMP).files] == ["stacks"]


def test_the_rank_is_in_the_name_of_the_file_or_of_a_thread(tmp_path: Path) -> None:
    nameless = DUMP.replace("sglang::scheduler_TP6", "python -m worker")
    (one,) = read(tmp_path, nameless, "stacks-rank4.txt").stacks
    assert one.label == "4"
    threads = nameless + 'Thread 401 (idle): "isoradix-lifelines-5"\n    select (selectors.py:468)\n'
    (one,) = read(tmp_path, threads).stacks
    assert one.label == "5"


def test_what_the_faulthandler_prints(tmp_path: Path) -> None:
    path = tmp_path / "rank-0002.log"
    with path.open("w") as file:
        print("some line", file=file, flush=True)
        faulthandler.dump_traceback(file)
    evidence = collect([path])
    # under pytest no module begins on the main thread with `<module>` alone: it is there, further out
    (one,) = evidence.stacks
    assert one.label == "2"
    assert one.frames[0].function == sys._getframe().f_code.co_name
    assert one.frames[0].file.endswith("test_stacks.py")


@pytest.mark.parametrize(
    ("calls", "kind", "operation", "caller"),
    [
        (("all_reduce torch/distributed/distributed_c10d.py", "vote tree.py"), "collective", "all_reduce", "vote"),
        (
            (
                "broadcast torch/distributed/distributed_c10d.py",
                "wrapper torch/distributed/c10d_logger.py",
                "broadcast_pyobj sglang/srt/utils/common.py",
                "relay sglang/srt/managers/receiver.py",
            ),
            "collective",
            "broadcast_pyobj",
            "relay",
        ),
        (("recv torch/distributed/distributed_c10d.py", "step loop.py"), "message", "recv", "step"),
        (("_pp_commit_comm_work sglang/pp.py", "step loop.py"), "message", "_pp_commit_comm_work", "step"),
        (
            (
                "wait_for isoradix/consensus/links.py",
                "receive isoradix/consensus/frames.py",
                "enter isoradix/driver.py",
            ),
            "message",
            "receive",
            "enter",
        ),
        (("wait threading.py", "get queue.py", "fetch store.py", "step loop.py"), "own", "", "fetch"),
        (("recv socket.py", "get client.py", "step loop.py"), "own", "", "get"),
        (("send client.py", "step loop.py"), "own", "", "send"),
        (("_catch_up isoradix/consensus/chain.py", "enter isoradix/consensus/chain.py"), "own", "", "_catch_up"),
        (
            ("GlooReducer.all_reduce isoradix/consensus/reducers.py", "Tree.vote a.py"),
            "collective",
            "all_reduce",
            "vote",
        ),
        (("Client.get_pages store.py", "step loop.py"), "own", "", "get_pages"),
        (("synchronize torch/cuda/streams.py", "step loop.py"), "device", "synchronize", "step"),
        (("poll zmq.py", "recv_requests sglang/receiver.py"), "idle", "recv_requests", None),
        (
            ("gloo::transport::tcp::UnboundBuffer::waitRecv (libtorch_cpu.so)", "vote tree.py"),
            "message",
            "a wait of the transport",
            "vote",
        ),
    ],
)
def test_where_a_thread_stands(calls: tuple[str, ...], kind: str, operation: str, caller: str | None) -> None:
    place = place_of(stack(*calls))
    assert (place.kind, place.operation) == (kind, operation)
    assert (place.caller.name if place.caller else None) == caller


def test_places_in_words() -> None:
    frames = (Frame("check", "tree.py", 12), Frame("admit", "loop.py", 3))
    assert str(Place("collective", "all_reduce", frames)) == "all_reduce of check (tree.py:12), called by admit"
    assert str(Place("own", "", frames[:1])) == "check (tree.py:12)"
    assert str(Place("idle", "recv_requests", ())) == "recv_requests"
