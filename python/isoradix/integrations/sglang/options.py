"""What the integration can be told beside the server's own flags: a file, and the environment above it."""

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec

from isoradix import InvalidInputError

PREFIX: Final = "ISORADIX_"
FILE: Final = "ISORADIX_CONFIG"

_Positive = Annotated[int, msgspec.Meta(ge=1)]
_Share = Annotated[float, msgspec.Meta(ge=0, le=1)]


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Equal on all ranks, or the start is refused.

    `ISORADIX_CONFIG` names a TOML file; `ISORADIX_<FIELD>` goes before it.
    """

    window: _Positive = 64
    """Copies between the tiers that may be under way at a time."""
    low_water: _Share = 0.3
    """Under `--hicache-write-policy write_back`: the share of the device that is kept free or clean."""
    load_back_min: _Positive = 10
    """Tokens; a shorter hit in host memory is computed again."""
    vote_ms: _Positive = 5
    """From one vote to the next while copies are under way: about a step, since only a step reads what was voted."""
    idle_vote_ms: _Positive = 20
    """The same while there are none."""
    report_ms: _Positive = 5_000
    """How long a rank waits for another before it says so in the log."""
    fatal_ms: _Positive = 300_000
    """How long it waits before the server ends."""
    wait_board: str | None = None
    """Folder where `isoradix waits` looks; by default that of the user's temporary files."""
    journal_records: Annotated[int, msgspec.Meta(ge=0)] = 4096
    """Decisions kept in memory, for a report of what parted."""


def load(environment: Mapping[str, str] = os.environ) -> Options:
    """Reads the options.

    Raises:
        InvalidInputError: a name is unknown, a value is not accepted, or the file cannot be read.
    """
    given: dict[str, Any] = {}
    path = environment.get(FILE)
    if path:
        try:
            given |= tomllib.loads(Path(path).read_text())
        except (OSError, tomllib.TOMLDecodeError) as error:
            raise InvalidInputError(f"{FILE} is {path!r}: {error}\nhint: name a TOML file that can be read") from error
    names = {field.name for field in msgspec.structs.fields(Options)}
    for name in sorted(names):
        if (value := environment.get(PREFIX + name.upper())) is not None:
            given[name] = value
    try:
        return msgspec.convert(given, Options, strict=False)
    except msgspec.ValidationError as error:
        where = "ISORADIX_<OPTION>" + (f" or {path}" if path else "")
        raise InvalidInputError(f"{where}: {error}\nhint: the options are {', '.join(sorted(names))}") from error
