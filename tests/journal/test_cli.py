"""`isoradix diff`, `replay-journal` and `view`: exit codes, JSON, errors, and the page."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Answer
from tests.journal.rig import PAGE, Domain, Member

from isoradix.report.view import NEAR, steps_kept

STEP = 8


def wrong_token(member: Member, _: Any) -> None:
    member.driver.cache.insert([7] * PAGE, member.driver.slots.alloc(PAGE))


def right_token(member: Member, _: Any) -> None:
    member.driver.cache.insert([6] * PAGE, member.driver.slots.alloc(PAGE))


@pytest.fixture(scope="module")
def parted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three ranks, of which one was given a wrong token."""
    folder = tmp_path_factory.mktemp("parted")
    domain = Domain(folder, 3, seed=7)
    domain.lies.update({(rank, STEP): wrong_token if rank == 2 else right_token for rank in range(3)})
    domain.run(STEP + 3)
    for member in domain.members:
        member.driver.close()
    return folder


@pytest.fixture(scope="module")
def equal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("equal")
    domain = Domain(folder, 2, seed=7)
    domain.run(20)
    domain.stop()
    return folder


def test_diff_of_ranks_that_parted(parted: Path, answer: Answer) -> None:
    code, out, err = answer("diff", parted)
    assert code == 1
    assert re.search(r"^culprit +rank 2$", out, re.MULTILINE)
    assert "token 0 of the key of insert: 7 on rank 2, 6 on ranks 0,1" in out
    assert re.search(rf"divergence at step {STEP} seq \d+: rank 2 decided insert .*, ranks 0,1 decided insert ", out)
    assert re.search(rf"^last common frame +that of step {STEP}$", out, re.MULTILINE)
    assert err == f"error: ranks have parted at step {STEP}: rank 2 against the others\n"
    code, out, _ = answer("diff", parted, "--json")
    document = json.loads(out)
    assert (code, document["equal"], document["groups"][0]["parting"]["culprits"]) == (1, False, [2])


def test_diff_of_ranks_that_are_equal(equal: Path, answer: Answer) -> None:
    code, out, err = answer("diff", equal)
    assert (code, err) == (0, "")
    assert re.search(r"^verdict +equal, 21 steps compared$", out, re.MULTILINE)
    code, out, _ = answer("diff", equal, "--json")
    assert (code, json.loads(out)["groups"][0]["ended"]["1"]) == (0, {"step": 21, "how": None})


@pytest.mark.parametrize("command", ["diff", "view"])
def test_what_is_no_folder_of_journals(command: str, tmp_path: Path, answer: Answer) -> None:
    for folder, named in ((tmp_path / "none", "is not there"), (tmp_path, "has no journals")):
        code, out, err = answer(command, folder, *(["-o", tmp_path / "page.html"] if command == "view" else []))
        assert (code, out) == (2, "")
        assert named in err
        assert "\nhint: " in err


def test_one_rank_alone_is_nothing_to_compare(equal: Path, tmp_path: Path, answer: Answer) -> None:
    (one, _) = sorted(equal.glob("*/*.journal"))
    (tmp_path / one.name).write_bytes(one.read_bytes())
    code, _, err = answer("diff", tmp_path)
    assert code == 2
    assert "no two ranks of one run, epoch and domain to compare: run " in err
    assert ": rank 0\n" in err


def test_a_rank_is_replayed_from_its_journal(parted: Path, answer: Answer) -> None:
    for path in sorted(parted.glob("*/*.journal")):
        code, out, err = answer("replay-journal", path)
        assert (code, err) == (0, "")
        assert "every decision and digest reproduced" in out
    code, out, _ = answer("replay-journal", path, "--json")
    document = json.loads(out)
    assert (code, document["equal"], document["rank"], document["steps"]) == (0, True, 2, STEP)


def test_a_journal_of_another_run_ends_with_1(equal: Path, tmp_path: Path, answer: Answer) -> None:
    one = min(equal.glob("*/*.journal"))
    path = tmp_path / one.name
    head = one.read_bytes().index(b'"policy": "lru"')
    data = one.read_bytes()
    path.write_bytes(_with_policy(data, head))
    code, out, err = answer("replay-journal", path, "--json")
    assert code == 1
    assert json.loads(out)["equal"] is False
    assert re.match(r"error: step \d+: .*\nhint: ", err)


def _with_policy(data: bytes, at: int) -> bytes:
    """The same journal, whose head says another policy."""
    from isoradix.journal import layout

    begin = layout.EMPTY_BYTES + 12
    end = begin + int.from_bytes(data[layout.EMPTY_BYTES : layout.EMPTY_BYTES + 4], "little")
    entries = data[begin:end].replace(b'"policy": "lru"', b'"policy": "mru"')
    return data[: layout.EMPTY_BYTES] + layout.block(entries) + data[end:]


def test_what_is_no_journal_is_bad_input(tmp_path: Path, answer: Answer) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("notes")
    for named in (path, tmp_path, tmp_path / "none"):
        code, out, err = answer("replay-journal", named)
        assert (code, out) == (2, "")
        assert str(named) in err


def test_every_command_shows_examples(answer: Answer) -> None:
    for command in ("diff", "replay-journal", "view"):
        code, out, _ = answer(command, "--help")
        assert code == 0
        assert f"isoradix {command} out/journals" in out


def page_data(page: str) -> dict[str, Any]:
    """What the page's script draws."""
    found = re.search(r'<script type="application/json" id="journals">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    return dict(json.loads(found[1].replace("<\\/", "</")))


def trees(states: list[dict[str, Any]]) -> list[dict[int, list[int]]]:
    """The nodes of every state, as the page puts them together."""
    nodes: dict[int, list[int]] = {}
    found = []
    for state in states:
        for gone in state["gone"]:
            del nodes[gone]
        nodes.update({node[0]: node for node in state["set"]})
        assert len(nodes) == state["sizes"][2]
        found.append(dict(nodes))
    return found


def test_a_page_of_ranks_that_parted(parted: Path, tmp_path: Path, answer: Answer) -> None:
    path = tmp_path / "out" / "page.html"
    code, out, err = answer("view", parted, "-o", path)
    assert (code, out, err) == (0, "", f"report written to {path}\n")
    page = path.read_text(encoding="utf-8")
    assert not re.search(r"""(src|href)=["'](?!#)""", page), "it needs nothing beside itself"
    data = page_data(page)
    most, liar = data["classes"]
    assert (most["ranks"], liar["ranks"], data["parting"]["culprits"], data["focus"]) == ([0, 1], [2], [2], STEP)
    assert [state["step"] for state in most["states"]] == list(range(1, STEP + 4))
    assert [state["step"] for state in liar["states"]] == list(range(1, STEP + 1))
    before = [tree for tree, _ in zip(trees(most["states"]), range(STEP - 1), strict=False)]
    assert before == trees(liar["states"])[: STEP - 1], "equal up to where they part"
    node = data["parting"]["nodes"]["2"]
    tags = [one["about"][f"{node}-{PAGE}"] for one in (most, liar)]
    assert tags[0] != tags[1], "what is in the node differs"
    assert most["states"][STEP - 1]["log"][-1][0].startswith("close_step device_free=")


def test_a_page_of_ranks_that_are_equal(equal: Path, tmp_path: Path, answer: Answer) -> None:
    path = tmp_path / "page.html"
    code, _, _ = answer("view", equal, "-o", path)
    data = page_data(path.read_text(encoding="utf-8"))
    assert (code, data["parting"], [one["ranks"] for one in data["classes"]]) == (0, None, [[0, 1]])
    assert data["classes"][0]["note"] == ""


def test_of_long_runs_a_bounded_number_of_states_is_kept() -> None:
    for last, focus in ((50, 50), (400, 390), (10_000, 9_900), (10**6, 500_000)):
        kept = steps_kept(last, focus)
        assert len(kept) <= 2 * NEAR + 1 + 201
        assert {focus, last} <= kept
        assert set(range(max(1, focus - NEAR), focus)) <= kept


def test_journal_makes_it_a_cluster(tmp_path: Path, answer: Answer) -> None:
    pytest.importorskip("torch")
    blocked = tmp_path / "file"
    blocked.write_text("")
    code, _, err = answer("replay", "--workload", "chat", "--journal", blocked / "journals")
    assert code == 2
    assert "the folder for journals" in err
    assert "\nhint: " in err
