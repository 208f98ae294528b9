"""One rank's part of the forward pass, and on the last stage the choice of tokens."""

import time
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from isoradix.consensus import Place
from isoradix.copies import Copy
from minillm.draft import Draft
from minillm.links import Links
from minillm.model import KV, Ends, Layer, Span
from minillm.scheduler import Batch
from minillm.settings import Settings


class Stage:
    """The layers of a pipeline stage, sharded over its tensor-parallel ranks."""

    def __init__(self, settings: Settings, place: Place, links: Links) -> None:
        topology, shape = settings.topology, settings.model
        held = topology.stage_layers(place.stage, shape.layers)
        self._settings, self._links, self._ends = settings, links, Ends(shape)
        self._layers = [Layer(shape, number, place.tp, topology.tp) for number in held]
        self._draft = Draft(shape, self._ends, place.tp, topology.tp) if settings.drafts and links.last else None
        self.first_layer, self.kv_layers = held.start, len(held) + (self._draft is not None)
        self.kv: list[KV] = []  # of each layer, and of the draft behind them
        self.distributions: dict[tuple[int, int], list[Any]] = {}  # log-probabilities of answers, by request
        self.accepted = 0  # tokens that were guessed right

    def rehearse(self, length: int) -> None:
        """Computes a prompt of so many tokens, on slots that nobody has yet."""
        span = Span(slice(0, length), 0, torch.arange(length))
        x = self._ends.embed(torch.zeros(length, dtype=torch.int64))
        for layer, kv in zip(self._layers, self.kv, strict=False):
            x = layer.forward(x, [span], kv, lambda x: x)

    def forward(self, step: int, batch: Batch, loads: Sequence[Copy]) -> float:
        """Computes a batch, once what it needs has been loaded layer by layer; seconds of processor time."""
        spans, end = list[Span](), 0
        for row in batch:
            first, end = end, end + len(row.tokens)
            slots = torch.from_numpy(row.request.slots[: row.start + len(row.tokens)])
            spans.append(Span(slice(first, end), row.start, slots))
        if self._links.first:
            x = self._ends.embed(torch.tensor([token for row in batch for token in row.tokens]))
        else:
            x = self._links.receive(end, self._settings.model.width)
        began = time.thread_time()
        for at, layer in enumerate(self._layers):
            for load in loads:
                load.wait_layer(at)  # compute waits for its own copy; no decision does
            x = layer.forward(x, spans, self.kv[at], self._links.add)
        if self._links.last:
            self._choose(step, batch, spans, x, loads)
        else:
            self._links.send(x)
        return time.thread_time() - began

    def _choose(self, step: int, batch: Batch, spans: list[Span], x: Tensor, loads: Sequence[Copy]) -> None:
        """Greedy tokens of the rows that get some, as far as they were guessed right and one more."""
        if self._draft is not None:
            for load in loads:
                load.wait_layer(len(self._layers))
        told: list[list[int]] = []
        for row, span in zip(batch, spans, strict=True):
            made, tokens, decodes = x[span.rows], list[int](), row.start >= row.request.prompt
            if row.chooses:
                guessed = row.following if decodes else []
                logits = self._ends.logits(made[-1 - len(guessed) :])
                greedy = [int(token) for token in logits.argmax(-1)]
                right = next((at for at, guess in enumerate(guessed) if guess != greedy[at]), len(guessed))
                tokens, self.accepted = greedy[: right + 1], self.accepted + right
                if self._settings.record:
                    kept = logits[: right + 1].log_softmax(-1).numpy()
                    self.distributions.setdefault((row.request.user, row.request.turn), []).extend(kept)
            following = tokens if decodes else row.following + tokens[:1]
            guesses = self._guess(row.request.slots, span, made, following, self._settings.drafts if tokens else 0)
            if tokens:
                told.append([len(tokens), *tokens, *[0] * (1 + self._settings.drafts - len(tokens)), *guesses])
        self._links.tell(step, torch.tensor(told))

    def _guess(self, slots: Any, span: Span, made: Tensor, following: list[int], count: int) -> list[int]:
        """The draft's KV of all pairs that are known now, and so many guesses behind them."""
        if self._draft is None:
            return []
        end = span.start + len(following)
        pairs = Span(slice(0, len(following)), span.start, span.slots[:end])
        feature = self._draft.features(made[: len(following)], following, [pairs], self.kv[-1], self._links.add)
        return self._draft.guess(feature[-1:], end - 1, torch.from_numpy(slots), count, self.kv[-1], self._links.add)
