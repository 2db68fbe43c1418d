"""Heads between TP sizes: every head of a destination comes from exactly one source, and the way back is the identity."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kvpoll.protocol.errors import LocalProtocolError
from kvpoll.protocol.plans import HeadSlice, Place, Shape, heads_of, slice_heads, sources_of

SIZES = (1, 2, 3, 4, 6, 8)


def worlds() -> Iterator[tuple[int, int, int]]:
    """Every (heads, source TP, destination TP) with small sizes that fit together."""
    for heads in SIZES:
        for s in SIZES:
            for d in SIZES:
                if not ((s % d and d % s) or (heads % s and s % heads) or (heads % d and d % heads)):
                    yield heads, s, d


def moved(heads: int, s: int, d: int, pools: list[list[str]]) -> list[list[str]]:
    """What the destination ranks hold after every slice was copied; a head that nobody brings stays empty."""
    out = [[""] * len(heads_of(kv_heads=heads, tp=d, rank=k)) for k in range(d)]
    for j in range(s):
        for k in range(d):
            cut = slice_heads(kv_heads=heads, src_tp=s, src_rank=j, dst_tp=d, dst_rank=k)
            assert out[k][cut.dst_lo : cut.dst_hi] == [""] * cut.count, "a head comes from two sources"
            out[k][cut.dst_lo : cut.dst_hi] = pools[j][cut.src_lo : cut.src_hi]
    return out


def pools_of(heads: int, tp: int) -> list[list[str]]:
    return [[f"head {h}" for h in heads_of(kv_heads=heads, tp=tp, rank=rank)] for rank in range(tp)]


def test_every_head_of_every_destination_comes_from_exactly_one_source_and_is_the_right_one() -> None:
    for heads, s, d in worlds():
        assert moved(heads, s, d, pools_of(heads, s)) == pools_of(heads, d), (heads, s, d)


def test_there_and_back_is_the_identity() -> None:
    for heads, s, d in worlds():
        pools = [[f"{name} of rank {r // max(1, s // heads)}" for name in p] for r, p in enumerate(pools_of(heads, s))]
        assert moved(heads, d, s, moved(heads, s, d, pools)) == pools, (heads, s, d)


def test_ranks_that_bring_heads_are_the_real_sources() -> None:
    for heads, p, d in worlds():
        for k in range(d):
            real = {s.place.tp for s in sources_of(Place(k), Shape(p), Shape(d), mla=False, kv_heads=heads) if s.real}
            bring = {
                j for j in range(p) if slice_heads(kv_heads=heads, src_tp=p, src_rank=j, dst_tp=d, dst_rank=k).count
            }
            assert real == bring, (heads, p, d, k)


@pytest.mark.parametrize(
    ("heads", "s", "j", "d", "k", "cut"),
    [
        (8, 2, 0, 4, 1, HeadSlice(2, 4, 0, 2)),
        (8, 2, 0, 4, 2, HeadSlice(0, 0, 0, 0)),
        (8, 4, 3, 2, 1, HeadSlice(0, 2, 2, 4)),
        (2, 8, 4, 4, 2, HeadSlice(0, 1, 0, 1)),
        (2, 8, 5, 4, 2, HeadSlice(0, 0, 0, 0)),
        (2, 1, 0, 8, 7, HeadSlice(1, 2, 0, 1)),
    ],
)
def test_slices_by_example(heads: int, s: int, j: int, d: int, k: int, cut: HeadSlice) -> None:
    assert slice_heads(kv_heads=heads, src_tp=s, src_rank=j, dst_tp=d, dst_rank=k) == cut


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"kv_heads": 0}, "kv_heads"),
        ({"src_tp": 0}, "src_tp"),
        ({"src_tp": 3}, "src_tp"),
        ({"dst_tp": 5}, "dst_tp"),
        ({"src_rank": 2}, "src_rank"),
        ({"dst_rank": -1}, "dst_rank"),
        ({"kv_heads": 6, "src_tp": 3}, "tp"),
        ({"kv_heads": 8.0}, "kv_heads"),
    ],
)
def test_what_cannot_be_is_refused(given: dict[str, int], field: str) -> None:
    fine = {"kv_heads": 8, "src_tp": 2, "src_rank": 0, "dst_tp": 2, "dst_rank": 0}
    with pytest.raises(LocalProtocolError) as refusal:
        slice_heads(**(fine | given))
    assert refusal.value.details["field"] == field
