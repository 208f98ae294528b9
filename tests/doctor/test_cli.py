"""`isoradix doctor`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.conftest import Answer
from tests.doctor.recorded import INCIDENTS


def evidence(name: str) -> Path:
    return INCIDENTS / name / "evidence"


def test_an_incident_in_words(answer: Answer) -> None:
    code, out, err = answer("doctor", evidence("public-unequal-collectives"))
    assert (code, err) == (1, "")
    facts = dict(line.split(None, 1) for line in out.splitlines() if line and not line.startswith(" "))
    assert facts["verdict"] == "form C: ranks wait for a rank that does not come"
    assert facts["culprit"] == "rank 0 (TP0)"
    assert facts["sure"] == "likely"
    assert facts["4"].startswith("network        ruled out: ")
    assert facts["next"].startswith("tiers: ")
    assert "isoradix replay ... --tiers l1" in out
    assert max(map(len, out.splitlines())) < 400, "no line is cut short by its table"


def test_an_incident_as_json(answer: Answer) -> None:
    code, out, _ = answer("doctor", evidence("public-stages-disagree"), "--json")
    document: dict[str, Any] = json.loads(out)
    assert code == 1
    assert (document["command"], document["form"], document["culprits"]) == ("doctor", "A", [])
    assert document["condition"]["want"] == "2944"
    assert document["next"]["step"] == "tiers"
    assert [step["step"] for step in document["order"]] == [
        "traceback",
        "extend tokens",
        "queue depths",
        "network",
        "tiers",
    ]
    assert document["because"][0]["file"].endswith("server.log")
    assert document["ranks"] == [0, 1]


def test_nothing_wrong(answer: Answer) -> None:
    code, out, _ = answer("doctor", evidence("healthy"))
    assert (code, "nothing wrong seen" in out, "next" in out) == (0, True, False)
    code, out, _ = answer("doctor", evidence("healthy"), "--json")
    assert (code, json.loads(out)["form"]) == (0, "none")


def test_what_is_refused(answer: Answer, tmp_path: Path) -> None:
    code, _, err = answer("doctor", tmp_path / "nowhere")
    assert (code, "is not there" in err, "hint: " in err) == (2, True, True)
    code, _, err = answer("doctor")
    assert code == 2
    code, _, err = answer("doctor", tmp_path, "--after", "-1")
    assert (code, "the limits are 0 to 86,400" in err) == (2, True)


def test_help_has_examples(answer: Answer) -> None:
    code, out, _ = answer("doctor", "--help")
    assert (code, "isoradix doctor server.log" in out) == (0, True)
