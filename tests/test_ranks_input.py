"""Bad input to ranks: one clear error of ours for each, and nothing changed. Vectors in every accepted form."""

from __future__ import annotations

import array
import ctypes
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

from isoradix import (
    Agreement,
    Board,
    Control,
    DivergenceError,
    HeldError,
    InputTypeError,
    InvalidInputError,
    IsoradixError,
    NodeHandle,
    Patience,
    PrefixCache,
    ProtocolError,
    Rank,
    ReceiptError,
    RunAhead,
    StaleHandleError,
    Stall,
    StartRecord,
    TieredCache,
    VoteMachine,
    Waiting,
    agree,
    blame,
    read_frame,
)

from .test_input import refused
from .test_ranks import KEY, Cluster, Node, setup

PAGE = 4


def one() -> Agreement:
    return agree([StartRecord(0, 1, 10).to_bytes()])


@pytest.fixture
def cluster() -> Cluster:
    """Two ranks with something in both tiers, and a backup under way."""
    made = Cluster([100, 100], page_size=PAGE, storage=True)
    made.step(lambda node: node.insert(KEY))
    made.settle()
    made.step(Node.evict_all)
    made.step(lambda node: node.insert(range(500, 520)))
    return made


@pytest.fixture
def unchanged(cluster: Cluster) -> Iterator[Any]:
    """A follower to misuse: what is called with wrong types on purpose is not type-checked."""
    node = cluster.nodes[1]
    before = (*node.evidence(), node.cache.journal_bytes())
    yield node
    node.cache.check()
    assert (*node.evidence(), node.cache.journal_bytes()) == before
    cluster.vote()
    cluster.step()
    cluster.settle()


CONSTRUCTORS: list[tuple[type[IsoradixError], Callable[[], object], list[str]]] = [
    (InvalidInputError, lambda: Board(0, 0), ["window 0 is out of range: 1 to 4096"]),
    (InvalidInputError, lambda: Board(-1), ["rank -1 is out of range"]),
    (InputTypeError, lambda: Board("0"), ["rank is a str ('0'), expected an int"]),  # type: ignore[arg-type]
    (InvalidInputError, lambda: VoteMachine(0, 1, 4097), ["window 4097 is out of range"]),
    (InvalidInputError, lambda: VoteMachine(0, -1), ["epoch -1"]),
    (InputTypeError, lambda: VoteMachine(0, 1, pacing=(1, 2)), ["pacing is a tuple", "three ints"]),  # type: ignore[arg-type]
    (InvalidInputError, lambda: VoteMachine(0, 1, pacing=(1, 2, 1 << 32)), ["pacing 4294967296 is out of range"]),
    (InvalidInputError, lambda: StartRecord(0, 1, 1 << 31), ["capacity_pages 2147483648 is out of range"]),
    (InputTypeError, lambda: agree(7), ["records is an int (7)"]),  # type: ignore[arg-type]
    (InputTypeError, lambda: agree(["record"]), ["data is a str"]),  # type: ignore[list-item]
    (ProtocolError, lambda: agree([b"record"]), ["start refused: a start record of 6 bytes, expected 4032"]),
    (
        ProtocolError,
        lambda: agree([StartRecord(1, 2).to_bytes()]),
        ["record 0 is of rank 1 of 2, expected rank 0 of 1"],
    ),
    (ProtocolError, lambda: StartRecord.from_bytes(bytes(4032)), ["magic 0x0"]),
    (InvalidInputError, lambda: Patience(0, 10), ["report threshold in ms 0 is out of range: 1 to 10"]),
    (InvalidInputError, lambda: Patience(1, 10, 11), ["fatal threshold in ms 10 is out of range"]),
    (InputTypeError, lambda: Waiting((1, 2), 0), ["patience is a tuple"]),  # type: ignore[arg-type]
    (InputTypeError, lambda: Stall(Patience(1, 2), 0.5), ["now_ms is a float (0.5)"]),  # type: ignore[arg-type]
    (InvalidInputError, lambda: RunAhead(1 << 20, 1), ["edges 1048576 is out of range"]),
    (InvalidInputError, lambda: RunAhead(1, 1).delivered(1), ["edge 1 is out of range: 0 to 0"]),
    (InvalidInputError, lambda: RunAhead(1, 1).delivered(0), ["delivered frames 1 is out of range: 0 to 0"]),
    (InvalidInputError, lambda: Control.abort(-1), ["operation -1 is out of range"]),
    (InvalidInputError, lambda: Control.tiers("l4"), ['top is "l4", limits "l1" to "l3"']),
    (InvalidInputError, lambda: Control.tiers(""), ['top is ""']),
    (InputTypeError, lambda: Control.tiers(1), ["top is an int (1), expected a str"]),  # type: ignore[arg-type]
    (InvalidInputError, lambda: VoteMachine(0, 0, mode="on"), ['mode "on" is unknown: accepted are "off", "observe"']),
    (InputTypeError, lambda: VoteMachine(0, 0, mode=1), ["mode is an int (1), expected a str"]),  # type: ignore[arg-type]
    (InvalidInputError, lambda: Control.mode(1 << 32, 0), ["key 4294967296 is out of range"]),
    (InputTypeError, lambda: Control.mode(0, None), ["value is None, expected an int"]),  # type: ignore[arg-type]
    (InputTypeError, lambda: blame(None), ["rings is None"]),  # type: ignore[arg-type]
    (InputTypeError, lambda: blame([np.arange(4)]), ["ring is a", "expected bytes"]),  # type: ignore[list-item]
    (ProtocolError, lambda: read_frame(b"IRXF"), ["a frame of 64 bytes comes in 4 bytes"]),
    (ProtocolError, lambda: read_frame(bytes(64)), ["byte 0 of a frame: magic is 0x0"]),
    (InputTypeError, lambda: read_frame("IRXF"), ["frame is a str"]),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("kind", "call", "words"), CONSTRUCTORS)
def test_a_value_that_makes_nothing_is_named(
    kind: type[IsoradixError], call: Callable[[], object], words: list[str]
) -> None:
    refused(kind, call, *words)


OPTIONS: list[tuple[type[IsoradixError], dict[str, Any], str]] = [
    (InvalidInputError, {"host_pages": 1 << 31}, "host_pages 2147483648 is out of range"),
    (InputTypeError, {"agreement": 10}, "agreement is an int (10), expected an Agreement"),
    (InvalidInputError, {"page_size": 0}, "page_size 0 is out of range"),
    (InvalidInputError, {"policy": "best"}, 'policy "best"'),
    (InvalidInputError, {"writing": "through:0"}, 'writing "through:0" is unknown'),
    (InvalidInputError, {"writing": "back"}, 'writing "back" is unknown'),
    (InvalidInputError, {"writing": "back:-1"}, 'writing "back:-1" is unknown'),
    (InputTypeError, {"writing": 1}, "writing is an int (1), expected a str"),
    (InvalidInputError, {"load_back_min": -1}, "load_back_min -1 is out of range"),
    (InputTypeError, {"storage": "yes"}, "storage is a str ('yes'), expected a bool"),
    (InvalidInputError, {"window": 5000}, "window 5000 is out of range"),
    (InputTypeError, {"prefetch_patience": 1000}, "prefetch_patience is an int (1000), expected three ints or None"),
    (InvalidInputError, {"prefetch_patience": (1, 2, -3)}, "prefetch_patience -3 is out of range"),
]


@pytest.mark.parametrize(("kind", "options", "words"), OPTIONS, ids=lambda value: str(value)[:40])
def test_an_option_that_does_not_fit_is_named(kind: type[IsoradixError], options: dict[str, Any], words: str) -> None:
    refused(kind, lambda: TieredCache(**{"rank": 0, "host_pages": 10, "agreement": one(), **options}), words)


def test_what_belongs_together_is_made_once() -> None:
    (cache,) = setup([10])
    refused(InputTypeError, lambda: Rank.leader(PrefixCache(), Board(0), epoch=1), "cache is a PrefixCache")  # type: ignore[arg-type]
    refused(InputTypeError, lambda: Rank.leader(cache, None, epoch=1), "board is None")  # type: ignore[arg-type]
    refused(InvalidInputError, lambda: Rank.leader(cache, Board(1), epoch=1), "a board of rank 1 and window 64")
    refused(InvalidInputError, lambda: Rank.follower(cache, Board(0, 8), epoch=1), "rank 0 and window 8")
    refused(
        InvalidInputError, lambda: Rank.leader(cache, Board(0), epoch=1, first_step=0), "first_step 0 is out of range"
    )
    refused(InvalidInputError, lambda: Rank.leader(cache, Board(0), epoch=1, domain=-1), "domain -1")
    board = Board(0)
    rank = Rank.leader(cache, board, epoch=1)
    assert rank.cache is cache
    refused(InvalidInputError, lambda: Rank.leader(cache, Board(0), epoch=1), "this TieredCache has a rank already")
    (other,) = setup([10])
    refused(InvalidInputError, lambda: Rank.leader(other, board, epoch=1), "this Board has a rank already")
    Rank.leader(other, Board(0), epoch=1).lead(0)
    votes, twin = VoteMachine(0, 1), VoteMachine(0, 1)
    vector = np.empty(votes.words, np.int64)
    refused(InvalidInputError, lambda: VoteMachine(0, 1, 8).fill(board, vector[:52]), "of rank 0 and window 8")
    refused(InvalidInputError, lambda: VoteMachine(3, 1).fill(board, vector), "a board of rank 0")
    votes.fill(board, vector)
    refused(InvalidInputError, lambda: twin.fill(board, vector), "is not that of this VoteMachine")
    refused(InvalidInputError, lambda: votes.complete(Board(0), vector), "is not that of this VoteMachine")
    votes.complete(board, vector)


def not_on_host(node: Node) -> NodeHandle:
    return next(info.handle for info in node.cache.walk() if not info.on_host)


CALLS: list[tuple[type[IsoradixError], Callable[[Any], object], list[str]]] = [
    (ProtocolError, lambda node: node.rank.lead(1), ["lead out of order: this rank follows"]),
    (ProtocolError, lambda node: node.rank.delivered(0), ["this rank follows"]),
    (ProtocolError, lambda node: node.rank.follow(b""), ["a frame of 64 bytes comes in 0 bytes"]),
    (InputTypeError, lambda node: node.rank.follow(None), ["frame is None, expected bytes"]),
    (ProtocolError, lambda node: node.rank.close_step(0), ["close_step out of order: no step is open"]),
    (InvalidInputError, lambda node: node.rank.close_step(-1), ["device_free -1 is out of range"]),
    (InvalidInputError, lambda node: node.rank.found(-1, 3), ["operation -1"]),
    (InvalidInputError, lambda node: node.rank.found(0, -3), ["tokens -3"]),
    (InvalidInputError, lambda node: node.rank.withdraw(-1), ["pages -1"]),
    (ProtocolError, lambda node: node.board.post_progress(99, 1), ["operation 99 is not issued on this rank: 3 are"]),
    (ProtocolError, lambda node: node.board.ended(99, True), ["operation 99 is in no FIFO of this rank"]),
    (ProtocolError, lambda node: node.board.finish(0), ["operation 0 has finished on this rank already"]),
    (InputTypeError, lambda node: node.board.ended(2, 1), ["succeeded is an int (1), expected a bool"]),
    (InvalidInputError, lambda node: node.board.abstain(2, "hits"), ['field "hits" is unknown']),
    (InputTypeError, lambda node: node.board.abstain_finished(2), ["kind is an int (2)"]),
    (InputTypeError, lambda node: node.board.pause("no"), ["paused is a str"]),
    (InvalidInputError, lambda node: node.board.digest(-1), ["step -1"]),
    (ProtocolError, lambda node: node.votes.complete(node.board, node.vector), ["no vote is in flight"]),
    (InputTypeError, lambda node: node.votes.fill(None, node.vector), ["board is None, expected a Board"]),
    (InputTypeError, lambda node: node.cache.prefetch_state(0), ["ticket is an int (0), expected a PrefetchTicket"]),
    (InputTypeError, lambda node: node.cache.poll_prefetch(0), ["ticket is an int (0), expected a PrefetchTicket"]),
    (InvalidInputError, lambda node: node.cache.host_lock(not_on_host(node)), ["is not on host"]),
    (ReceiptError, lambda node: node.cache.unlock_host(1 << 62), ["host lock receipt"]),
    (ReceiptError, lambda node: node.cache.load_back_need(1 << 62), ["host lock receipt"]),
    (InvalidInputError, lambda node: node.cache.evict_host(-1), ["pages -1"]),
    (InvalidInputError, lambda node: node.cache.evict(-1), ["num_tokens -1"]),
    (HeldError, lambda node: node.cache.remove_namespace((None, None)), ["locked or pinned"]),
    (InvalidInputError, lambda node: node.cache.prefetch([-1]), ["token -1 at index 0 is out of range"]),
    (InputTypeError, lambda node: node.cache.check(node.cache), ["pool is a TieredCache"]),
]


@pytest.mark.parametrize(("kind", "call", "words"), CALLS)
def test_a_call_that_does_not_fit_changes_nothing(
    unchanged: Any, kind: type[IsoradixError], call: Callable[[Any], object], words: list[str]
) -> None:
    refused(kind, lambda: call(unchanged), *words)


def test_frames_that_were_damaged_or_reordered_are_refused_and_the_right_one_is_taken(cluster: Cluster) -> None:
    leader, follower = cluster.nodes
    first = leader.rank.lead(100, cluster.newest, [Control.mode(1, 2)])
    leader.rank.close_step(0)
    second = leader.rank.lead(101)
    before = follower.evidence()
    for bit in range(0, 8 * len(first), 7):
        damaged = bytearray(first)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(ProtocolError, match="\nhint: "):
            follower.rank.follow(damaged)
    with pytest.raises(DivergenceError, match="got a frame of step") as caught:
        follower.rank.follow(second)
    assert caught.value.kind == "frame"
    assert follower.evidence() == before
    info = follower.rank.follow(np.frombuffer(first, np.uint8))
    assert info == read_frame(memoryview(first))
    with pytest.raises(ProtocolError, match="the step before is not closed"):
        follower.rank.follow(second)
    follower.rank.close_step(0)
    with pytest.raises(DivergenceError, match="got a frame of step"):
        follower.rank.follow(first)


@pytest.mark.parametrize("controls", [7, [7], ["stop"], [Control.stop(), None]], ids=repr)
def test_decisions_are_controls(cluster: Cluster, controls: Any) -> None:
    leader = cluster.nodes[0]
    before = leader.evidence()
    refused(InputTypeError, lambda: leader.rank.lead(100, None, controls), "controls")
    assert leader.evidence() == before


def test_a_leader_is_given_votes_and_a_clock_and_not_too_much_of_anything(cluster: Cluster) -> None:
    leader: Any = cluster.nodes[0]
    before = leader.evidence()
    refused(InputTypeError, lambda: leader.rank.lead(100, leader.vector), "newest is a", "expected a Reduced")
    refused(InvalidInputError, lambda: leader.rank.lead(-1), "now_ms -1 is out of range")
    many = [Control.terminate(0)] * 1025
    refused(InvalidInputError, lambda: leader.rank.lead(100, None, many), "controls 1025 is out of range: 0 to 1024")
    refused(ProtocolError, lambda: leader.rank.follow(leader.rank.lead(100)), "follow out of order: this rank leads")
    assert leader.evidence() != before


def test_what_another_cache_gave_out_is_refused(cluster: Cluster) -> None:
    ours, theirs = (node.cache for node in cluster.nodes)
    found = cluster.all(lambda node: node.find(KEY))
    receipts = [node.cache.host_lock(node.find(KEY).host_node) for node in cluster.nodes]
    assert cluster.nodes[0].find(KEY) == found, "equal, though each has its own handles"
    hint = "of another TieredCache; give it to the cache that it came from"
    refused(ReceiptError, lambda: ours.unlock_host(receipts[1]), "host lock receipt", "of this cache")
    with pytest.raises(ReceiptError, match=hint):
        ours.load_back(receipts[1], list(range(40)))
    with pytest.raises(StaleHandleError, match=hint):
        ours.node(theirs.match_prefix(KEY).host_node)
    ticket = theirs.prefetch(list(range(900, 1300)))
    assert ticket is not None
    refused(InvalidInputError, lambda: ours.prefetch_state(ticket), "PrefetchTicket(0) is of another TieredCache")
    # A lock is no host lock, whatever tells them apart.
    refused(ReceiptError, lambda: ours.unlock_host(ours.lock(ours.match_prefix(KEY).node)), "host lock receipt")  # type: ignore[arg-type]
    refused(ReceiptError, lambda: ours.unlock(receipts[0]), "lock receipt")  # type: ignore[arg-type]


def test_a_load_back_takes_exactly_what_it_needs(cluster: Cluster) -> None:
    cache = cluster.nodes[0].cache
    receipt = cache.host_lock(cache.match_prefix(KEY).host_node)
    assert cache.load_back_need(receipt) == 40
    before = cache.decision_digest
    refused(InvalidInputError, lambda: cache.load_back(receipt, [1] * 39), "slots has length 39, expected 40")
    refused(InvalidInputError, lambda: cache.load_back(receipt, [-1] * 40), "slot -1 at index 0")
    refused(InputTypeError, lambda: cache.load_back(receipt, np.zeros(40)), "slots has items of type float64")  # type: ignore[arg-type]
    assert (cache.decision_digest, cache.match_prefix(KEY).hit_tokens) == (before, 0)
    assert cache.load_back(receipt, np.arange(40, dtype=np.int32)) == 40
    refused(ReceiptError, lambda: cache.unlock_host(receipt), "is not outstanding")


# vectors of a vote


def in_torch(words: int) -> Any:
    torch = pytest.importorskip("torch")
    return torch.empty(words, dtype=torch.int64)


FORMS: dict[str, Callable[[int], Any]] = {
    "numpy": lambda words: np.empty(words, np.int64),
    "a slice": lambda words: np.empty(words + 2, np.int64)[1:-1],
    "longlong": lambda words: np.empty(words, np.longlong),
    "torch": in_torch,
    "torch, through numpy": lambda words: in_torch(words).numpy(),
    "array": lambda words: array.array("q", bytes(8 * words)),
    "memoryview": lambda words: memoryview(bytearray(8 * words)).cast("q"),
    "ctypes": lambda words: (ctypes.c_int64 * words)(),
}


@pytest.mark.parametrize("make", FORMS.values(), ids=FORMS.keys())
def test_a_ballot_is_written_where_it_is_to_lie(make: Callable[[int], Any]) -> None:
    cluster = Cluster([10, 20], window=3)
    cluster.step(lambda node: node.insert(range(5)))
    assert cluster.nodes[0].votes.words == 20 + 4 * 3
    vectors = [make(node.votes.words) for node in cluster.nodes]
    for round_ in range(3):
        for node, vector in zip(cluster.nodes, vectors, strict=True):
            node.votes.fill(node.board, vector)
            words = list(memoryview(vector.numpy() if hasattr(vector, "numpy") else vector).cast("B").cast("q"))
            assert words[:6] == [round_, ~round_, 7, ~7, 0, ~0]
            assert words[13] == [10, 20][node.rank.rank], "backable"
        reduced = np.minimum.reduce([np.asarray(vector) for vector in vectors])
        for vector in vectors:
            np.asarray(vector)[:] = reduced
        answers = [node.votes.complete(node.board, vector) for node, vector in zip(cluster.nodes, vectors, strict=True)]
        assert [answer.vote for answer in answers] == [round_] * 2
        cluster.newest = answers[0]
        cluster.step()


def test_torch_reduces_what_was_filled_in_place() -> None:
    torch = pytest.importorskip("torch")
    cluster = Cluster([10, 10])
    cluster.step(lambda node: node.insert(range(5)))
    for node in cluster.nodes:
        node.board.ended(0, True)
    tensors = [torch.empty(node.votes.words, dtype=torch.int64) for node in cluster.nodes]
    addresses = [tensor.data_ptr() for tensor in tensors]
    for node, tensor in zip(cluster.nodes, tensors, strict=True):
        node.votes.fill(node.board, tensor)
    torch.minimum(tensors[0], tensors[1], out=tensors[0])
    for node in cluster.nodes:
        cluster.newest = node.votes.complete(node.board, tensors[0])
    cluster.step()
    assert cluster.all(lambda node: node.cache.sizes.host_total) == 5
    assert [tensor.data_ptr() for tensor in tensors] == addresses
    node = cluster.nodes[0]
    for wrong, words in (
        (torch.empty(node.votes.words, dtype=torch.int32), ["out has items of type int32; accepted is int64"]),
        (torch.empty(node.votes.words, device="meta", dtype=torch.int64), ["on meta", "CPU tensors of int64"]),
        (torch.empty(2 * node.votes.words, dtype=torch.int64)[::2], ["out is not contiguous"]),
    ):
        refused(InputTypeError, partial(node.votes.fill, node.board, wrong), *words)


def read_only(words: int) -> Any:
    vector = np.empty(words, np.int64)
    vector.flags.writeable = False
    return vector


WRONG: dict[str, tuple[type[IsoradixError], Callable[[int], Any], str]] = {
    "a list": (InputTypeError, lambda words: [0] * words, "out is a list; accepted are"),
    "None": (InputTypeError, lambda words: None, "out is None; accepted are"),
    "read-only": (InputTypeError, read_only, "out is read-only"),
    "bytes": (InputTypeError, lambda words: memoryview(bytes(8 * words)).cast("q"), "out is read-only"),
    "int32": (
        InputTypeError,
        lambda words: np.empty(words, np.int32),
        "out has items of type int32; accepted is int64",
    ),
    "uint32": (InputTypeError, lambda words: array.array("I", bytes(4 * words)), "accepted is int64"),
    "float": (InputTypeError, lambda words: np.empty(words), "out has items of type float64; accepted is int64"),
    "big-endian": (InputTypeError, lambda words: np.empty(words, ">i8"), "byte order"),
    "columns": (InputTypeError, lambda words: np.empty((words, 1), np.int64), "out has 2 dimensions"),
    "strided": (InputTypeError, lambda words: np.empty(2 * words, np.int64)[::2], "out is not contiguous"),
    "unaligned": (InputTypeError, lambda words: np.empty(8 * words + 1, np.uint8)[1:].view(np.int64), "not aligned"),
    "short": (InvalidInputError, lambda words: np.empty(words - 1, np.int64), "ballot has length 275, expected 276"),
    "empty": (InvalidInputError, lambda words: np.empty(0, np.int64), "ballot has length 0, expected 276"),
}


@pytest.mark.parametrize(("kind", "make", "words"), WRONG.values(), ids=WRONG.keys())
def test_no_other_vector_is_written_to(
    cluster: Cluster, kind: type[IsoradixError], make: Callable[[int], Any], words: str
) -> None:
    node = cluster.nodes[0]
    refused(kind, lambda: node.votes.fill(node.board, make(node.votes.words)), words)
    assert not node.votes.in_flight
    cluster.vote()


def test_a_reduced_vector_may_be_read_only_and_has_the_right_length(cluster: Cluster) -> None:
    node = cluster.nodes[0]
    node.votes.fill(node.board, node.vector)
    refused(ProtocolError, lambda: node.votes.fill(node.board, node.vector), "the vote before is not completed")
    refused(InputTypeError, lambda: node.votes.complete(node.board, [1, 2]), "reduced is a list")  # type: ignore[arg-type]
    with pytest.raises(DivergenceError, match="got a vector of 3 words, expected 276") as caught:
        node.votes.complete(node.board, node.vector[:3])
    assert (caught.value.kind, caught.value.ranks) == ("shape", (0,))
    node.vector.flags.writeable = False
    assert node.votes.complete(node.board, node.vector).vote == node.votes.vote - 1


def test_books_that_do_not_fit_into_memory_are_refused() -> None:
    source = """
import resource
from isoradix import OutOfSlotsError, StartRecord, TieredCache, agree
resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
agreement = agree([StartRecord(0, 1, 100).to_bytes()])
try:
    TieredCache(rank=0, host_pages=2**31 - 1, agreement=agreement)
except OutOfSlotsError as error:
    print(error)
TieredCache(rank=0, host_pages=100, agreement=agreement)
"""
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("no memory for the books of 2147483647 host pages: 25769803764 bytes\nhint: ")
