"""A cache's totals as plain numbers, which travel and print."""

from typing import Final, Literal

from isoradix import TieredCache

TOKENS: Final = (
    "evicted_tokens",
    "demoted_tokens",
    "dropped_dirty_tokens",
    "host_evicted_tokens",
    "reclaimed_tokens",
    "backed_up_tokens",
    "loaded_back_tokens",
    "prefetched_tokens",
    "stored_tokens",
    "given_up_tokens",
)
KINDS: Final[tuple[Literal["backup", "load_back", "prefetch", "store"], ...]] = (
    "backup",
    "load_back",
    "prefetch",
    "store",
)

Operations = dict[str, dict[str, int]]


def token_totals(cache: TieredCache) -> dict[str, int]:
    """Tokens by what became of them."""
    totals = cache.totals
    return {name: getattr(totals, name) for name in TOKENS}


def operation_totals(cache: TieredCache) -> Operations:
    """For each kind of operation: issued, done, declined, and aborted by reason ("aborted_short")."""
    totals = cache.totals
    table: Operations = {}
    for kind in KINDS:
        ended = {f"aborted_{reason}": number for (of, reason), number in totals.aborted.items() if of == kind}
        begun = {"issued": totals.issued[kind], "done": totals.done[kind], "declined": totals.declined[kind]}
        begun["retried"] = totals.retried[kind]
        table[kind] = {**begun, **ended}
    return table
