"""Exit codes, and errors as two lines on stderr: what is wrong, then a hint."""

import io
import os
import sys
from typing import Final, TextIO

from rich.console import Console

from isoradix import InputTypeError, InvalidInputError, IsoradixError

OK: Final = 0
FINDING: Final = 1
BAD_INPUT: Final = 2
INTERRUPTED: Final = 130
# a table is never squeezed: cells that end in dots are worth less than lines that wrap
_WIDTH: Final = 400


class UsageError(Exception):
    """An option or a file that cannot be used. `what` names value and limit."""

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(f"{what}\nhint: {hint}")


def show_error(message: str) -> None:
    """One error on stderr, never wrapped, in colour on a terminal."""
    what, _, hint = message.partition("\n")
    console, drawn = rendering(sys.stderr)
    console.print("error: ", style="bold red", end="")
    console.print(what, markup=False, soft_wrap=True)
    if hint:
        console.print(hint, markup=False, style="dim", soft_wrap=True)
    show_note(drawn.getvalue())


def rendering(stream: TextIO | None) -> tuple[Console, io.StringIO]:
    """A console that writes to memory what suits the stream, so that a write that fails is ours to handle."""
    drawn = io.StringIO()
    colour = True if stream is not None and stream.isatty() else None  # None leaves it to the environment
    return Console(file=drawn, force_terminal=colour, highlight=False, width=_WIDTH), drawn


def show_note(text: str) -> None:
    """Text on stderr; where that is closed or full, nobody can be told."""
    if sys.stderr is None:
        return
    try:
        print(text, end="", file=sys.stderr, flush=True)
    except OSError:
        silence(sys.stderr)


def silence(stream: TextIO) -> None:
    """Drops what a stream still holds, which Python would fail to write at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def reason_of(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


def lose_output(error: OSError) -> None:
    """What a failed write to stdout means: a reader that has gone away (`| head`) is no error."""
    silence(sys.stdout)
    if not isinstance(error, BrokenPipeError):
        what = f"standard output cannot be written: {reason_of(error)}"
        raise UsageError(what, "send it to a file or a terminal with room") from error


def exit_code_of(error: Exception) -> int:
    """Findings are what the cache says about itself; everything else is what was asked of it."""
    if isinstance(error, IsoradixError) and not isinstance(error, InvalidInputError | InputTypeError):
        return FINDING
    return BAD_INPUT
