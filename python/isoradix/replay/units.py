"""One unit for each page, so that a sweep replays the same decisions on keys that are a page size shorter.

Trees over pages of P tokens and over single units are isomorphic when equal pages, and only those, map to equal units:
nodes begin and end at pages, and every eviction order reads lengths and depths that merely shrink by P. Pages are told
apart by a 64-bit content hash; `tlru` names its two lengths in tokens, so its specification is scaled as well.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from isoradix.replay.blocks import Tokens

_HASH_SEED: Final = 0x1503_4AD1


def page_units(prompts: Iterable[Tokens], page_size: int) -> Iterable[Tokens]:
    """The prompts as units, cut to whole pages; for pages of one token these are the prompts themselves."""
    if page_size == 1:
        return prompts
    # odd factors: a multilinear hash modulo 2^64, the same in every run
    factors = np.random.PCG64(_HASH_SEED).random_raw(page_size) | np.uint64(1)
    hashes = [_page_hashes(prompt, factors) for prompt in prompts]
    return _dense(hashes)


def unit_policy(policy: str, page_size: int) -> str:
    """The policy specification that decides on units as `policy` does on tokens."""
    name, _, arguments = policy.partition(":")
    if name != "tlru" or arguments.count(",") != 1:
        return policy
    threshold, estimate = (int(part) for part in arguments.split(","))
    # depth - length >= reach + (estimate - threshold) on multiples of the page: round the constant up
    constant = -((threshold - estimate) // page_size)
    return f"tlru:{max(-constant, 0)},{max(constant, 0)}"


def _page_hashes(prompt: Tokens, factors: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    page = len(factors)
    whole = len(prompt) // page
    rows = prompt[: whole * page].reshape(whole, page).astype(np.uint64)
    hashes: npt.NDArray[np.uint64] = rows @ factors
    return hashes


def _dense(hashes: Sequence[npt.NDArray[np.uint64]]) -> list[Tokens]:
    if not hashes:
        return []
    _, numbers = np.unique(np.concatenate(hashes), return_inverse=True)
    bounds = np.cumsum([len(run) for run in hashes])[:-1]
    return list(np.split(numbers.astype(np.uint32), bounds))
