"""Incidents that are made by real processes: how to make each of them anew, and what has to come of it.

    python -m tests.doctor.recorded [NAME ...]

records them into the folder `incidents`, evidence and all; without names all of them. Stacks need py-spy on the path.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.ports import free_port

from isoradix.cluster.job import Job, TraceOf, WorkloadOf
from isoradix.cluster.launcher import Launcher
from isoradix.consensus.waits import all_waits
from isoradix.doctor.diagnosis import diagnose

HERE: Final = Path(__file__).parent
INCIDENTS: Final = HERE / "incidents"
ROOT: Final = HERE.parents[1]
PROGRAMS: Final = HERE / "programs.py"
PATIENT_MS: Final = 30_000
"""For runs in which nothing is wrong, also on a machine that is busy."""
HUNG_S: Final = 7.0
PATIENCE_S: Final = 90.0

Record = Callable[[Path], None]
"""Leaves its evidence in a folder."""


@dataclass(frozen=True)
class Incident:
    """An incident: how it is made, what has to be found, and how long it takes."""

    record: Record
    form: str
    culprits: tuple[int, ...]
    next: str
    slow: bool = True
    drops: tuple[str, ...] = ("journals",)
    """What of the evidence is not kept as a fixture."""
    says: tuple[str, ...] = ()
    """What the condition has to say."""
    needs_stacks: bool = False
    by_chance: bool = False
    """Whether it depends on who speaks first if anybody can be named."""


def replay(*faults: str, journals: bool = False, **changed: Any) -> Record:
    """A small cluster replay with `--evidence`."""

    def record(folder: Path) -> None:
        fields: dict[str, Any] = {
            "requests": WorkloadOf("agent", 60, 1),
            "tp": 2,
            "pp": 2,
            "capacity": 60_000,
            "host_capacity": 200_000,
            "batch": 4,
            "step_ms": 5,
            "report_ms": 500,
            "fatal_ms": 10_000,
        }
        journal = str(folder / "journals") if journals else None
        with tempfile.TemporaryDirectory() as place:
            if journals:  # short prompts make small journals
                fields |= {"requests": _short_requests(Path(place)), "page_size": 4, "capacity": 1_000}
            Launcher(Job(**{**fields, "faults": faults, "journal": journal, **changed}), evidence=folder).run()

    return record


def _short_requests(folder: Path) -> TraceOf:
    """Thirty requests of at most 80 tokens, some of which begin alike."""
    lines = [{"timestamp": 0, "input_length": 20 + 2 * at, "hash_ids": [at % 13]} for at in range(30)]
    path = folder / "requests.jsonl"
    path.write_text("".join(json.dumps({**line, "output_length": 1}) + "\n" for line in lines))
    return TraceOf(str(path))


def hanging(program: str) -> Record:
    """Four ranks of a program that hang; their stacks and boards while they do."""

    def record(folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as boards:
            ranks = _start(program, Path(boards))
            try:
                _wait_for_hang(Path(boards))
                for rank, process in enumerate(ranks):
                    dump = subprocess.run(
                        ["py-spy", "dump", "--pid", str(process.pid)], capture_output=True, text=True, check=True
                    )
                    (folder / f"stacks-rank{rank}.txt").write_text(dump.stdout)
                if found := all_waits(Path(boards)):
                    document = {"command": "waits", "folder": boards, "ranks": [board.as_json() for board in found]}
                    (folder / "waits.json").write_text(json.dumps(document, indent=2) + "\n")
            finally:
                for process in ranks:
                    process.kill()
                    process.communicate()

    return record


def _start(program: str, boards: Path) -> list[subprocess.Popen[bytes]]:
    port = free_port()
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(PROGRAMS), program]
    return [
        subprocess.Popen([*command, str(rank), str(port), str(boards)], env=environment, stderr=subprocess.DEVNULL)
        for rank in range(4)
    ]


def _wait_for_hang(folder: Path) -> None:
    """Until a scheduler has waited for a while, or all ranks of a program without boards have come to its end."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        waits = [wait for board in all_waits(folder) for wait in board.waits if wait.operation != "vote"]
        if any(wait.age_s > HUNG_S for wait in waits):
            return
        if len(list(folder.glob("arrived-*"))) == 4:
            time.sleep(2.0)
            return
        time.sleep(0.2)
    raise AssertionError("the program does not hang")


RECORDED: Final[Mapping[str, Incident]] = {
    "healthy": Incident(replay(journals=True, fatal_ms=PATIENT_MS), "none", (), "nothing", slow=False, drops=()),
    "late-copies": Incident(
        replay("ack-delay:rank=1,ms=5..50", "copy-slow:rank=3", fatal_ms=PATIENT_MS, report_ms=10),
        "none",
        (),
        "nothing",
    ),
    "failed-allocations": Incident(replay("alloc-fail:rank=1,p=0.3", fatal_ms=PATIENT_MS), "none", (), "nothing"),
    "slow-network": Incident(replay("net-slow:ms=5..30", fatal_ms=PATIENT_MS, report_ms=10), "none", (), "nothing"),
    "paused": Incident(replay("pause:rank=2,step=10,ms=5000", fatal_ms=PATIENT_MS), "none", (), "nothing"),
    "killed": Incident(replay("kill:rank=3,step=10"), "killed", (3,), "rank"),
    "stopped": Incident(replay("stop:rank=1,step=10", fatal_ms=5_000), "stopped", (1,), "process", slow=False),
    "sleeping": Incident(
        replay("sleep:rank=2,ms=60000,p=0.2", fatal_ms=5_000), "C", (2,), "tiers", says=("injector", "on its own")
    ),
    "parted": Incident(
        replay("diverge:rank=3,step=6", journals=True),
        "divergence",
        (3,),
        "inputs",
        slow=False,
        drops=(),
        says=("insert",),
    ),
    "parted-without-journals": Incident(
        replay("diverge:rank=3,step=6", step_ms=150), "divergence", (3,), "journals", says=("insert",)
    ),
    "header": Incident(replay("batch:rank=2,step=8"), "A", (), "tiers", slow=False, says=("rank 2", "rank 0")),
    "short-queue": Incident(
        replay("unasked:rank=3,step=10", "copy-slow:rank=3,ms=300"), "B", (3,), "tiers", slow=False, says=("vote",)
    ),
    "never-enqueued": Incident(
        replay("alloc-fail:rank=2,p=1", plane="chain", fatal_ms=5_000), "C", (2,), "tiers", says=("ack", "own copies")
    ),
    "unequal-votes": Incident(
        replay("revote:rank=1,step=10"), "divergence", (1,), "journals", says=("vote",), by_chance=True
    ),
    "wrong-bytes": Incident(
        replay("corrupt:rank=0,step=1", requests=WorkloadOf("agent", 200, 1)),
        "failed",
        (0,),
        "rank",
        says=("wrong bytes",),
    ),
    "storage-hangs": Incident(hanging("storage"), "C", (2,), "tiers", says=("get_pages",), needs_stacks=True),
    "collectives-unequal": Incident(
        hanging("collectives"), "C", (0,), "tiers", says=("check_progress",), needs_stacks=True
    ),
}


# into fixtures


def record(name: str) -> None:
    """Records one incident: its evidence, and what is found in it."""
    folder = INCIDENTS / name
    shutil.rmtree(folder, ignore_errors=True)
    evidence = folder / "evidence"
    RECORDED[name].record(evidence)
    for dropped in RECORDED[name].drops:
        shutil.rmtree(evidence / dropped, ignore_errors=True)
    for path in evidence.rglob("*"):
        if path.is_file() and path.suffix in (".log", ".txt", ".json"):
            path.write_text(_without_places(path.read_text()))
    found = diagnose([evidence])
    expected = {
        "form": str(found.found.form),
        "culprit": list(found.found.culprits),
        "condition": found.found.condition.text,
        "sure": str(found.found.sure),
        "next": found.next.step,
        "from": f"python -m tests.doctor.recorded {name}",
    }
    (folder / "expected.json").write_text(json.dumps(expected, indent=2) + "\n")


def _without_places(text: str) -> str:
    """Without the folders of the machine on which it was recorded."""
    for place in (ROOT, sysconfig.get_path("purelib"), sysconfig.get_path("stdlib"), sys.prefix, sys.base_prefix):
        text = text.replace(f"{place}/", "")
    return re.sub(r'(?<=[ "])/tmp/[\w./-]+', "boards", text)


if __name__ == "__main__":
    for name in sys.argv[1:] or RECORDED:
        began = time.monotonic()
        record(name)
        print(name, f"{time.monotonic() - began:.1f} s", (INCIDENTS / name / "expected.json").read_text(), flush=True)
