"""What commands print: results on stdout, progress and errors on stderr."""

import json
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from isoradix.cli.errors import UsageError, lose_output, reason_of, rendering, show_note


class Tracker:
    """A progress bar; none where stderr is not a terminal."""

    def __init__(self, bar: Progress | None, what: str, total: int | None) -> None:
        self._bar = bar
        self._task = None if bar is None else bar.add_task(what, total=total)

    def reached(self, done: int) -> None:
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=done)

    def doing(self, what: str, done: int) -> None:
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=done, description=what)


@contextmanager
def tracking(what: str, total: int | None) -> Iterator[Tracker]:
    """Shows `what` and a bar until the block ends."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield Tracker(None, what, total)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(file=sys.stderr), transient=True) as bar:
        yield Tracker(bar, what, total)


def command_line() -> str:
    """The command as it was typed, for a report."""
    return shlex.join(["isoradix", *sys.argv[1:]])


def show_json(document: Mapping[str, object]) -> None:
    _write(json.dumps(document, indent=2))


def show_table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table whose first column reads left, the others right."""
    table = Table(title=title, title_justify="left", title_style="bold", header_style="bold", box=None, pad_edge=False)
    for index, name in enumerate(header):
        table.add_column(name, justify="right" if index else "left", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    _print(table)


def show_facts(facts: Sequence[tuple[str, str]]) -> None:
    """Name and value, one pair a line."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(no_wrap=True)
    for name, value in facts:
        table.add_row(name, value)
    _print(table)


def save_report(path: Path, html: str, option: str = "--report") -> None:
    try:
        # names of files and arguments may hold bytes that are no text
        path.write_text(html, encoding="utf-8", errors="replace")
    except OSError as error:
        what = f"{option} {str(path)!r} cannot be written: {reason_of(error)}"
        raise UsageError(what, "choose another file") from error
    show_note(f"report written to {path}\n")


def _print(table: Table) -> None:
    console, drawn = rendering(sys.stdout)
    console.print(table)
    _write("\n".join(line.rstrip() for line in drawn.getvalue().splitlines()))


def _write(text: str) -> None:
    """Prints and flushes."""
    try:
        print(text, flush=True)
    except OSError as error:
        lose_output(error)
