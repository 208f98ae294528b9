"""`isoradix sim`: many ranks in virtual time, from the command line."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from isoradix import InvalidInputError
from isoradix._isoradix import simulate

if TYPE_CHECKING:
    from .conftest import Answer

COMMAND = [sys.executable, "-m", "isoradix.cli"]


def sim(answer: Answer, *arguments: object, code: int = 0) -> dict[str, Any]:
    got, out, _ = answer("sim", *arguments, "--json")
    assert got == code
    document: dict[str, Any] = json.loads(out)
    return document


def test_clean_runs_say_how_many(answer: Answer) -> None:
    done = sim(answer, "--seeds", "3", "--ranks", "tp2,tp2xcp2xdp2", "--steps", "60")
    assert (done["from"], done["to"], done["runs"], done["violation"]) == (0, 3, 6, None)
    assert sum(done[end] for end in ("clean", "stopped", "crashed", "fatal", "detected")) == 6
    assert done["rank_steps"] > 60 * 2 * 3


def test_a_run_is_a_function_of_its_arguments(answer: Answer) -> None:
    arguments = ["--seeds", "4", "--ranks", "tp2xpp2", "--steps", "60"]
    one, two = (sim(answer, *arguments, "--threads", threads) for threads in (1, 2))
    assert one["history"] == two["history"]
    assert sim(answer, *arguments, "--from", "4")["history"] != one["history"]


def test_each_seed_takes_its_turn_on_a_topology(answer: Answer) -> None:
    assert sim(answer, "--seeds", "4", "--ranks", "tp2,pp2", "--steps", "30", "--spread")["runs"] == 4


def test_a_violation_ends_with_1_and_its_arguments_repeat_it(answer: Answer) -> None:
    found = sim(answer, "--seed", "5", "--ranks", "tp2xpp2", "--steps", "100", "--corrupt", "2:12", code=1)["violation"]
    assert (found["kind"], found["seed"], found["ranks"]) == ("divergence", 5, "tp2xpp2")
    again = sim(answer, *found["again"].split()[2:], "--no-shrink", code=1)["violation"]
    assert (again["what"], again["smallest"]) == (found["what"], None)
    smaller = sim(answer, *found["smallest"].split()[2:], "--no-shrink", code=1)["violation"]
    assert smaller["kind"] == "divergence"
    assert "--keep-inputs" in found["smallest"]


def test_people_read_the_violation_and_its_schedule(answer: Answer) -> None:
    arguments = ["--seed", "5", "--ranks", "tp2xpp2", "--steps", "100", "--corrupt", "2:12", "--no-shrink"]
    code, out, err = answer("sim", *arguments)
    assert code == 1
    assert re.search(r"^violations +1$", out, re.MULTILINE)
    assert "violation in seed 5 on tp2xpp2\ndivergence: rank 2, " in err
    assert "again:\n  isoradix sim --seed 5 --ranks tp2xpp2 --steps 100 --corrupt 2:12\n" in err


def test_a_lying_caller_is_found_out(answer: Answer) -> None:
    done = sim(answer, "--seeds", "3", "--ranks", "tp2xpp2", "--steps", "120", "--liar", "1")
    assert done["detected"] == done["runs"] == 3


def test_ranks_decide_without_a_cache(answer: Answer) -> None:
    done = sim(answer, "--family", "decisions", "--seeds", "3", "--ranks", "pp4,pp8", "--steps", "100")
    assert (done["family"], done["runs"], done["clean"], done["never_met"]) == ("decisions", 6, 6, 0)
    assert done["questions"] > 100
    assert done["verdicts"]["ready"] > 50
    assert done["chunks"] > 50
    code, out, _ = answer("sim", "--family", "abort-storm", "--seed", "1", "--ranks", "pp4")
    assert code == 0
    assert re.search(r"^requests given up +\d{3}$", out, re.MULTILINE)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--family", "weather"], "expected one of cache, decisions, abort-storm"),
        (["--family", "decisions", "--liar", "1"], "--liar is about a cache"),
        (["--ranks", "tp2xpp"], 'topology "tp2xpp"'),
        (["--ranks", "tp8xpp8xcp8xdp2"], "1024 ranks are out of range, 2 to 512"),
        (["--seeds", "0"], "--seeds is 0; the limits are 1 to"),
        (["--seed", "1", "--from", "2"], "--seed and --from exclude each other"),
        (["--liar", "2", "--ranks", "tp2xdp2"], "--liar is 2, limits 0 to 1"),
        (["--domain", "1", "--ranks", "tp2"], "--domain is 1, limits 0 to 0"),
        (["--corrupt", "7"], "--corrupt is '7'; a rank, a colon and a request are expected"),
        (["--keep-inputs", "5..2"], "--keep-inputs is '5..2'; from is below to"),
        (["--eviction", "bogus"], "bogus"),
    ],
)
def test_bad_usage_ends_with_2(answer: Answer, arguments: list[str], said: str) -> None:
    code, out, err = answer("sim", *arguments)
    assert (code, out) == (2, "")
    assert re.fullmatch(r"error: [^\n]+\nhint: [^\n]+\n", err), err
    assert said in err


def computed_s(pid: int) -> float:
    """Processor time of a process so far, which is the same on a busy machine."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes in /proc")
def test_ctrl_c_ends_a_run_that_is_under_way() -> None:
    command = [*COMMAND, "sim", "--seed", "1", "--ranks", "tp8xpp8xcp8", "--steps", "100000"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while computed_s(child.pid) < 4:  # imports take a second
        with pytest.raises(subprocess.TimeoutExpired):
            child.wait(timeout=0.1)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=60)
    assert (child.returncode, out, err) == (130, "", "error: interrupted\n")


def test_what_progress_raises_ends_the_batch() -> None:
    seen: list[int] = []

    def progress(done: int) -> None:
        seen.append(done)
        if done >= 2:
            raise LookupError("enough")

    with pytest.raises(LookupError, match="enough"):
        simulate((0, 1000), ["tp2"], spread=False, threads=1, steps=30, faults=3, progress=progress)
    assert seen == sorted(seen)
    assert seen[-1] < 1000


def test_a_topology_that_there_is_not_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="a domain of 1 ranks is out of range"):
        simulate((0, 1), ["dp4"], spread=False, threads=1, steps=30, faults=3, progress=print)
