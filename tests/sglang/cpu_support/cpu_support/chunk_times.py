"""How long prefills take, said instead of measured: a CPU's times are noise, and the tiny model has few words.

`ISORADIX_TEST_CHUNKS=rank=R`: the profile runs as it would, with words that there are, and its times become those of
chunks that soon shrink. On rank R the fit comes to something else, as where arithmetic rounds differently: to chunks
that keep their size. With R = -1 it does so nowhere.
"""

from collections.abc import Callable
from typing import Any, Final

WORDS: Final = 500
SIZER: Final = "sglang.srt.managers.scheduler_components.dynamic_chunk_sizer"


def plant_times(text: str) -> None:
    """Plants them in this process.

    Raises:
        ValueError: the text is not of that form.
    """
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    name, _, rank = text.partition("=")
    if name != "rank":
        raise ValueError(f"ISORADIX_TEST_CHUNKS is {text!r}, not rank=R")

    def fit(original: Callable[..., None], predictor: Any, lengths: list[int], times: list[float]) -> None:
        import torch.distributed

        original(predictor, lengths, times)
        if torch.distributed.get_rank() == int(rank):
            predictor.linear_coeff_b = 1e6 * predictor.quadratic_coeff_a

    HookRegistry.register(f"{SIZER}.DynamicChunkSizer._profile_prefill_latency", profile, HookType.AROUND)
    HookRegistry.register(f"{SIZER}.ChunkSizePredictor.fit", fit, HookType.AROUND)


def profile(measure: Callable[..., Any], sizer: Any) -> tuple[list[int], list[float]]:
    """Measures, and says other times."""
    from numpy import random

    draw = random.randint
    random.randint = lambda low, _high, **options: draw(low, WORDS, **options)  # type: ignore[assignment]
    try:
        lengths, _ = measure(sizer)
    finally:
        random.randint = draw
    return lengths, [1e-3 * length * length + 1e-3 * length for length in lengths]
