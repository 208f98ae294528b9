"""The command line: serves conversations, and says what each rank has moved and what was decided."""

import tempfile
from collections import Counter
from collections.abc import Sequence
from time import monotonic
from typing import Annotated, Any

import typer

from disaggregated.deployment import Outcomes, run
from isoradix import __version__
from isoradix.cli import app
from isoradix.cli.demo import check_faults
from isoradix.cli.errors import FINDING, OK, UsageError
from isoradix.cli.output import show_facts, show_json, show_table
from isoradix.cli.values import count
from isoradix.storage import PermanentStorageError, open_storage
from minillm import deployment
from minillm.deployment import Outcome
from minillm.requests import Workload
from minillm.settings import Settings

NAME = "python -m examples.disaggregated"
EXAMPLES = f"""Examples:

  {NAME}
  {NAME} --pp 2 --storage mooncake://127.0.0.1:50051
  {NAME} --decode-inject storage-fail:rank=1,p=0.1 --patience-ms 2000
  {NAME} --json

Exit codes: 0 done, 1 answers or digests differ, or a rank fails, 2 bad usage or bad input, 130 interrupted
"""
TIERS = ("device", "host", "storage")
Faults = Annotated[list[str] | None, typer.Option(metavar="FAULT", help="As of isoradix demo; may be repeated.")]


def disaggregated(
    tp: Annotated[str, typer.Option(metavar="N", help="Tensor-parallel ranks of each group: 1, 2 or 4.")] = "2",
    pp: Annotated[str, typer.Option(metavar="N", help="Pipeline stages of each group, up to 4.")] = "1",
    storage: Annotated[
        str | None, typer.Option(metavar="URL", help="Where KV is stored.", show_default="files in a folder of its own")
    ] = None,
    users: Annotated[str, typer.Option(metavar="N", help="Conversations.")] = "8",
    rounds: Annotated[str, typer.Option(metavar="N", help="Turns of each.")] = "3",
    patience_ms: Annotated[str, typer.Option(metavar="MS", help="What the KV of a request may take.")] = "10000",
    epochs: Annotated[str, typer.Option(metavar="N", help="How often it is asked for.")] = "2",
    prefill_inject: Faults = None,
    decode_inject: Faults = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> int:
    """Prefill on one group of ranks, decode on another, and the KV handed over through storage.

    Whatever goes wrong with a hand-over, the answers are those of one rank without a cache, which runs for comparison.
    """
    shape = {"tp": count("--tp", tp, 1, 4), "pp": count("--pp", pp, 1, 4)}
    if 4 % shape["tp"]:
        raise UsageError(f"--tp is {tp}", "a divisor of the model's 4 heads")
    workload = Workload(users=count("--users", users, 1, 1000), rounds=count("--rounds", rounds, 1, 20))
    options: dict[str, Any] = {
        "patience_ms": count("--patience-ms", patience_ms, 1),
        "epochs": count("--epochs", epochs, 1, 100),
    }
    faults = {"prefill": tuple(prefill_inject or ()), "decode": tuple(decode_inject or ())}
    for group, each in faults.items():
        check_faults(f"--{group}-inject", each, shape["tp"] * shape["pp"])
    try:
        if storage is not None:
            open_storage(storage).close()
    except PermanentStorageError as error:
        what, _, hint = str(error).partition("\nhint: ")
        raise UsageError(f"--storage: {what}", hint) from error
    longest = workload.system + workload.rounds * (workload.question + workload.answer)
    room: dict[str, Any] = {"slots": 64 * (longest // 32 + 1), "context": 4 * longest, "host_pages": longest // 5}
    began = monotonic()
    with tempfile.TemporaryDirectory(prefix="isoradix-disaggregated-") as folder:
        shared = {
            "cache": "l3",
            "storage": f"file://{folder}/kv" if storage is None else storage,
            "batch": 2,
            **shape,
            **room,
        }
        prefill, decode = (Settings(faults=each, **shared) for each in faults.values())
        outcomes = run(prefill, decode, workload, **options)
    seconds = round(monotonic() - began, 3)
    right = outcomes.decode.answers == deployment.run(Settings(cache="off", **room), workload).answers
    asked = {"users": workload.users, "rounds": workload.rounds, **shape, **options, "seconds": seconds, "right": right}
    _show(outcomes, asked, as_json=json)
    return OK if right else FINDING


def _show(outcomes: Outcomes, facts: dict[str, Any], *, as_json: bool) -> None:
    verdicts = dict(Counter(verdict for _, _, verdict, _ in outcomes.verdicts))
    tokens = {"prefill": _tokens(outcomes.prefill), "decode": _tokens(outcomes.decode)}
    names = ("group", "rank", "steps", "moved_pages", "digest")
    ranks = [(each.group, each.rank, each.steps, each.pages, f"{each.digest:016x}") for each in outcomes.reports]
    if as_json:
        found = {
            "verdicts": verdicts,
            "tokens": tokens,
            "ranks": [dict(zip(names, rank, strict=True)) for rank in ranks],
        }
        show_json({"command": "disaggregated", "version": __version__, **facts, **found})
        return
    show_table("", names, [list(map(str, rank)) for rank in ranks])
    said = [(group, ", ".join(f"{what} {many:,}" for what, many in each.items())) for group, each in tokens.items()]
    decided = ", ".join(f"{many} {verdict}" for verdict, many in verdicts.items()) or "none"
    answers = f"{'' if facts['right'] else 'NOT '}those of one rank without a cache"
    show_facts([*said, ("verdicts", decided), ("answers", answers), ("seconds", str(facts["seconds"]))])


def _tokens(group: Outcome) -> dict[str, int]:
    """Tokens of a group's prompts, and of these what was found in each tier."""
    tiers = {tier: sum(request.hits[at] for request in group.requests) for at, tier in enumerate(TIERS)}
    return {"prompts": sum(request.prompt for request in group.requests), **tiers}


def main(arguments: Sequence[str]) -> int:
    commands = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    commands.command(epilog=app.literal(EXAMPLES))(disaggregated)
    return app.run(arguments, commands, NAME)
