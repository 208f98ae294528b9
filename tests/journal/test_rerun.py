"""A rank alone does again what its journal says, and finds what is another run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.journal.rig import Domain, journals

from isoradix import DivergenceError, InvalidInputError, NodeFacts
from isoradix.journal import layout
from isoradix.journal.layout import Kind
from isoradix.journal.reader import Journal
from isoradix.journal.rerun import Different, Rerun
from isoradix.journal.writer import LEAST_BYTES


def done_again(journal: Journal) -> Rerun:
    rerun = Rerun(journal)
    for _ in rerun.run():
        rerun.cache.check()
    return rerun


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"writing": "back:64"},
        {"policy": "slru:2"},
        {"policy": "priority", "window": 4},
        {"components": ("index=side_car", "swa=window:8")},
        {"host_pages": None},
    ],
    ids=["write-through", "write-back", "slru", "narrow window", "components", "no host tier"],
)
def test_every_rank_is_done_again(options: dict[str, Any], tmp_path: Path) -> None:
    domain = Domain(tmp_path, 3, seed=1, **options)
    domain.run(220)
    domain.stop()
    totals = domain.members[0].driver.cache.totals
    assert totals.evicted_tokens
    if "host_pages" not in options:
        assert totals.backed_up_tokens
        assert totals.loaded_back_tokens or "policy" in options
    for member, journal in zip(domain.members, journals(tmp_path).journals, strict=True):
        rerun = done_again(journal)
        assert (rerun.steps, rerun.stopped, journal.ending) == (221, True, "")
        assert rerun.rank.digest == member.driver.digest
        assert rerun.cache.tree_digest == member.driver.cache.tree_digest
        assert rerun.cache.totals == totals


def test_under_faults_that_only_one_rank_has(tmp_path: Path) -> None:
    domain = Domain(tmp_path, 2, seed=5)
    for _ in range(30):
        domain.members[1].driver.rank.withdraw(2**32 - 1)
        domain.run(2)
        domain.members[1].driver.rank.restore(2**32 - 1)
        domain.run(2)
    domain.stop()
    cache = domain.members[0].driver.cache
    assert cache.totals.aborted, "backups came to nothing"
    for journal in journals(tmp_path).journals:
        assert done_again(journal).cache.totals == cache.totals


def test_a_rank_that_lied_is_done_again_up_to_where_it_was_refused(tmp_path: Path) -> None:
    domain = Domain(tmp_path, 3, seed=2)
    domain.lies[1, 20] = lambda member, random: member.driver.cache.touch(
        member.driver.cache.match_prefix([0] * 4).node
    )
    domain.run(30)
    assert [member.dead for member in domain.members] == [False, True, False]
    assert domain.members[1].plane.failures[0].startswith("DivergenceError: divergence before step 21")
    for member in domain.members:
        member.driver.close()
    one, liar, _ = journals(tmp_path).journals
    assert (done_again(one).steps, done_again(liar).steps) == (30, 20)


def test_the_error_names_the_file(tmp_path: Path) -> None:
    domain = Domain(tmp_path, 2, seed=2)
    domain.run(2)
    driver = domain.members[1].driver
    error = DivergenceError("divergence before step 3: rank 1 has digest 1\nhint: isoradix diff DIR")
    driver.fail(error)
    driver.fail(error)
    path = next(tmp_path.glob("*/rank-0001.000.journal"))
    named = f"this rank's journal is {path}; see isoradix diff {path.parent}"
    assert str(error) == f"divergence before step 3: rank 1 has digest 1\nhint: {named}"
    domain.members[0].driver.close()
    *_, last = list(journals(tmp_path).journals[1].entries())
    assert "divergence before step 3" in repr(last)


def changed(folder: Path, kind: Kind, number: int, data: bytes) -> Journal:
    """The journal in a folder with its entry of that kind, counted from 0, in another form."""
    (path,) = folder.glob("*/*.journal")
    seen, parts = 0, [layout.mark()]
    with path.open("rb") as stream:
        for block in layout.blocks(stream, path.stat().st_size):
            made = b""
            for one, old in layout.entries(block):
                new = old
                if one is kind:
                    new = data[: len(old)] + old[len(data) :] if seen == number else old
                    seen += 1
                made += layout.entry(one, new)
            parts.append(layout.block(made))
    path.write_bytes(b"".join(parts))
    return Journal([path])


@pytest.mark.parametrize(
    ("kind", "named"),
    [
        (Kind.DECISIONS, r"step \d: seq 0: it decides (\w+).* at step \d seq \d+, and decided \1.* at step 99 seq 0"),
        (Kind.END, r"step 41: digest at the end the step is 0x[0-9a-f]{16}, and was 0x"),
        (Kind.FRAME, r"step 41: digest on entering the step is 0x[0-9a-f]{16}, and was 0x"),
    ],
)
def test_another_run_is_found_at_its_step(kind: Kind, named: str, tmp_path: Path) -> None:
    domain = Domain(tmp_path, 1, seed=4)
    domain.run(60)
    domain.stop()
    step = (41).to_bytes(8, "little")
    wrong = (99).to_bytes(8, "little") + bytes(8) if kind is Kind.DECISIONS else step + bytes(8)
    journal = changed(tmp_path, kind, 40, wrong)
    with pytest.raises(Different, match=named):
        done_again(journal)


def test_what_cannot_be_done_again_is_refused(tmp_path: Path) -> None:
    domain = Domain(tmp_path / "function", 1, policy=oldest_first)
    domain.stop()
    with pytest.raises(InvalidInputError, match="is the Python function 'oldest_first'"):
        Rerun(journals(tmp_path / "function").journals[0])
    domain = Domain(tmp_path / "long", 1, journal_bytes=LEAST_BYTES)
    domain.run(300)
    domain.stop()
    journal = journals(tmp_path / "long").journals[0]
    assert int(journal.head["segment"]) > 0
    with pytest.raises(InvalidInputError, match=r"begins with step \d+, of segment \d+\nhint: "):
        Rerun(journal)


def oldest_first(node: NodeFacts) -> int:
    return node.seq
