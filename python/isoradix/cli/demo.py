"""`isoradix demo`: the small engine among the examples, at work."""

import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from time import monotonic
from typing import Annotated, Any, Final

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from isoradix import __version__
from isoradix.cli.errors import OK, UsageError
from isoradix.cli.output import show_facts, show_json, show_table
from isoradix.cli.values import count
from isoradix.cluster.faults import parse_faults

EXAMPLES = """Examples:

  isoradix demo
  isoradix demo --tp 1 --pp 4 --tiers l3 --drafts 3
  isoradix demo --inject copy-slow:ms=5..50 --inject alloc-fail:rank=1,p=0.3
  isoradix demo --tiers off --json
"""

_TIERS: Final = ("off", "l1", "l2", "l3")
_FOUND: Final = ("device", "host", "storage")
FAULTS: Final = (
    *("copy-slow", "ack-delay", "alloc-fail", "short-pool", "sleep", "pause"),
    *("storage-short", "storage-fail", "storage-slow", "storage-hang"),
)
_HEADS: Final = 4
_LAYERS: Final = 4
_PER_SECOND: Final = 8


def check_faults(option: str, faults: Sequence[str], ranks: int) -> None:
    """Refuses what no rank could do, and what would end a run or spoil its answers."""
    for fault in parse_faults(faults, ranks):
        if fault.kind not in FAULTS:
            raise UsageError(f"{option} {fault.kind} is not for a demo", f"one of {', '.join(FAULTS)}")


def demo(
    tp: Annotated[str, typer.Option(metavar="N", help="Tensor-parallel ranks: 1, 2 or 4.")] = "2",
    pp: Annotated[str, typer.Option(metavar="N", help="Pipeline stages, up to 4.")] = "2",
    tiers: Annotated[
        str, typer.Option(metavar="TIER", help=f"The highest tier that is used: {', '.join(_TIERS)}.")
    ] = "l3",
    storage: Annotated[
        str | None,
        typer.Option(metavar="URL", help="External storage of tier l3.", show_default="files in a folder of its own"),
    ] = None,
    users: Annotated[str, typer.Option(metavar="N", help="Conversations.")] = "8",
    rounds: Annotated[str, typer.Option(metavar="N", help="Turns of each.")] = "5",
    drafts: Annotated[str, typer.Option(metavar="N", help="Tokens that are guessed ahead and verified at once.")] = "0",
    dynamic: Annotated[
        bool, typer.Option("--dynamic", help="Chunks of prefill shrink as their history grows.")
    ] = False,
    inject: Annotated[
        list[str] | None, typer.Option(metavar="FAULT", help="A fault, as of isoradix replay; may be repeated.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> int:
    """Serve conversations with a small LLM engine on many ranks, and watch what its cache does.

    The model is small and untrained, everything else is real: sharded attention over paged KV, continuous batching,
    chunked prefill, three tiers, one process for each rank. Whatever tiers and faults are chosen, the answers are the
    same; `--tiers off` computes everything anew.
    """
    if tiers not in _TIERS:
        raise UsageError(f"--tiers is {tiers!r}", f"one of {', '.join(_TIERS)}")
    if storage is not None and tiers != "l3":
        raise UsageError(f"--storage is given with --tiers {tiers}", "storage is tier l3")
    split, stages = count("--tp", tp, 1, _HEADS), count("--pp", pp, 1, _LAYERS)
    if _HEADS % split:
        raise UsageError(f"--tp is {split}", f"a divisor of the model's {_HEADS} heads")
    faults = tuple(inject or ())
    check_faults("--inject", faults, split * stages)
    workload = {"users": count("--users", users, 1, 1000), "rounds": count("--rounds", rounds, 1, 20)}
    guessed = count("--drafts", drafts, 0, 16)
    engine = _engine()
    asked = engine.requests.Workload(**workload)
    longest = asked.system + asked.rounds * (asked.question + asked.answer) + guessed
    room = {"slots": max(1024, 64 * (longest // 32 + 1)), "context": 4 * longest}  # for two of the longest at least
    room |= {"host_pages": 96, "batch": 3, "chunk": 128}
    chosen = {"tp": split, "pp": stages, "cache": tiers, "drafts": guessed, "dynamic": dynamic}
    began = monotonic()
    with tempfile.TemporaryDirectory(prefix="isoradix-demo-") as folder:
        url = storage or f"file://{folder}/kv"
        settings = engine.settings.Settings(**chosen, **room, faults=faults, storage=url if tiers == "l3" else None)
        with _watching(settings, workload, hidden=json) as tell:
            outcome = engine.deployment.run(settings, asked, tell)
    _show(outcome, {**chosen, **workload}, monotonic() - began, as_json=json)
    return OK


class _Engine:
    """The parts of the example that a run needs."""

    def __init__(self) -> None:
        names = ("deployment", "requests", "settings")
        self.deployment, self.requests, self.settings = (import_module(f"minillm.{name}") for name in names)


def _engine() -> _Engine:
    """The example, from the source that this package is installed from, or that the command is called in."""
    if find_spec("torch") is None:
        raise UsageError("torch is not installed, and the engine computes with it", "pip install torch")
    for root in (Path(__file__).resolve().parents[3], Path.cwd()):
        if (root / "examples" / "minillm").is_dir():
            sys.path.insert(0, str(root / "examples"))
            return _Engine()
    raise UsageError("examples/minillm is not here: it is part of the source, not of the wheel", "run it in a checkout")


@contextmanager
def _watching(settings: Any, workload: dict[str, int], hidden: bool) -> Iterator[Callable[[Any], None]]:
    """Shows steps as they come, on a terminal; elsewhere nothing."""
    if hidden or sys.stderr is None or not sys.stderr.isatty():
        yield lambda beat: None
        return
    total = workload["users"] * workload["rounds"]
    beats: dict[int, Any] = {}
    with Live(console=Console(file=sys.stderr), refresh_per_second=_PER_SECOND, transient=True) as live:

        def tell(beat: Any) -> None:
            beats[beat.rank] = beat
            if beat.rank == 0:
                live.update(_picture(beats, total, settings))

        yield tell


def _picture(beats: dict[int, Any], total: int, settings: Any) -> Group:
    """One moment: how far it is, what was found where, and the digest of every rank."""
    leader = beats[0]
    line = f"step {leader.step}   requests {leader.finished}/{total}   running {leader.running}   batch {leader.batch}"
    tokens = max(1, sum(leader.hits) + leader.missed)
    found = Table.grid(padding=(0, 2))
    for name, hit in (*zip(_FOUND, leader.hits, strict=True), ("computed", leader.missed)):
        found.add_row(name, ProgressBar(total=tokens, completed=hit, width=40), f"{hit:,} tokens")
    ranks = Table(box=None, pad_edge=False)
    for name in ("rank", "step", "digest"):
        ranks.add_column(name, justify="right")
    for rank, beat in sorted(beats.items()):
        ranks.add_row(str(rank), str(beat.step), f"{beat.digest:016x}")
    shape = f"tp {settings.tp} x pp {settings.pp}, tiers up to {settings.cache}"
    return Group(Text(shape, style="dim"), Text(line), found, ranks)


def _show(outcome: Any, chosen: dict[str, Any], seconds: float, as_json: bool) -> None:
    rates = outcome.hit_rates()
    tiers = [sum(request.hits[at] for request in outcome.requests) for at in range(3)]
    prompts = sum(request.prompt for request in outcome.requests)
    digests = [f"{report.digest:016x}" for report in outcome.reports]
    accepted = max(report.accepted for report in outcome.reports)
    if as_json:
        hits = dict(zip(_FOUND, tiers, strict=True))
        run = {"requests": len(outcome.requests), "steps": outcome.reports[0].steps, "seconds": round(seconds, 3)}
        counts = {"prompt_tokens": prompts, "hit_tokens": hits, "hit_rates": rates, "accepted_drafts": accepted}
        show_json({"command": "demo", "version": __version__, **chosen, **run, **counts, "digests": digests})
        return
    rows = [[str(turn + 1), f"{100 * rate:.1f} %"] for turn, rate in enumerate(rates)]
    show_table("", ("round", "found in the cache"), rows)
    show_facts(
        [
            ("requests", f"{len(outcome.requests)} in {outcome.reports[0].steps} steps, {seconds:.1f} s"),
            (
                "prompts",
                f"{prompts:,} tokens; {', '.join(f'{name} {hit:,}' for name, hit in zip(_FOUND, tiers, strict=True))}",
            ),
            *([("guessed right", f"{accepted} tokens")] if chosen["drafts"] else []),
            ("digests", f"{digests[0]}, equal on {len(digests)} ranks" if len(digests) > 1 else digests[0]),
        ]
    )
