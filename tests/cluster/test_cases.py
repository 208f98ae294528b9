"""Reported cases of several ranks, in real processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.ports import free_port

pytestmark = pytest.mark.cluster

PROGRAMS = Path(__file__).with_name("programs.py")


def run(name: str, folder: Path) -> list[dict[str, Any]]:
    """What both ranks of a program saw."""
    port = free_port()
    command = [sys.executable, str(PROGRAMS), name]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    ranks = [
        subprocess.Popen([*command, str(rank), str(port), str(folder)], stdout=subprocess.PIPE, env=environment)
        for rank in range(2)
    ]
    try:
        said = [rank.communicate(timeout=100)[0] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
            rank.communicate()
    assert [rank.returncode for rank in ranks] == [0, 0]
    return [json.loads(one) for one in said]


def test_stages_with_different_bytes_a_token_agree_on_the_smaller_capacity(tmp_path: Path) -> None:
    first, second = run("agreement", tmp_path)
    assert (first["own"], second["own"]) == (8_023_168, 7_621_952)
    assert first["agreed"] == second["agreed"] == 7_621_952


def test_idle_steps_hold_no_memory(tmp_path: Path) -> None:
    for rank in run("idle", tmp_path):
        assert rank["steps"] == 10_001
        assert rank["in_flight"] <= 3
        assert rank["grown_kib"] < 1024


def test_a_failed_allocation_on_one_rank_is_no_backup_anywhere(tmp_path: Path) -> None:
    first, second = run("no_memory", tmp_path)
    assert first["issued"] == 1
    assert first["on_host"] == second["on_host"] == 0
    assert first == second, "as many votes, and the same decisions"


def test_what_was_agreed_stands_though_a_rank_takes_it_back(tmp_path: Path) -> None:
    first, second = run("late_failure", tmp_path)
    assert first["on_host"] == second["on_host"] == [16, 16], "the second backup failed on one rank, so on both"
    assert first == second
