"""`isoradix replay` with ranks or a host tier: one process for each rank."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from json import dumps
from pathlib import Path
from typing import Any, Final, cast

import typer

from isoradix import IsoradixError, StartRecord, TieredCache, __version__, agree
from isoradix.cli.errors import BAD_INPUT, FINDING, OK, UsageError, reason_of, show_error, show_note
from isoradix.cli.output import command_line, save_report, show_facts, show_json, show_table, tracking
from isoradix.cli.values import capacity, count, given
from isoradix.cluster.faults import KINDS, PLANE_FAULTS, parse_faults
from isoradix.cluster.job import MODES, PLANES, TIER_NAMES, Job, TraceOf, WorkloadOf
from isoradix.cluster.launcher import Launcher, Outcome
from isoradix.cluster.prefetch import POLICIES, PrefetchPolicy
from isoradix.cluster.result import RankResult
from isoradix.cluster.storages import KINDS as STORAGE_KINDS
from isoradix.cluster.summary import Summary, phases
from isoradix.consensus.topology import RANKS_MAX, Topology
from isoradix.journal.recorder import make_folder
from isoradix.replay.source import Source, TraceSource, WorkloadSource
from isoradix.report.cluster import cluster_page, failure_table, rank_table, run_facts, time_table
from isoradix.storage import StorageError, open_storage

_MAKES_A_CLUSTER: Final = ("tp", "pp", "cp", "dp", "host_capacity", "journal", "evidence")
_NEEDS_A_CLUSTER: Final = (
    "plane",
    "storage",
    "prefetch_policy",
    "write_policy",
    "batch",
    "step_ms",
    "inject",
    "report_ms",
    "fatal_ms",
    "store_rank",
    "mode",
    "tiers",
    "tiers_at",
    "breaker",
    "attach_at",
    "detach_at",
)
_LONGEST_MS: Final = 86_400_000
_HOST_FAULTS: Final = ("ack-delay", "alloc-fail", "short-pool", "copy-slow", "copy-hang", "corrupt")

# the options, shared with the command
TP: Final[Any] = typer.Option(metavar="N", help="Tensor-parallel ranks; each rank is a process.", show_default="1")
PP: Final[Any] = typer.Option(metavar="N", help="Pipeline stages.", show_default="1")
CP: Final[Any] = typer.Option(metavar="N", help="Context-parallel ranks.", show_default="1")
DP: Final[Any] = typer.Option(metavar="N", help="Replicas, which take the requests in turn.", show_default="1")
HOST_CAPACITY: Final[Any] = typer.Option(
    metavar="TOKENS", help="Tokens that host memory may hold on each rank.", show_default="no host tier"
)
PLANE: Final[Any] = typer.Option(metavar="NAME", help=f"What connects the ranks: {', '.join(PLANES)}.")
WRITE_POLICY: Final[Any] = typer.Option(metavar="NAME", help="through:HITS or back:TOKENS: when KV comes to host.")
BATCH: Final[Any] = typer.Option(metavar="N", help="Requests that are admitted in a step at most.")
STEP_MS: Final[Any] = typer.Option(metavar="MS", help="What a forward pass takes beside its work on bytes.")
INJECT: Final[Any] = typer.Option(
    metavar="FAULT", help=f"A fault, for example sleep:rank=1,ms=20; may be repeated: {', '.join(KINDS)}."
)
REPORT_MS: Final[Any] = typer.Option(metavar="MS", help="After how long a wait is reported.")
FATAL_MS: Final[Any] = typer.Option(metavar="MS", help="After how long a wait is over, and the run with it.")
JOURNAL: Final[Any] = typer.Option(
    metavar="DIR", help="Write a journal of each rank, for isoradix diff, view and replay-journal.", show_default=False
)
STORAGE: Final[Any] = typer.Option(
    metavar="URL", help="External storage below host memory, for example file:///var/cache/kv.", show_default="none"
)
PREFETCH_POLICY: Final[Any] = typer.Option(
    metavar="NAME", help=f"How long a request waits for storage: {', '.join(POLICIES)}."
)
EVIDENCE: Final[Any] = typer.Option(
    metavar="DIR", help="Keep what the ranks leave (logs, boards, journals), for isoradix doctor.", show_default=False
)
MODE: Final[Any] = typer.Option(
    metavar="NAME",
    help="What a divergence does: enforce ends the rank, observe tells and goes on, off compares nothing.",
)
TIERS: Final[Any] = typer.Option(
    metavar="TIER",
    help="The highest tier that is on: l1 for the device alone, l2 for device and host.",
    show_default="all",
)
TIERS_AT: Final[Any] = typer.Option(
    metavar="STEP=TIER", help="Switch tiers with a step, on all ranks: 200=l1; may be repeated."
)
BREAKER: Final[Any] = typer.Option(
    metavar="F,MS,T,MS",
    help="When storage that fails is left alone: failures in a row, ms for which it is, trials that close it again, "
    "ms that are too slow; none for never.",
)
ATTACH_AT: Final[Any] = typer.Option(
    metavar="STEP", help="Attach the storage with a step, on all ranks.", show_default="it is there from the start"
)
DETACH_AT: Final[Any] = typer.Option(metavar="STEP", help="Detach the storage with a step.", show_default="never")
STORE_RANK: Final[Any] = typer.Option(metavar="RANK", help="The rank that hosts the store where all ranks meet.")


@dataclass(frozen=True)
class ClusterOptions:
    """What was typed, as it was typed."""

    tp: str
    pp: str
    cp: str
    dp: str
    capacity: str
    host_capacity: str | None
    plane: str
    policy: str
    write_policy: str
    batch: str
    step_ms: str
    inject: Sequence[str]
    report_ms: str
    fatal_ms: str
    store_rank: str
    storage: str | None
    prefetch_policy: str
    mode: str
    tiers: str | None
    tiers_at: Sequence[str]
    breaker: str
    attach_at: str | None
    detach_at: str | None
    journal: Path | None


def is_cluster(context: typer.Context) -> bool:
    """Whether ranks or a host tier are asked for; refuses options that need them where they are not."""
    if given(context, *_MAKES_A_CLUSTER):
        if given(context, "resume"):
            raise UsageError(
                "--resume is given with ranks or a host tier", "leave it out: every rank inserts from the top"
            )
        return True
    if idle := given(context, *_NEEDS_A_CLUSTER):
        what = f"{' and '.join(idle)} {'is' if len(idle) == 1 else 'are'} given without ranks or a host tier"
        raise UsageError(what, "add --tp 2, say, or --host-capacity 4M")
    return False


def cluster_job(context: typer.Context, source: Source, page_size: int, options: ClusterOptions) -> Job:
    """The run that was asked for, checked before any process starts."""
    sizes = {name: count(f"--{name}", getattr(options, name), 1, RANKS_MAX) for name in ("tp", "pp", "cp", "dp")}
    topology = Topology(**sizes)
    host = 0 if options.host_capacity is None else capacity("--host-capacity", options.host_capacity, page_size)
    if options.plane not in PLANES:
        raise UsageError(f"--plane is {options.plane!r}; there are {', '.join(PLANES)}", "for example --plane gloo")
    if topology.members == 1 and given(context, "plane", "store_rank"):
        what = f"{given(context, 'plane', 'store_rank')[0]} is given with one rank a replica, which agrees with itself"
        raise UsageError(what, "add --tp 2, say")
    if not host and given(context, "write_policy"):
        raise UsageError("--write-policy is given without a host tier", "add --host-capacity 4M, say")
    _check_storage(context, options, host)
    _check_faults(options.inject, topology, host, options.plane, options.storage)
    if options.mode not in MODES:
        raise UsageError(f"--mode is {options.mode!r}; there are {', '.join(MODES)}", "leave it out for enforce")
    if not host and (switches := given(context, "tiers", "tiers_at")):
        raise UsageError(f"{switches[0]} is given without a host tier", "add --host-capacity 4M, say")
    fatal_ms = count("--fatal-ms", options.fatal_ms, 100, _LONGEST_MS)
    job = Job(
        requests=_requests(source),
        **sizes,
        plane=options.plane,
        page_size=page_size,
        capacity=capacity("--capacity", options.capacity, page_size),
        host_capacity=host,
        policy=options.policy,
        write_policy=options.write_policy,
        batch=count("--batch", options.batch, 1, 4096),
        step_ms=count("--step-ms", options.step_ms, 0, _LONGEST_MS),
        faults=tuple(options.inject),
        report_ms=count("--report-ms", options.report_ms, 1, fatal_ms),
        fatal_ms=fatal_ms,
        store_rank=count("--store-rank", options.store_rank, 0, topology.ranks - 1),
        storage=options.storage,
        prefetch_policy=cast(PrefetchPolicy, options.prefetch_policy),
        mode=options.mode,
        tiers=None if options.tiers is None else _tier("--tiers", options.tiers),
        tiers_at=_switches(options.tiers_at),
        breaker=_breaker(options.breaker),
        attach_at=None if options.attach_at is None else count("--attach-at", options.attach_at, 1),
        detach_at=None if options.detach_at is None else count("--detach-at", options.detach_at, 1),
        journal=None if options.journal is None else str(make_folder(options.journal).resolve()),
    )
    # policy and write policy are refused here, not by every rank
    agreement = agree([StartRecord(0, 1, 0).to_bytes()])
    TieredCache(
        rank=0, host_pages=0, agreement=agreement, page_size=page_size, policy=job.policy, writing=job.write_policy
    )
    if find_spec("torch") is None:
        raise UsageError("ranks and host tiers need torch, which is missing", 'pip install "isoradix[torch]"')
    return job


def _check_storage(context: typer.Context, options: ClusterOptions, host: int) -> None:
    if options.storage is None:
        if idle := given(context, "prefetch_policy", "breaker", "attach_at", "detach_at"):
            raise UsageError(f"{idle[0]} is given without --storage", "add --storage file:///tmp/kv, say")
        return
    if not host:
        raise UsageError("--storage is given without host memory, which it lies below", "add --host-capacity 4M, say")
    if options.prefetch_policy not in POLICIES:
        what = f"--prefetch-policy is {options.prefetch_policy!r}; there are {', '.join(POLICIES)}"
        raise UsageError(what, "for example --prefetch-policy timeout")
    try:
        open_storage(options.storage).close()  # refused here, not by every rank
    except (StorageError, IsoradixError) as error:
        text, _, hint = str(error).partition("\nhint: ")
        raise UsageError(f"--storage is {options.storage!r}: {text}", hint or "see docs/storage.md") from error


def _check_faults(texts: Sequence[str], topology: Topology, host: int, plane: str, storage: str | None) -> None:
    for text, fault in zip(texts, parse_faults(texts, topology.ranks), strict=True):
        if not host and fault.kind in _HOST_FAULTS:
            raise UsageError(f"fault {text!r} is about host memory, and there is none", "add --host-capacity 4M, say")
        if fault.kind in PLANE_FAULTS and (plane != "gloo" or topology.members == 1):
            raise UsageError(f"fault {text!r} is on the way between ranks of --plane gloo", "add --tp 2, say")
        if fault.kind == "batch" and topology.pp == 1:
            raise UsageError(f"fault {text!r} is between pipeline stages, and there is one", "add --pp 2, say")
        if storage is None and fault.kind in STORAGE_KINDS:
            what = f"fault {text!r} is about external storage, and there is none"
            raise UsageError(what, "add --storage file:///tmp/kv, say")


def _breaker(text: str) -> tuple[int, int, int, int] | None:
    """`5,10000,2,30000`, or `none`."""
    if text == "none":
        return None
    parts = text.split(",")
    if len(parts) != 4:
        raise UsageError(f"--breaker is {text!r}; it is no four numbers", "write --breaker 5,10000,2,30000, or none")
    failures, trials = (count("--breaker", parts[at], 1, 2**32 - 1) for at in (0, 2))
    open_ms, slow_ms = (count("--breaker", parts[at], 0, _LONGEST_MS) for at in (1, 3))
    return failures, open_ms, trials, slow_ms


def _tier(option: str, name: str) -> str:
    if name not in TIER_NAMES:
        raise UsageError(f"{option} is {name!r}; there are {', '.join(TIER_NAMES)}", f"for example {option} l1")
    return name


def _switches(texts: Sequence[str]) -> tuple[tuple[int, str], ...]:
    """`200=l1`, one step each, in the order of the steps."""
    switches: dict[int, str] = {}
    for text in texts:
        step, equals, name = text.partition("=")
        if not equals:
            raise UsageError(f"--tiers-at is {text!r}; it has no '='", "write --tiers-at 200=l1")
        number = count("--tiers-at", step, 1)
        if number in switches:
            raise UsageError(f"--tiers-at names step {number} twice", "one switch a step")
        switches[number] = _tier("--tiers-at", name)
    return tuple(sorted(switches.items()))


def _requests(source: Source) -> TraceOf | WorkloadOf:
    """Every rank reads the requests by itself."""
    if isinstance(source, WorkloadSource):
        return WorkloadOf(source.kind, source.total, source.seed)
    assert isinstance(source, TraceSource)
    if not source.repeatable:
        raise UsageError(f"{source.name} is a pipe, which several ranks cannot read", "give the path of a file")
    return TraceOf(str(source.path.resolve()), source.limit)


def check_evidence(folder: Path | None) -> None:
    """Refuses a folder that has something in it: what earlier runs left is no evidence of this one."""
    what, hint = f"--evidence is {str(folder)!r}", "name a new folder, out/evidence say"
    try:
        if folder is not None and folder.exists() and any(folder.iterdir()):
            raise UsageError(f"{what}, which is not empty", hint)
    except OSError as error:
        raise UsageError(f"{what}, which cannot be used: {reason_of(error)}", hint) from error


def replay_cluster(job: Job, source: Source, json: bool, report: Path | None, evidence: Path | None = None) -> int:
    """Runs it and shows what came of it; with `evidence`, keeps it in that folder."""
    ranks = job.topology.ranks
    name = f"replay {source.name} on {ranks} {'rank' if ranks == 1 else 'ranks'}"
    with tracking(name, source.total) as tracker:
        outcome = Launcher(job, tracker.reached, evidence).run()
    refused = next((one for one in outcome.failures.values() if one.error == "TraceError"), None)
    if refused is not None:
        show_error(refused.message)
        return BAD_INPUT
    summary = Summary(outcome)
    document = _document(source.name, summary)
    if evidence is not None:
        _keep(evidence, document)
    if json:
        show_json(document)
    else:
        _show(source.name, summary)
    for finding in summary.findings:
        show_error(finding)
    parted = [one.message for one in outcome.failures.values() if one.error == "DivergenceError"]
    if parted:
        show_error(parted[0])  # the others say the same
    if report is not None:
        save_report(report, cluster_page(summary, source.name, command_line(), __version__))
    return FINDING if summary.findings else OK


def _keep(evidence: Path, document: dict[str, object]) -> None:
    """What came of it, beside what the ranks have left."""
    try:
        (evidence / "replay.json").write_text(dumps(document, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        what = f"--evidence {str(evidence)!r} cannot be written: {reason_of(error)}"
        raise UsageError(what, "choose another folder") from error
    show_note(f"evidence kept in {evidence}: isoradix doctor {evidence}\n")


def _document(source: str, summary: Summary) -> dict[str, object]:
    """The stable form of `--json`: names are not changed within a major version, only added."""
    outcome, job = summary.outcome, summary.outcome.job
    return {
        "command": "replay",
        "version": __version__,
        "source": source,
        "topology": {"tp": job.tp, "pp": job.pp, "cp": job.cp, "dp": job.dp, "ranks": job.topology.ranks},
        "plane": job.plane_used,
        "page_size": job.page_size,
        "capacity": job.capacity,
        "host_capacity": job.host_capacity,
        "policy": job.policy,
        "write_policy": job.write_policy if job.host_capacity else None,
        "faults": list(job.faults),
        "mode": job.mode,
        "tiers": {"start": job.tiers or "l3", "at": [{"step": step, "top": top} for step, top in job.tiers_at]},
        "requests": summary.requests,
        "skipped": sum(one.skipped for one in summary.domains),
        "uncached": sum(one.uncached for one in summary.domains),
        "tokens": summary.tokens,
        "device_hit_tokens": summary.device_hits,
        "host_hit_tokens": summary.host_hits,
        "storage": job.storage,
        "prefetch_policy": None if job.storage is None else job.prefetch_policy,
        "storage_hit_tokens": summary.storage_hits,
        "breaker": None if job.storage is None else job.breaker,
        "attach_at": job.attach_at,
        "detach_at": job.detach_at,
        "hit_rate": round(summary.hit_rate, 4),
        "hitseq": summary.hitseqs,
        "wall_s": round(outcome.wall_s, 3),
        "ranks": [_rank_document(outcome, one) for one in summary.results],
        "failures": [
            {"rank": one.rank, "error": one.error, "message": one.message, "names": list(one.named), "step": one.step}
            for _, one in sorted(outcome.failures.items())
        ],
        "killed": outcome.killed,
        "journal": job.journal,
        "findings": summary.findings,
        "verdict": "failed" if summary.findings else "ok",
    }


def _rank_document(outcome: Outcome, one: RankResult) -> dict[str, object]:
    place = outcome.job.topology.place(one.rank)
    return {
        "rank": one.rank,
        "domain": place.domain,
        "stage": place.stage,
        "cp": place.cp,
        "tp": place.tp,
        "steps": len(one.digests) // 8,
        "hitseq": one.hitseq,
        "decision_digest": one.digests[-8:][::-1].hex(),
        "tree_digest": f"{one.tree_digest:016x}",
        **one.totals,
        "operations": one.operations,
        "breaker": [{"step": step, "state": state} for step, state in one.breaker],
        "attachments": [{"step": step, "what": what, "why": why or None} for step, what, why in one.attachments],
        "votes": int(one.counts["votes"]),
        "frames": int(one.counts["frames"]),
        "votes_framed": int(one.counts["votes_framed"]),
        "vote_age_ms": round(one.counts["vote_age_ms"], 3),
        "waits": one.waits,
        "wait_ms": round(one.counts["wait_s"] * 1e3, 3),
        "checked_tokens": one.checked_tokens,
        "written_tokens": one.written_tokens,
        "cpu_ms": round(one.cpu_ms, 3),
        "scheduler_ms": round(one.scheduler_ms, 3),
        "journal_ms": round(one.journal_ms, 3),
        "faults_at_work": len(one.events),
        "times": {name: asdict(stats) for name, stats in phases(one).items()},
        "check": one.finding or "ok",
        "observed": one.observed,
    }


def _show(source: str, summary: Summary) -> None:
    outcome = summary.outcome
    show_facts(run_facts(source, summary))
    if summary.results:
        show_table("\nranks", *rank_table(summary))
        show_table("\ntime in a step, median and p99", *time_table(summary))
    if outcome.failures:
        show_table("\nranks that ended early", *failure_table(outcome))
