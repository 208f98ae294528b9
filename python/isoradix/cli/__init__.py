"""The command line. `main` is the entry point; typer, rich and msgspec load only when it runs."""

import io
import sys
from collections.abc import Sequence

_NEEDED = ("typer", "rich", "msgspec")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code: 0 done, 1 a check failed, 2 bad usage or input, 130 interrupted."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # not every terminal has every character
    try:
        from isoradix.cli.app import run
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in _NEEDED:
            raise
        print(f"error: the command line needs {', '.join(_NEEDED)}; {missing} is missing", file=sys.stderr)
        print('hint: pip install "isoradix[cli]"', file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return run(sys.argv[1:] if arguments is None else arguments)
