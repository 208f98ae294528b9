"""The versions of SGLang whose plug-in interface this package speaks. It changes with nearly every release."""

import re
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from isoradix import InvalidInputError

SUPPORTED: Final = ("0.5.22", "0.5.23")


def check() -> None:
    """Checks the SGLang that is installed.

    Raises:
        InvalidInputError: it is another version than those supported.
    """
    try:
        found = version("sglang")
    except PackageNotFoundError:
        return  # run from a source tree: its own tests say what it can do
    release = re.match(r"\d+(\.\d+)*", found)
    if release is None or release[0] not in SUPPORTED:
        raise InvalidInputError(
            f"SGLang is {found}; isoradix supports {' and '.join(SUPPORTED)}\n"
            "hint: install one of these, or start the server without --radix-cache-backend isoradix"
        )
