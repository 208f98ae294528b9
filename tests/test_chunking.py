"""Dynamic chunks: exact, equal on all ranks, and made by one rank's measurements."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isoradix import Control, InputTypeError, InvalidInputError, read_frame
from isoradix._isoradix import next_chunk
from isoradix.chunking import CHUNK_KEY, ChunkModel, ChunkSizer, global_token_counts, profile, profile_lengths

from .test_ranks import Cluster

SERVER = {"base": 8192, "page_size": 64, "context": 1_048_576, "most": 16_384}


def exact(a: Fraction, b: Fraction, history: int, base: int, page_size: int, context: int, most: int) -> int | None:
    """The same by rational arithmetic, with a root that is cut down to a bracket as narrow as the answer needs."""
    aligned = max(page_size, 64)
    room = min(context - history - 100, most) // aligned * aligned
    if room < aligned:
        return None
    target = a * base * base + b * base
    slope = 2 * a * history + b
    # x = (-B + sqrt(B^2 + 4 a T)) / 2a; the root of a fraction p/q is sqrt(p q)/q
    inside = slope * slope + 4 * a * target
    scale = 2**300
    root = math.isqrt(inside.numerator * inside.denominator * scale * scale)
    low, high = (
        (Fraction(3, 4) * ((Fraction(each, inside.denominator * scale) - slope) / (2 * a) - base) + base)
        for each in (root, root + (root * root != inside.numerator * inside.denominator * scale * scale))
    )
    chunk = max(math.floor(low), base // 4) // aligned
    assert max(math.floor(high), base // 4) // aligned == chunk, "the bracket does not settle it"
    return min(max(chunk, 1) * aligned, room)


positive = st.floats(min_value=1e-12, max_value=1e3, allow_subnormal=False)
tokens = st.integers(1, 2**20)


@given(
    a=positive,
    b=st.just(0.0) | positive,
    history=st.integers(0, 2**21),
    base=tokens | st.integers(1, 2**14).map(lambda pages: 64 * pages),
    page_size=st.sampled_from([1, 16, 64, 100, 128, 1024]),
    context=st.integers(1, 2**21),
    most=tokens,
)
def test_a_chunk_is_what_exact_arithmetic_says(
    a: float, b: float, history: int, base: int, page_size: int, context: int, most: int
) -> None:
    rule = {"base": base, "page_size": page_size, "context": context, "most": most}
    assert next_chunk(a, b, history, **rule) == exact(Fraction(a), Fraction(b), history, **rule)


@given(ratio=st.integers(0, 200), a=st.integers(1, 50), history=st.integers(0, 3000), pages=st.integers(4, 100))
def test_a_root_that_is_whole_is_taken_whole(ratio: int, a: int, history: int, pages: int) -> None:
    """Coefficients for which the chunk comes to a multiple of 64 exactly, where rounded roots lose a page."""
    base = 256 * pages
    rule = {"base": base, "page_size": 64, "context": 2**30, "most": 2**30}
    b = a * ratio
    assert next_chunk(float(a), float(b), 0, **rule) == base, "without a history the chunk is the base"
    assert next_chunk(float(a), float(b), history, **rule) == exact(Fraction(a), Fraction(b), history, **rule)


def test_the_known_inputs() -> None:
    assert next_chunk(2e-6, 0.03, 0, base=4096, page_size=64, context=2**20, most=2**20) == 4096
    histories = (0, 8192, 32_768, 131_072, 262_144, 524_288, 1_048_000)
    chunks = [next_chunk(1e-6, 0.02, history, **SERVER) for history in histories]
    assert chunks == [8192, 6144, 3968, 2624, 2304, 2176, 448]
    assert next_chunk(1e-6, 0.02, 1_048_576, **SERVER) is None


def test_a_last_bit_on_one_rank_changes_no_ranks_chunk() -> None:
    """Each rank has measured a model of its own, a last bit apart, where that bit is a page; the leader's is agreed."""
    rule = {**SERVER, "base": 512}
    own = [ChunkModel(1.0, 32.0), ChunkModel(math.nextafter(1.0, 2), 32.0), ChunkModel(1.0, math.nextafter(32.0, 0))]
    assert [next_chunk(model.a, model.b, 400, **rule) for model in own] == [320, 256, 256], (
        "by its own, each rank parts"
    )
    cluster = Cluster([10, 10, 10])
    sizers = [ChunkSizer(**rule) for _ in own]
    assert [sizer.next_chunk(400) for sizer in sizers] == [None] * 3, "chunks keep their size before there is a model"
    frame = read_frame(cluster.enter(sizers[0].controls(own[0])))
    cluster.close()
    for sizer in sizers:
        sizer.hear(frame.controls)
    assert {sizer.coefficients for sizer in sizers} == {(1.0, 32.0)}
    assert [sizer.next_chunk(400) for sizer in sizers] == [320] * 3
    assert {tuple(sizer.next_chunk(history) for history in range(0, 1_048_576, 4096)) for sizer in sizers} == {
        tuple(next_chunk(1.0, 32.0, history, **rule) for history in range(0, 1_048_576, 4096))
    }


def test_a_model_is_fitted_to_what_the_leader_measured() -> None:
    lengths = profile_lengths(8192, 1_048_576, 16_384)
    assert (lengths[0], lengths[1], len(lengths), min(lengths)) == (10_240, 10_160, 128, 80)
    noise = np.random.Generator(np.random.PCG64(1)).normal(0, 0.01, len(lengths))
    times = [1e-6 * length * length + 0.02 * length + 5 for length in lengths] + noise
    times[0] += 1e6  # the device was cold
    model = ChunkModel.fit(lengths, list(times))
    assert model is not None
    assert model.a == pytest.approx(1e-6, rel=0.01)
    assert model.b == pytest.approx(0.02, rel=0.01)
    assert model.milliseconds(1000) == pytest.approx(26, rel=0.01)


def test_lengths_stay_within_every_limit() -> None:
    assert profile_lengths(100, 50, 80)[:3] == [50, 49, 48]
    assert len(profile_lengths(100, 50, 80)) == 50
    assert profile_lengths(8192, 1_048_576, 1000)[0] == 1000
    with pytest.raises(InvalidInputError, match="base is 0, limit 1"):
        profile_lengths(0, 1, 1)


def test_times_that_do_not_curve_give_no_model() -> None:
    lengths = list(range(1, 20))
    assert ChunkModel.fit(lengths, [100.0 - length * length for length in lengths]) is None
    falling = ChunkModel.fit(lengths, [float((length - 15) ** 2) for length in lengths])
    assert falling is not None
    assert falling.b == 0, "time does not fall with length"


@pytest.mark.parametrize(
    ("lengths", "times", "said"),
    [
        (range(8), range(8), "7 lengths are left after the first, limit 8"),
        ([5] * 20, range(20), "1 lengths are left after the first, limit 8"),
        (range(20), range(19), "20 lengths and 19 times were given"),
        (range(20), [*range(19), math.nan], "a length or a time is not finite"),
    ],
)
def test_too_little_to_fit_is_refused(lengths: list[int], times: list[float], said: str) -> None:
    with pytest.raises(InvalidInputError, match=said):
        ChunkModel.fit(lengths, times)


def test_what_is_out_of_range_is_refused_and_changes_nothing() -> None:
    for values, said in (
        ({"base": 0}, "base 0 is out of range"),
        ({"page_size": 1025}, "page_size 1025"),
        ({"key": 2**32 - 1}, "key is 4294967295"),
    ):
        with pytest.raises(InvalidInputError, match=said):
            ChunkSizer(**{**SERVER, **values})
    with pytest.raises(InputTypeError, match=r"a is a str \('x'\), expected a number"):
        next_chunk("x", 0.0, 0, **SERVER)  # type: ignore[arg-type]
    for a, b in ((0.0, 1.0), (math.inf, 1.0), (1.0, -1.0), (math.nan, 0.0)):
        with pytest.raises(InvalidInputError, match="expected"):
            ChunkModel(a, b)
        with pytest.raises(InvalidInputError, match="expected"):
            next_chunk(a, b, 0, **SERVER)
    sizer = ChunkSizer(**SERVER)
    sizer.hear(sizer.controls(ChunkModel(1e-6, 0.02)))
    with pytest.raises(InvalidInputError, match=f"sets switch {CHUNK_KEY} alone"):
        sizer.hear([Control.mode(CHUNK_KEY, 1)])
    sizer.hear([Control.stop(), Control.mode(7, 1)])
    assert sizer.coefficients == (1e-6, 0.02)


def test_a_profile_runs_every_length_in_turn() -> None:
    ran: list[int] = []
    measured = list(profile(ran.append, [30, 20, 10]))
    assert ran == [length for length, _ in measured] == [30, 20, 10]
    assert all(time >= 0 for _, time in measured)
    assert global_token_counts(30, 1, 4) == [0, 30, 0, 0]
    with pytest.raises(InvalidInputError, match="replica 4 of 4"):
        global_token_counts(1, 4, 4)
