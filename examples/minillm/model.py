"""One rank's shard of the model: the heads of its tensor-parallel rank in the layers of its pipeline stage."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from minillm.settings import ModelSettings

Reduce = Callable[[Tensor], Tensor]  # sums a tensor over the tensor-parallel ranks
KV = tuple[Tensor, Tensor]  # keys and values of one layer, a row for each slot


@dataclass(frozen=True)
class Span:
    """A run of tokens of one request in a batch: rows of the batch, and where the KV of its tokens is."""

    rows: slice
    start: int  # tokens before it, whose KV is there
    slots: Tensor  # of all tokens up to the end of the run


class Layer:
    """Attention and a gated feed-forward layer. Heads and hidden units are split over the ranks; sums join them."""

    def __init__(self, shape: ModelSettings, number: int, tp_rank: int, tp: int) -> None:
        draw = torch.Generator().manual_seed(1000 * shape.seed + number)
        width, inner = shape.width, shape.hidden
        mine = slice(tp_rank * width // tp, (tp_rank + 1) * width // tp)
        units = slice(tp_rank * inner // tp, (tp_rank + 1) * inner // tp)
        # the whole matrices are drawn, so that shards of any number are parts of one model
        self.q, self.k, self.v = (_matrix(draw, width, width)[mine] for _ in range(3))
        joins = 1 / math.sqrt(2 * shape.layers)  # so that layers add up to about one, as in GPT-2
        self.o = _matrix(draw, width, width)[:, mine] * joins
        self.gate, self.up = (_matrix(draw, inner, width)[units] for _ in range(2))
        self.down = _matrix(draw, width, inner)[:, units] * joins
        self.heads, self.head_width = shape.heads // tp, shape.width // shape.heads

    def forward(self, x: Tensor, spans: list[Span], kv: KV, add: Reduce) -> Tensor:
        """The layer's output, [tokens, width], of an input of that shape."""
        x = x + add(self._attend(norm(x), spans, *kv))
        y = norm(x)
        return x + add((functional.silu(y @ self.gate.T) * (y @ self.up.T)) @ self.down.T)

    def _attend(self, x: Tensor, spans: list[Span], keys: Tensor, values: Tensor) -> Tensor:
        positions = torch.cat([torch.arange(span.start, len(span.slots)) for span in spans])
        q, k = (rotate(self._split(x @ weight.T), positions) for weight in (self.q, self.k))
        v = self._split(x @ self.v.T)
        out = torch.empty_like(q)
        for span in spans:
            rows, slots = span.rows, span.slots
            keys[slots[span.start :]] = k[rows].flatten(1)
            values[slots[span.start :]] = v[rows].flatten(1)
            # what is cached is read exactly as what was just computed
            seen_k, seen_v = self._split(keys[slots]), self._split(values[slots])
            mask = torch.ones(len(slots) - span.start, len(slots), dtype=torch.bool).tril(span.start)
            asks, *seen = (each.transpose(0, 1) for each in (q[rows], seen_k, seen_v))
            out[rows] = functional.scaled_dot_product_attention(asks, seen[0], seen[1], mask).transpose(0, 1)
        return out.flatten(1) @ self.o.T

    def _split(self, x: Tensor) -> Tensor:
        return x.view(-1, self.heads, self.head_width)


class Ends:
    """What comes before the first layer and after the last one."""

    def __init__(self, shape: ModelSettings) -> None:
        draw = torch.Generator().manual_seed(1000 * shape.seed - 1)
        self.table = torch.randn(shape.vocab, shape.width, generator=draw)
        self.head = _matrix(draw, shape.vocab, shape.width) * 3

    def embed(self, tokens: Tensor) -> Tensor:
        return self.table[tokens]

    def logits(self, x: Tensor) -> Tensor:
        return norm(x) @ self.head.T


def norm(x: Tensor) -> Tensor:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


def rotate(x: Tensor, positions: Tensor) -> Tensor:
    """Rotary position embedding: https://arxiv.org/abs/2104.09864"""
    half = x.shape[-1] // 2
    angles = positions[:, None] * (10_000.0 ** (-torch.arange(half) / half))
    cos, sin = angles.cos()[:, None], angles.sin()[:, None]
    a, b = x[..., :half], x[..., half:]
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


def _matrix(draw: torch.Generator, rows: int, columns: int) -> Tensor:
    return torch.randn(rows, columns, generator=draw) / math.sqrt(columns)
