"""Faults by name: `ack-delay:rank=1,ms=5..50`. The grammar, what each takes, and its limits."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from isoradix import InvalidInputError

_LARGEST: Final = 10**9
_NEVER: Final = str(_LARGEST)


@dataclass(frozen=True)
class Span:
    """low..high, drawn from anew each time."""

    low: float
    high: float


@dataclass(frozen=True)
class Fault:
    """One fault. `rank` is None where every rank has it; `values` are all that its kind takes, defaults filled in."""

    kind: str
    rank: int | None
    seed: int
    values: Mapping[str, Span] = field(default_factory=dict)

    def on(self, rank: int) -> bool:
        return self.rank is None or self.rank == rank

    def number(self, name: str) -> int:
        return int(self.values[name].low)


@dataclass(frozen=True)
class Kind:
    """What a kind of fault does and takes: the values it needs, and those that have a default."""

    does: str
    needs: tuple[str, ...] = ()
    defaults: Mapping[str, str] = field(default_factory=dict)


KINDS: Final[Mapping[str, Kind]] = {
    "ack-delay": Kind("reports of ended copies come late", defaults={"ms": "5..50"}),
    "alloc-fail": Kind("in some steps it has no memory for host pages", defaults={"p": "0.1"}),
    "short-pool": Kind("so many host pages never have memory", needs=("pages",)),
    "copy-slow": Kind("each copy takes so much longer", defaults={"ms": "20"}),
    "sleep": Kind("its scheduler sleeps in some steps", defaults={"ms": "20", "p": "0.1"}),
    "kill": Kind("it is killed at a step", needs=("rank", "step")),
    "stop": Kind("it is stopped at a step, and stays so", needs=("rank", "step")),
    "diverge": Kind("its cache is given one wrong token, by a caller who lies", needs=("rank", "step")),
    "copy-hang": Kind("its next load-back never ends", needs=("rank", "step")),
    "corrupt": Kind("one byte of a host page is another one when it is loaded back", needs=("rank", "step")),
    "storage-short": Kind("its storage knows half of what it has, in some questions", defaults={"p": "0.3"}),
    "storage-fail": Kind("its storage fails, in some calls, up to a step", defaults={"p": "0.3", "until": _NEVER}),
    "storage-slow": Kind("each call of its storage takes so much longer", defaults={"ms": "20"}),
    "storage-hang": Kind(
        "from a step on, up to another one, its storage does not answer",
        needs=("rank", "step"),
        defaults={"until": _NEVER},
    ),
    "storage-unopened": Kind("its storage cannot be opened", needs=("rank",)),
    "pause": Kind("it says that it pauses, and does", needs=("rank", "step"), defaults={"ms": "3000"}),
    "net-slow": Kind("its votes and frames are late on their way", defaults={"ms": "1..20"}),
    "revote": Kind("it votes once more than the others", needs=("rank", "step")),
    "unasked": Kind("from a step on, votes about copies are taken without it", needs=("rank", "step")),
    "batch": Kind("its scheduler cuts a batch elsewhere", needs=("rank", "step")),
}
PLANE_FAULTS: Final = ("net-slow", "revote", "unasked")
"""Those on the way of votes and frames."""


def parse_faults(texts: Sequence[str], ranks: int) -> list[Fault]:
    """The faults of a run with so many ranks.

    Raises:
        InvalidInputError: a fault is not known, or a value is missing, not known or out of its limits.
    """
    return [_parse(text, ranks) for text in texts]


def _parse(text: str, ranks: int) -> Fault:
    name, colon, rest = text.partition(":")
    kind = KINDS.get(name)
    if kind is None:
        raise _refused(
            text, f"there is no fault {name!r}; there are {', '.join(KINDS)}", "for example sleep:rank=1,ms=20"
        )
    if colon and not rest:
        raise _refused(text, "nothing stands behind the colon", _example(name))
    given = _pairs(text, name, rest)
    taken = (*dict.fromkeys((*kind.needs, *kind.defaults, "rank", "seed")),)
    if strange := [key for key in given if key not in taken]:
        raise _refused(text, f"{name} takes {', '.join(taken)}, not {', '.join(strange)}", _example(name))
    if missing := [key for key in kind.needs if key not in given]:
        raise _refused(text, f"{name} needs {' and '.join(missing)}", _example(name))
    values = {key: _LIMITS[key](text, key, value) for key, value in {**kind.defaults, **given}.items() if key != "rank"}
    rank = _whole(0, ranks - 1)(text, "rank", given["rank"]) if "rank" in given else None
    seed = values.pop("seed", Span(0, 0))
    return Fault(name, None if rank is None else int(rank.low), int(seed.low), values)


def _pairs(text: str, name: str, rest: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for part in rest.split(",") if rest else ():
        key, equals, value = part.partition("=")
        if not (key and equals and value):
            raise _refused(text, f"{part!r} is no name=value", _example(name))
        if key in pairs:
            raise _refused(text, f"{key} is given twice", _example(name))
        pairs[key] = value
    return pairs


Limit = Callable[[str, str, str], Span]


def _whole(low: int, high: int) -> Limit:
    def read(text: str, key: str, value: str) -> Span:
        if not value.isascii() or not value.isdecimal() or len(value) > 12 or not low <= int(value) <= high:
            raise _refused(text, f"{key} is {value!r}, limits {low} to {high}", f"pass a whole number, {key}={low} say")
        return Span(int(value), int(value))

    return read


def _share(text: str, key: str, value: str) -> Span:
    share = _decimal(value)
    if share is None or share > 1:
        raise _refused(text, f"{key} is {value!r}, limits 0 to 1", f"it is a probability, {key}=0.1 say")
    return Span(share, share)


def _milliseconds(text: str, key: str, value: str) -> Span:
    first, dots, last = value.partition("..")
    low, high = _decimal(first), _decimal(last if dots else first)
    if low is None or high is None or high > 60_000:
        raise _refused(text, f"{key} is {value!r}, limits 0 to 60000", f"write {key}=20, or {key}=5..50 for a draw")
    if low > high:
        raise _refused(text, f"{key} is {value!r}; the range ends before it starts", f"write {key}={last}..{first}")
    return Span(low, high)


def _decimal(value: str) -> float | None:
    """A number of digits with at most one point, not below 0: no sign, exponent or infinity."""
    digits = value.replace(".", "", 1)
    return float(value) if digits.isascii() and digits.isdecimal() and len(value) <= 12 else None


_LIMITS: Final[Mapping[str, Limit]] = {
    "ms": _milliseconds,
    "p": _share,
    "pages": _whole(1, _LARGEST),
    "step": _whole(1, _LARGEST),
    "until": _whole(1, _LARGEST),
    "seed": _whole(0, _LARGEST),
}


def _example(name: str) -> str:
    shown = {"rank": "1", "step": "100", "pages": "50"}
    kind = KINDS[name]
    pairs = [f"{key}={shown[key]}" for key in kind.needs] + [f"{key}={value}" for key, value in kind.defaults.items()]
    return f"for example {name}:{','.join(pairs)}"


def _refused(text: str, what: str, hint: str) -> InvalidInputError:
    return InvalidInputError(f"fault {text!r}: {what}\nhint: {hint}")
