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
