"""The same fault, both caches: what becomes of a real server when one rank's copies or host memory behave otherwise.

    python -m tests.sglang.side_by_side                 all of it, as a table (a third of an hour)
    python -m tests.sglang.side_by_side --seeds 0,1     other draws of the faults
    python -m tests.sglang.side_by_side --ranks pp2     one topology
    python -m tests.sglang.side_by_side --storage file  with external storage, and faults of it: file, mooncake
    python -m tests.sglang.side_by_side --json          one object a run
    python -m tests.sglang.side_by_side --write README.md   the table between its marks in a file

The server is SGLang with a tiny model on a CPU: real scheduler processes, real groups, host memory below the device, 52
requests of conversations that come back. Tokens are compared with those of a server without a prefix cache. Exit status
1 if isoradix did not end well. With storage, each cache has a store of its own, which a server before has filled, by
`--hicache-storage-backend`; what a fault does to the server's own store is in cpu_support/storage_faults.py.
"""

import argparse
import contextlib
import json
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from tests.storage.mooncake_server import MooncakeServer

from .engines import Engines
from .interruption import interrupted
from .outcomes import sound
from .scenario import Outcome, Scenario

BACKENDS: Final = ("default", "isoradix")
RANKS: Final = {"TP2": (2, 1), "PP2": (1, 2), "TP2xPP2": (2, 2)}
FAULTS: Final = {
    "none": "",
    "late reports, 5 to 50 ms": "ack-delay:rank={last},ms=5..50,seed={seed}",
    "late reports, 200 to 500 ms": "ack-delay:rank={last},ms=200..500,seed={seed}",
    "a host allocation fails, one in ten": "alloc-fail:rank={last},p=0.1,seed={seed}",
    "the same, others of them": "alloc-fail:rank={last},p=0.1,seed={other}",
    "30 host pages fewer": "short-pool:rank={last},pages=30,seed={seed}",
    "the scheduler sleeps, one step in ten": "sleep:rank={last},p=0.1,ms=20..40,seed={seed}",
}
STORAGE_FAULTS: Final = {
    "none": "",
    "a call fails, one in two": "storage-fail:rank={last},p=0.5,seed={seed}",
    "half of the hits, one question in two": "storage-short:rank={last},p=0.5,seed={seed}",
    "no call returns": "storage-hang:rank={last},step=1,seed={seed}",
    "requests are aborted and retracted": "",
}
KILLS: Final = {
    "the owner of the memory is killed, another one comes": MooncakeServer.restart,
    "the master is killed, and comes back": MooncakeServer.restart_master,
}
"""What happens to a whole Mooncake cluster in the middle of a run."""
KILLED_AT: Final = 8
"""The wave, of 16."""
CROWD: Final = {"concurrency": 8, "new_tokens": 64, "leavers": 3}
"""Of the last row: requests are retracted for lack of room, and others leave while they wait."""
TIMEOUT_S: Final = 120
MARK: Final = "side by side"
"""Of the table in a file; that of a store has its name behind it."""


@dataclass(frozen=True)
class Run:
    """One server under one fault."""

    ranks: str
    fault: str
    seed: int
    backend: str
    scenario: Scenario
    outcome: Outcome
    right: bool

    @property
    def ended_well(self) -> bool:
        return self.right and self.outcome.status == "ok" and not self.outcome.errors

    @property
    def says(self) -> str:
        """What became of it, in a table's cell."""
        if self.ended_well:
            stored = self.outcome.cached_by_tier.get("storage", 0)
            hits = f", {stored:,} of {self.outcome.cached_tokens:,} hits in storage" if self.scenario.storage else ""
            return f"right tokens, {self.outcome.serving_s:.0f} s{hits}"
        if self.outcome.status == "timeout":
            return f"**hangs**: stopped after {TIMEOUT_S} s"
        if self.outcome.errors:
            return f"**dies**: `{_short(self.outcome.errors)}`"
        return "**wrong tokens**" if not self.right else "**not emptied**: slots are missing"


_FORMS: Final = (
    re.compile(r"shape '\[[^\]]*\]' is invalid for input of size \d+"),
    re.compile(r"pop from empty list"),
    re.compile(r"op\.preamble\.length <= op\.nbytes\. \d+ vs \d+"),
    re.compile(r"\w*Error: .*"),
)


def _short(errors: Sequence[str]) -> str:
    """The most telling of the messages that ranks logged."""
    for form in _FORMS:
        for error in errors:
            if found := form.search(error):
                return found[0].strip()[:90].replace("|", "/")
    return errors[0][:90].replace("|", "/")


def runs(engines: Engines, ranks: Sequence[str], seeds: Sequence[int]) -> Iterator[Run]:
    """Both caches, one fault after another."""
    for name in ranks:
        tp, pp = RANKS[name]
        usual = Scenario(l2=True, consensus_checker=False, timeout_s=TIMEOUT_S, tp=tp, pp=pp)
        expected = sound(engines.run(replace(usual, backend="none", l2=False))).tokens
        for fault, text in FAULTS.items():
            for seed in seeds if fault != "none" else seeds[:1]:
                faults = text.format(last=usual.ranks - 1, seed=seed, other=seed + 2)
                for backend in BACKENDS:
                    scenario = replace(usual, faults=faults, backend=backend)
                    outcome = engines.run(scenario)
                    yield Run(name, fault, seed, backend, scenario, outcome, outcome.tokens == expected)


def runs_with_storage(
    engines: Engines, ranks: Sequence[str], seeds: Sequence[int], kind: str, folder: Path
) -> Iterator[Run]:
    """The same for faults of external storage, each cache above a store that a server before has filled."""
    for name in ranks:
        tp, pp = RANKS[name]
        with contextlib.ExitStack() as stores:
            below = {backend: _store(stores, kind, folder / f"{name}-{backend}") for backend in BACKENDS}
            kills = dict.fromkeys(KILLS, "") if kind == "mooncake" else {}
            for fault, text in {**STORAGE_FAULTS, **kills}.items():
                crowd: dict[str, Any] = CROWD if "aborted" in fault else {}
                usual = Scenario(l2=True, consensus_checker=False, timeout_s=TIMEOUT_S, tp=tp, pp=pp, **crowd)
                expected = sound(engines.run(replace(usual, backend="none", l2=False, leavers=0))).tokens
                for seed in seeds if text else seeds[:1]:
                    for backend in BACKENDS:
                        store, cluster = below[backend]
                        asked = replace(usual, backend=backend, storage=store)
                        if not text:
                            engines.run(replace(asked, run=f"first, {fault}", leavers=0))
                        scenario = replace(asked, faults=text.format(last=usual.ranks - 1, seed=seed), run=fault)
                        if cluster is None or fault not in KILLS:
                            outcome = engines.run(scenario)
                        else:
                            told = Path(stores.enter_context(tempfile.TemporaryDirectory(dir=folder)))
                            scenario = replace(scenario, waves_told=str(told))
                            with interrupted(told, KILLED_AT, partial(KILLS[fault], cluster)):
                                outcome = engines.run(scenario)
                        yield Run(name, fault, seed, backend, scenario, outcome, outcome.tokens == expected)


def _store(stores: contextlib.ExitStack, kind: str, folder: Path) -> tuple[str, MooncakeServer | None]:
    folder.mkdir(parents=True)
    if kind == "file":
        return f"file:{folder}", None
    cluster = stores.enter_context(contextlib.closing(MooncakeServer(folder)))
    return f"mooncake:{cluster.url.removeprefix('mooncake://')}", cluster


def table(done: Sequence[Run]) -> str:
    """Markdown: a row a fault and seed, a column a cache."""
    many = len({run.seed for run in done}) > 1
    lines = [
        "| ranks | fault, on the last of them | SGLang's own cache | isoradix |",
        "|---|---|---|---|",
    ]
    cells = {(run.ranks, run.fault, run.seed, run.backend): run.says for run in done}
    for ranks, fault, seed in dict.fromkeys((run.ranks, run.fault, run.seed) for run in done):
        both = [cells.get((ranks, fault, seed, backend), "") for backend in BACKENDS]
        what = f"{fault} (seed {seed})" if many and fault != "none" else fault
        lines.append(f"| {ranks} | {what} | {both[0]} | {both[1]} |")
    return "\n".join(lines)


def write(path: Path, text: str, mark: str) -> None:
    """Puts the table between its marks.

    Raises:
        SystemExit: the file has no marks.
    """
    old = path.read_text()
    begin, end = f"<!-- {mark} -->", f"<!-- end of {mark} -->"
    first, found, rest = old.partition(begin)
    _, ends, last = rest.partition(end)
    if not found or not ends:
        raise SystemExit(f"{path} has no {begin} with {end} after it\nhint: put both where the table goes")
    path.write_text(f"{first}{begin}\n\n{text}\n\n{end}{last}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", default=",".join(RANKS), help=f"of {', '.join(RANKS)}")
    parser.add_argument("--seeds", default="0", help="of the faults, separated by commas")
    parser.add_argument("--storage", choices=("file", "mooncake"), help="below host memory, and faults of it")
    parser.add_argument("--json", action="store_true", help="one object a run, as it ends")
    parser.add_argument("--write", type=Path, metavar="FILE", help="put the table between its marks in a file")
    options = parser.parse_args()
    known = {name.lower(): name for name in RANKS}
    if strange := [name for name in options.ranks.split(",") if name.lower() not in known]:
        parser.error(f"--ranks {strange[0]!r}, expected some of {', '.join(RANKS)}")
    ranks = [known[name.lower()] for name in options.ranks.split(",")]
    done: list[Run] = []
    seeds = [int(seed) for seed in options.seeds.split(",")]
    with tempfile.TemporaryDirectory(prefix="isoradix-side-") as folder, Engines() as engines:
        some = runs(engines, ranks, seeds)
        if options.storage:
            some = runs_with_storage(engines, ranks, seeds, options.storage, Path(folder))
        for run in some:
            done.append(run)
            if options.json:
                named = {"ranks": run.ranks, "fault": run.scenario.faults, "backend": run.backend, "says": run.says}
                print(json.dumps({**named, **run.outcome.summary()}), flush=True)
            else:
                print(f"{run.ranks:8} {run.backend:9} {run.fault:40} {run.says}", file=sys.stderr, flush=True)
    if options.write:
        write(options.write, table(done), f"{MARK}, {options.storage}" if options.storage else MARK)
    elif not options.json:
        print(table(done))
    return int(any(run.backend == "isoradix" and not run.ended_well for run in done))


if __name__ == "__main__":
    sys.exit(main())
