"""`isoradix sim`."""

import os
import re
from time import monotonic
from typing import Annotated

import typer

from isoradix import __version__
from isoradix._isoradix import Found, Simulated, simulate
from isoradix.cli.errors import FINDING, OK, UsageError, show_note
from isoradix.cli.output import show_facts, show_json, tracking
from isoradix.cli.values import count, given, listed

EXAMPLES = """Examples:

  isoradix sim --seeds 100 --ranks tp2xpp2 --json
  isoradix sim --seeds 10000 --ranks tp2,pp8,tp2xpp2xcp2xdp2 --spread
  isoradix sim --seed 17 --ranks pp8 --steps 800 --faults 5
  isoradix sim --seeds 20 --ranks tp2xpp2 --liar 1
  isoradix sim --family abort-storm --seeds 20 --ranks pp4,pp8
"""

_MOST_SEEDS = 10**7
_LARGEST_SEED = 2**63
_MOST_NUMBERS = 10**6
_VERDICTS = ("ready", "failed", "aborted", "timed_out", "missing")
_RANGE = re.compile(r"(\d{1,7})\.\.(\d{1,7})", re.ASCII)


def sim(
    context: typer.Context,
    seeds: Annotated[str, typer.Option(metavar="N", help="How many seeds, from --from on.")] = "100",
    first: Annotated[str, typer.Option("--from", metavar="N", help="The first seed.")] = "0",
    seed: Annotated[str | None, typer.Option(metavar="N", help="One seed only.", show_default=False)] = None,
    ranks: Annotated[
        str, typer.Option(metavar="LIST", help="Topologies between commas, as tp2, pp8 or tp2xpp2xcp2xdp2.")
    ] = "tp2,pp2,tp2xpp2,pp8",
    family: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="What the ranks do: cache, decisions (which requests are ready everywhere, and chunks of prompts), or "
            "abort-storm (the same, with a thousand requests that are all given up).",
        ),
    ] = "cache",
    spread: Annotated[
        bool, typer.Option("--spread", help="Each seed runs on one of the topologies, by turns, and not on all.")
    ] = False,
    steps: Annotated[
        str, typer.Option(metavar="N", help="Steps with requests; a run then goes on until it is quiet.")
    ] = "500",
    faults: Annotated[str, typer.Option(metavar="N", help="Kinds of faults in a seed.")] = "3",
    fatal: Annotated[bool, typer.Option("--fatal", help="Let load-backs fail, which ends a run on all ranks.")] = False,
    until: Annotated[
        str | None, typer.Option(metavar="STEP", help="End a run after this step, whatever is going on.")
    ] = None,
    keep_faults: Annotated[
        str | None, typer.Option(metavar="NUMBERS", help="Keep these faults of the plan only: 0..3,7, or none.")
    ] = None,
    keep_inputs: Annotated[
        str | None, typer.Option(metavar="NUMBERS", help="Keep these requests and other inputs only.")
    ] = None,
    domain: Annotated[
        str | None, typer.Option(metavar="N", help="This domain only, of those that a topology with dp has.")
    ] = None,
    liar: Annotated[
        str | None,
        typer.Option(
            metavar="RANK", help="The caller of this rank hands over requests in another order: it is found out."
        ),
    ] = None,
    corrupt: Annotated[
        str | None, typer.Option(metavar="RANK:REQUEST", help="This rank sees another token in this request.")
    ] = None,
    eviction: Annotated[
        str | None, typer.Option(metavar="POLICY", help="The eviction policy, instead of the seed's own choice.")
    ] = None,
    threads: Annotated[
        str | None, typer.Option(metavar="N", help="Threads; all cores if left out.", show_default=False)
    ] = None,
    no_shrink: Annotated[
        bool, typer.Option("--no-shrink", help="Do not look for a smaller schedule that fails.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> int:
    """Run many ranks in one process, in virtual time, under a seeded plan of faults; check that none of them parts.

    A run is a function of its arguments. A violation ends with 1, the arguments that repeat it, and the smallest
    schedule that still fails.
    """
    if seed is not None and (beside := given(context, "seeds", "first")):
        raise UsageError(
            f"--seed and {', '.join(beside).replace('--first', '--from')} exclude each other", "leave one out"
        )
    start = count("--from" if seed is None else "--seed", first if seed is None else seed, 0, _LARGEST_SEED)
    many = count("--seeds", seeds, 1, _MOST_SEEDS) if seed is None else 1
    topologies = listed("--ranks", ranks, str)
    runs = many if spread else many * len(topologies)
    workers = (os.cpu_count() or 1) if threads is None else count("--threads", threads, 1, 1024)
    begun = monotonic()
    with tracking("sim", runs) as tracker:
        done = simulate(
            (start, start + many),
            topologies,
            family=family,
            spread=spread,
            threads=workers,
            steps=count("--steps", steps, 1, 10**6),
            until=None if until is None else count("--until", until, 0, 2**62),
            faults=count("--faults", faults, 0, 100),
            fatal=fatal,
            keep_faults=None if keep_faults is None else _numbers("--keep-faults", keep_faults),
            keep_inputs=None if keep_inputs is None else _numbers("--keep-inputs", keep_inputs),
            domain=None if domain is None else count("--domain", domain, 0, 511),
            liar=None if liar is None else count("--liar", liar, 0, 511),
            corrupt=None if corrupt is None else _rank_and_request(corrupt),
            eviction=eviction,
            shrinks=not no_shrink,
            progress=tracker.reached,
        )
    seconds = monotonic() - begun
    if json:
        show_json(_document(done, family, (start, start + many), topologies, seconds))
    else:
        show_facts(_facts(done, (start, start + many), seconds))
        if done.found is not None:
            show_note(_explain(done.found))
    return OK if done.found is None else FINDING


def _numbers(option: str, text: str) -> list[int]:
    """`0..3,7`; `none` for none."""
    return [] if text == "none" else [number for part in listed(option, text, str) for number in _range(option, part)]


def _range(option: str, part: str) -> list[int]:
    if found := _RANGE.fullmatch(part):
        low, end = int(found[1]), int(found[2])
        if not low < end <= _MOST_NUMBERS:
            raise UsageError(
                f"{option} is {part!r}; from is below to, up to {_MOST_NUMBERS:,}", "write for example 0..3,7"
            )
        return list(range(low, end))
    return [count(option, part, 0, _MOST_NUMBERS)]


def _rank_and_request(text: str) -> tuple[int, int]:
    rank, colon, request = text.partition(":")
    if not colon:
        raise UsageError(f"--corrupt is {text!r}; a rank, a colon and a request are expected", "write for example 2:12")
    return count("--corrupt", rank, 0, 511), count("--corrupt", request, 0, _MOST_NUMBERS)


def _facts(done: Simulated, seeds: tuple[int, int], seconds: float) -> list[tuple[str, str]]:
    return [
        ("seeds", f"{seeds[0]} to {seeds[1] - 1}"),
        ("runs", f"{done.runs:,}"),
        ("came to rest", f"{done.clean:,}"),
        ("stopped early", f"{done.stopped:,}"),
        ("crashed, noticed", f"{done.crashed:,}"),
        ("failed load-back, all ranks told", f"{done.fatal:,}"),
        ("lying caller found out", f"{done.detected:,}"),
        ("violations", "0" if done.found is None else "1"),
        ("rank-steps", f"{done.rank_steps:,}"),
        ("steps against the reference model", f"{done.modelled:,}"),
        ("operations", f"{done.operations:,}"),
        *_decided(done),
        ("seconds", f"{seconds:.1f}"),
        ("history", f"{done.history:016x}"),
    ]


def _decided(done: Simulated) -> list[tuple[str, str]]:
    """Of runs that decide without a cache."""
    if not done.questions:
        return []
    verdicts = zip(_VERDICTS, done.verdicts, strict=True)
    return [
        ("questions", f"{done.questions:,}"),
        *((verdict, f"{times:,}") for verdict, times in verdicts),
        ("requests given up", f"{done.given_up:,}"),
        ("chunks of prompts", f"{done.chunks:,}"),
    ]


def _explain(found: Found) -> str:
    text = f"\nviolation in seed {found.seed} on {found.topology}\n{found.what}\nagain:\n  isoradix sim {found.again}\n"
    text += found.schedule
    if found.smallest is not None:
        what, again, schedule = found.smallest
        text += f"\nsmallest schedule that fails in this way\n{what}\nagain:\n  isoradix sim {again}\n{schedule}"
    return text


def _document(
    done: Simulated, family: str, seeds: tuple[int, int], topologies: list[str], seconds: float
) -> dict[str, object]:
    found = done.found
    return {
        "command": "sim",
        "version": __version__,
        "from": seeds[0],
        "to": seeds[1],
        "family": family,
        "ranks": topologies,
        "runs": done.runs,
        "clean": done.clean,
        "stopped": done.stopped,
        "crashed": done.crashed,
        "fatal": done.fatal,
        "detected": done.detected,
        "rank_steps": done.rank_steps,
        "steps": done.steps,
        "steps_min": done.steps_min,
        "modelled": done.modelled,
        "operations": done.operations,
        "votes": done.votes,
        "questions": done.questions,
        "verdicts": dict(zip(_VERDICTS, done.verdicts, strict=True)),
        "given_up": done.given_up,
        "chunks": done.chunks,
        "never_met": done.never_met,
        "seconds": round(seconds, 3),
        "history": f"{done.history:016x}",
        "violation": None if found is None else _violation(found),
    }


def _violation(found: Found) -> dict[str, object]:
    smallest = None if found.smallest is None else f"isoradix sim {found.smallest[1]}"
    again = f"isoradix sim {found.again}"
    return {
        "seed": found.seed,
        "ranks": found.topology,
        "kind": found.kind,
        "what": found.what,
        "again": again,
        "smallest": smallest,
    }
