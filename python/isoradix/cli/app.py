"""The commands, and what becomes of whatever goes wrong in them."""

import errno
from collections.abc import Sequence
from typing import Annotated

import typer

from isoradix import IsoradixError, __version__
from isoradix.cli import bench, demo, doctor, journals, replay, sim, storage, sweep, topology, waits
from isoradix.cli.errors import BAD_INPUT, INTERRUPTED, OK, UsageError, exit_code_of, lose_output, reason_of, show_error

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)

_EXIT_CODES = """Exit codes:

  0    done
  1    a check failed
  2    bad usage or bad input
  130  interrupted
"""


def literal(epilog: str) -> str:
    """Keeps the lines of an epilog as they are."""
    return "\b\n" + epilog.replace("\n\n", "\n")


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"isoradix {__version__}")
        raise typer.Exit(OK)


@app.callback(invoke_without_command=True, epilog=literal(_EXIT_CODES))
def isoradix(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    """A deterministic prefix cache: replay traces, measure operations, compare policies."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


for command, examples, summary in (
    (replay.replay, replay.EXAMPLES, "Replay a trace or a workload through a bounded cache."),
    (demo.demo, demo.EXAMPLES, "A small LLM engine on many ranks, with a live view of its cache."),
    (sweep.sweep, sweep.EXAMPLES, "Hit rate against capacity, beside the offline optimum."),
    (bench.bench, bench.EXAMPLES, "Time single operations, or measure memory."),
    (sim.sim, sim.EXAMPLES, "Many ranks in virtual time, under faults."),
    (topology.topology, topology.EXAMPLES, "Draw who is who: domains, stages, leaders, the way of frames, shards."),
    (waits.waits, waits.EXAMPLES, "Show what the ranks on this machine wait for."),
    (doctor.doctor, doctor.EXAMPLES, "What went wrong: form, culprit and next step, from logs, stacks and boards."),
    (journals.diff, journals.DIFF_EXAMPLES, "Compare the journals of ranks: where they part, and who is at fault."),
    (journals.view, journals.VIEW_EXAMPLES, "A page of the journals: trees side by side, step by step."),
    (journals.replay_journal, journals.REPLAY_EXAMPLES, "Do again what one rank did, from its journal."),
):
    app.command(epilog=literal(examples), short_help=summary)(command)
app.add_typer(storage.app, name="storage", short_help="External stores of KV pages: try, look, clear.")


def run(arguments: Sequence[str], commands: typer.Typer = app, name: str = "isoradix") -> int:
    """One command; every error it can foresee becomes a message and an exit code."""
    try:
        code = _invoke(arguments, commands, name)
    except (UsageError, IsoradixError) as error:
        show_error(str(error))
        return exit_code_of(error)
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except MemoryError:
        show_error("there is not enough memory\nhint: a smaller --capacity, --requests or --limit takes less")
        return BAD_INPUT
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        show_error(f"{_lower(error.format_message())}\nhint: {name} --help, or --help after a command")
        return BAD_INPUT
    if code == INTERRUPTED:
        show_error("interrupted")
    return code if isinstance(code, int) else OK


def _invoke(arguments: Sequence[str], commands: typer.Typer, name: str) -> object:
    """Without typer's own main, which ends the process where a pipe is closed."""
    command = typer.main.get_command(commands)
    try:
        with command.make_context(name, list(arguments)) as context:
            return command.invoke(context)
    except typer.Exit as done:
        return done.exit_code
    except IsoradixError:
        raise  # also where it is an OSError, as what storage did not do in time
    except OSError as error:
        if error.filename is not None:
            raise
        if error.errno not in (errno.EPIPE, errno.ENOSPC, errno.EIO):
            what = f"the system refuses: {reason_of(error)}"
            raise UsageError(what, "see the limits of this shell: ulimit -a") from error
        lose_output(error)  # of --help or --version
        return OK


def _lower(message: str) -> str:
    return message[:1].lower() + message[1:].rstrip(".")
