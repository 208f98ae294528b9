"""Values of options: 4M, 64k, lists of them, ranges of capacities."""

import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Final, TypeVar

import typer

from isoradix.cli.errors import UsageError, reason_of

T = TypeVar("T")

# The limits of the core, which does not export them, so that an option is refused under its own name.
# Slots are below 2^31, so no cache holds more tokens.
MOST_TOKENS: Final = 2**31
LARGEST_PAGE: Final = 1024
_LONGEST_NUMBER: Final = 30

_FACTORS: Final = {
    "": 1,
    "k": 10**3,
    "m": 10**6,
    "g": 10**9,
    "ki": 2**10,
    "mi": 2**20,
    "gi": 2**30,
}
_COUNT: Final = re.compile(r"(-?\d[\d_]*(?:\.\d+)?)\s*([kmg]i?)?", re.ASCII | re.IGNORECASE)


def given(context: typer.Context, *names: str) -> list[str]:
    """Those of the options that were typed, as they are typed; `names` are the parameters behind them."""
    sources = {name: context.get_parameter_source(name) for name in names}
    typed = [name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"]
    return [f"--{name.replace('_', '-')}" for name in typed]


def count(option: str, text: str, low: int, high: int = MOST_TOKENS) -> int:
    """A whole number such as 4000000, 4_000_000, 4M, 1.5M, 64k or 64Ki, within low..=high."""
    return _within(option, _whole(option, text), low, high)


def _short(option: str, text: str) -> None:
    if len(text) > _LONGEST_NUMBER:
        what = f"{option} is {len(text):,} characters long; a number has at most {_LONGEST_NUMBER}"
        raise UsageError(what, "write 4000000, 4M, 64k or 64Ki")


def _whole(option: str, text: str) -> int:
    _short(option, text)
    found = _COUNT.fullmatch(text.strip())
    value = Decimal(found[1].replace("_", "")) * _FACTORS[(found[2] or "").lower()] if found else Decimal("0.5")
    if value != int(value):
        raise UsageError(f"{option} is {text!r}; a whole number is expected", "write 4000000, 4M, 64k or 64Ki")
    return int(value)


def _within(option: str, value: int, low: int, high: int) -> int:
    if not low <= value <= high:
        nearest = f"at least {low}" if value < low else f"at most {high}"
        raise UsageError(f"{option} is {value:,}; the limits are {low:,} to {high:,}", f"pass {nearest}")
    return value


def listed(option: str, text: str, one: Callable[[str], T]) -> list[T]:
    """Values between commas, each one once."""
    parts = [part.strip() for part in text.split(",")]
    if not all(parts):
        raise UsageError(f"{option} is {text!r}; a value is missing between commas", "write for example 1,64")
    return list(dict.fromkeys(one(part) for part in parts))


def counts(option: str, text: str, low: int, high: int = MOST_TOKENS) -> list[int]:
    return listed(option, text, lambda part: count(option, part, low, high))


def page_sizes(option: str, text: str) -> list[int]:
    return counts(option, text, 1, LARGEST_PAGE)


def fractions(option: str, text: str) -> list[float]:
    return listed(option, text, lambda part: _fraction(option, part))


def _fraction(option: str, text: str) -> float:
    _short(option, text)
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.0 <= value <= 1.0:
        raise UsageError(f"{option} is {text!r}; the limits are 0 to 1", "write for example 0,0.5")
    return value


def policies(text: str) -> list[str]:
    """Policies between commas. The commas of `tlru:1000,200` stay inside: a policy begins with a letter."""
    return list(dict.fromkeys(part.strip() for part in re.split(r",(?=\s*[A-Za-z])", text)))


def capacity(option: str, text: str, page_size: int) -> int:
    """Tokens, at least one page."""
    value = _whole(option, text)
    if value < page_size:
        what = f"{option} is {value:,} tokens; the smallest cache holds one page of {page_size:,}"
        raise UsageError(what, f"pass {option} {page_size} or more, for example {option} 4M")
    return _within(option, value, page_size, MOST_TOKENS)


def capacities(option: str, text: str, page_size: int) -> list[int]:
    """A list, or a range `1M..64M` that doubles from its start and ends with its end."""
    low_text, dots, high_text = text.partition("..")
    if not dots:
        return sorted(set(listed(option, text, lambda part: capacity(option, part, page_size))))
    low, high = capacity(option, low_text, page_size), capacity(option, high_text, page_size)
    if low > high:
        raise UsageError(f"{option} is {text!r}; the range ends before it starts", f"write {high_text}..{low_text}")
    values = []
    while low < high:
        values.append(low)
        low *= 2
    return [*values, high]


def report_path(path: Path | None, option: str = "--report") -> None:
    """Makes the folder of a report, and refuses a path that cannot be written before the work starts."""
    if path is None:
        return
    what, hint = f"{option} is {str(path)!r}", "name a file, for example out/report.html"
    try:
        if path.is_dir():
            raise UsageError(f"{what}, which is a folder", hint)
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{what}; its folder cannot be made: {reason_of(error)}", hint) from error
    try:
        _try_to_write(path)
    except OSError as error:
        raise UsageError(f"{what}, which cannot be written: {reason_of(error)}", hint) from error


def _try_to_write(path: Path) -> None:
    """Opens it once, and leaves nothing behind; a pipe or a device is not opened twice."""
    there = path.exists()
    if there and not path.is_file():
        return
    with path.open("ab"):
        pass
    if not there:
        path.resolve().unlink()  # of a dangling link, what it names
