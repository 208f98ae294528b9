"""The versions of SGLang whose plug-in interface this package speaks. It changes with nearly every release."""

import re
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from isoradix import InvalidInputError

SUPPORTED: Final = ("0.5.22", "0.5.23")


def image_tokens_are_wide() -> bool:
    """Whether the ids of image tokens have 62 bits, as since 0.5.23, instead of 30."""
    try:
        return _release(version("sglang")) != "0.5.22"
    except PackageNotFoundError:
        return True


def _release(found: str) -> str | None:
    """Of a version: without what comes after its numbers."""
    release = re.match(r"\d+(\.\d+)*", found)
    return None if release is None else release[0]


def check() -> None:
    """Checks the SGLang that is installed.

    Raises:
        InvalidInputError: it is another version than those supported.
    """
    try:
        found = version("sglang")
    except PackageNotFoundError:
        return  # run from a source tree: its own tests say what it can do
    if _release(found) not in SUPPORTED:
        raise InvalidInputError(
            f"SGLang is {found}; isoradix supports {' and '.join(SUPPORTED)}\n"
            "hint: install one of these, or start the server without --radix-cache-backend isoradix"
        )
