"""What the integration can be told beside the server's own flags: a file, and the environment above it."""

import logging
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec

from isoradix import InvalidInputError

PREFIX: Final = "ISORADIX_"
FILE: Final = "ISORADIX_CONFIG"

logger: Final = logging.getLogger("isoradix")

_Positive = Annotated[int, msgspec.Meta(ge=1)]
_Share = Annotated[float, msgspec.Meta(ge=0, le=1)]


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Those up to `idle_vote_ms` are equal on all ranks, or the start is refused.

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
    """Decisions kept in memory: those that ranks tell each other when they part."""
    journal: str | None = None
    """Folder in which every rank writes its journal, for `isoradix diff`, `view` and `replay-journal`."""
    journal_mib: _Positive = 1024
    """MiB of a rank's journal at most; the oldest of it is given up beyond that."""


def load(environment: Mapping[str, str] = os.environ) -> Options:
    """Reads the options. A variable that is empty is one that is not set.

    A name that is unknown is refused in the file; in the environment, where others may set names alike, it is logged.

    Raises:
        InvalidInputError: a name in the file is unknown, a value is not accepted, or the file cannot be read.
    """
    given: dict[str, Any] = {}
    path = environment.get(FILE)
    if path:
        try:
            given |= tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:  # the latter: no TOML, or no text
            raise InvalidInputError(f"{FILE} is {path!r}: {error}\nhint: name a TOML file that can be read") from error
    variables = {PREFIX + field.name.upper(): field.name for field in msgspec.structs.fields(Options)}
    set_here = {variable: name for variable, name in variables.items() if environment.get(variable)}
    for variable, name in set_here.items():
        given[name] = environment[variable]
    if strange := sorted(name for name in environment if name.startswith(PREFIX) and name not in {*variables, FILE}):
        logger.warning("%s: no option, not read\nhint: there are %s", ", ".join(strange), ", ".join(sorted(variables)))
    try:
        return msgspec.convert(given, Options, strict=False)
    except msgspec.ValidationError as error:
        raise InvalidInputError(_refusal(error, given, set_here, path)) from error


def _refusal(error: msgspec.ValidationError, given: Mapping[str, Any], set_here: Mapping[str, str], path: Any) -> str:
    """Names the option as it was written, and its value; `error` has the limit, and the field behind a `$.`."""
    what, _, field = str(error).partition(" - at `$.")
    field = field.rstrip("`")
    if field not in given:
        return f"{FILE} is {path!r}: {what}\nhint: the options are {', '.join(Options.__struct_fields__)}"
    variable = PREFIX + field.upper()
    name = variable if variable in set_here else f"{field} in {path}"
    return f"{name} is {given[field]!r}: {what[:1].lower()}{what[1:]}\nhint: leave it out for the default"
