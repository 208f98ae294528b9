"""Guessing tokens ahead, in the way of EAGLE: https://arxiv.org/abs/2401.15077

The draft is one small layer behind the target's last. Its input at a position is what the target made of that token,
and the token behind it. So its KV belongs to a *pair* of tokens, which is why the cache is asked for pairs.
"""

import torch
from torch import Tensor

from minillm.model import KV, Ends, Layer, Reduce, Span
from minillm.settings import ModelSettings

HISTORY = 0.1  # how much of the target's features goes in beside the next token: of an untrained model, little


class Draft:
    """The draft on one rank of the last stage. Its KV is one layer more of that stage's pool."""

    def __init__(self, shape: ModelSettings, ends: Ends, tp_rank: int, tp: int) -> None:
        self._layer = Layer(shape, shape.layers - 1, tp_rank, tp)
        self._ends = ends

    def features(self, made: Tensor, following: list[int], spans: list[Span], kv: KV, add: Reduce) -> Tensor:
        """What the draft makes of tokens, from what the target made of them and from the tokens behind them."""
        mixed = self._ends.embed(torch.tensor(following)) + HISTORY * made
        return self._layer.forward(mixed, spans, kv, add)

    def guess(self, feature: Tensor, position: int, slots: Tensor, count: int, kv: KV, add: Reduce) -> list[int]:
        """Tokens that may come next, from the draft's feature of the last pair, the one that begins at `position`."""
        guessed: list[int] = []
        while len(guessed) < count:
            guessed.append(int(self._ends.logits(feature)[0].argmax()))
            position += 1
            span = Span(slice(0, 1), position, slots[: position + 1])
            feature = self.features(feature, guessed[-1:], [span], kv, add)
        return guessed
