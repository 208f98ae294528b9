"""The page of a cluster replay, and the tables that it shares with the terminal."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from isoradix.cluster.job import Job
from isoradix.cluster.launcher import Outcome
from isoradix.cluster.result import RankResult
from isoradix.cluster.steps import PHASES, Column, unpacked
from isoradix.cluster.summary import Summary, phases, place_name
from isoradix.replay.stats import OperationStats
from isoradix.report.charts import Axis, Bar, Line, bar_chart, line_chart
from isoradix.report.page import Page, figure
from isoradix.report.scale import fitted, human, linear, microseconds, percent
from isoradix.report.timeline import Lane, Spans, Timeline

_WINDOWS: Final = 120
# what the timeline shows of a step, by colour; "other" is input, and the faults of the scheduler
_SHOWN: Final = {"plane": 0, "cache": 2, "copies waited for": 1, "forward": 6, "other": 7}
_GROUPS: Final = {
    "input": "other",
    "plane": "plane",
    "cache": "cache",
    "close": "cache",
    "copies": "copies waited for",
    "forward": "forward",
}

Table = tuple[Sequence[str], list[list[str]]]


def cluster_page(summary: Summary, source: str, command: str, version: str) -> str:
    """One self-contained document about a run."""
    job = summary.outcome.job
    page = Page(f"Replay of {source} on {_ranks(job.topology.ranks)}", _lead(summary), command)
    if summary.results:
        page.tiles(_tiles(summary))
    page.heading("Over time")
    page.figures(_timeline(summary.outcome))
    if summary.results:
        page.heading("Hits and time")
        page.figures(_hits(summary), _times(summary))
        page.heading("Ranks")
        page.table(*rank_table(summary))
        page.table(*time_table(summary))
    if summary.outcome.failures:
        page.heading("Ranks that ended early")
        page.table(*failure_table(summary.outcome))
    page.heading("Evidence")
    page.table(("what", "value"), run_facts(source, summary))
    return page.html(version)


# tables


def run_facts(source: str, summary: Summary) -> list[tuple[str, str]]:
    """Name and value of what holds for the whole run."""
    outcome, job = summary.outcome, summary.outcome.job
    shape = " x ".join(f"{name} {getattr(job, name)}" for name in ("tp", "pp", "cp", "dp") if getattr(job, name) > 1)
    host = (
        f"host {job.host_pages * job.page_size:,} tokens, written {job.write_policy}"
        if job.host_pages
        else "no host tier"
    )
    facts = [
        ("source", source),
        ("ranks", f"{job.topology.ranks}: {shape or 'one alone'}, {job.plane_used} plane"),
        ("cache", f"{job.policy}, pages of {job.page_size}, capacity {job.slots:,} tokens, {host}"),
        ("faults", ", ".join(job.faults) or "none"),
        *_switches(job),
        ("wall", f"{outcome.wall_s:.1f} s with the start of the processes"),
        *(_served_facts(summary) if summary.results else ()),
    ]
    facts += [("finding", finding) for finding in summary.findings]
    return [*facts, ("verdict", "failed" if summary.findings else "ok: equal decisions at every step, right bytes")]


def _switches(job: Job) -> list[tuple[str, str]]:
    """What is off, where something is."""
    facts = [] if job.mode == "enforce" else [("mode", f"{job.mode}: a divergence ends no rank")]
    tops = [*([] if job.tiers is None else [(1, job.tiers)]), *job.tiers_at]
    if not tops:
        return facts
    switched = ", ".join(f"up to {top} from step {step:,}" for step, top in tops)
    note = "; this run has no external storage, so l3 is as l2" if any(top == "l3" for _, top in tops) else ""
    return [*facts, ("tiers", switched + note)]


def _served_facts(summary: Summary) -> list[tuple[str, str]]:
    """What the requests found, where at least one rank came to its end."""
    facts = [("requests", f"{summary.requests:,}")]
    if skipped := sum(one.skipped for one in summary.domains):
        facts.append(("skipped", f"{skipped:,} shorter than a page"))
    if uncached := sum(one.uncached for one in summary.domains):
        facts.append(("uncached", f"{uncached:,} longer than the capacity"))
    tiers = [f"{summary.device_hits:,} on device", f"{summary.host_hits:,} on host"]
    if summary.outcome.job.storage is not None:
        tiers.append(f"{summary.storage_hits:,} in storage")
    facts += _storage_facts(summary)
    hits = f"{', '.join(tiers[:-1])} and {tiers[-1]}, of {summary.tokens:,}"
    return [
        *facts,
        ("hit tokens", hits),
        ("hit rate", f"{summary.hit_rate * 100:.2f} %"),
        ("steps", ", ".join(f"{len(one.digests) // 8:,}" for one in summary.domains)),
        ("bytes checked", f"of {summary.checked_tokens:,} tokens, counted on every rank and layer"),
        ("hitseq", ", ".join(summary.hitseqs)),
        ("decision digest", ", ".join(one.digests[-8:][::-1].hex() for one in summary.domains)),
    ]


def _storage_facts(summary: Summary) -> list[tuple[str, str]]:
    """What storage was like for the ranks, where there was any."""
    if summary.outcome.job.storage is None:
        return []
    facts = []
    for one in summary.domains:
        steps = {state: [step for step, of in one.breaker if of == state] for state in ("open", "closed")}
        told = [f"{name} {_how_often(steps[state])}" for state, name in (("open", "opened"), ("closed", "closed"))]
        facts.append(("breaker", ", ".join(told) if steps["open"] else "never opened"))
    for rank in summary.results:
        for step, what, why in rank.attachments:
            if rank in summary.domains or why:
                facts.append(
                    ("storage", f"{what} at step {step:,}" + (f", as rank {rank.rank} says: {why}" if why else ""))
                )
    if given_up := sum(one.totals["given_up_tokens"] for one in summary.domains):
        facts.append(("given up", f"{given_up:,} tokens were to be stored, and are not"))
    return facts


def _how_often(steps: Sequence[int]) -> str:
    """For example "2 times, at steps 41 and 90"."""
    if not steps:
        return "0 times"
    shown = ", ".join(f"{step:,}" for step in steps)
    return f"once, at step {shown}" if len(steps) == 1 else f"{len(steps)} times, at steps {shown}"


def rank_table(summary: Summary) -> Table:
    """What each rank did; tokens but for votes, frames and waits."""
    stored = ("fetched", "stored") if summary.outcome.job.storage is not None else ()
    tiers = ("device", "host", "storage") if stored else ("device", "host")
    header = (
        "rank", "place", *(f"{tier} hits" for tier in tiers), "backed up", "loaded back", *stored, "evicted", "demoted",
        "aborted", "votes", "frames", "waits", "waited",
    )  # fmt: skip
    moved = ["backed_up_tokens", "loaded_back_tokens", "evicted_tokens", "demoted_tokens"]
    moved[2:2] = ["prefetched_tokens", "stored_tokens"] if stored else []
    rows = []
    for one in summary.results:
        log = one.requests_log()
        figures = [*(int(log[tier].sum()) for tier in tiers), *(one.totals[name] for name in moved), _aborted(one)]
        figures += [int(one.counts["votes"]), int(one.counts["frames"]), sum(one.waits.values())]
        waited = microseconds(one.counts["wait_s"] * 1e6)
        rows.append(
            [str(one.rank), place_name(summary.outcome, one.rank), *(f"{figure:,}" for figure in figures), waited]
        )
    return header, rows


def _aborted(one: RankResult) -> int:
    """Operations that have ended early."""
    return sum(
        number for kind in one.operations.values() for name, number in kind.items() if name.startswith("aborted_")
    )


def time_table(summary: Summary) -> Table:
    """Where the time of each rank's steps went."""
    names = (*PHASES, "step")
    rows = []
    for one in summary.results:
        stats = phases(one)
        cells = (f"{microseconds(stats[name].median_us)}, {microseconds(stats[name].p99_us)}" for name in names)
        rows.append([str(one.rank), *cells])
    return ("rank", *names), rows


def failure_table(outcome: Outcome) -> Table:
    """Rank, error, and whom it names."""
    rows = []
    for rank, failure in sorted(outcome.failures.items()):
        named = ", ".join(map(str, failure.named)) or "nobody"
        step = "" if failure.step is None else f"{failure.step:,}"
        rows.append([str(rank), failure.error, named, step, failure.message.partition("\n")[0]])
    return ("rank", "error", "names rank", "step", "message"), rows


# drawings


def _ranks(count: int) -> str:
    return "one rank" if count == 1 else f"{count} ranks"


def _lead(summary: Summary) -> str:
    job = summary.outcome.job
    host = f", host {job.host_pages * job.page_size:,}" if job.host_pages else ""
    cache = f"{job.policy}, pages of {job.page_size}, capacity {job.slots:,} tokens{host}"
    return f"{job.plane_used} plane, {cache}: {'the run failed' if summary.findings else 'all ranks agreed'}"


def _tiles(summary: Summary) -> list[tuple[str, str]]:
    return [
        ("token hit rate", f"{summary.hit_rate * 100:.2f} %"),
        (f"hits on device, of {human(summary.tokens)}", human(summary.device_hits)),
        ("hits on host", human(summary.host_hits)),
        *([("hits in storage", human(summary.storage_hits))] if summary.outcome.job.storage is not None else []),
        ("requests", f"{summary.requests:,}"),
        ("steps", f"{max((len(one.digests) // 8 for one in summary.results), default=0):,}"),
        ("verdict", "failed" if summary.findings else "equal"),
    ]


def _timeline(outcome: Outcome) -> str:
    logs: dict[int, dict[str, Column]] = {rank: unpacked(one.steps) for rank, one in outcome.results.items()}
    logs.update({rank: unpacked(one.steps) for rank, one in outcome.failures.items() if one.steps})
    logs = {rank: log for rank, log in logs.items() if len(log["start"])}
    lanes = []
    for rank in range(outcome.job.topology.ranks):
        failure = outcome.failures.get(rank)
        told = outcome.results.get(rank) or failure
        spans = _spans(logs[rank]) if rank in logs else {}
        end = None if failure is None else (failure.at_ns, failure.error)
        label = f"rank {rank}" if outcome.job.topology.ranks > 1 else "the rank"
        lanes.append(Lane(label, spans, told.events if told is not None else (), end))
    start = min((int(log["start"][0]) for log in logs.values()), default=outcome.started_ns)
    ends = [int(log["start"][-1] + log["step"][-1]) for log in logs.values()]
    ends += [failure.at_ns for failure in outcome.failures.values()]
    timeline = Timeline(lanes, _SHOWN, start, max(ends, default=start), lambda value: f"{value:g} s")
    note = "a band for each rank; the height of a colour is its share of the time"
    return figure("Where the time went", note, timeline.draw("time of each rank by activity"), wide=True)


def _spans(log: dict[str, Column]) -> dict[str, Spans]:
    """Begin and end of what each step did: its phases follow each other, what is before them is other."""
    inside = sum((log[name] for name in PHASES), np.zeros(len(log["start"]), dtype=np.int64))
    moment = log["start"] + log["step"] - inside
    parts: dict[str, list[Spans]] = {"other": [(log["start"], moment)]}
    for name in PHASES:
        parts.setdefault(_GROUPS[name], []).append((moment, moment + log[name]))
        moment = moment + log[name]
    return {name: _interleaved(spans) for name, spans in parts.items()}


def _interleaved(spans: Sequence[Spans]) -> Spans:
    """Spans of several phases, step by step."""
    begins, ends = (np.stack([span[side] for span in spans], axis=1).ravel() for side in (0, 1))
    return begins, ends


def _hits(summary: Summary) -> str:
    served = summary.served
    count = len(served["lengths"])
    windows = min(_WINDOWS, count)
    bounds = [count * index // windows for index in range(windows + 1)] if count else [0]
    sums = {name: np.diff(np.concatenate(([0], np.cumsum(log)))[bounds]) for name, log in served.items()}
    tokens = np.maximum(sums["lengths"], 1)
    device, both = (sums["device"] / tokens).tolist(), ((sums["device"] + sums["host"]) / tokens).tolist()
    places = bounds[1:]
    lines = [Line("device and host", places, both, 1, filled=True), Line("device", places, device, 0, filled=True)]
    x = Axis(fitted(0, max(count, 1)), "request", human)
    top = max([*both, 0.01])
    drawn = line_chart(lines, x, Axis(linear(0, top, percent), "hit rate", percent), "hit rate by tier over requests")
    return figure(
        "Hits by tier", f"hit tokens by prompt tokens; a window is {max(count // max(windows, 1), 1):,} requests", drawn
    )


def _times(summary: Summary) -> str:
    """All ranks together; the table has each of them."""
    logs = [one.step_log() for one in summary.results]
    bars = []
    for name in PHASES:
        stats = OperationStats.of(np.concatenate([log[name] for log in logs]))
        bars.append(Bar(name, stats.median_us, stats.p99_us, _SHOWN[_GROUPS[name]]))
    top = max(bar.mark or bar.value for bar in bars)
    axis = Axis(linear(0, max(top, 1.0), microseconds), "time in a step", microseconds)
    return figure(
        "Time in a step", "median over all ranks, with a mark at p99", bar_chart(bars, axis, "time in a step by phase")
    )
