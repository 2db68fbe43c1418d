"""Who meets whom: both ends agree, every rank has a partner, and what can't be is refused by name."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest

from kvpoll.protocol.errors import LocalProtocolError
from kvpoll.protocol.plans.ranks import Place, Shape, Source, dcp_rank_of, readers_of, sources_of

SIZES = (1, 2, 3, 4, 6)


def places(shape: Shape, dp: int = 0) -> list[Place]:
    return [Place(tp, pp, cp, dp) for tp in range(shape.tp) for pp in range(shape.pp) for cp in range(shape.cp)]


def pairs() -> Iterator[tuple[Shape, Shape, bool]]:
    """Every pair of small shapes that fits together."""
    for p, d, pp, cp, mla in product(SIZES, SIZES, (1, 2, 3), (1, 2), (False, True)):
        if p % d and d % p:
            continue
        for decode_pp, decode_cp in product({1, pp}, {1, cp}):
            for dcp in (1, 2, 3) if mla else (1,):
                if d % dcp == 0:
                    yield Shape(p, pp, cp), Shape(d, decode_pp, decode_cp, 1, dcp), mla


def test_a_decode_rank_meets_exactly_the_prefill_ranks_that_wait_for_it() -> None:
    for prefill, decode, mla in pairs():
        met = {(s.place, k) for k in places(decode) for s in sources_of(k, prefill, decode, mla=mla)}
        waited = {(j, k) for j in places(prefill) for k in readers_of(j, prefill, decode, mla=mla)}
        assert met == waited, (prefill, decode, mla)
        assert {j for j, _ in met} == set(places(prefill)), "a prefill rank has no reader, and would wait for ever"


def test_every_rank_is_met_once() -> None:
    for prefill, decode, mla in pairs():
        for k in places(decode):
            met = [s.place for s in sources_of(k, prefill, decode, mla=mla)]
            assert len(met) == len(set(met))
            assert met == sorted(met)


def test_aux_comes_once_from_the_last_stage_and_from_a_rank_that_carries_rows() -> None:
    for prefill, decode, mla in pairs():
        for k in places(decode):
            aux = [s for s in sources_of(k, prefill, decode, mla=mla) if s.aux]
            expected = 1 if decode.pp == 1 or k.pp == prefill.pp - 1 else 0
            assert len(aux) == expected, (prefill, decode, k)
            assert all(s.real and s.place.pp == prefill.pp - 1 for s in aux)


@pytest.mark.parametrize(
    ("p", "d", "mla", "real", "empty"),
    [
        (4, 4, False, {0: [0], 3: [3]}, {}),
        (2, 8, False, {0: [0], 3: [0], 4: [1], 7: [1]}, {}),
        (8, 2, False, {0: [0, 1, 2, 3], 1: [4, 5, 6, 7]}, {}),
        (8, 2, True, {0: [0], 1: [4]}, {0: [1, 2, 3], 1: [5, 6, 7]}),
        (2, 4, True, {0: [0], 1: [0], 2: [1], 3: [1]}, {}),
    ],
)
def test_tensor_parallel_ranks_meet_as_the_table_of_the_engine_says(
    p: int, d: int, mla: bool, real: dict[int, list[int]], empty: dict[int, list[int]]
) -> None:
    for k, expected in real.items():
        met = sources_of(Place(k), Shape(p), Shape(d), mla=mla)
        assert [s.place.tp for s in met if s.real] == expected
        assert [s.place.tp for s in met if not s.real] == empty.get(k, [])


def test_a_prefill_rank_waits_for_as_many_decode_ranks_as_read_from_it() -> None:
    assert readers_of(Place(1), Shape(2), Shape(6), mla=False) == (Place(3), Place(4), Place(5))
    assert readers_of(Place(5), Shape(6), Shape(2), mla=False) == (Place(1),)


def test_stages_go_all_to_one_or_one_to_one() -> None:
    one = sources_of(Place(), Shape(pp=3), Shape(), mla=False)
    assert [(s.place.pp, s.real, s.aux) for s in one] == [(0, True, False), (1, True, False), (2, True, True)]
    equal = sources_of(Place(pp=1), Shape(pp=3), Shape(pp=3), mla=False)
    assert equal == (Source(Place(pp=1), real=True, aux=False),)
    assert readers_of(Place(pp=2), Shape(pp=3), Shape(), mla=False) == (Place(),)
    assert readers_of(Place(pp=2), Shape(pp=3), Shape(pp=3), mla=False) == (Place(pp=2),)


def test_context_parallel_copies_are_met_and_only_the_first_carries_rows() -> None:
    met = sources_of(Place(), Shape(cp=3), Shape(), mla=True)
    assert [(s.place.cp, s.real, s.aux) for s in met] == [(0, True, True), (1, False, False), (2, False, False)]
    alike = sources_of(Place(cp=2), Shape(cp=3), Shape(cp=3), mla=True)
    assert alike == (Source(Place(cp=2), real=True, aux=True),)


def test_the_named_replicas_are_kept() -> None:
    met = sources_of(Place(dp=1), Shape(tp=2, dp=4), Shape(tp=1, dp=2), mla=False, prefill_dp=3)
    assert {s.place.dp for s in met} == {3}
    assert readers_of(Place(dp=3), Shape(dp=4), Shape(dp=2), mla=False, decode_dp=1) == (Place(dp=1),)


def test_copies_of_a_head_are_met_but_only_the_first_is_real_when_the_heads_are_known() -> None:
    met = sources_of(Place(0), Shape(8), Shape(2), mla=False, kv_heads=4)
    assert [s.real for s in met] == [True, False, True, False]
    met = sources_of(Place(1), Shape(8), Shape(4), mla=False, kv_heads=2)
    assert [(s.place.tp, s.real) for s in met] == [(2, True), (3, False)]
    assert all(s.real for s in sources_of(Place(0), Shape(8), Shape(2), mla=False))


def test_the_dcp_rank_follows_from_the_tp_rank() -> None:
    assert [dcp_rank_of(Place(tp), Shape(tp=4, dcp=2)) for tp in range(4)] == [0, 1, 0, 1]


def test_numpy_numbers_are_numbers() -> None:
    assert sources_of(Place(int(np.int32(1))), Shape(np.int64(2)), Shape(2), mla=False) == (  # type: ignore[arg-type]
        Source(Place(1), real=True, aux=True),
    )


REFUSED = [
    (Place(), Shape(tp=3), Shape(tp=2), False, {}, "tp", "prefill 3, decode 2"),
    (Place(), Shape(tp=0), Shape(), False, {}, "prefill.tp", "got 0"),
    (Place(), Shape(), Shape(cp=0), False, {}, "decode.cp", "got 0"),
    (Place(tp=2), Shape(tp=2), Shape(tp=2), False, {}, "decode.tp.rank", "0 to 1, got 2"),
    (Place(tp=-1), Shape(tp=2), Shape(tp=2), False, {}, "decode.tp.rank", "got -1"),
    (Place(pp=1), Shape(pp=2), Shape(), False, {}, "decode.pp.rank", "got 1"),
    (Place(), Shape(pp=4), Shape(pp=2), False, {}, "pp", "decode 1 or 4, as prefill has, got 2"),
    (Place(), Shape(pp=1), Shape(pp=2), False, {}, "pp", "got 2"),
    (Place(), Shape(cp=4), Shape(cp=2), False, {}, "cp", "got 2"),
    (Place(), Shape(tp=4), Shape(tp=4, dcp=3), True, {}, "decode.dcp", "a divisor of tp 4, got 3"),
    (Place(), Shape(tp=4), Shape(tp=4, dcp=2), False, {}, "dcp", "got 2"),
    (Place(), Shape(tp=4, dcp=4), Shape(tp=4, dcp=2), True, {}, "dcp", "decode 4, as prefill has, got 2"),
    (Place(), Shape(tp=4, dcp=2), Shape(tp=4), True, {}, "dcp", "got 1"),
    (Place(), Shape(tp=2, dcp=2), Shape(tp=4, dcp=2), True, {}, "tp", "got 4"),
    (Place(), Shape(dp=2), Shape(), False, {"prefill_dp": 2}, "prefill_dp", "0 to 1, got 2"),
    (Place(), Shape(tp=4), Shape(tp=2), False, {"kv_heads": 6}, "prefill.tp", "6 KV heads, got 4"),
    (Place(), Shape(tp=2), Shape(tp=4), False, {"kv_heads": 6}, "decode.tp", "6 KV heads, got 4"),
    (Place(), Shape(tp=2), Shape(tp=4), False, {"kv_heads": 0}, "kv_heads", "got 0"),
    (Place(True), Shape(tp=2), Shape(tp=2), False, {}, "decode.tp.rank", "bool True"),
    (Place(1.0), Shape(tp=2), Shape(tp=2), False, {}, "decode.tp.rank", "float 1.0"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("place", "prefill", "decode", "mla", "more", "field", "says"), REFUSED)
def test_what_cannot_be_is_refused_by_field_and_number(
    place: Place, prefill: Shape, decode: Shape, mla: bool, more: dict[str, int], field: str, says: str
) -> None:
    with pytest.raises(LocalProtocolError) as refusal:
        sources_of(place, prefill, decode, mla=mla, **more)
    assert refusal.value.details["field"] == field
    assert str(refusal.value).startswith(f"{field}: expected ")
    assert says in str(refusal.value)


def test_the_prefill_end_refuses_what_the_decode_end_refuses() -> None:
    with pytest.raises(LocalProtocolError, match="tp: expected sizes"):
        readers_of(Place(), Shape(tp=3), Shape(tp=2), mla=False)
    with pytest.raises(LocalProtocolError, match=r"prefill.tp.rank: expected 0 to 1, got 2"):
        readers_of(Place(2), Shape(tp=2), Shape(tp=2), mla=False)
    with pytest.raises(LocalProtocolError, match=r"decode_dp: expected 0 to 0, got 1"):
        readers_of(Place(), Shape(), Shape(), mla=False, decode_dp=1)
