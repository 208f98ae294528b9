"""What lines of logs mean, and who is taken to have written them."""

from __future__ import annotations

from pathlib import Path

import pytest

from isoradix import BatchHeader, DivergenceError
from isoradix.doctor.collect import collect
from isoradix.doctor.evidence import Evidence, Sign
from isoradix.doctor.marks import meaning


def read(folder: Path, text: str, name: str = "server.log") -> Evidence:
    path = folder / name
    path.write_text(text)
    return collect([path])


def the_one(evidence: Evidence) -> Sign:
    (sign,) = evidence.signs
    return sign


@pytest.mark.parametrize(
    ("line", "kind", "values"),
    [
        (
            "RuntimeError: shape '[3013, -1, 128]' is invalid for input of size 8192000",
            "shape",
            {"own": "3013", "width": "128", "came": "8192000"},
        ),
        ("[enforce fail at pair.cc:446] op.preamble.length <= op.nbytes. 64 vs 32", "preamble", {"came": "64"}),
        ("IndexError: pop from empty list", "pop", {}),
        ("IndexError: pop from an empty deque", "pop", {}),
        (
            (
                "divergence at step 1 (form B): vote 0 says ready of operation 0 is 1, but rank 3 voted "
                "-1 (not issued or not known here); nothing was taken"
            ),
            "above",
            {"vote": "0", "what": "ready of operation 0", "want": "1", "member": "3", "have": "-1"},
        ),
        (
            "divergence (form B): finished watermark 3 is agreed, rank 2 has 2",
            "above",
            {"what": "finished watermark", "want": "3", "member": "2", "have": "2"},
        ),
        (
            "divergence (form B): a hit of operation 0 is agreed, rank 2 has issued 0 operations",
            "above",
            {"member": "2", "have": "0"},
        ),
        (
            "operation 1 is granted 5 pages, above this rank's reservation of 4 (form B)",
            "above",
            {"want": "5", "have": "4"},
        ),
        (
            (
                "divergence at step 200 seq 4711: rank 3 decided insert node=9, ranks 0,1,2 decided insert node=8; "
                "last common step 199"
            ),
            "decided",
            {"step": "200", "seq": "4711"},
        ),
        (
            (
                "divergence before step 9: rank 2 has digest 0x00000000000000ff, the leader 0x00000000000000fe; "
                "the last frame that rank 2 applied is of step 8"
            ),
            "digest",
            {"member": "2", "have": "0x00000000000000ff"},
        ),
        ("divergence at vote 31: ranks voted vote 31 to 32, rank 2 voted 31", "votes", {"member": "2", "have": "31"}),
        ("rank 3 has ended without a goodbye: killed, or crashed", "killed", {"rank": "3"}),
        ("ranks 1, 3 gives no sign of life for 3.0 s: stopped, or out of reach", "silent", {"ranks": "ranks 1, 3"}),
        ("rank 2 has been at step 8 for 3.0 s and waits for nobody", "still", {"rank": "2", "step": "8"}),
        (
            (
                "rank 0 waited 5.0 s for frame 8 of rank 2 (has 7): busy: rank 2 has been at step 7 for 5.0 s and "
                "waits for nobody; ranks 0,1 wait for it"
            ),
            "waited",
            {"rank": "0", "age": "5.0"},
        ),
        (
            (
                "the plane is lost at step 7: rank 2 waits for its own ack 5 (has 4) for 9.0 s, at step 7; rank 0 "
                "waits for rank 2, so the network is ruled out"
            ),
            "own",
            {"rank": "2", "operation": "ack", "want": "5", "have": "4", "age": "9.0"},
        ),
        (
            (
                "ranks 0,1 are in vote 57 for 9.0 s, rank 2 is not: rank 2 has completed 56 votes, is at step 9 "
                "and waits for nothing that it shows"
            ),
            "missing",
            {"ranks": "rank 2", "want": "57"},
        ),
        (
            (
                "all ranks are in collectives, for 9.0 s, but not in the same one: ranks 0,1 in vote 9, "
                "rank 2 in vote 8; rank 2 has skipped or repeated one"
            ),
            "ordinals",
            {"ranks": "rank 2", "what": "ranks 0,1 in vote 9, rank 2 in vote 8"},
        ),
        ("rank 2 is stopped, or gives no sign of life", "silent", {"ranks": "rank 2"}),
        ("rank 2 has ended and left a wait board: killed, or crashed", "killed", {"rank": "2"}),
        ("rank 0 waited 5.0 s for frame 8 of rank 2 (has 7)", "waited", {"peer": "rank 2", "want": "8", "have": "7"}),
        (
            (
                "[rank3]:[E1 ProcessGroupNCCL.cpp:689] [Rank 3] Watchdog caught collective operation timeout: "
                "WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600021 "
                "milliseconds before timing out."
            ),
            "timeout",
            {"number": "7", "operation": "ALLREDUCE", "ms": "600021"},
        ),
        ("last enqueued NCCL work: 12, last completed NCCL work: 9.", "enqueued", {"enqueued": "12", "done": "9"}),
        ("Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=False)", "watchdog", {"seconds": "300"}),
        ("Connection closed by peer [10.0.0.1]:20110", "closed", {}),
        ("killed by SIGKILL", "signal", {"name": "SIGKILL"}),
    ],
)
def test_meaning(line: str, kind: str, values: dict[str, str]) -> None:
    meant = meaning(line)
    assert meant is not None
    assert meant[0] == kind
    assert values.items() <= meant[1].items()


@pytest.mark.parametrize("line", ["", "Load weight begin. rank 3", "Prefill of a shape that is valid", "popped a list"])
def test_most_lines_mean_nothing(line: str) -> None:
    assert meaning(line) is None


def test_the_words_of_a_batch_header_are_understood() -> None:
    own = BatchHeader.make(8, [("a", 64, 32)], rank=1, ordinal=5)
    with pytest.raises(DivergenceError) as caught:
        own.check(BatchHeader.make(8, [("a", 0, 96)], rank=0, ordinal=5))
    meant = meaning(str(caught.value).partition("\n")[0])
    assert meant is not None
    assert (meant[0], meant[1]["step"], meant[1]["batch"]) == ("header", "8", "5")


def test_a_traceback_is_one_sign_with_its_innermost_call(tmp_path: Path) -> None:
    text = """[2026-09-02 02:47:31 PP1 TP1] Scheduler hit an exception: Traceback (most recent call last):
  File "scheduler.py", line 1, in run
    loop()
  File "tree.py", line 2, in loading_check
    self.acks.pop(0)
    ~~~~~~~~~~~~~^^^
IndexError: pop from empty list
"""
    evidence = read(tmp_path, text)
    assert [sign.kind for sign in evidence.signs] == ["pop", "error"]
    pop = evidence.signs[0]
    assert (pop.label, pop.values["function"], pop.values["code"]) == ("PP1 TP1", "loading_check", "self.acks.pop(0)")
    assert pop.source.line == 7
    assert evidence.rank(pop.label) == 3


def test_what_another_rank_writes_within_a_traceback(tmp_path: Path) -> None:
    text = """[2026-09-02 02:47:31 TP1] Scheduler hit an exception: Traceback (most recent call last):
  File "tree.py", line 2, in loading_check
[2026-09-02 02:47:31 TP0] Decode batch, #running-req: 3
    self.acks.pop(0)
IndexError: pop from empty list
"""
    pop, _ = read(tmp_path, text).signs
    assert (pop.kind, pop.label, pop.values["function"]) == ("pop", "TP1", "loading_check")


def test_the_rank_of_a_line(tmp_path: Path) -> None:
    dead = "rank 1 has ended without a goodbye: killed, or crashed"
    assert the_one(read(tmp_path, f"[2026-09-02 02:47:31 TP3] {dead}\n")).label == "TP3"
    assert the_one(read(tmp_path, f"{dead}\n", "rank-0002.log")).label == "2"
    assert the_one(read(tmp_path, f"[rank5]:[E1 x.cpp:1] {dead}\n")).label == "5"
    assert the_one(read(tmp_path, f"{dead}\n")).label == ""


@pytest.mark.parametrize(
    "wrapping",
    ["server-1  | ", "2026-06-24T17:38:03.765641375+02:00 stderr F ", "\x1b[31m"],
    ids=["compose", "container runtime", "colour"],
)
def test_what_wraps_a_line_is_taken_off(tmp_path: Path, wrapping: str) -> None:
    sign = the_one(read(tmp_path, f"{wrapping}[2026-09-02 02:47:31 TP1] IndexError: pop from empty list\n"))
    assert (sign.kind, sign.label) == ("pop", "TP1")


def test_batches_are_read_in_order(tmp_path: Path) -> None:
    def line(rank: int, new: int) -> str:
        counts = f"#new-seq: 1, #new-token: {new}, #cached-token: 4, #queue-req: 2"
        return f"[2026-09-02 02:47:31 TP{rank}] Prefill batch, {counts}\n"

    evidence = read(tmp_path, line(0, 8) + line(1, 8) + line(1, 9) + line(0, 7))
    batches = evidence.batches_by_rank()
    assert [one.extend_tokens for one in batches[0]] == [8, 7]
    assert [one.extend_tokens for one in batches[1]] == [8, 9]
    assert batches[0][0].queued == 2


def test_a_traceback_that_was_survived_is_no_sign(tmp_path: Path) -> None:
    raised = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\nKeyError: 3\n'
    assert [sign.kind for sign in read(tmp_path, raised + "on\n" * 20).signs] == ["error"]
    assert read(tmp_path, raised + "on\n" * 300).signs == []
    fatal = f"[2026-09-02 02:47:31 TP1] Scheduler hit an exception: {raised}"
    assert [sign.kind for sign in read(tmp_path, fatal + "on\n" * 300).signs] == ["error"]


@pytest.mark.parametrize("line", ["KL divergence: 0.03", "rank 3 loaded its weights", "SIGQUIT received. signum=None"])
def test_words_that_mean_something_else(line: str) -> None:
    assert meaning(line) is None
