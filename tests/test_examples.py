"""The examples run, and stay as short as they are said to be."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

EXAMPLES = Path(__file__).parent.parent / "examples"


def test_a_scheduler_on_two_ranks_takes_fewer_than_100_lines_and_hits_both_tiers() -> None:
    example = EXAMPLES / "two_ranks.py"
    assert len(example.read_text().splitlines()) < 100
    run = subprocess.run([sys.executable, example], capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 0, run.stderr
    found = re.fullmatch(r"hits: ([\d,]+) tokens on the device, ([\d,]+) on host; both ranks end .*\n", run.stdout)
    assert found, run.stdout
    device, host = (int(number.replace(",", "")) for number in found.groups())
    assert device > 0
    assert host > 0


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("expert_capacity", r"3 ranks sent the same (\d+) tokens to 4 experts in 60 steps, \d+ capacities\n"),
        ("rate_limiter", r"3 ranks admitted the same (80) requests of 2 tenants in \d+ steps\n"),
        ("accept_length", r"3 ranks accepted the same (\d+) tokens of 30 drafts, \d+ rolled back somewhere\n"),
    ],
)
def test_a_primitive_without_the_cache_takes_fewer_than_100_lines(name: str, says: str) -> None:
    example = EXAMPLES / f"{name}.py"
    assert len(example.read_text().splitlines()) < 100
    run = subprocess.run([sys.executable, example], capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 0, run.stderr
    found = re.fullmatch(says, run.stdout)
    assert found, run.stdout
    assert int(found[1]) > 0
