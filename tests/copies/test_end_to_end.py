"""Bytes under a real rank: inserted, backed up, evicted, loaded back, and seen."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from isoradix import (
    Board,
    Cancel,
    FreeSlots,
    Rank,
    Reduced,
    SlotPool,
    Start,
    StartRecord,
    TieredCache,
    TieredMatchResult,
    VoteMachine,
    agree,
)

if TYPE_CHECKING:
    from isoradix.copies import Copy

PAGE = 4
SLOTS = 96
HOST_PAGES = 40
LAYERS = 3


class Server:
    """One rank whose KV of a token is a function of all tokens up to it."""

    def __init__(self, kind: str, layout: Any) -> None:
        import torch

        from isoradix.kv import DevicePool, HostPool, MHAShape

        from .rig import make_engine

        self.torch = torch
        on_cuda = kind.startswith("cuda")
        self.kv = DevicePool(MHAShape(LAYERS, 1, 4, torch.float32), SLOTS, device="cuda" if on_cuda else "cpu")
        self.host = HostPool(self.kv.shape, HOST_PAGES, PAGE, layout, pinned=on_cuda)
        self.engine = make_engine(kind, self.kv, self.host)
        agreement = agree([StartRecord(0, 1, self.host.num_pages).to_bytes()])
        self.cache = TieredCache(
            rank=0, host_pages=self.host.num_pages, agreement=agreement, page_size=PAGE, load_back_min=1
        )
        self.board = Board(0, self.cache.window)
        self.engine.attach(self.board)
        self.votes = VoteMachine(0, 1, self.cache.window)
        self.rank = Rank.leader(self.cache, self.board, epoch=1)
        self.slots = SlotPool(SLOTS, page_size=PAGE)
        self.ballot = np.empty(self.votes.words, dtype=np.int64)
        self.newest: Reduced | None = None
        self.loads: list[Copy] = []
        self.now_ms = 0
        self.kinds: set[str] = set()

    def step(self, tokens: list[int] | None = None) -> None:
        """Serves one request, or none: match, load back, compute the rest, cache it; and a vote."""
        self.now_ms += 1
        self.engine.poll()
        self.rank.lead(self.now_ms, self.newest)
        work = None if tokens is None else self.admit(tokens)
        self.rank.close_step(self.slots.available)
        for effect in self.rank.take_effects():
            match effect:
                case Start(_, kind):
                    self.kinds.add(kind)
                    copy = self.engine.start(effect)
                    if kind == "load_back":
                        self.loads.append(copy)
                case Cancel(operation):
                    self.engine.cancel(operation)
                case FreeSlots(slots):
                    self.slots.free(slots)
        if work is not None:
            self.compute(*work)
        self.votes.fill(self.board, self.ballot)
        self.newest = self.votes.complete(self.board, self.ballot)

    def alloc(self, count: int) -> Any:
        if self.slots.available < count:
            evicted = self.cache.evict(count - self.slots.available).slots
            self.kv.poison(evicted)
            self.slots.free(evicted)
        return self.slots.alloc(count)

    def admit(self, tokens: list[int]) -> tuple[list[int], Any] | None:
        """Where all tokens of a request are; what is new is written before its backup can start."""
        found = self.cache.match_prefix(tokens)
        if found.host_tokens:
            self.load(found)
            found = self.cache.match_prefix(tokens)
        lock = self.cache.lock(found.node)
        new = len(tokens) - found.hit_tokens
        if self.slots.available + self.cache.evictable_size < new:
            self.cache.unlock(lock)
            return None
        slots = self.alloc(new)
        everything = np.concatenate([self.cache.slots(found.node), slots])
        self.write(tokens, found.hit_tokens, slots)
        done = self.cache.insert(tokens, slots, resume=found)
        assert done.new_tokens == new
        self.cache.unlock(lock)
        return tokens, everything

    def load(self, found: TieredMatchResult) -> None:
        receipt = self.cache.host_lock(found.host_node)
        lock = self.cache.lock(found.node)  # making room must not evict what the load-back continues
        need = self.cache.load_back_need(receipt)
        if self.slots.available + self.cache.evictable_size >= need:
            slots = self.alloc(need)
            if self.cache.load_back(receipt, slots) == 0:
                self.slots.free(slots)
                self.cache.unlock_host(receipt)
        else:
            self.cache.unlock_host(receipt)
        self.cache.unlock(lock)

    def kv_of(self, tokens: list[int], layer: int, part: str) -> Any:
        sums = np.cumsum(np.array(tokens, np.float32)) + 1000 * layer + (500 if part == "v" else 0)
        return self.torch.from_numpy(sums[:, None] + np.arange(4, dtype=np.float32))

    def write(self, tokens: list[int], hit: int, slots: Any) -> None:
        rows = self.torch.from_numpy(slots).to(self.kv.device)
        for layer in range(LAYERS):
            for part in ("k", "v"):
                self.kv.buffer(layer, part)[rows] = self.kv_of(tokens, layer, part)[hit:].to(self.kv.device)

    def compute(self, tokens: list[int], slots: Any) -> None:
        """Reads all of it, layer by layer, once its own loads are there."""
        rows = self.torch.from_numpy(slots).to(self.kv.device)
        for layer in range(LAYERS):
            for load in self.loads:
                load.wait_layer(layer)
            for part in ("k", "v"):
                seen = self.kv.buffer(layer, part)[rows].cpu()
                assert self.torch.equal(seen, self.kv_of(tokens, layer, part)), (layer, part)
        self.loads.clear()

    def settle(self) -> None:
        until = time.monotonic() + 30
        while self.cache.issued != self.cache.retired:
            assert time.monotonic() < until
            if hasattr(self.engine, "run"):
                self.engine.run(5)
            self.step()

    def close(self) -> None:
        self.engine.close()
        self.kv.close()
        self.host.close()


@pytest.mark.parametrize("layout", ["layer_first", "page_first"])
def test_a_prefix_goes_to_host_and_comes_back(kind: str, layout: str) -> None:
    server = Server(kind, layout)
    prompt = list(range(1, 41))
    server.step(prompt)
    server.settle()
    assert server.cache.sizes.host_total == 40
    server.step(list(range(200, 288)))  # the device has room for no more
    server.settle()
    found = server.cache.match_prefix(prompt)
    assert (found.hit_tokens, found.host_tokens) == (0, 40)
    server.step(prompt)
    server.settle()
    assert server.cache.match_prefix(prompt).hit_tokens == 40
    assert server.kinds == {"backup", "load_back"}
    server.cache.check_ended()
    server.close()


def test_many_requests_read_what_was_written_for_them(kind: str) -> None:
    """Short of both device and host memory, with evicted slots poisoned."""
    server, chance = Server(kind, "page_first"), random.Random(5)
    prompts = [[first] * 4 + list(range(first, first + 4 * chance.randrange(1, 9))) for first in range(1, 9)]
    for _ in range(400):
        prompt = chance.choice(prompts)
        server.step(prompt + [chance.randrange(3)] * 4)
        if hasattr(server.engine, "run"):
            server.engine.run(chance.randrange(6))
        if chance.random() < 0.2:
            server.settle()
    server.settle()
    assert server.kinds == {"backup", "load_back"}
    server.cache.check_ended()
    server.close()
