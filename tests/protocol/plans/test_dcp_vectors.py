"""The recorded plans of the released planners: inside the valid domain ours agree row by row, the rest are refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TypedDict, cast

import numpy as np
import pytest

from kvpoll.protocol.errors import LocalProtocolError
from kvpoll.protocol.plans import (
    RowPlan,
    dcp_token_nbytes,
    needs_dcp_relayout,
    pair_entries,
    plan_dcp_draft,
    plan_dcp_relayout,
)

#: A list of numbers: [first, step, count] pieces.
Pieces = list[list[int]]
Inputs = dict[str, object]


class Vector(TypedDict, total=False):
    fn: str
    case: str
    release: str
    inputs: Inputs
    output: object
    error: str
    target_runs: int
    draft_runs: int


VECTORS = cast("list[Vector]", json.loads((Path(__file__).parent / "dcp_vectors.json").read_text("utf-8"))["vectors"])
#: What a released planner answers although it can't be right, so that we refuse it.
UNSOUND = {
    "edge_prefix_negative_aligned": "decode_prefix_len",
    "edge_rank_equal_size": "dcp_rank",
    "edge_rank_negative": "dcp_rank",
    "edge_duplicate_dst_pages_not_rejected": "dst_page_indices",
    "1to2_rank_out_of_range_not_checked": "dst_dcp_rank",
    "sub_token_difference_hidden_by_floor": "dst_page_nbytes[0]",
}
#: What 0.5.20 and later refuse only because they compute a draft plan that nobody asked for; 0.5.17 answers as we do.
NEEDLESS = ("edge_dst_pages_empty_but_rank_owns_nothing",)


def numbers(pieces: object) -> list[int]:
    return [first + step * i for first, step, count in cast(Pieces, pieces) for i in range(count)]


def of(fn: str) -> list[Vector]:
    return [v for v in VECTORS if v["fn"] == fn]


def named(vector: Vector) -> str:
    return f"{vector['case']}-{vector['release']}"


def planned(inputs: Inputs, make: Callable[..., RowPlan], as_pages: Callable[[list[int]], object]) -> RowPlan:
    given = inputs | {k: as_pages(numbers(inputs[k])) for k in ("src_page_indices", "dst_page_indices")}
    if make is plan_dcp_draft:
        del given["dcp_rank"]
    return make(**given)


def agrees(plan: RowPlan, output: dict[str, Pieces], which: str, runs: int) -> None:
    assert plan.src_rows.tolist() == numbers(output[f"{which}_src"])
    assert plan.dst_rows.tolist() == numbers(output[f"{which}_dst"])
    assert plan.src_rows.dtype == plan.dst_rows.dtype == np.int64
    assert len(plan.runs()) == runs


@pytest.mark.parametrize("vector", of("build_dcp_token_transfer_plan"), ids=named)
def test_plans_agree_with_the_recorded_ones_and_unsound_ones_are_refused(vector: Vector) -> None:
    inputs = vector["inputs"]
    if vector["case"] in UNSOUND or ("error" in vector and vector["case"] not in NEEDLESS):
        with pytest.raises(LocalProtocolError) as refusal:
            planned(inputs, plan_dcp_relayout, list)
        assert refusal.value.details["field"] == UNSOUND.get(vector["case"], refusal.value.details["field"])
        return
    plan = planned(inputs, plan_dcp_relayout, list)
    if "error" in vector:
        assert len(plan) == 0
        with pytest.raises(LocalProtocolError, match="dst_page_indices: expected at least 1 pages"):
            planned(inputs, plan_dcp_draft, list)
        return
    output = cast("dict[str, Pieces]", vector["output"])
    agrees(plan, output, "target", vector["target_runs"])
    if "draft_src" in output:
        agrees(planned(inputs, plan_dcp_draft, list), output, "draft", vector["draft_runs"])
    for kind in (tuple, lambda ids: np.array(ids, np.int32), lambda ids: np.array(ids, np.int64), np.array):
        again = planned(inputs, plan_dcp_relayout, kind)
        assert np.array_equal(again.src_rows, plan.src_rows)
        assert np.array_equal(again.dst_rows, plan.dst_rows)


def test_every_kind_of_vector_is_there() -> None:
    plans = of("build_dcp_token_transfer_plan")
    assert {v["release"] for v in plans} == {"0.5.17", "0.5.23"}
    assert sum("error" in v for v in plans) >= 10
    assert set(UNSOUND) | set(NEEDLESS) <= {v["case"] for v in VECTORS}


@pytest.mark.parametrize("vector", of("resolve_dcp_dst_entry_indices"), ids=named)
def test_entries_pair_as_recorded(vector: Vector) -> None:
    if "error" in vector:
        with pytest.raises(LocalProtocolError):
            pair_entries(**vector["inputs"])  # type: ignore[arg-type]
    else:
        assert list(pair_entries(**vector["inputs"])) == vector["output"]  # type: ignore[arg-type]


@pytest.mark.parametrize("vector", of("requires_dcp_relayout"), ids=named)
def test_the_need_for_a_relayout_is_as_recorded(vector: Vector) -> None:
    inputs, local = vector["inputs"], cast("dict[str, int]", vector["inputs"]["local"])

    def ours() -> bool:
        return needs_dcp_relayout(
            src_dcp_size=local.get("dcp", 1),
            src_dcp_rank=local.get("rank", 0),
            dst_dcp_size=cast(int, inputs["dst_dcp_size"]),
            dst_dcp_rank=cast(int, inputs["dst_dcp_rank"]),
            mla=bool(local.get("mla", True) or local.get("hyb", False)),
        )

    _same(vector, ours)


@pytest.mark.parametrize("vector", of("prepare_dcp_token_item_lens"), ids=named)
def test_row_widths_are_as_recorded(vector: Vector) -> None:
    inputs, local = vector["inputs"], cast("dict[str, object]", vector["inputs"]["local"])

    def ours() -> list[int]:
        return list(
            dcp_token_nbytes(
                physical_page_size=cast(int, inputs["page_size"]),
                dcp_size=cast(int, inputs["dst_dcp_size"]),
                src_page_nbytes=cast("list[int]", local["lens"]),
                dst_page_nbytes=cast("list[int | None]", inputs["dst_page_item_lens"]),
                n_draft=cast(int, local.get("draft", 0)),
            )
        )

    _same(vector, ours)


def _same(vector: Vector, ours: Callable[[], object]) -> None:
    if "error" in vector or vector["case"] in UNSOUND:
        with pytest.raises(LocalProtocolError) as refusal:
            ours()
        assert refusal.value.details["field"] == UNSOUND.get(vector["case"], refusal.value.details["field"])
    else:
        assert ours() == vector["output"]
