"""A long run under all faults that a run survives: no divergence, no wrong byte, no leak. Asked for by `-m soak`.

`SOAK_REQUESTS` sets its length; 240,000 take about a quarter of an hour on two cores. What it saw goes to the file that
`SOAK_REPORT` names, if given.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("torch")

FAULTS = [
    "ack-delay:rank=1,ms=5..50",
    "alloc-fail:rank=2,p=0.05",
    "short-pool:rank=1,pages=1000",
    "copy-slow:rank=3,ms=5",
    "sleep:rank=2,ms=20,p=0.02",
]
# what a rank keeps of every step on purpose, for its report, is less than this
LOG_BYTES_A_STEP = 160
SPARE_BYTES = 64 << 20


def resident_bytes(folder: Path) -> dict[int, int]:
    """Resident memory of each rank's process below this one."""
    found = {}
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        try:
            command = (process / "cmdline").read_bytes()
            if b"isoradix.cluster.worker" in command and folder.name.encode() in (process / "environ").read_bytes():
                pages = int((process / "statm").read_text().split()[1])
                found[int(process.name)] = pages * os.sysconf("SC_PAGE_SIZE")
        except (OSError, IndexError):
            continue  # it has ended meanwhile
    return found


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read from /proc")
def test_a_long_run_under_all_faults_ends_well_and_memory_stays_flat(tmp_path: Path) -> None:
    command = [
        *(sys.executable, "-m", "isoradix.cli", "replay", "--workload", "chat", "--tp", "2", "--pp", "2"),
        *("--requests", os.environ.get("SOAK_REQUESTS", "240000"), "--capacity", "100k", "--host-capacity", "400k"),
        *("--batch", "4", "--step-ms", "5", "--json"),
        *(part for fault in FAULTS for part in ("--inject", fault)),
    ]
    samples: list[dict[int, int]] = []
    started = time.monotonic()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": str(tmp_path)}
    ) as run:
        while run.poll() is None:
            time.sleep(2)
            samples.append(resident_bytes(tmp_path))
        assert run.stdout is not None
        assert run.stderr is not None
        out, err = run.stdout.read(), run.stderr.read()
    assert run.returncode == 0, err
    document = json.loads(out)
    assert document["verdict"] == "ok"
    warm = [sample for sample in samples if len(sample) == 4]
    first, last = warm[len(warm) // 3], warm[-2]
    growth = {pid: last[pid] - first[pid] for pid in first}
    steps = max(rank["steps"] for rank in document["ranks"])
    report = {
        "minutes": round((time.monotonic() - started) / 60, 1),
        "requests": document["requests"],
        "steps": steps,
        "votes": document["ranks"][0]["votes"],
        "aborted": document["ranks"][0]["operations"],
        "checked_tokens": sum(rank["checked_tokens"] for rank in document["ranks"]),
        "resident_mb": [sample >> 20 for sample in last.values()],
        "growth_kb_in_the_last_two_thirds": [bytes_ >> 10 for bytes_ in growth.values()],
    }
    if target := os.environ.get("SOAK_REPORT"):
        Path(target).write_text(json.dumps(report, indent=2))
    assert max(growth.values()) < SPARE_BYTES + LOG_BYTES_A_STEP * steps, report
