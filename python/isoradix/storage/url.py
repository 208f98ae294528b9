"""Where a store is, and how it is used: scheme://host:port/path?option=value."""

import re
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

from isoradix.storage.errors import PermanentStorageError

_FACTORS: Final = {
    "": 1,
    "k": 10**3,
    "m": 10**6,
    "g": 10**9,
    "t": 10**12,
    "ki": 2**10,
    "mi": 2**20,
    "gi": 2**30,
    "ti": 2**40,
}
_SIZE: Final = re.compile(r"(\d{1,18}(?:\.\d{1,6})?)\s*([kmgt]i?)?b?", re.ASCII | re.IGNORECASE)


@dataclass
class StorageURL:
    """A URL taken apart. An engine takes the options that it knows; `finish` refuses what is left.

    Raises:
        PermanentStorageError: it is no URL, from `parse`; an option has a bad value, from the method that takes it.
    """

    text: str
    """Without user and password, for messages."""
    scheme: str
    host: str
    port: int | None
    path: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    _options: dict[str, str] = field(default_factory=dict, repr=False)
    _known: list[str] = field(default_factory=list, repr=False)
    makes: bool = True
    """Whether a store that is not there yet is made; if not, an engine that would make it refuses."""

    @classmethod
    def parse(cls, text: str) -> "StorageURL":
        """A URL from its text."""
        try:
            parts = urlsplit(text)
            port = parts.port
        except ValueError as error:
            raise PermanentStorageError(
                f"{_without_user(text)!r} is no URL: {error}\nhint: for example file:///var/cache/kv"
            ) from error
        if not parts.scheme or not text.startswith(f"{parts.scheme}://"):
            raise PermanentStorageError(
                f"{_without_user(text)!r} is no URL of a store\nhint: for example file:///var/cache/kv"
            )
        pairs = parse_qsl(parts.query, keep_blank_values=True)
        options = dict(pairs)
        if len(options) != len(pairs):
            raise PermanentStorageError(f"an option of {_without_user(text)!r} is given twice\nhint: give each once")
        shown = f"{parts.scheme}://{parts.hostname or ''}{f':{port}' if port else ''}{parts.path}"
        user, password = (None if part is None else unquote(part) for part in (parts.username, parts.password))
        return cls(shown, parts.scheme, parts.hostname or "", port, unquote(parts.path), user, password, options)

    def string(self, name: str, default: str | None = None) -> str | None:
        """An option as it was written."""
        self._known.append(name)
        return self._options.pop(name, default)

    def choice(self, name: str, choices: tuple[str, ...], default: str) -> str:
        """An option that is one of these."""
        value = self.string(name, default)
        if value not in choices:
            raise self._refuse(name, value, f"one of {', '.join(choices)}")
        return value

    def flag(self, name: str, default: bool = False) -> bool:
        """An option that is yes or no."""
        value = self.string(name)
        if value is None:
            return default
        if value.lower() not in ("1", "0", "yes", "no", "true", "false"):
            raise self._refuse(name, value, "yes or no")
        return value.lower() in ("1", "yes", "true")

    def number(self, name: str, default: int, low: int, high: int) -> int:
        """An option that is a whole number."""
        value = self.string(name)
        if value is None:
            return default
        if not re.fullmatch(r"\d{1,18}", value, re.ASCII) or not low <= int(value) <= high:
            raise self._refuse(name, value, f"a whole number from {low} to {high}")
        return int(value)

    def seconds(self, name: str, default: float) -> float:
        """An option in seconds."""
        value = self.string(name)
        if value is None:
            return default
        if not re.fullmatch(r"\d{1,6}(\.\d{1,6})?", value, re.ASCII) or float(value) > 86_400:
            raise self._refuse(name, value, "seconds from 0 to 86400, for example 0.5")
        return float(value)

    def size(self, name: str, default: int | None, least: int = 1) -> int | None:
        """An option in bytes, `least` or more: 4000000, 4M, 4Mi, 1.5G."""
        value = self.string(name)
        if value is None:
            return default
        found = _SIZE.fullmatch(value.strip())
        size = Decimal(found[1]) * _FACTORS[(found[2] or "").lower()] if found else Decimal(-1)
        if size != int(size) or not least <= size < 2**60:
            raise self._refuse(name, value, "bytes, for example 500G or 64Gi")
        return int(size)

    def finish(self) -> None:
        """Refuses options that nobody took.

        Raises:
            PermanentStorageError: there is one.
        """
        if self._options:
            unknown = ", ".join(sorted(self._options))
            raise PermanentStorageError(
                f"{self.text} has an option that it does not know: {unknown}\n"
                f"hint: it knows {', '.join(sorted(self._known))}"
            )

    def _refuse(self, name: str, value: str | None, expected: str) -> PermanentStorageError:
        return PermanentStorageError(f"option {name} of {self.text} is {value!r}\nhint: {expected}")


def _without_user(text: str) -> str:
    """The text for a message, which may end in a log: nobody's password is there."""
    return re.sub(r"//[^/?#]*@", "//", text)
