"""Ranks in one process, driven by hand: every call is one that a driver's thread would make."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Literal, TypeVar

import numpy as np
import pytest

from isoradix import (
    BlockRemoved,
    BlockStored,
    Board,
    Cancel,
    ConcurrentUseError,
    Control,
    FreeSlots,
    NodeFacts,
    PrefetchTicket,
    ProtocolError,
    Query,
    Rank,
    Reduced,
    SlotPool,
    Start,
    StartRecord,
    StoredRun,
    TieredCache,
    TieredMatchResult,
    VoteMachine,
    agree,
    blame,
    read_frame,
)

T = TypeVar("T")

EPOCH = 7


class Node:
    """One rank with its board, its vote thread's machine, its device pool, and what its engines have been told."""

    def __init__(self, cache: TieredCache, device: int, epoch: int = EPOCH, **frames: Any) -> None:
        self.cache = cache
        self.board = Board(cache.rank, cache.window)
        self.votes = VoteMachine(cache.rank, epoch, cache.window)
        # Slots are a rank's own: no two ranks of a cluster use the same numbers.
        first_slot = device * cache.rank
        self.device = SlotPool(device, page_size=cache.page_size, first_slot=first_slot)
        if cache.rank == 0:
            self.rank = Rank.leader(cache, self.board, epoch=epoch, **frames)
        else:
            self.rank = Rank.follower(cache, self.board, epoch=epoch)
        self.vector = np.empty(self.votes.words, dtype=np.int64)
        self.started: dict[int, Start] = {}
        self.queried: dict[int, StoredRun] = {}
        self.cancelled: list[int] = []

    def take_effects(self) -> None:
        for effect in self.rank.take_effects():
            match effect:
                case Query(operation, run):
                    self.queried[operation] = run
                case Start(operation):
                    self.started[operation] = effect
                case Cancel(operation):
                    self.cancelled.append(operation)
                case FreeSlots(slots):
                    self.device.free(slots)

    def slots(self, tokens: int) -> Any:
        """Slots for so many tokens, evicting from the device if need be."""
        if self.device.available < tokens:
            self.device.free(self.cache.evict(tokens - self.device.available).slots)
        return self.device.alloc(tokens)

    def insert(self, key: Sequence[int]) -> int:
        """Caches a key as a finished request does; the tokens that were new."""
        slots = self.slots(len(key) // self.cache.page_size * self.cache.page_size)
        done = self.cache.insert(list(key), slots)
        self.device.free(slots[: done.prefix_len])
        return done.new_tokens

    def find(self, key: Sequence[int]) -> TieredMatchResult:
        return self.cache.match_prefix(list(key))

    def evict_all(self) -> int:
        evicted = self.cache.evict(1 << 40)
        self.device.free(evicted.slots)
        return evicted.demoted

    def load(self, key: Sequence[int]) -> int:
        """Loads back what a match finds on host; 0 if there is nothing, or it is declined."""
        found = self.find(key)
        if found.host_tokens == 0:
            return 0
        receipt = self.cache.host_lock(found.host_node)
        need = self.cache.load_back_need(receipt)
        slots = self.slots(need)
        loaded = self.cache.load_back(receipt, slots)
        if loaded == 0:
            self.cache.unlock_host(receipt)
        return loaded

    def end(self, operation: int, succeeded: bool = True) -> None:
        """The copy of an operation ends."""
        start = self.started.pop(operation)
        if start.kind == "prefetch":
            self.board.post_progress(operation, len(start.pages) * self.cache.page_size)
        self.board.ended(operation, succeeded)

    def end_all(self) -> None:
        for operation in list(self.started):
            self.end(operation)
        for operation in self.cancelled:
            with suppress(ProtocolError):  # it may have ended here before it was cancelled
                self.board.finish(operation)
        self.cancelled.clear()

    def evidence(self) -> tuple[object, ...]:
        cache = self.cache
        books = (cache.sizes, cache.host_ledger, cache.operations(), cache.totals)
        return (self.rank.digest, cache.tree_digest, *books, cache.clock)


def setup(host: Sequence[int | None], **options: Any) -> list[TieredCache]:
    """Caches of as many ranks as there are pools, None for a rank without one."""
    records = [StartRecord(rank, len(host), pages).to_bytes() for rank, pages in enumerate(host)]
    agreement = agree(records)
    options = {"load_back_min": 1, "prefetch_min": 1, **options}
    return [TieredCache(rank=rank, host_pages=pages, agreement=agreement, **options) for rank, pages in enumerate(host)]


class Cluster:
    def __init__(
        self, host: Sequence[int | None], device: int = 400, frames: dict[str, int] | None = None, **options: Any
    ):
        self.nodes = [Node(cache, device, **(frames or {})) for cache in setup(host, **options)]
        self.newest: Reduced | None = None
        self.now_ms = 0

    def all(self, verb: Callable[[Node], T]) -> T:
        """Every rank does the same, and answers the same."""
        answers = [verb(node) for node in self.nodes]
        assert all(answer == answers[0] for answer in answers), answers
        return answers[0]

    def enter(self, controls: Sequence[Control] = ()) -> bytes:
        self.now_ms += 1
        leader, *followers = self.nodes
        frame = leader.rank.lead(self.now_ms, self.newest, controls)
        for node in followers:
            assert node.rank.follow(frame) == read_frame(frame)
        return frame

    def close(self) -> None:
        for node in self.nodes:
            node.rank.close_step(node.device.available)
            node.take_effects()
            node.cache.check()
        self.all(Node.evidence)

    def step(self, verb: Callable[[Node], T] = lambda node: None, controls: Sequence[Control] = ()) -> T:  # type: ignore[assignment,return-value]
        self.enter(controls)
        answer = self.all(verb)
        self.close()
        return answer

    def vote(self) -> None:
        for node in self.nodes:
            node.votes.fill(node.board, node.vector)
        reduced = np.minimum.reduce([node.vector for node in self.nodes])
        for node in self.nodes:
            self.newest = node.votes.complete(node.board, reduced)

    def settle(self) -> None:
        """Everything that was started ends well, everything that was cancelled leaves, and that is voted and framed."""
        for _ in range(6):
            for node in self.nodes:
                node.end_all()
            self.vote()
            self.step()

    def assert_quiet(self) -> None:
        for node in self.nodes:
            node.cache.check_ended()
            assert node.cache.issued == node.cache.retired
            assert all((info.lock_ref, info.pin_ref, info.host_ref) == (0, 0, 0) for info in node.cache.walk())


KEY = list(range(40))
LONGER = list(range(80))
KINDS: tuple[Literal["backup", "load_back", "prefetch", "store"], ...] = ("backup", "load_back", "prefetch", "store")


@pytest.mark.parametrize("ranks", [1, 2, 4])
@pytest.mark.parametrize("policy", ["lru", "slru:2", lambda facts: facts.seq], ids=["lru", "slru", "callable"])
def test_a_prefix_goes_through_all_tiers_and_every_rank_does_the_same(ranks: int, policy: Any) -> None:
    host = [100 + 10 * rank for rank in range(ranks)]
    cluster = Cluster(host, page_size=4, policy=policy, storage=True, kv_events=True)
    for part in (back_up, demote, load_back, prefetch, reset):
        part(cluster)
        cluster.assert_quiet()
    rings = [node.board.digest_ring_bytes() for node in cluster.nodes]
    assert len(set(rings)) == 1
    assert blame(rings) is None
    kinds = {type(event) for event in cluster.nodes[0].cache.take_events()}
    assert {BlockStored, BlockRemoved} <= kinds


def back_up(cluster: Cluster) -> None:
    assert cluster.step(lambda node: node.insert(KEY)) == 40
    for node in cluster.nodes:
        start = node.started[0]
        assert (start.kind, len(start.slots), len(start.pages), start.stored) == ("backup", 40, 10, ())
        assert (start.slots.dtype, start.pages.dtype) == (np.dtype(np.int64), np.dtype(np.int32))
        assert set(start.slots // 400) == {node.rank.rank}, "each rank has its own"
    assert cluster.all(lambda node: node.cache.sizes.host_total) == 0, "not yet agreed"
    assert cluster.all(lambda node: [operation.state for operation in node.cache.operations()]) == ["issued"]
    cluster.settle()
    assert cluster.all(lambda node: node.cache.sizes.host_total) == 40
    assert cluster.all(lambda node: node.cache.issued) == 2, "and it was written on to storage"


def demote(cluster: Cluster) -> None:
    assert cluster.step(Node.evict_all) == 40
    info = cluster.all(lambda node: node.cache.node(node.find(KEY).host_node))
    assert (info.on_device, info.on_host, info.depth) == (False, True, 40)
    assert cluster.all(lambda node: len(node.cache.node_pages(node.find(KEY).host_node))) == 10
    assert cluster.all(lambda node: len(node.cache.node_slots(node.find(KEY).host_node))) == 0


def load_back(cluster: Cluster) -> None:
    assert cluster.step(lambda node: node.load(KEY)) == 40
    assert cluster.all(lambda node: node.find(KEY).hit_tokens) == 40
    assert cluster.all(lambda node: node.started[2].kind) == "load_back"
    assert cluster.all(lambda node: node.cache.protected_size) == 40, "locked until all copies are done"
    cluster.settle()
    assert cluster.all(lambda node: node.cache.protected_size) == 0


def prefetch(cluster: Cluster) -> None:
    """Each rank's storage has another part of it; what all of them have counts."""
    tickets: list[PrefetchTicket] = []

    def wish(node: Node) -> str:
        ticket = node.cache.prefetch(LONGER, anchor=node.find(LONGER).node)
        assert ticket is not None
        tickets.append(ticket)
        assert node.cache.prefetch_operation(ticket) is None
        return node.cache.prefetch_state(ticket)

    assert cluster.step(wish) == "wished"
    for node, ticket in zip(cluster.nodes, tickets, strict=True):
        ((operation, run),) = node.queried.items()
        assert (run.namespace, run.key.tolist(), run.start) == ((None, None), LONGER, 40)
        assert run.key.dtype == np.dtype(np.uint32)
        assert node.cache.prefetch_operation(ticket) == operation
        node.rank.found(operation, 40 - 4 * node.rank.rank)
        node.take_effects()
        assert len(node.started[operation].pages) == 10 - node.rank.rank
    cluster.settle()
    assert cluster.all(lambda node: node.cache.prefetch_state(tickets[node.rank.rank])) == "over"
    least = 40 - 4 * (len(cluster.nodes) - 1)
    assert cluster.step(lambda node: node.find(LONGER).host_tokens) == least
    cluster.settle()
    assert cluster.step(lambda node: node.cache.evict_host(1)) == least // 4


def reset(cluster: Cluster) -> None:
    cluster.step(lambda node: node.insert([7] * 8))
    for node in cluster.nodes:
        node.device.free(node.cache.reset())
        assert node.device.available == 400 - 8, "what is being backed up comes later"
        node.cache.check(node.device, uncached=8)
    cluster.step()
    cluster.settle()
    assert cluster.all(lambda node: (node.device.available, node.cache.num_nodes)) == (400, 0)
    assert cluster.all(lambda node: node.cache.host_ledger.occupied) == 0


def test_what_is_agreed_is_the_smallest_of_all_ranks() -> None:
    cluster = Cluster([100, 60], page_size=4)
    assert cluster.all(lambda node: node.cache.host_ledger.capacity) == 60
    cluster.nodes[1].rank.withdraw(60)
    cluster.step(lambda node: node.insert(KEY))
    assert [len(node.started) for node in cluster.nodes] == [1, 0], "rank 1 has nothing to copy to"
    cluster.settle()
    assert cluster.all(lambda node: node.cache.sizes.host_total) == 0
    assert cluster.all(lambda node: node.cache.host_ledger.capacity) == 0
    cluster.assert_quiet()
    cluster.nodes[1].rank.restore(60)
    cluster.step()
    cluster.settle()
    cluster.step(lambda node: node.insert(KEY))
    cluster.settle()
    assert cluster.all(lambda node: node.cache.sizes.host_total) == 40


@pytest.mark.parametrize("without", [0, 1])
def test_a_rank_without_a_pool_copies_nothing_and_has_the_same_tree(without: int) -> None:
    host: list[int | None] = [100, 100]
    host[without] = None
    cluster = Cluster(host, page_size=4, storage=True)
    cluster.step(lambda node: node.insert(KEY))
    cluster.settle()
    cluster.step(Node.evict_all)
    assert cluster.step(lambda node: node.load(KEY)) == 40
    assert [len(node.started) for node in cluster.nodes] == [0 if at == without else 1 for at in range(2)]
    cluster.settle()
    cluster.assert_quiet()
    cluster.nodes[without].rank.withdraw(50)
    cluster.step(lambda node: node.insert([7] * 40))
    cluster.settle()
    assert cluster.all(lambda node: node.cache.sizes.host_total) == 80, "it had nothing to lose"


def test_totals_say_what_was_done() -> None:
    cluster = Cluster([100, 100], page_size=4, storage=True)
    assert cluster.all(lambda node: node.cache.totals.issued) == dict.fromkeys(KINDS, 0)
    cluster.step(lambda node: node.insert(KEY))
    cluster.settle()
    cluster.step(Node.evict_all)
    cluster.step(lambda node: node.load(KEY))
    cluster.settle()
    cluster.step(lambda node: node.cache.prefetch(LONGER) is not None)
    assert cluster.step(lambda node: node.cache.prefetch([1])) is None
    for node in cluster.nodes:
        node.rank.found(3, 0)
        node.take_effects()
    cluster.settle()
    totals = cluster.all(lambda node: node.cache.totals)
    assert (totals.evicted_tokens, totals.demoted_tokens, totals.dropped_dirty_tokens) == (40, 40, 0)
    assert (totals.backed_up_tokens, totals.stored_tokens) == (40, 40)
    assert (totals.loaded_back_tokens, totals.prefetched_tokens, totals.host_evicted_tokens) == (40, 0, 0)
    assert totals.issued == dict.fromkeys(KINDS, 1)
    assert totals.done == {**dict.fromkeys(KINDS, 1), "prefetch": 0}
    assert totals.declined == {**dict.fromkeys(KINDS, 0), "prefetch": 1}
    assert {pair: count for pair, count in totals.aborted.items() if count} == {("prefetch", "miss"): 1}
    assert len(totals.aborted) == 24
    assert repr(totals).startswith("<TierTotals evicted_tokens=40, backed_up_tokens=40, loaded_back_tokens=40, 4 ")


def test_totals_tell_what_a_reset_keeps_back() -> None:
    cluster = Cluster([100, 100], page_size=4)
    cluster.step(lambda node: node.insert(KEY))
    cluster.step(lambda node: node.device.free(node.cache.reset()))
    limbo = cluster.all(lambda node: node.cache.totals)
    assert (limbo.limbo_tokens, limbo.limbo_slots, limbo.limbo_pages) == (40, 40, 0)
    cluster.settle()
    limbo = cluster.all(lambda node: node.cache.totals)
    assert (limbo.limbo_tokens, limbo.limbo_slots, limbo.limbo_pages) == (40, 0, 0)


def test_write_back_cleans_the_oldest_and_reports_what_it_drops() -> None:
    cluster = Cluster([100, 100], device=40, writing="back:20")
    cluster.step(lambda node: node.insert(range(10)))
    cluster.step(lambda node: node.insert(range(100, 110)))
    assert cluster.all(lambda node: node.cache.issued) == 0, "20 are free"
    cluster.step(lambda node: node.insert(range(200, 205)))
    cluster.settle()
    assert cluster.all(lambda node: node.cache.sizes.clean) == 10

    def evict(node: Node) -> tuple[int, int, int, int]:
        evicted = node.cache.evict(20)
        node.device.free(evicted.slots)
        return len(evicted.slots), evicted.freed, evicted.demoted, evicted.dropped_dirty

    assert cluster.step(evict) == (20, 20, 10, 10)


def test_write_back_gives_up_host_copies_of_what_runs() -> None:
    cluster = Cluster([20, 20], device=28, writing="back:20")
    cluster.step(lambda node: node.insert(range(8)))
    cluster.step(lambda node: node.insert(range(100, 112)))
    cluster.settle()
    assert cluster.all(lambda node: node.cache.sizes.host_total) == 20, "host is full"
    for node in cluster.nodes:
        node.cache.lock(node.find(range(100, 112)).node)
    cluster.step(lambda node: node.insert(range(200, 210)))
    cluster.settle()
    totals = cluster.all(lambda node: node.cache.totals)
    assert (totals.reclaimed_tokens, totals.host_evicted_tokens, totals.dropped_dirty_tokens) == (12, 0, 0)


def test_the_leader_decides_and_every_follower_is_told() -> None:
    cluster = Cluster([100, 100], page_size=4, prefetch_patience=(1_000, 0, 1_000))
    cluster.step()

    def wait_for(node: Node) -> str:
        ticket = node.cache.prefetch(KEY)
        assert ticket is not None
        return node.cache.poll_prefetch(ticket)

    cluster.step(wait_for)
    for node in cluster.nodes:
        node.rank.found(0, 40)
        node.take_effects()
        node.board.post_progress(0, 18)
    cluster.vote()
    cluster.step()
    assert cluster.all(lambda node: node.cache.operations()[0].progress) == 18
    cluster.now_ms += 2_000
    cluster.step()
    seen = read_frame(cluster.enter([Control.mode(3, 9)]))
    assert seen.controls == [Control.mode(3, 9), Control.time_out(0)], "the deadline ran out"
    assert (seen.step, seen.vote, seen.stops) == (5, None, False)
    assert (seen.controls[0].key, seen.controls[0].value, seen.controls[1].operation) == (3, 9, 0)
    cluster.close()
    assert cluster.all(lambda node: node.cancelled) == [0]
    assert cluster.all(lambda node: node.cache.sizes.host_total) == 16, "whole pages of what had arrived"
    cluster.settle()
    cluster.assert_quiet()


def test_a_switch_of_tiers_is_seen_in_its_frame_and_on_every_rank() -> None:
    cluster = Cluster([8, 8])
    assert [node.cache.top_tier for node in cluster.nodes] == ["l3", "l3"]
    seen = read_frame(cluster.enter([Control.tiers("l2")]))
    (control,) = seen.controls
    assert (control, repr(control)) == (Control.tiers("l2"), 'Control.tiers("l2")')
    assert (control.kind, control.top) == ("tiers", "l2")
    assert (control.operation, control.key, control.value) == (None, None, None)
    assert Control.stop().top is None
    assert [node.cache.top_tier for node in cluster.nodes] == ["l2", "l2"]
    (record,) = [record for record in cluster.nodes[1].cache.journal() if record.kind == "tiers"]
    assert (record.a, record.b) == (2, 3)


@pytest.mark.parametrize("control", [Control.terminate(0), Control.time_out(0), Control.abort(0)], ids=repr)
def test_a_prefetch_is_ended_from_outside(control: Control) -> None:
    cluster = Cluster([100, 100], prefetch_patience=None)
    cluster.step(lambda node: node.cache.prefetch(KEY) is not None)
    cluster.step(controls=[control])
    assert cluster.all(lambda node: node.cache.operations()[0].state) == "draining"
    for node in cluster.nodes:
        node.rank.found(0, 40)  # a late answer is no matter
        node.take_effects()
    cluster.settle()
    cluster.assert_quiet()
    assert cluster.all(lambda node: node.cache.num_nodes) == 0


def test_a_key_function_may_not_use_the_board_of_its_own_rank() -> None:
    refused: list[ConcurrentUseError] = []

    def key(facts: NodeFacts) -> int:
        try:
            nodes[0].board.pause(False)
        except ConcurrentUseError as error:
            refused.append(error)
        return facts.seq

    nodes: list[Node] = []
    cluster = Cluster([10], device=100, policy=key)
    nodes.extend(cluster.nodes)
    for start in range(0, 40, 10):
        cluster.step(lambda node, start=start: node.insert(range(start, start + 10)))  # type: ignore[misc]
        cluster.settle()
        cluster.step(Node.evict_all)
    assert refused, "asked in a step"
    assert all("entered again from its own key function" in str(error) for error in refused)


def test_the_ring_of_a_key_function_and_its_rank_is_collected() -> None:
    def ring() -> weakref.ref[Any]:
        def key(facts: NodeFacts) -> int:
            return facts.seq + len(nodes)

        nodes = Cluster([10], policy=key).nodes
        return weakref.ref(key)

    gone = ring()
    gc.collect()
    assert gone() is None
