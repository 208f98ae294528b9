"""What a deployment is: its model, its ranks, its memory."""

from dataclasses import dataclass, field
from typing import Literal

from isoradix.consensus import Topology


@dataclass(frozen=True)
class ModelSettings:
    """A Llama-like decoder. Weights are drawn from a seed, so every rank makes its own shard of the same model."""

    vocab: int = 512
    width: int = 64
    layers: int = 4
    heads: int = 4
    hidden: int = 128
    seed: int = 7


@dataclass(frozen=True)
class Settings:
    """Equal on all ranks: whatever is decided from it is decided alike."""

    tp: int = 1
    pp: int = 1
    model: ModelSettings = field(default_factory=ModelSettings)
    cache: Literal["off", "l1", "l2", "l3"] = "l2"  # the highest tier that is used
    page_size: int = 16
    slots: int = 2048  # tokens that the device holds
    host_pages: int = 512
    storage: str | None = None  # URL of tier L3
    batch: int = 8  # requests that run at a time
    chunk: int = 256  # tokens of prefill in a step
    dynamic: bool = False  # whether chunks shrink as their history grows
    context: int = 4096
    drafts: int = 0  # tokens that are guessed ahead, and verified in one pass
    faults: tuple[str, ...] = ()  # as of `isoradix replay --inject`
    record: bool = False  # whether the distribution of every token is kept

    @property
    def topology(self) -> Topology:
        return Topology(tp=self.tp, pp=self.pp)

    def key(self, tokens: list[int]) -> list[int]:
        """What names the KV of all tokens but the last: with drafts, whose KV depends on the next token, pairs."""
        return tokens if self.drafts else tokens[:-1]
