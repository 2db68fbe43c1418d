"""Chunk sizes: fitted once, then the same at every rank, whole pages, always forward, and fixed where nothing was learnt."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvpoll.protocol.chunks import ChunkModel, next_chunk, prompt_chunks
from kvpoll.protocol.errors import LocalProtocolError

LENGTHS = [256 * i for i in range(1, 33)]
CONTEXT = 131_072


def seconds(a: float, b: float, c: float, lengths: list[int] = LENGTHS) -> list[float]:
    return [a * n * n + b * n + c for n in lengths]


def measured(times: list[float], lengths: list[int] = LENGTHS, base: int = 8192, page: int = 64) -> ChunkModel:
    return ChunkModel.measured(lengths, times, base=base, page=page, context=CONTEXT)


MODEL = measured(seconds(1e-9, 2e-5, 3e-3))


@st.composite
def models(draw: st.DrawFn) -> ChunkModel:
    page = draw(st.sampled_from((1, 16, 48, 64, 128)), label="page")
    base = page * draw(st.integers(1, 100), label="base in pages")
    context = base + draw(st.integers(0, 6000), label="context above base")
    finite = st.floats(-1e-3, 1e-3, allow_subnormal=True)
    a = draw(st.one_of(st.floats(1e-14, 1e-3), st.floats(0, 1e308), finite), label="a")
    b = draw(st.one_of(finite, st.floats(-1e308, 1e308)), label="b")
    return ChunkModel(base, page, context, a, b, 0.0)


# The fit ----------------------------------------------------------------------------------------------------------------
def test_the_fit_finds_the_coefficients_and_leaves_out_the_first_sample() -> None:
    times = seconds(1e-9, 2e-5, 3e-3)
    times[0] = 30.0
    model = measured(times)
    assert model.dynamic
    assert (model.a, model.b, model.c) == pytest.approx((1e-9, 2e-5, 3e-3), rel=1e-9)


def test_the_fit_is_the_least_squares_of_noisy_times() -> None:
    rng = np.random.default_rng(5)
    times = [t * float(rng.uniform(0.9, 1.1)) for t in seconds(3e-9, 1e-5, 2e-3)]
    model = measured(times)
    assert (model.a, model.b, model.c) == pytest.approx(tuple(np.polyfit(LENGTHS[1:], times[1:], 2)), rel=1e-6)


def test_long_prompts_do_not_eat_the_digits_of_the_fit() -> None:
    lengths = [1_000_000 + i for i in range(20)]
    model = ChunkModel.measured(lengths, seconds(1e-9, 2e-5, 3e-3, lengths), base=8192, page=64, context=2_000_000)
    # Exact arithmetic; what is left is the rounding of the times themselves, blown up by lengths this close together.
    assert model.a * 1e12 + model.b * 1e6 + model.c == pytest.approx(1e3 + 20 + 3e-3, rel=1e-9)


@pytest.mark.parametrize(("samples", "dynamic"), [(0, False), (1, False), (8, False), (9, True)])
def test_fewer_than_eight_samples_after_the_first_are_not_fitted(samples: int, dynamic: bool) -> None:
    assert measured(seconds(1e-9, 2e-5, 3e-3)[:samples], LENGTHS[:samples]).dynamic is dynamic


@pytest.mark.parametrize(
    "times",
    [
        pytest.param(seconds(0.0, 2e-5, 3e-3), id="a straight line may come out with any sign of a, here 0 or tiny"),
        pytest.param([0.01] * len(LENGTHS), id="constant"),
        pytest.param(seconds(-1e-9, 5e-5, 3e-3), id="a below 0"),
        pytest.param(seconds(1e-9, -2e-5, 1.0), id="a first chunk that takes less than none"),
    ],
)
def test_a_fit_that_says_nothing_leaves_fixed_chunks(times: list[float]) -> None:
    model = measured(times)
    assert not model.dynamic or model.a < 1e-15
    assert [b - a for a, b in prompt_chunks(model, 0, 5 * 8192)] == [8192] * 5


@pytest.mark.parametrize(
    ("lengths", "times", "field", "says"),
    [
        ([64, 128], [0.1], "seconds", "one for each of 2 lengths, got 1"),
        ([64, 128], [0.1, -0.2], "seconds[1]", "a time above 0, got -0.2"),
        ([64, 128], [0.0, 0.2], "seconds[0]", "a time above 0, got 0.0"),
        ([64, 128], [0.1, math.nan], "seconds[1]", "a finite number, got nan"),
        ([64, 128], [math.inf, 0.1], "seconds[0]", "a finite number, got inf"),
        ([64, 128], [0.1, "0.2"], "seconds[1]", "a finite number, got '0.2'"),
        ([64, 128], [0.1, True], "seconds[1]", "a finite number, got True"),
        ([64, 64], [0.1, 0.2], "lengths[1]", "above 64, the one before, got 64"),
        ([128, 64], [0.1, 0.2], "lengths[1]", "above 128, the one before, got 64"),
        ([0, 64], [0.1, 0.2], "lengths[0]", "at least 1, got 0"),
        ([64, 128.0], [0.1, 0.2], "lengths[1]", "an integer, got float 128.0"),
    ],
)
def test_bad_samples_are_refused_by_name(lengths: list[int], times: list[float], field: str, says: str) -> None:
    with pytest.raises(LocalProtocolError) as refusal:
        measured(times, lengths)
    assert refusal.value.details["field"] == field
    assert says in str(refusal.value)


# The broadcast ----------------------------------------------------------------------------------------------------------
@given(models())
def test_a_model_survives_the_broadcast_bit_by_bit(model: ChunkModel) -> None:
    assert ChunkModel.from_numbers(model.numbers()) == model
    assert ChunkModel.from_numbers(json.loads(json.dumps(model.numbers()))) == model
    assert ChunkModel.from_numbers(list(np.array(model.numbers(), np.float64))) == model
    assert all(type(number) in (int, float) for number in model.numbers())


@pytest.mark.parametrize(
    ("numbers", "field"),
    [
        ((8192, 64, CONTEXT), "numbers"),
        ((8192.5, 64, CONTEXT, 0.0, 0.0, 0.0), "base"),
        ((8192, 0, CONTEXT, 0.0, 0.0, 0.0), "page"),
        ((8192, 64, -1, 0.0, 0.0, 0.0), "context"),
        ((8192, 64, math.nan, 0.0, 0.0, 0.0), "context"),
        ((8192, 64, CONTEXT, math.nan, 0.0, 0.0), "a"),
        ((8192, 64, CONTEXT, 0.0, math.inf, 0.0), "b"),
        ((100, 64, CONTEXT, 0.0, 0.0, 0.0), "base"),
        ((True, 1, CONTEXT, 0.0, 0.0, 0.0), "base"),
    ],
)
def test_numbers_that_are_no_model_are_refused(numbers: tuple[float, ...], field: str) -> None:
    with pytest.raises(LocalProtocolError) as refusal:
        ChunkModel.from_numbers(numbers)
    assert refusal.value.details["field"] == field


# The sizes --------------------------------------------------------------------------------------------------------------
def test_the_first_chunk_is_the_base_and_later_ones_shrink_to_no_less_than_a_quarter() -> None:
    sizes = [b - a for a, b in prompt_chunks(MODEL, 0, 120_000)][:-1]
    assert sizes[0] == 8192
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] < 4096
    smallest = ChunkModel(8192, 64, 2**40, 1.0, 0.0, 0.0)
    assert next_chunk(smallest, at=2**39, remaining=9000) == 2048


def test_a_chunk_is_the_smoothed_solution_aligned_down() -> None:
    at, a, b = 32_768, MODEL.a, MODEL.b
    target = a * 8192**2 + b * 8192
    slope = 2 * a * at + b
    x = (-slope + math.sqrt(slope**2 + 4 * a * target)) / (2 * a)
    assert a * (at + x) ** 2 + b * (at + x) - (a * at**2 + b * at) == pytest.approx(target)
    assert next_chunk(MODEL, at=at, remaining=60_000) == int(8192 + 0.75 * (x - 8192)) // 64 * 64


def test_a_dynamic_chunk_stays_a_hundred_tokens_from_the_end_of_the_context() -> None:
    model = ChunkModel(8192, 64, 20_000, 1e-12, 1e-3, 0.0)
    assert next_chunk(model, at=16_384, remaining=3616) == (20_000 - 16_384 - 100) // 64 * 64
    assert next_chunk(model, at=19_840, remaining=160) == 160, "not one alignment is left: a fixed chunk"


def test_a_base_below_one_alignment_is_kept_because_buffers_are_made_for_it() -> None:
    assert next_chunk(ChunkModel(32, 16, 4096, 1e-9, 1e-5, 0.0), at=0, remaining=1000) == 32


def test_fixed_chunks_are_the_base_and_the_last_one_is_what_is_left() -> None:
    fixed = ChunkModel(256, 16, 4096)
    assert list(prompt_chunks(fixed, 32, 700)) == [(32, 288), (288, 544), (544, 700)]
    assert list(prompt_chunks(fixed, 32, 32)) == []


def test_a_limit_of_a_buffer_is_kept_in_whole_pages() -> None:
    assert next_chunk(MODEL, at=0, remaining=9000, most=1000) == 960
    assert next_chunk(ChunkModel(256, 16, 4096), at=0, remaining=9, most=16) == 9


@given(models(), st.data())
def test_chunks_cover_the_prompt_exactly_in_whole_pages_and_always_go_on(
    model: ChunkModel, data: st.DataObject
) -> None:
    start = model.page * data.draw(st.integers(0, model.context // model.page), label="start in pages")
    stop = data.draw(st.integers(start, model.context), label="stop")
    most = data.draw(st.one_of(st.none(), st.integers(max(model.page, 64), 4000)), label="most")
    chunks = list(prompt_chunks(model, start, stop, most=most))
    assert [t for lo, hi in chunks for t in (lo, hi)] == _stairs([start, *(hi for _, hi in chunks)])
    assert (chunks[-1][1] if chunks else start) == stop
    for lo, hi in chunks:
        assert 0 < hi - lo <= min(model.base, most or model.base)
        assert lo % model.page == 0


@given(models(), st.data())
def test_every_rank_cuts_at_the_same_tokens(model: ChunkModel, data: st.DataObject) -> None:
    stop = data.draw(st.integers(0, model.context), label="stop")
    other = ChunkModel.from_numbers(json.loads(json.dumps(model.numbers())))
    expected = list(prompt_chunks(model, 0, stop))
    assert list(prompt_chunks(other, 0, stop)) == expected
    for lo, hi in reversed(expected):  # asked in any order: nothing is remembered
        assert next_chunk(other, at=lo, remaining=stop - lo) == hi - lo


@given(st.integers(0, 100), st.integers(0, 100))
def test_a_chunk_further_on_is_never_longer(first: int, second: int) -> None:
    low, high = sorted((first * 1024, second * 1024))
    assert next_chunk(MODEL, at=low, remaining=9000) >= next_chunk(MODEL, at=high, remaining=9000)


@pytest.mark.parametrize(
    ("given", "field", "says"),
    [
        ({"at": -64}, "at", "at least 0, got -64"),
        ({"at": 63}, "at", "a multiple of the page size 64, got 63"),
        ({"remaining": 0}, "remaining", "at least 1, got 0"),
        (
            {"remaining": CONTEXT + 1},
            "remaining",
            f"at most {CONTEXT}, up to the context of {CONTEXT}, got {CONTEXT + 1}",
        ),
        ({"at": 64, "remaining": CONTEXT}, "remaining", f"at most {CONTEXT - 64}"),
        ({"most": 63}, "most", "at least 64, got 63"),
        ({"at": 0.0}, "at", "an integer"),
    ],
)
def test_a_place_that_cannot_be_is_refused(given: dict[str, int], field: str, says: str) -> None:
    with pytest.raises(LocalProtocolError) as refusal:
        next_chunk(MODEL, **({"at": 0, "remaining": 1000} | given))
    assert refusal.value.details["field"] == field
    assert says in str(refusal.value)


def test_the_alignment_is_whole_pages_of_64_tokens_or_more() -> None:
    assert [ChunkModel(p, p, p).alignment for p in (1, 16, 64, 128, 48)] == [64, 64, 64, 128, 96]


def _stairs(edges: list[int]) -> list[int]:
    return [edge for i in range(len(edges) - 1) for edge in (edges[i], edges[i + 1])]
