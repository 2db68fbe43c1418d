"""Rows for decode-context-parallel ranks: the ranks share out the tokens, the way back gives them again, errors are named."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple, TypedDict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvpoll.protocol.errors import LocalProtocolError
from kvpoll.protocol.plans import RowPlan, plan_dcp_draft, plan_dcp_relayout
from kvpoll.protocol.plans.pages import Ids
from kvpoll.spec import Cause


class Case(NamedTuple):
    """A suffix that is sent in chunks."""

    size: int
    ranks: int
    prefix: int  #: in virtual pages
    tokens: int
    src: list[int]
    dst: list[int]


class Given(TypedDict, total=False):
    src_page_indices: Ids
    dst_page_indices: Ids
    physical_page_size: int
    dcp_size: int
    src_page_offset: int
    decode_prefix_len: int
    num_kv_tokens: int | None


@st.composite
def cases(draw: st.DrawFn) -> Case:
    size = draw(st.sampled_from((1, 2, 3, 4, 6, 8, 12)), label="page size")
    ranks = draw(st.integers(1, 8), label="ranks")
    tokens = draw(st.integers(0, 70), label="tokens")
    n_src, n_dst = -(-tokens // size), -(-tokens // (size * ranks))
    src = draw(st.permutations(range(n_src + 2)), label="source pages")
    dst = draw(st.permutations(range(n_dst + 2)), label="destination pages")
    more = draw(st.integers(0, 2), label="pages that are not needed")
    return Case(size, ranks, draw(st.integers(0, 3)), tokens, src[: n_src + more], dst[: n_dst + more])


def given_of(case: Case, first: int = 0, stop: int | None = None) -> Given:
    """The chunk of source pages ``[first, stop)``; the last chunk ends where the tokens end."""
    pages = case.src[first:stop]
    left = case.tokens - first * case.size
    return {
        "src_page_indices": pages,
        "dst_page_indices": case.dst,
        "physical_page_size": case.size,
        "dcp_size": case.ranks,
        "src_page_offset": first,
        "decode_prefix_len": case.prefix * case.size * case.ranks,
        "num_kv_tokens": max(0, min(left, len(pages) * case.size)),
    }


def tokens_of(case: Case) -> dict[int, int]:
    """Source row -> token."""
    return {case.src[t // case.size] * case.size + t % case.size: t for t in range(case.tokens)}


def rows(plan: RowPlan) -> list[tuple[int, int]]:
    return list(zip(plan.src_rows.tolist(), plan.dst_rows.tolist(), strict=True))


@given(cases())
def test_the_rows_of_all_ranks_partition_the_tokens_and_each_goes_to_its_owner(case: Case) -> None:
    token_at = tokens_of(case)
    seen: list[int] = []
    for rank in range(case.ranks):
        plan = plan_dcp_relayout(**given_of(case), dcp_rank=rank)
        tokens = [token_at[src] for src, _ in rows(plan)]
        assert all(token % case.ranks == rank for token in tokens)
        assert tokens == sorted(tokens)
        seen += tokens
    assert sorted(seen) == list(range(case.tokens))


@given(cases())
def test_what_the_ranks_hold_read_back_in_token_order_is_what_was_sent(case: Case) -> None:
    source = np.full((max(case.src, default=0) + 1) * case.size, -1)
    for row, token in tokens_of(case).items():
        source[row] = token
    pools = [np.full((max(case.dst, default=0) + 1) * case.size, -1) for _ in range(case.ranks)]
    for rank, pool in enumerate(pools):
        plan = plan_dcp_relayout(**given_of(case), dcp_rank=rank)
        pool[plan.dst_rows] = source[plan.src_rows]
    back = []
    for token in range(case.tokens):  # a decode rank finds token t of the request by the definition, not by a plan
        local = token // case.ranks
        back.append(pools[token % case.ranks][case.dst[local // case.size] * case.size + local % case.size])
    assert back == list(range(case.tokens))
    assert sum(int((pool >= 0).sum()) for pool in pools) == case.tokens, "a row was written that nobody owns"


@given(cases(), st.data())
def test_the_plans_of_chunks_one_after_the_other_are_the_plan_of_the_whole(case: Case, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(0, len(case.src)), max_size=4), label="cuts") | {0, len(case.src)})
    rank = data.draw(st.integers(0, case.ranks - 1), label="rank")
    whole, draft = rows(plan_dcp_relayout(**given_of(case), dcp_rank=rank)), rows(plan_dcp_draft(**given_of(case)))
    chunks = [given_of(case, lo, hi) for lo, hi in pairwise(cuts)]
    assert [row for chunk in chunks for row in rows(plan_dcp_relayout(**chunk, dcp_rank=rank))] == whole
    assert [row for chunk in chunks for row in rows(plan_dcp_draft(**chunk))] == draft


@given(cases())
def test_a_draft_plan_gives_every_rank_every_token_in_order(case: Case) -> None:
    plan = plan_dcp_draft(**given_of(case))
    virtual = case.size * case.ranks
    expected = [case.dst[t // virtual] * virtual + t % virtual for t in range(case.tokens)]
    assert plan.dst_rows.tolist() == expected
    assert [tokens_of(case)[row] for row in plan.src_rows.tolist()] == list(range(case.tokens))


@settings(max_examples=40)
@given(st.sampled_from((1, 3, 16, 48, 64, 128)), st.sampled_from((1, 2, 3, 4, 8, 16)), st.integers(0, 3000), st.data())
def test_long_plans_are_the_definition_written_out(size: int, ranks: int, tokens: int, data: st.DataObject) -> None:
    offset = data.draw(st.integers(0, 5), label="offset")
    rank = data.draw(st.integers(0, ranks - 1), label="rank")
    rng = np.random.default_rng(tokens)
    src = rng.permutation(-(-tokens // size) + 3)
    dst = rng.permutation(-(-(offset * size + tokens) // (size * ranks)) + 2)
    plan = plan_dcp_relayout(
        src_page_indices=src, dst_page_indices=dst, physical_page_size=size, dcp_size=ranks, dcp_rank=rank,
        src_page_offset=offset, decode_prefix_len=size * ranks, num_kv_tokens=tokens,
    )  # fmt: skip
    i = np.arange(tokens)
    i = i[(size * ranks + offset * size + i) % ranks == rank]
    q = (offset * size + i) // ranks
    assert np.array_equal(plan.src_rows, src[i // size] * size + i % size)
    assert np.array_equal(plan.dst_rows, dst[q // size] * size + q % size)


FINE: Given = {
    "src_page_indices": [10, 13],
    "dst_page_indices": [50],
    "physical_page_size": 4,
    "dcp_size": 2,
    "src_page_offset": 0,
    "decode_prefix_len": 0,
    "num_kv_tokens": 5,
}


def test_the_worked_example() -> None:
    plan = plan_dcp_relayout(**FINE, dcp_rank=0)
    assert rows(plan) == [(40, 200), (42, 201), (52, 202)]
    assert rows(plan_dcp_relayout(**FINE, dcp_rank=1)) == [(41, 200), (43, 201)]
    assert plan_dcp_draft(**FINE).dst_rows.tolist() == [400, 401, 402, 403, 404]
    assert (len(plan.runs()), len(plan.packed_runs())) == (3, 1)
    assert list(plan.packed_runs()) == [(0, 200, 3)]


def test_no_count_means_all_rows_of_the_source_pages() -> None:
    every = plan_dcp_relayout(**(FINE | {"num_kv_tokens": None}), dcp_rank=0)
    assert every.src_rows.tolist() == [40, 42, 52, 54]
    given: Given = {**FINE}
    del given["num_kv_tokens"]
    assert rows(plan_dcp_relayout(**given, dcp_rank=0)) == rows(every)


@pytest.mark.parametrize(
    "given",
    [
        {"src_page_indices": [], "num_kv_tokens": 0},
        {"src_page_indices": [], "num_kv_tokens": None},
        {"src_page_indices": [], "dst_page_indices": [], "num_kv_tokens": None},
        {"num_kv_tokens": 0},
        {"num_kv_tokens": 0, "dst_page_indices": []},
        {"num_kv_tokens": 0, "src_page_offset": 10_000},
        {"num_kv_tokens": 1, "dst_page_indices": []},
        {"num_kv_tokens": 1, "src_page_offset": 2},
        {"src_page_indices": np.array([]), "dst_page_indices": np.array([]), "num_kv_tokens": None},
    ],
)
def test_a_rank_that_owns_nothing_needs_no_destination(given: Given) -> None:
    plan = plan_dcp_relayout(**(FINE | given), dcp_rank=1)
    assert len(plan) == len(plan.runs()) == 0
    assert plan.src_rows.dtype == plan.dst_rows.dtype == np.int64


def test_a_rank_needs_only_the_pages_up_to_its_own_last_row() -> None:
    nine = FINE | {"src_page_indices": [1, 2, 3], "num_kv_tokens": 9}
    assert len(plan_dcp_relayout(**nine, dcp_rank=1)) == 4
    with pytest.raises(LocalProtocolError, match=r"at least 2 pages for tokens \[0, 9\), got 1"):
        plan_dcp_relayout(**nine, dcp_rank=0)
    with pytest.raises(LocalProtocolError, match=r"at least 2 pages for tokens \[0, 9\), got 1"):
        plan_dcp_draft(**nine)


REFUSED: list[tuple[dict[str, object], str, str]] = [
    ({"decode_prefix_len": 4}, "decode_prefix_len", "a multiple of the virtual page size 8, got 4"),
    ({"decode_prefix_len": -8}, "decode_prefix_len", "at least 0, got -8"),
    ({"src_page_offset": -1}, "src_page_offset", "at least 0, got -1"),
    ({"src_page_offset": 2}, "dst_page_indices", "at least 2 pages for tokens [8, 13), got 1"),
    ({"src_page_offset": 2, "decode_prefix_len": 16}, "dst_page_indices", "tokens [24, 29), got 1"),
    ({"dst_page_indices": []}, "dst_page_indices", "at least 1 pages for tokens [0, 5), got 0"),
    ({"dst_page_indices": [7, 8, 7]}, "dst_page_indices", "every page once, got 7 again at index 2"),
    ({"dst_page_indices": [-1]}, "dst_page_indices", "-1, no page, at index 0"),
    ({"src_page_indices": [4, -1]}, "src_page_indices", "-1, no page, at index 1"),
    ({"src_page_indices": [2**62, 1]}, "src_page_indices", f"{2**62} at index 0"),
    ({"dst_page_indices": [2**61]}, "dst_page_indices", f"{2**61} at index 0"),
    ({"src_page_indices": [1.5, 2]}, "src_page_indices", "float"),
    ({"src_page_indices": [True, 2]}, "src_page_indices", "bool"),
    ({"dst_page_indices": np.array([1.0])}, "dst_page_indices", "float64"),
    ({"dst_page_indices": np.array([[1]])}, "dst_page_indices", "2 dimensions"),
    ({"dst_page_indices": None}, "dst_page_indices", "NoneType"),
    ({"num_kv_tokens": -3}, "num_kv_tokens", "at least 0, got -3"),
    ({"num_kv_tokens": 9}, "num_kv_tokens", "at most 8, what 2 source pages of 4 hold, got 9"),
    ({"num_kv_tokens": 5.0}, "num_kv_tokens", "float 5.0"),
    ({"num_kv_tokens": True}, "num_kv_tokens", "bool True"),
    ({"src_page_indices": [], "num_kv_tokens": 1}, "num_kv_tokens", "at most 0, what 0 source pages of 4 hold, got 1"),
    ({"physical_page_size": 0}, "physical_page_size", "at least 1, got 0"),
    ({"physical_page_size": 2**40, "num_kv_tokens": None}, "num_kv_tokens", "in one plan"),
    ({"physical_page_size": 2**62, "dcp_size": 4}, "dcp_size", "a virtual page of at most"),
    ({"dcp_size": 0}, "dcp_size", "at least 1, got 0"),
    ({"dcp_size": -2}, "dcp_size", "at least 1, got -2"),
    ({"dcp_size": np.bool_(True)}, "dcp_size", "bool"),
]


@pytest.mark.parametrize(("given", "field", "says"), REFUSED)
def test_what_cannot_be_is_refused_before_any_work_by_field_and_number(
    given: dict[str, object], field: str, says: str
) -> None:
    for refused in (
        lambda: plan_dcp_relayout(**(FINE | given), dcp_rank=0),  # type: ignore[arg-type]
        lambda: plan_dcp_draft(**(FINE | given)),  # type: ignore[arg-type]
    ):
        with pytest.raises(LocalProtocolError) as refusal:
            refused()
        assert refusal.value.details["field"] == field
        assert refusal.value.cause is Cause.PLAN_REFUSED
        assert str(refusal.value).startswith(f"{field}: expected ")
        assert says in str(refusal.value)


@pytest.mark.parametrize("rank", [-1, 2, 100])
def test_a_rank_outside_its_size_is_refused_and_not_taken_modulo(rank: int) -> None:
    with pytest.raises(LocalProtocolError, match=f"dcp_rank: expected 0 to 1, got {rank}"):
        plan_dcp_relayout(**FINE, dcp_rank=rank)


def test_numbers_of_numpy_are_taken_and_the_plan_is_int64_of_its_own() -> None:
    src, dst = np.array([10, 13], np.uint16), np.array([50], np.int8)
    given = FINE | {"src_page_indices": src, "dst_page_indices": dst, "physical_page_size": np.int8(4)}
    plan = plan_dcp_relayout(**given, dcp_rank=np.uint64(0))  # type: ignore[arg-type]
    assert rows(plan) == [(40, 200), (42, 201), (52, 202)]
    assert src.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        plan.src_rows[0] = 1
    with pytest.raises(AttributeError):
        plan.src_rows = plan.dst_rows  # type: ignore[misc]


def test_enormous_pages_with_few_tokens_cost_what_the_tokens_cost() -> None:
    given = FINE | {"physical_page_size": 2**40, "src_page_indices": [3], "dst_page_indices": [5]}
    assert rows(plan_dcp_relayout(**given, dcp_rank=1)) == [(3 * 2**40 + 1, 5 * 2**40), (3 * 2**40 + 3, 5 * 2**40 + 1)]
    given = FINE | {"physical_page_size": 1, "src_page_indices": [3, 9], "dcp_size": 2**62, "num_kv_tokens": 2}
    assert rows(plan_dcp_relayout(**(given | {"dst_page_indices": [0]}), dcp_rank=1)) == [(9, 0)]


def test_a_plan_is_held_against_pools_by_who_knows_them() -> None:
    plan = plan_dcp_relayout(**FINE, dcp_rank=0)
    plan.check_pools(src_rows=53, dst_rows=203)
    with pytest.raises(LocalProtocolError, match="src_rows: expected ids from 0 to 51, got 52 at index 2"):
        plan.check_pools(src_rows=52, dst_rows=203)
    with pytest.raises(LocalProtocolError, match="dst_rows: expected ids from 0 to 200, got 201 at index 1"):
        plan.check_pools(src_rows=53, dst_rows=201)
    below = plan_dcp_relayout(**(FINE | {"dst_page_indices": [-2]}), dcp_rank=0)
    with pytest.raises(LocalProtocolError, match="got -8 at index 0"):
        below.check_pools(src_rows=53, dst_rows=203)
