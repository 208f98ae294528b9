"""Where journals part: planted divergences of each kind are named with their input, decision and culprit."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from tests.journal.rig import PAGE, Domain, Member, journals, lone_cache

from isoradix import InvalidInputError
from isoradix.journal.decisions import minority
from isoradix.journal.diff import Comparison, compare
from isoradix.journal.folder import find
from isoradix.journal.recorder import Recorder
from isoradix.journal.writer import LEAST_BYTES

STEP = 8


def two_inserts(first: list[int], second: list[int]) -> Callable[[Member, Random], None]:
    """Two prompts are cached, in this order."""

    def insert(member: Member, _: Random) -> None:
        driver = member.driver
        driver.slots.free(driver.cache.evict(PAGE * 8).slots)
        for key in (first, second):
            driver.cache.insert(key, driver.slots.alloc(len(key)))

    return insert


def evicts(tokens: int) -> Callable[[Member, Random], None]:
    return lambda member, _: member.driver.slots.free(member.driver.cache.evict(tokens).slots)


def matches(key: list[int], namespace: Any) -> Callable[[Member, Random], None]:
    def match(member: Member, _: Random) -> None:
        member.driver.cache.match_prefix(key, namespace)

    return match


def nothing(_: Member, __: Random) -> None:
    """Less than the others do."""


ONE, OTHER = [9] * PAGE * 3, [8] * PAGE * 2
CHANGED = [9] * (PAGE * 2) + [9, 9, 7, 9]

# what most ranks do, what one does instead, and what is said of the input
PLANTED = {
    "argument": (two_inserts(ONE, OTHER), two_inserts(CHANGED, OTHER), "token 10 of the key of insert: 7 on rank 1, 9"),
    "order": (two_inserts(ONE, OTHER), two_inserts(OTHER, ONE), "token 0 of the key of insert: 8 on rank 1, 9"),
    "length": (matches(ONE, None), matches(ONE[:PAGE], None), "length of the key of match_prefix: 4 on rank 1, 12"),
    "missing": (matches(ONE, None), nothing, "what comes next: "),
    "number": (evicts(PAGE), evicts(PAGE * 9), "num_tokens of evict: 36 on rank 1, 4 on ranks 0,2,3"),
    "namespace": (matches(ONE, None), matches(ONE, ("lora", None)), "namespace of match_prefix: ('lora', None) on"),
}


@pytest.mark.parametrize(("honest", "lying", "named"), PLANTED.values(), ids=PLANTED)
def test_a_lying_caller_is_named(honest: Any, lying: Any, named: str, tmp_path: Path) -> None:
    domain = Domain(tmp_path, 4, seed=7)
    domain.lies.update({(rank, STEP): lying if rank == 1 else honest for rank in range(4)})
    domain.run(STEP + 5)
    domain.stop()
    parting = compare(journals(tmp_path)).parting
    assert parting is not None
    assert (parting.step, parting.last_frame, parting.culprits) == (STEP, STEP, (1,))
    assert named in str(parting.input)
    assert parting.decided is not None
    assert parting.decided.step == STEP
    assert parting.decided.culprits == (1,)
    said = str(parting.decided)
    assert said.startswith(f"divergence at step {STEP} seq {parting.decided.seq}: rank 1 decided ")
    assert said.endswith(f"last common step {STEP - 1}")
    for member in domain.members:
        assert member.dead == (member is domain.members[1])
        member.driver.close()


def test_a_leader_who_lies_is_named_against_its_followers(tmp_path: Path) -> None:
    domain = Domain(tmp_path, 4, seed=7)
    honest, lying, _ = PLANTED["argument"]
    domain.lies.update({(rank, STEP): lying if rank == 0 else honest for rank in range(4)})
    domain.run(STEP + 5)
    domain.stop()
    found = compare(journals(tmp_path))
    assert found.parting is not None
    assert found.parting.culprits == (0,)


def test_of_two_ranks_nobody_is_at_fault(tmp_path: Path) -> None:
    domain = Domain(tmp_path, 2, seed=7)
    honest, lying, _ = PLANTED["argument"]
    domain.lies.update({(0, STEP): honest, (1, STEP): lying})
    domain.run(STEP + 5)
    domain.stop()
    parting = compare(journals(tmp_path)).parting
    assert parting is not None
    assert (parting.culprits, parting.compared, parting.as_json()["undetermined"]) == ((), (0, 1), True)


def test_whom_more_than_half_contradict() -> None:
    assert minority({0: "a", 1: "a", 2: "b"}) == (2,)
    assert minority({0: "a", 1: "b", 2: "b", 3: "a"}) == ()
    assert minority({0: "a", 1: "b", 2: "c", 3: "a"}) == ()
    assert minority({0: "c", 1: "a", 2: "a", 3: "a", 4: "b"}) == (0, 4)
    assert minority({0: "a"}) == ()


def test_ranks_that_agree_are_equal_whatever_is_their_own(tmp_path: Path) -> None:
    domain = Domain(tmp_path, 3, seed=8)
    for _ in range(20):
        domain.members[2].driver.rank.withdraw(2**32 - 1)
        domain.run(2)
        domain.members[2].driver.rank.restore(2**32 - 1)
    domain.stop()
    found = compare(journals(tmp_path))
    assert (found.parting, found.steps) == (None, 41)
    assert found.ended == dict.fromkeys(range(3), (41, ""))


def test_a_rank_that_ended_earlier_has_not_parted(tmp_path: Path) -> None:
    domain = Domain(tmp_path, 3, seed=8)
    domain.run(20)
    domain.members[1].driver.fail(RuntimeError("no memory"))
    domain.members[1].dead = True
    domain.run(20)
    for member in domain.members:
        member.driver.close()
    found = compare(journals(tmp_path))
    assert found.parting is None
    assert found.ended[1] == (20, "RuntimeError: no memory")
    assert found.ended[0] == (40, "")


def test_torn_tails_and_missing_ranks(tmp_path: Path) -> None:
    domain = Domain(tmp_path, 4, seed=8)
    domain.run(30)
    domain.stop()
    torn = next(tmp_path.glob("*/rank-0002.000.journal"))
    torn.write_bytes(torn.read_bytes()[:-2000])
    next(tmp_path.glob("*/rank-0003.000.journal")).unlink()
    group = journals(tmp_path)
    assert (group.ranks, group.missing) == ([0, 1, 2], (3,))
    found = compare(group)
    assert found.parting is None
    step, how = found.ended[2]
    assert step < 31
    assert how.startswith("rank-0002.000.journal is cut short at byte ")


def test_runs_and_epochs_are_compared_by_themselves(tmp_path: Path) -> None:
    for epoch in (0, 1):
        domain = Domain(tmp_path / str(epoch), 2, seed=epoch, epoch=epoch)
        domain.run(5)
        domain.stop()
    both = tmp_path / "both"
    for epoch in (0, 1):
        (run,) = (tmp_path / str(epoch)).iterdir()
        shutil.copytree(run, both / f"{epoch}-{run.name}")
    groups = find(both)
    assert [group.epoch for group in groups] == [0, 1]
    assert all(compare(group).parting is None for group in groups)


def test_segments_that_were_given_up(tmp_path: Path) -> None:
    domain = Domain(tmp_path, 2, seed=9, journal_bytes=LEAST_BYTES)
    domain.members[1].driver.rank.withdraw(3)  # so that segments begin at other steps
    domain.run(280)
    domain.lies[1, 281] = two_inserts(ONE, OTHER)
    domain.run(5)
    for member in domain.members:
        member.driver.close()
    group = journals(tmp_path)
    sizes = [sum(path.stat().st_size for path in journal.paths) for journal in group.journals]
    assert all(len(journal.paths) > 4 for journal in group.journals)
    assert all(size <= LEAST_BYTES for size in sizes)
    assert all(int(journal.head["step"]) > 1 for journal in group.journals)
    parting = compare(group).parting
    assert parting is not None
    assert parting.step == 281


def test_a_segment_that_is_missing_is_a_gap(tmp_path: Path) -> None:
    domain = Domain(tmp_path, 2, seed=9, journal_bytes=LEAST_BYTES)
    domain.run(100)
    domain.stop()
    paths = sorted(tmp_path.glob("*/rank-0001.*.journal"))
    paths[2].unlink()
    found = compare(journals(tmp_path))
    assert found.parting is None
    assert "is missing; what follows, from step" in found.ended[1][1]


# frames, which no honest leader sends unequal


def written(folder: Path, frames: list[bytes], *, members: int = 3) -> Comparison:
    """Journals of ranks that were given one frame each, of step 1."""
    for rank, frame in enumerate(frames):
        head = {"release": "0", "run": "r", "epoch": 0, "rank": rank, "member": rank, "domain": 0}
        recorder = Recorder(folder / "r", rank, {**head, "members": list(range(members))})
        recorder.frame(1, 0, frame)
        recorder.call(lone_cache(), "close_step", (5, 0))
        recorder.end(1, 0, 0)
        recorder.close()
    return compare(journals(folder))


def frame_of(now_ms: int = 5, vote: tuple[int, ...] = ()) -> bytes:
    head = struct.pack("<4sHHIIQQQQQQ", b"IRXF", 1, 1 if vote else 0, 0, 0, 0, 1, 4, now_ms, 7, 0)
    return head + np.array(vote, dtype="<i8").tobytes()


@pytest.mark.parametrize(
    ("other", "named"),
    [
        (frame_of(6), "now_ms of the frame: 6 on rank 2, 5 on ranks 0,1"),
        (frame_of(vote=(1, 2, 9)), "word 2 of the frame's vote: 9 on rank 2, 3 on ranks 0,1"),
    ],
)
def test_a_frame_that_differs(other: bytes, named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("isoradix.journal.diff._controls", lambda frame: [])
    usual = frame_of(vote=(1, 2, 3)) if len(other) > 64 else frame_of()
    parting = written(tmp_path, [usual, usual, other]).parting
    assert parting is not None
    assert (str(parting.input), parting.culprits, parting.last_frame) == (named, (2,), None)


def test_a_folder_without_journals_is_refused(tmp_path: Path) -> None:
    (tmp_path / "rank-0000.000.journal").write_bytes(b"IRXJ\x01\0\0\0")  # killed before it wrote anything
    with pytest.raises(InvalidInputError, match="has no journals"):
        find(tmp_path)
    with pytest.raises(InvalidInputError, match="is not there"):
        find(tmp_path / "none")
