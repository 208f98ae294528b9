"""What the integration can be told beside the server's own flags: a file, and the environment above it."""

import logging
import os
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import msgspec

from isoradix import InvalidInputError
from isoradix.storage import StorageError, StorageURL, schemes

PREFIX: Final = "ISORADIX_"
FILE: Final = "ISORADIX_CONFIG"
SEVERAL: Final = ("storage_breaker", "storage_retry")
"""Numbers: between commas in the environment, a list in the file."""

logger: Final = logging.getLogger("isoradix")

_Count = Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)]
_Milliseconds = Annotated[int, msgspec.Meta(ge=1, le=2**32 - 1)]
_Few = Annotated[int, msgspec.Meta(ge=1, le=2**32 - 1)]
_Pause = Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]
_Share = Annotated[float, msgspec.Meta(ge=0, le=1)]


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Those up to `storage_retry` are equal on all ranks, or the start is refused.

    `ISORADIX_CONFIG` names a TOML file; `ISORADIX_<FIELD>` goes before it.
    """

    window: Annotated[int, msgspec.Meta(ge=1, le=4096)] = 64
    """Copies between the tiers that may be under way at a time."""
    low_water: _Share = 0.12
    """Under `--hicache-write-policy write_back`: the share of the device that is kept free or clean. Less loses what is
    evicted before it is copied; more keeps twice what host could have used for something else."""
    mode: Literal["off", "observe", "enforce"] = "enforce"
    """What a divergence does: `enforce` ends the server, `observe` tells of it once and goes on, `off` compares no
    digests."""
    tiers: Literal["l1", "l2", "l3"] = "l3"
    """The highest tier that is on, to tell whose fault something is: `l1` leaves host memory alone, whatever the
    server's flags say."""
    load_back_min: _Count = 10
    """Tokens; a shorter hit in host memory is computed again."""
    vote_ms: _Milliseconds = 5
    """From one vote to the next while copies are under way: about a step, since only a step reads what was voted."""
    idle_vote_ms: _Milliseconds = 20
    """The same while there are none."""
    storage_breaker: tuple[_Few, _Pause, _Few, _Pause] | Literal["none"] = (5, 10_000, 2, 30_000)
    """When external storage is left alone: failures in a row, ms for which it is, trials that must go well then, ms
    after which an operation counts as failed; `none` to go on asking whatever it does."""
    storage_retry: tuple[_Few, _Pause, _Pause] = (3, 100, 5_000)
    """Attempts of what storage has failed, in all; ms before a store's second, and at most."""
    report_ms: _Count = 5_000
    """How long a rank waits for another before it says so in the log."""
    fatal_ms: _Count = 300_000
    """How long it waits before the server ends; no shorter than `report_ms`."""
    wait_board: str | None = None
    """Folder where `isoradix waits` looks; by default that of the user's temporary files."""
    journal_records: Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)] = 4096
    """Decisions kept in memory: those that ranks tell each other when they part."""
    storage: str | None = None
    """URL of external storage, whatever `--hicache-storage-backend` says; `docs/storage.md` has them."""
    journal: str | None = None
    """Folder in which every rank writes its journal, for `isoradix diff`, `view` and `replay-journal`."""
    journal_mib: _Count = 1024
    """MiB of a rank's journal at most; the oldest of it is given up beyond that."""


def load(environment: Mapping[str, str] = os.environ) -> Options:
    """Reads the options. A variable that is empty is one that is not set.

    A name that is unknown is refused in the file; in the environment, where others may set names alike, it is logged.

    Raises:
        InvalidInputError: a name in the file is unknown, a value is not accepted, the file cannot be read, or the
            folder of the wait board or of the journal cannot be written.
    """
    given: dict[str, Any] = {}
    path = environment.get(FILE)
    if path:
        try:
            given |= tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:  # the latter: no TOML, or no text
            raise InvalidInputError(f"{FILE} is {path!r}: {error}\nhint: name a TOML file that can be read") from error
    variables = {PREFIX + field.name.upper(): field.name for field in msgspec.structs.fields(Options)}
    names = {field: f"{field} in {path}" for field in given}
    for variable, field in variables.items():
        if environment.get(variable):
            text = environment[variable]
            given[field], names[field] = text.split(",") if field in SEVERAL and "," in text else text, variable
    if strange := sorted(name for name in environment if name.startswith(PREFIX) and name not in {*variables, FILE}):
        logger.warning("%s: no option, not read\nhint: there are %s", ", ".join(strange), ", ".join(sorted(variables)))
    try:
        options = msgspec.convert(given, Options, strict=False)
    except msgspec.ValidationError as error:
        # it has the limit, and the field behind a `$.`
        what, _, field = str(error).partition(" - at `$.")
        field = field.rstrip("`").partition("[")[0]
        if field not in given:
            listed = ", ".join(Options.__struct_fields__)
            raise InvalidInputError(f"{FILE} is {path!r}: {what}\nhint: the options are {listed}") from error
        raise _refusal(names[field], given[field], what[:1].lower() + what[1:]) from error
    _check_patience(options, names)
    _check_folders(options, names)
    _check_storage(options, names)
    return options


def _check_patience(options: Options, names: Mapping[str, str]) -> None:
    """A wait is reported before it is fatal."""
    if options.report_ms > options.fatal_ms:
        report, fatal = (names.get(field, f"the default of {field}") for field in ("report_ms", "fatal_ms"))
        raise _refusal(report, options.report_ms, f"limit {options.fatal_ms}, which is {fatal}")


def _check_folders(options: Options, names: Mapping[str, str]) -> None:
    """The folders are there, and can be written."""
    for field in ("wait_board", "journal"):
        folder = getattr(options, field)
        if folder is None:
            continue
        try:
            Path(folder).mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
        except (OSError, ValueError) as error:  # the latter: no path
            raise _refusal(names[field], folder, f"it cannot be written: {error}") from error


def _check_storage(options: Options, names: Mapping[str, str]) -> None:
    """The URL is one, of an engine that there is. What else it says, the engine reads when it is opened."""
    if options.storage is None:
        return
    try:
        scheme = StorageURL.parse(options.storage).scheme
    except StorageError as error:
        raise InvalidInputError(f"{names['storage']}: {error}") from error
    if scheme not in schemes():  # not the URL: it may have a password
        what = f"{names['storage']}: there is no storage engine for {scheme}://"
        raise InvalidInputError(f"{what}\nhint: there are {', '.join(schemes())}")


def _refusal(name: str, value: object, what: str) -> InvalidInputError:
    """Names an option as it was written."""
    return InvalidInputError(f"{name} is {value!r}: {what}\nhint: leave it out for the default")
