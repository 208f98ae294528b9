"""Side-cars, windows and states on real ranks: they go where their pages go, byte for byte, and all ranks agree."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from tests.cluster.component_ranks import (
    ALL,
    BOTH,
    INDEX,
    comes_back_from_host,
    comes_back_from_storage,
    main,
)
from tests.consensus.ranks import run

from isoradix.consensus import GlooPlane, PlaneLost, Topology

pytestmark = pytest.mark.cluster

TOPOLOGIES = {"tp2": Topology(tp=2), "pp2": Topology(pp=2)}
COMPUTED = [BOTH] * 3 + [ALL] + [BOTH] * 5 + [ALL]
FETCHED = [INDEX] * 8 + [BOTH, ALL]
BESIDE = {
    "tp2": {"index": [0, 1], "swa": [0, 1], "mamba": [0, 1]},
    "pp2": {"index": [0], "swa": [0, 1], "mamba": [1]},
}
"""Which ranks have layers of a component."""


def start(
    body: Callable[[Any], Any], where: str, folder: Path, engine: str = "cpu", plant: tuple[int, str] | None = None
) -> list[dict[str, Any]]:
    found = run(GlooPlane, TOPOLOGIES[where], body, folder, engine, folder / "store", plant, main=main)
    errors = [answer for answer in found if isinstance(answer, BaseException)]
    for error in sorted(errors, key=lambda error: isinstance(error, PlaneLost)):  # the others' is what came of it
        raise error
    assert found[0]["digests"] == found[1]["digests"]
    assert found[0]["parts"] == found[1]["parts"]
    return found


@pytest.mark.parametrize("engine", ["cpu", "seeded"])
@pytest.mark.parametrize("where", TOPOLOGIES)
def test_all_of_a_prefix_comes_back_from_host_and_from_storage(where: str, engine: str, tmp_path: Path) -> None:
    answers = start(comes_back_from_host, where, tmp_path, engine)
    assert [answer["wrong"] for answer in answers] == [[], []]
    assert answers[0]["parts"] == COMPUTED
    answers = start(comes_back_from_storage, where, tmp_path, engine)
    assert [answer["wrong"] for answer in answers] == [[], []]
    assert answers[0]["parts"] == FETCHED


@pytest.mark.parametrize("name", ["index", "swa", "mamba"])
@pytest.mark.parametrize("where", TOPOLOGIES)
def test_a_wrong_byte_is_seen_on_its_rank_and_in_its_component(where: str, name: str, tmp_path: Path) -> None:
    rank = BESIDE[where][name][-1]
    for body in (comes_back_from_host, comes_back_from_storage):
        answers = start(body, where, tmp_path, plant=(rank, name))
        assert answers[1 - rank]["wrong"] == []
        (wrong,) = answers[rank]["wrong"]
        assert wrong.startswith(f"{name} layer ")


@pytest.mark.parametrize("where", TOPOLOGIES)
def test_an_engine_that_copies_no_components_is_seen(where: str, tmp_path: Path) -> None:
    answers = start(comes_back_from_host, where, tmp_path, "claims")
    for rank, answer in enumerate(answers):
        names = {wrong.split()[0] for wrong in answer["wrong"]}
        assert names == {name for name, ranks in BESIDE[where].items() if rank in ranks}
