"""`isoradix replay`."""

from pathlib import Path
from typing import Annotated, Any, Final

import typer

from isoradix import InvariantError, __version__
from isoradix.cli import cluster
from isoradix.cli.errors import FINDING, OK, show_error
from isoradix.cli.output import command_line, save_report, show_facts, show_json, show_table, tracking
from isoradix.cli.sources import LIMIT, PAGE_SIZE, REQUESTS, SEED, TRACE, WORKLOAD, choose_source
from isoradix.cli.values import LARGEST_PAGE, capacity, count, report_path
from isoradix.replay.runner import ReplayConfig, Replayer, ReplayResult
from isoradix.replay.source import Source
from isoradix.replay.stats import OPERATIONS

EXAMPLES = """Examples:

  isoradix replay trace.jsonl --page-size 64 --capacity 4M
  isoradix replay trace.jsonl --policy slru:2 --limit 3000 --json
  isoradix replay --workload agent --requests 5000 --seed 1 --capacity 1M --report out/agent.html
  isoradix replay --workload chat --tp 2 --pp 2 --capacity 100k --host-capacity 1M --report out/ranks.html
  isoradix replay --workload chat --tp 2 --pp 2 --inject diverge:rank=3,step=200 --journal out/journals
  isoradix replay --workload chat --tp 2 --pp 2 --inject stop:rank=1,step=50 --evidence out/incident
  isoradix replay --workload chat --tp 2 --host-capacity 1M --tiers-at 200=l1 --tiers-at 400=l2
  isoradix replay trace.jsonl --tp 2 --host-capacity 8M --inject ack-delay:rank=1,ms=5..50 --inject copy-slow
"""

CAPACITY: Final[Any] = typer.Option(
    "--capacity", metavar="TOKENS", help="Tokens that the cache may hold, for example 4M; cut down to whole pages."
)
POLICY: Final[Any] = typer.Option(
    metavar="NAME", help="lru, lfu, fifo, mru, filo, priority, slru[:threshold] or tlru:threshold,next_prompt."
)
RESUME: Final[Any] = typer.Option(
    "--resume", help="Insert from where the match ended, as a scheduler may; hit counts then skip the prefix."
)
REPORT: Final[Any] = typer.Option(metavar="FILE", help="Write one self-contained HTML page with plots.")
JSON: Final[Any] = typer.Option("--json", help="Print one JSON object instead of tables.")


def replay(
    context: typer.Context,
    trace: Annotated[Path | None, TRACE] = None,
    workload: Annotated[str | None, WORKLOAD] = None,
    requests: Annotated[str, REQUESTS] = "2000",
    seed: Annotated[str, SEED] = "0",
    limit: Annotated[str | None, LIMIT] = None,
    page_size: Annotated[str, PAGE_SIZE] = "64",
    capacity_: Annotated[str, CAPACITY] = "4M",
    policy: Annotated[str, POLICY] = "lru",
    resume: Annotated[bool, RESUME] = False,
    tp: Annotated[str, cluster.TP] = "1",
    pp: Annotated[str, cluster.PP] = "1",
    cp: Annotated[str, cluster.CP] = "1",
    dp: Annotated[str, cluster.DP] = "1",
    host_capacity: Annotated[str | None, cluster.HOST_CAPACITY] = None,
    plane: Annotated[str, cluster.PLANE] = "gloo",
    write_policy: Annotated[str, cluster.WRITE_POLICY] = "through:1",
    batch: Annotated[str, cluster.BATCH] = "8",
    step_ms: Annotated[str, cluster.STEP_MS] = "0",
    inject: Annotated[list[str] | None, cluster.INJECT] = None,
    report_ms: Annotated[str, cluster.REPORT_MS] = "5000",
    fatal_ms: Annotated[str, cluster.FATAL_MS] = "60000",
    store_rank: Annotated[str, cluster.STORE_RANK] = "0",
    storage: Annotated[str | None, cluster.STORAGE] = None,
    prefetch_policy: Annotated[str, cluster.PREFETCH_POLICY] = "timeout",
    mode: Annotated[str, cluster.MODE] = "enforce",
    tiers: Annotated[str | None, cluster.TIERS] = None,
    tiers_at: Annotated[list[str] | None, cluster.TIERS_AT] = None,
    breaker: Annotated[str, cluster.BREAKER] = "5,10000,2,30000",
    attach_at: Annotated[str | None, cluster.ATTACH_AT] = None,
    detach_at: Annotated[str | None, cluster.DETACH_AT] = None,
    journal: Annotated[Path | None, cluster.JOURNAL] = None,
    evidence: Annotated[Path | None, cluster.EVIDENCE] = None,
    report: Annotated[Path | None, REPORT] = None,
    json: Annotated[bool, JSON] = False,
) -> int:
    """Replay a request trace or a built-in workload through a bounded cache.

    With ranks (--tp, --pp, --cp, --dp), --host-capacity or --journal, each rank is a process with a cache, KV bytes and
    a copy engine of its own, and all must come to equal digests. Without them it is one cache in this process.

    Each request is matched, its slots are read and its path locked; what it lacks is evicted if need be, inserted, and
    the lock given back. The tree and the slot pool are checked at the end; exit code 1 if that finds anything.
    """
    source = choose_source(context, trace, workload, requests, seed, limit)
    page = count("--page-size", page_size, 1, LARGEST_PAGE)
    if cluster.is_cluster(context):
        cluster.check_evidence(evidence)
        options = cluster.ClusterOptions(
            tp=tp,
            pp=pp,
            cp=cp,
            dp=dp,
            capacity=capacity_,
            host_capacity=host_capacity,
            plane=plane,
            policy=policy,
            write_policy=write_policy,
            batch=batch,
            step_ms=step_ms,
            inject=inject or (),
            report_ms=report_ms,
            fatal_ms=fatal_ms,
            store_rank=store_rank,
            storage=storage,
            prefetch_policy=prefetch_policy,
            mode=mode,
            tiers=tiers,
            tiers_at=tiers_at or (),
            breaker=breaker,
            attach_at=attach_at,
            detach_at=detach_at,
            journal=evidence / "journals" if journal is None and evidence is not None else journal,
        )
        job = cluster.cluster_job(context, source, page, options)
        report_path(report)
        return cluster.replay_cluster(job, source, json, report, evidence)
    config = ReplayConfig(page, capacity("--capacity", capacity_, page), policy, resume)
    report_path(report)
    return _in_this_process(config, source, json, report)


def _in_this_process(config: ReplayConfig, source: Source, json: bool, report: Path | None) -> int:
    replayer = Replayer(config)
    with tracking(f"replay {source.name}", source.total) as tracker:
        result = replayer.run(source, tracker.reached)
    finding = _check(replayer)
    if json:
        show_json(_document(source.name, result, replayer, finding))
    else:
        _show(source.name, result, replayer, finding)
    if report is not None:
        _save(report, result, replayer, source.name)
    return FINDING if finding else OK


def _check(replayer: Replayer) -> str | None:
    try:
        replayer.cache.check(replayer.pool)
    except InvariantError as error:
        show_error(str(error))
        return str(error)
    return None


def _save(report: Path, result: ReplayResult, replayer: Replayer, source: str) -> None:
    from isoradix.report.replay import replay_page

    save_report(report, replay_page(result, replayer.cache, source, command_line(), __version__))


def _document(source: str, result: ReplayResult, replayer: Replayer, finding: str | None) -> dict[str, object]:
    """The stable form of `--json`: names are not changed within a major version, only added."""
    operations = {name: stats.as_json() for name, stats in result.operations().items()}
    return {
        "command": "replay",
        "version": __version__,
        "source": source,
        "page_size": result.config.page_size,
        "capacity": result.config.capacity,
        "policy": replayer.cache.policy,
        "requests": result.requests,
        "skipped": result.skipped,
        "uncached": result.uncached,
        "tokens": result.tokens,
        "hit_tokens": result.hit_tokens,
        "hit_rate": round(result.hit_rate, 4),
        "evictions": operations["evict"]["count"],
        "evicted_tokens": result.evicted_tokens,
        "cached_tokens": replayer.cache.total_size,
        "nodes": replayer.cache.num_nodes,
        "memory_bytes": replayer.cache.memory_bytes(),
        "requests_per_s": round(result.requests_per_second, 1),
        "tokens_per_s": round(result.tokens / result.cache_seconds, 1) if result.requests else 0.0,
        "wall_s": round(result.wall_s, 3),
        "operations": {name: operations[name] for name in OPERATIONS},
        "pool": {name: stats for name, stats in operations.items() if name not in OPERATIONS},
        "hitseq": result.hitseq,
        "decision_digest": f"{replayer.cache.decision_digest:016x}",
        "tree_digest": f"{replayer.cache.tree_digest:016x}",
        "check": finding or "ok",
    }


def _show(source: str, result: ReplayResult, replayer: Replayer, finding: str | None) -> None:
    config, cache = result.config, replayer.cache
    unserved = [("skipped", f"{result.skipped:,} shorter than a page")] if result.skipped else []
    if result.uncached:
        unserved.append(("uncached", f"{result.uncached:,} longer than the capacity"))
    show_facts(
        [
            ("source", source),
            (
                "cache",
                f"{cache.policy}, pages of {config.page_size}, capacity {config.usable_capacity:,} tokens",
            ),
            ("requests", f"{result.requests:,}"),
            *unserved,
            ("hit tokens", f"{result.hit_tokens:,} of {result.tokens:,}"),
            ("hit rate", f"{result.hit_rate * 100:.2f} %"),
            ("evictions", f"{len(result.samples['evict']):,} calls, {result.evicted_tokens:,} tokens"),
            (
                "requests/s",
                f"{result.requests_per_second:,.0f} in the cache ({result.wall_s:.2f} s wall for everything)",
            ),
            ("hitseq", result.hitseq),
            ("decision digest", f"{cache.decision_digest:016x}"),
            ("tree digest", f"{cache.tree_digest:016x}"),
            ("check", "failed" if finding else "ok"),
        ]
    )
    rows = []
    for name, stats in result.operations().items():
        shown = name if name in OPERATIONS else f"pool {name} (apart)"
        rows.append(
            [
                shown,
                f"{stats.count:,}",
                f"{stats.median_us:,.2f}",
                f"{stats.p99_us:,.2f}",
                f"{stats.total_ms:,.1f}",
            ]
        )
    show_table("\noperations", ("operation", "calls", "median µs", "p99 µs", "total ms"), rows)
