"""MIN of a small vector, agreed at one step: the smallest of what the ranks offer, and what the leader says beside
it.

Nothing waits for it. Each rank offers numbers whenever it has them; the minimum over all ranks comes with some later
step, the same on all of them. A rank that looked at the others' offers by itself would see them in another step than
its neighbours do.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from isoradix import InputTypeError, InvalidInputError, ProtocolError
from isoradix.consensus.steps import Agreement, Steps, Vector

SIZE_MAX: Final = 4096
"""Items of a vector, and of what the leader says."""

_HEAD: Final = struct.Struct("<4sIqqII")
_MAGIC: Final = b"IRXM"
_VERSION: Final = 1
_NONE: Final = -1
_LARGEST: Final = 2**63 - 1


@dataclass(frozen=True)
class Agreed:
    """What holds on all ranks in a step.

    `minimum` is the newest that is agreed, and `number` the offer's of which it is; None before the first. `said` is
    what the leader says in this step.
    """

    step: int
    number: int | None
    minimum: tuple[int, ...] | None
    said: tuple[int, ...]


class AgreedMin(Agreement):
    """The smallest of what all ranks offer, item by item.

    Args:
        plane: `SteppedPlane` between processes, `LocalSteps` for one rank; used for this alone.
        size: items of the vector, 0 to 4,096; equal on all ranks.

    Raises:
        InvalidInputError: the size is out of its range, or not equal on all ranks.
        PlaneLost: a rank did not come.
    """

    def __init__(self, plane: Steps, size: int) -> None:
        if not 0 <= size <= SIZE_MAX:
            raise InvalidInputError(f"size is {size}, limits 0 to {SIZE_MAX}\nhint: pass the items of an offer")
        super().__init__(plane)
        self.size = size
        self.words = 2 + size
        self.settings = f"a minimum of size {size}"
        self._offer: tuple[int, Sequence[int]] = (_NONE, (0,) * size)
        self._newest: tuple[int, tuple[int, ...]] | None = None
        self._step = 0
        self._agreed: tuple[int, tuple[int, ...]] | None = None
        plane.start(self)

    # this rank's own

    def offer(self, values: Sequence[int], number: int = 0) -> None:
        """What this rank offers from now on, instead of what it did; on any thread.

        Args:
            values: `size` ints of 64 bits with sign.
            number: of the question that it answers, 0 or more. A minimum is of offers with one number: ranks that
                answer one question after the other count them, and offer the next once they have the minimum of the
                last. Where an offer just says how things stand, leave it at 0.

        Raises:
            InvalidInputError: there are more or fewer, or one is out of its range.
        """
        values = _checked("values", values)
        if len(values) != self.size:
            raise InvalidInputError(f"{len(values)} values are offered, expected {self.size}\nhint: one for each item")
        (number,) = _checked("number", (number,))
        if number < 0:
            raise InvalidInputError(f"number is {number}, limits 0 to 2**63 - 1\nhint: count questions from 0")
        self._offer = (number, values)

    # all ranks, in one order

    def step(self, said: Sequence[int] = (), *, last: bool = False) -> Agreed:
        """Enters the next step. Never waits for offers; a rank that does not lead waits for the leader's message.

        Args:
            said: the leader's: what it decides by itself, at most 4,096 ints of 64 bits with sign.
            last: the leader's: there is no other step.

        Raises:
            PlaneLost: a rank is lost, or waited for in vain.
            ProtocolError: the last step was entered, or this rank says something and does not lead.
            InvalidInputError: there is too much, or a number is out of its range.
        """
        said = _checked("said", said)
        if said and not self.plane.place.leads:
            what = f"{self.plane.place.name} says {len(said)} numbers, limit 0"
            raise ProtocolError(f"{what}\nhint: only the leader decides; the others offer")
        return self.plane.exchange(lambda: self._message(said), self._take, last=last)

    # the rounds' thread

    def fill(self, words: Vector) -> None:
        """What this rank offers: for the plane."""
        number, values = self._offer
        words[0], words[1] = number, ~number
        words[2:] = values

    def complete(self, words: Vector) -> None:
        """The minimum: for the plane. It is one only where all ranks have offered under one number."""
        smallest, largest = int(words[0]), ~int(words[1])
        if smallest == largest and smallest >= 0:
            self._newest = (smallest, tuple(words[2:].tolist()))

    # inside

    def _message(self, said: Sequence[int]) -> bytes:
        number, minimum = self._newest or (_NONE, ())
        head = _HEAD.pack(_MAGIC, _VERSION, self._step + 1, number, len(minimum), len(said))
        return head + np.array([*minimum, *said], dtype="<i8").tobytes()

    def _take(self, message: bytes) -> Agreed:
        if len(message) < _HEAD.size:
            raise _no_message(f"it has {len(message)} bytes, expected {_HEAD.size} at least")
        magic, version, step, number, items, says = _HEAD.unpack_from(message)
        if (magic, version, step) != (_MAGIC, _VERSION, self._step + 1):
            raise _no_message(
                f"it begins {magic!r} {version}, step {step}, expected {_MAGIC!r} {_VERSION}, step {self._step + 1}"
            )
        if (
            items != (0 if number < 0 else self.size)
            or says > SIZE_MAX
            or len(message) != _HEAD.size + 8 * (items + says)
        ):
            raise _no_message(f"it has {items} + {says} items in {len(message)} bytes")
        numbers = np.frombuffer(message, dtype="<i8", offset=_HEAD.size).tolist()
        self._step = step
        if number >= 0:
            self._agreed = (number, tuple(numbers[:items]))
        agreed_number, minimum = self._agreed or (None, None)
        return Agreed(step, agreed_number, minimum, tuple(numbers[items:]))


def _checked(name: str, values: Sequence[int]) -> tuple[int, ...]:
    if len(values) > SIZE_MAX:
        raise InvalidInputError(f"{name} has {len(values)} items, limit {SIZE_MAX}\nhint: say less at a time")
    try:
        numbers = tuple(value.__index__() for value in values)
    except AttributeError as error:
        raise InputTypeError(f"{name} is {values!r}, expected ints\nhint: scale fractions to whole units") from error
    for number in numbers:
        if not -_LARGEST <= number <= _LARGEST:
            what = f"{name} has {number}, limits -(2**63 - 1) to 2**63 - 1"
            raise InvalidInputError(f"{what}\nhint: pass numbers of 64 bits with sign")
    return numbers


def _no_message(what: str) -> ProtocolError:
    return ProtocolError(f"this is no message of a minimum: {what}\nhint: start all ranks with one release")
