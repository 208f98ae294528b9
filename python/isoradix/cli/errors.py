"""Exit codes, and errors as two lines on stderr: what is wrong, then a hint."""

import sys
from typing import Final

from rich.console import Console

from isoradix import InputTypeError, InvalidInputError, IsoradixError

OK: Final = 0
FINDING: Final = 1
BAD_INPUT: Final = 2
INTERRUPTED: Final = 130


class UsageError(Exception):
    """An option or a file that cannot be used. `what` names value and limit."""

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(f"{what}\nhint: {hint}")


def show_error(message: str) -> None:
    """One error on stderr, never wrapped, in colour on a terminal."""
    what, _, hint = message.partition("\n")
    console = Console(file=sys.stderr, highlight=False, soft_wrap=True)
    console.print("error: ", style="bold red", end="")
    console.print(what, markup=False)
    if hint:
        console.print(hint, markup=False, style="dim")


def exit_code_of(error: Exception) -> int:
    """Findings are what the cache says about itself; everything else is what was asked of it."""
    if isinstance(error, IsoradixError) and not isinstance(error, InvalidInputError | InputTypeError):
        return FINDING
    return BAD_INPUT
