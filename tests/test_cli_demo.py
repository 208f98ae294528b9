"""`isoradix demo`."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("torch")

from isoradix.cli.app import run


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = run(["demo", *arguments])
    out, err = capsys.readouterr()
    return code, out, err


def test_a_run_says_what_was_found_where(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = shown(capsys, "--tp", "1", "--pp", "2", "--users", "3", "--rounds", "2", "--drafts", "2", "--json")
    assert code == 0
    document = json.loads(out)
    assert document["requests"] == 6
    assert document["hit_tokens"]["device"] > 0
    assert len(document["hit_rates"]) == 2
    assert len(set(document["digests"])) == 1 < len(document["digests"])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--tp", "3"), "--tp is 3"),
        (("--pp", "5"), "--pp is 5"),
        (("--tiers", "l4"), "--tiers is 'l4'"),
        (("--tiers", "l2", "--storage", "file:///kv"), "--storage is given with --tiers l2"),
        (("--inject", "nonsense"), "nonsense"),
        (("--inject", "sleep:rank=9"), "9"),
        (("--inject", "kill:rank=1,step=3"), "kill is not for a demo"),
        (("--inject", "corrupt:rank=1,step=3"), "corrupt is not for a demo"),
    ],
)
def test_what_cannot_be_run_is_refused(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: str
) -> None:
    code, out, err = shown(capsys, *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert said in err
