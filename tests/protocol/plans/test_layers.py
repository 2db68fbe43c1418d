"""Pipeline stages: global layer ids decide, and no layer of a destination is brought twice or left out."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvpoll.protocol.errors import LocalProtocolError
from kvpoll.protocol.plans import LayerSlice, plan_stages, slice_layers


@pytest.mark.parametrize(
    ("src", "dst", "cut"),
    [
        ((0, 4), (0, 8), LayerSlice(0, 4, 0, 4, 0, 4)),
        ((4, 8), (0, 8), LayerSlice(4, 8, 0, 4, 4, 8)),
        ((0, 8), (3, 5), LayerSlice(3, 5, 3, 5, 0, 2)),
        ((2, 6), (4, 9), LayerSlice(4, 6, 2, 4, 0, 2)),
        ((0, 4), (4, 8), LayerSlice(0, 0, 0, 0, 0, 0)),
    ],
)
def test_stages_share_the_layers_that_both_have(src: tuple[int, int], dst: tuple[int, int], cut: LayerSlice) -> None:
    assert slice_layers(src=src, dst=dst) == cut


@given(st.sets(st.integers(1, 30), max_size=6), st.integers(0, 29), st.integers(1, 12))
def test_the_stages_of_a_model_bring_every_layer_once(cuts: set[int], start: int, length: int) -> None:
    bounds = [0, *sorted(cuts), 50]
    stages = [(lo, hi) for lo, hi in pairwise(bounds) if lo < hi]
    dst = (start, start + length)
    pool: dict[int, int] = {}
    for (lo, _), cut in zip(stages, plan_stages(stages=stages, dst=dst), strict=True):
        for i in range(cut.count):
            assert pool.setdefault(cut.dst_lo + i, lo + cut.src_lo + i) == lo + cut.src_lo + i
    assert pool == {i: start + i for i in range(length)}


@pytest.mark.parametrize(
    ("stages", "says"),
    [
        ([(0, 2), (3, 6)], "layer 2 from one stage, got none"),
        ([(0, 3), (2, 6)], "layer 2 from one stage, got two"),
        ([(1, 6)], "layer 0 from one stage, got none"),
        ([(0, 4)], "layer 4 from one stage, got none"),
        ([], "layer 0 from one stage, got none"),
        ([(0, 6), (2, 3)], "layer 2 from one stage, got two"),
        ([(0, 6), (0, 6)], "layer 0 from one stage, got two"),
    ],
)
def test_a_layer_that_nobody_or_two_stages_bring_is_named(stages: list[tuple[int, int]], says: str) -> None:
    with pytest.raises(LocalProtocolError, match=f"stages: expected {says}"):
        plan_stages(stages=stages, dst=(0, 6))


@pytest.mark.parametrize(
    ("src", "dst", "field"),
    [((-1, 4), (0, 4), "src.start"), ((4, 4), (0, 4), "src.stop"), ((0, 4), (4, 3), "dst.stop")],
)
def test_a_span_without_layers_is_refused(src: tuple[int, int], dst: tuple[int, int], field: str) -> None:
    with pytest.raises(LocalProtocolError) as refusal:
        slice_layers(src=src, dst=dst)
    assert refusal.value.details["field"] == field
