"""Which rank a label means."""

from __future__ import annotations

import pytest

from isoradix.doctor.roster import Roster, label_in


def roster(*labels: str) -> Roster:
    made = Roster()
    for label in labels:
        made.see(label)
    return made


def test_stages_and_places() -> None:
    one = roster("PP0 TP0", "PP0 TP1", "PP1 TP0", "PP1 TP1")
    assert [one.rank(label) for label in ("PP0 TP1", "PP1 TP0", "PP1 TP1")] == [1, 2, 3]
    assert one.ranks == [0, 1, 2, 3]
    assert one.name(2) == "rank 2 (PP1 TP0)"
    assert one.names([0, 3]) == "ranks 0,3"


def test_labels_with_other_parts() -> None:
    one = roster("PP0 ATTN_CP4 TP4 EP4", "PP1 ATTN_CP7 TP7 EP7", "PP1 TP0")
    assert (one.rank("PP0 ATTN_CP4 TP4 EP4"), one.rank("PP1 TP0")) == (4, 8)


def test_one_kind_alone_and_numbers() -> None:
    assert roster("TP0", "TP3").rank("TP3") == 3
    assert roster("PP0", "PP3").rank("PP3") == 3
    assert roster("DP1").rank("DP1") == 1
    assert roster("12").rank("12") == 12
    assert roster("12").name(12) == "rank 12"
    assert roster("").rank("") is None


def test_a_stage_is_as_wide_as_a_journal_says() -> None:
    one = roster("PP1 TP0")
    assert one.rank("PP1 TP0") == 1
    one.see_domain([0, 1, 2, 3, 4, 5, 6, 7], lanes=4)
    assert one.rank("PP1 TP0") == 4


def test_members_of_a_domain() -> None:
    one = roster()
    one.see_domain([0, 1, 4, 5], lanes=4)
    one.see_domain([2, 3, 6, 7], lanes=4)
    assert one.of_member(0, 2) == 4
    assert one.of_member(7, 1) == 3
    assert one.of_member(None, 1) == 1, "of two domains, nobody knows"


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("rank-0003", "3"),
        ("rank3", "3"),
        ("stacks_rank12", "12"),
        ("pp1_tp0", "PP1 TP0"),
        ("PP1-TP3.stacks", "PP1 TP3"),
        ("sglang::scheduler_PP1_TP0", "PP1 TP0"),
        ("sglang::scheduler_TP6", "TP6"),
        ("server", ""),
        ("http2", ""),
        ("frank5", ""),
    ],
)
def test_the_label_in_a_name(name: str, label: str) -> None:
    assert label_in(name) == label
