"""What a journal costs: `isoradix replay` of a trace on TP 2 x PP 2, with `--journal` beside without.

    python -m benches.journals TRACE
    python -m benches.journals TRACE --limit 1500 --pairs 9 --json

Pairs of runs take turns, the first of a pair another one each time. Start-up is in none of the figures. `step` is the
time of all steps on the slowest rank; `cpu` the processor time of all ranks, which other work on the machine changes
less; `cache` the time among the verbs, on all ranks. Ratios are of each pair, and the median of them counts.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

FIGURES: Final = ("step", "cpu", "cache")


def replay(given: argparse.Namespace, journal: str | None) -> dict[str, float]:
    """Milliseconds of one run."""
    command = [
        *(sys.executable, "-m", "isoradix.cli", "replay", str(given.trace), "--limit", str(given.limit)),
        *("--tp", "2", "--pp", "2", "--capacity", given.capacity, "--host-capacity", given.host_capacity, "--json"),
        *(() if journal is None else ("--journal", journal)),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}\n{done.stderr}")
    ranks = json.loads(done.stdout)["ranks"]
    return {
        "step": max(rank["times"]["step"]["total_ms"] for rank in ranks),
        "cpu": sum(rank["cpu_ms"] for rank in ranks),
        "cache": sum(rank["times"]["cache"]["total_ms"] for rank in ranks),
    }


def pair(given: argparse.Namespace, journal_first: bool) -> tuple[dict[str, float], dict[str, float], int]:
    """A run without and a run with a journal, and the bytes of the journals."""
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        found = {}
        for with_journal in (journal_first, not journal_first):
            found[with_journal] = replay(given, folder if with_journal else None)
        written = sum(path.stat().st_size for path in Path(folder).glob("*/*.journal"))
    print(
        "  ".join(f"{name} {found[True][name] / found[False][name]:.3f}" for name in FIGURES),
        file=sys.stderr,
        flush=True,
    )
    return found[False], found[True], written


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", type=Path, help="a Mooncake trace")
    parser.add_argument("--limit", type=int, default=1500, help="requests of each run")
    parser.add_argument("--pairs", type=int, default=5, help="pairs of runs")
    parser.add_argument("--capacity", default="4M", help="tokens on the device")
    parser.add_argument("--host-capacity", default="4M", help="tokens in host memory")
    parser.add_argument("--folder", default=None, help="where the journals are written, for a while")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    given = parser.parse_args()
    without, with_journal, sizes = zip(*(pair(given, turn % 2 == 1) for turn in range(given.pairs)), strict=True)
    ratios = {
        name: [after[name] / before[name] for before, after in zip(without, with_journal, strict=True)]
        for name in FIGURES
    }
    if given.json:
        print(
            json.dumps({"without": without, "with": with_journal, "ratios": ratios, "journal_bytes": sizes}, indent=2)
        )
        return
    load = os.getloadavg()[0]
    print(
        f"{given.pairs} pairs of {given.limit} requests, journals of {sizes[-1] / 2**20:.0f} MiB, load {load:.1f} now"
    )
    for name in FIGURES:
        before, after = (statistics.median(run[name] for run in runs) for runs in (without, with_journal))
        spread = f"{min(ratios[name]):.2f} to {max(ratios[name]):.2f}"
        ratio = statistics.median(ratios[name])
        print(f"{name:6} {before:8.0f} ms without   {after:8.0f} ms with   ratio {ratio:.3f} ({spread})")


if __name__ == "__main__":
    main()
