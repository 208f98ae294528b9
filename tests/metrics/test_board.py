"""The documented names, those on the board and those exported are the same."""

from __future__ import annotations

import json
import re
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("prometheus_client")

from isoradix.metrics import FAMILIES

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"
ROW = re.compile(r"^\| `(isoradix_\w+)` \| (\w+) \| ([\w, ]+) \| (.+) \|$", re.MULTILINE)


def board() -> Any:
    return json.loads(files("isoradix.metrics").joinpath("grafana.json").read_text())


def sample_names() -> dict[str, str]:
    """Family by the names under which its samples appear."""
    names = {}
    for family in FAMILIES:
        endings = ("_count", "_sum") if family.type == "summary" else ("",)
        names.update({family.name + ending: family.name for ending in endings})
    return names


def expressions() -> list[str]:
    whole = board()
    panels = [target["expr"] for panel in whole["panels"] for target in panel["targets"]]
    return panels + [variable["definition"] for variable in whole["templating"]["list"] if "definition" in variable]


def test_the_documented_table_is_what_is_exported() -> None:
    documented = [
        (name, type, tuple(labels.split(", ")), help) for name, type, labels, help in ROW.findall(PAGE.read_text())
    ]
    assert documented == [(family.name, family.type, family.labels, family.help) for family in FAMILIES]
    assert set(re.findall(r"isoradix_\w+", PAGE.read_text())) <= sample_names().keys() | {f.name for f in FAMILIES}


def test_every_label_is_explained() -> None:
    explained = set(re.findall(r"^\| (\w+) \| ", PAGE.read_text(), re.MULTILINE))
    assert {label for family in FAMILIES for label in family.labels} <= explained


def test_every_name_on_the_board_is_exported_and_the_other_way_round() -> None:
    known = sample_names()
    used = {name for expression in expressions() for name in re.findall(r"isoradix_\w+", expression)}
    assert used <= known.keys()
    assert {known[name] for name in used} == {family.name for family in FAMILIES}


def test_every_label_on_the_board_is_one_of_its_families() -> None:
    for panel in board()["panels"]:
        for target in panel["targets"]:
            named = [family for family in FAMILIES if family.name in target["expr"]]
            labels = {label for family in named for label in family.labels}
            by = {
                label.strip() for group in re.findall(r"by \(([^)]*)\)", target["expr"]) for label in group.split(",")
            }
            shown = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            assert by | shown <= labels, panel["title"]
            for grouped in re.findall(r"^sum by \(([^)]*)\)", target["expr"]):
                assert shown <= {label.strip() for label in grouped.split(",")}, panel["title"]


def test_the_board_can_be_imported() -> None:
    whole = board()
    assert whole["schemaVersion"] >= 39
    assert [variable["name"] for variable in whole["templating"]["list"]] == ["datasource", "domain"]
    ids = [panel["id"] for panel in whole["panels"]]
    assert len(set(ids)) == len(ids)
    places = [panel["gridPos"] for panel in whole["panels"]]
    assert len({(place["x"], place["y"]) for place in places}) == len(places)
    assert all(panel["datasource"]["uid"] == "${datasource}" for panel in whole["panels"])
    for expression in expressions():
        assert expression.count("(") == expression.count(")")


def test_without_the_library_the_hint_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("isoradix.metrics")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match=r'hint: pip install "isoradix\[metrics\]"'):
        __import__("isoradix.metrics")
