"""How long prompts of many lengths take, measured on the leader."""

from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Final

from isoradix import InvalidInputError

SAMPLES_MAX: Final = 128


def profile_lengths(base: int, context: int, most: int) -> list[int]:
    """The lengths to measure, longest first: up to 128, evenly apart, up to a quarter more than the base chunk.

    Args:
        base: tokens of the first chunk.
        context: tokens that a request may have.
        most: tokens that a batch of prefill may have.

    Raises:
        InvalidInputError: one of them is below 1.
    """
    for name, value in (("base", base), ("context", context), ("most", most)):
        if value < 1:
            raise InvalidInputError(f"{name} is {value}, limit 1\nhint: pass a number of tokens")
    longest = min(base + base // 4, context, most)
    step = max(1, longest // SAMPLES_MAX)
    return list(range(longest, 0, -step))[:SAMPLES_MAX]


def profile(
    run: Callable[[int], None], lengths: list[int], clock: Callable[[], float] = perf_counter
) -> Iterator[tuple[int, float]]:
    """Measures prompts, one after the other; to be gone through with a progress bar.

    Args:
        run: computes a prompt of so many tokens, and returns when the device has.
        lengths: of the prompts, see `profile_lengths`.
        clock: seconds; of the processor, say, where that computes and has other work too.

    Yields:
        Length and milliseconds.
    """
    for length in lengths:
        start = clock()
        run(length)
        yield length, 1e3 * (clock() - start)


def global_token_counts(length: int, replica: int, replicas: int) -> list[int]:
    """Tokens of every data-parallel replica while one of them measures a prompt: the others have none.

    Under data-parallel attention the layers behind it are shared, and a forward pass is told what all replicas bring.

    Args:
        length: tokens of the prompt.
        replica: the one that measures.
        replicas: how many there are.

    Raises:
        InvalidInputError: there is no such replica.
    """
    if not 0 <= replica < replicas:
        raise InvalidInputError(f"replica {replica} of {replicas}\nhint: replicas are counted from 0")
    return [length if each == replica else 0 for each in range(replicas)]
