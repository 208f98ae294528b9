"""`isoradix storage`: a store's promises, its figures, and its end."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Final

import typer

from isoradix import __version__
from isoradix.cli.errors import FINDING, OK, UsageError
from isoradix.cli.output import show_facts, show_json, show_table, tracking
from isoradix.cli.values import count
from isoradix.storage import Backend, PermanentStorageError, StorageTimeoutError, StorageURL, open_storage
from isoradix.storage.check import Checker, Finding, Speed

app = typer.Typer(add_completion=False, rich_markup_mode=None, no_args_is_help=False)

CHECK_EXAMPLES: Final = """Examples:

  isoradix storage check file:///var/cache/kv?limit=500G
  isoradix storage check mooncake://master:50051 --page-bytes 2Mi --json
  isoradix storage check redis://localhost:6379/0 --pages 16 --rounds 20
"""

_URL: Final[Any] = typer.Argument(help="The store, as file:///folder, mooncake://, redis:// or s3://.", metavar="URL")
_JSON: Final[Any] = typer.Option("--json", help="Print one JSON object instead of a table.")
_TIMEOUT: Final[Any] = typer.Option("--timeout", metavar="S", help="Seconds that it may take, whatever the URL says.")
_TIMEOUT_S: Final = "600"
_LONGEST_S: Final = 86_400
_MOST_BYTES: Final = 2**32


def check(
    url: Annotated[str, _URL],
    page_bytes: Annotated[str, typer.Option(metavar="BYTES", help="Bytes of a page.")] = "1Mi",
    pages: Annotated[str, typer.Option(metavar="N", help="Pages of a batch.")] = "32",
    rounds: Annotated[str, typer.Option(metavar="N", help="Batches that speed is measured over; 0 for none.")] = "8",
    json: Annotated[bool, _JSON] = False,
) -> int:
    """Try a store's promises with pages of its own, measure it, and remove what was put.

    A broken promise ends with 1. Pages that others have put are left alone, but a store that evicts may evict them.
    """
    size = count("--page-bytes", page_bytes, 16, _MOST_BYTES)
    batch = count("--pages", pages, 2, 4096)
    if size * batch > _MOST_BYTES:
        raise UsageError(
            f"a batch of {batch} pages has {size * batch:,} bytes; the limit is {_MOST_BYTES:,}", "pass less"
        )
    turns = count("--rounds", rounds, 0, 10_000)
    with _opened(url) as store:
        checker = Checker(store, size, batch)
        findings = _try(checker)
        speeds = _measure(checker, turns) if turns else []
    broken = sum(not finding.kept for finding in findings)
    if json:
        show_json(_document(url, findings, speeds))
    else:
        show_table("", ("promise", "kept"), [(finding.name, _kept(finding)) for finding in findings])
        if speeds:
            rows = [(speed.verb, f"{speed.pages:,}", f"{speed.bytes_per_s / 1e6:,.0f} MB/s") for speed in speeds]
            show_table("\nspeed of one caller", ("verb", "pages", "speed"), rows)
    return FINDING if broken else OK


def stats(
    url: Annotated[str, _URL],
    timeout: Annotated[str, _TIMEOUT] = _TIMEOUT_S,
    json: Annotated[bool, _JSON] = False,
) -> int:
    """What a store holds, as far as its engine says.

    Some engines count page by page, which takes long where there are many.
    """
    seconds = count("--timeout", timeout, 1, _LONGEST_S)
    with _opened(url, make=False) as store, _within(seconds, "stats", "not all pages were counted"):
        facts = dict(store.stats(timeout_s=seconds))
        about = store.capabilities
    traits = {name: getattr(about, name) for name in ("zero_copy", "checked", "durable", "shared")}
    if json:
        show_json({"command": "storage stats", "version": __version__, **facts, "capabilities": traits})
    else:
        shown = [(name, f"{value:,}" if isinstance(value, int) else str(value)) for name, value in facts.items()]
        show_facts([*shown, *((name.replace("_", " "), "yes" if has else "no") for name, has in traits.items())])
    return OK


def clear(
    url: Annotated[str, _URL],
    yes: Annotated[bool, typer.Option("--yes", help="Do it without asking.")] = False,
    timeout: Annotated[str, _TIMEOUT] = _TIMEOUT_S,
) -> int:
    """Remove all pages of a store. Keys that are not of this URL's prefix stay."""
    seconds = count("--timeout", timeout, 1, _LONGEST_S)
    if not yes and not typer.confirm(f"remove all pages of {url}?", err=True):
        return OK
    with _opened(url, make=False) as store, _within(seconds, "clear", "some pages may be gone"):
        store.clear(timeout_s=seconds)
    return OK


def _literal(epilog: str) -> str:
    return "\b\n" + epilog.replace("\n\n", "\n")


app.command(epilog=_literal(CHECK_EXAMPLES), short_help="Try a store's promises, and measure it.")(check)
app.command(short_help="What a store holds.")(stats)
app.command(short_help="Remove all pages of a store.")(clear)


@contextmanager
def _within(seconds: int, verb: str, left: str) -> Iterator[None]:
    """Shows that a call on all pages is under way, and says so if its seconds were too few."""
    try:
        with tracking(verb, None):
            yield
    except StorageTimeoutError as error:
        raise StorageTimeoutError(
            f"{verb} was not over after {seconds} s: {left}\nhint: see whether the server runs; --timeout gives it more"
        ) from error


@contextmanager
def _opened(url: str, *, make: bool = True) -> Iterator[Backend]:
    try:
        store = open_storage(url, make=make)
    except PermanentStorageError as error:
        what, _, hint = str(error).partition("\nhint: ")
        raise UsageError(what, hint or "docs/storage.md lists URLs and options") from error
    with store:
        yield store


def _try(checker: Checker) -> list[Finding]:
    promises = list(checker.promises())
    findings: list[Finding] = []
    with tracking("check", len(promises)) as tracker:
        for finding in checker.findings():
            findings.append(finding)
            tracker.doing(finding.name, len(findings))
    return findings


def _measure(checker: Checker, rounds: int) -> list[Speed]:
    with tracking("measure", rounds) as tracker:
        return checker.speeds(rounds, tracker.reached)


def _kept(finding: Finding) -> str:
    return "yes" if finding.kept else f"NO: {finding.detail}"


def _document(url: str, findings: list[Finding], speeds: list[Speed]) -> dict[str, object]:
    return {
        "command": "storage check",
        "version": __version__,
        "url": StorageURL.parse(url).text,
        "kept": all(finding.kept for finding in findings),
        "promises": [{"name": finding.name, "kept": finding.kept, "detail": finding.detail} for finding in findings],
        "speeds": [
            {
                "verb": speed.verb,
                "pages": speed.pages,
                "bytes": speed.bytes,
                "seconds": round(speed.seconds, 6),
                "bytes_per_s": round(speed.bytes_per_s),
            }
            for speed in speeds
        ],
    }
