"""A DCP plan for a long prompt against a straightforward numpy version of the same arithmetic, and descriptor counts.

The straightforward version is the definition written down in numpy: one position per token, divided for its page and again
for its row. It checks nothing; ours checks every number, and both get the page tables as arrays in a shuffled order, the
way a busy pool hands pages out (the hardest order to check for duplicates). Descriptors are counted after merging runs:
read where the rows lie (dense), and after a gather into one buffer (packed).
"""

from __future__ import annotations

from timeit import Timer

import numpy as np

from kvpoll.protocol.plans import RowPlan, plan_dcp_draft, plan_dcp_relayout
from kvpoll.protocol.plans.pages import Int64

from .result import Bare, Result, interleave

__all__ = ["TOKENS", "arguments", "run", "straightforward"]

TOKENS = 131_072
#: Mark: time of ours over time of the straightforward version.
MARK = 1.0
#: Page size and DCP size: usual ones, one whose rows do not fit pages evenly, and pages of one token.
_SHAPES = ((64, 2), (64, 4), (64, 8), (64, 3), (1, 4))


def run(quick: bool = False) -> list[Result]:
    """Some five seconds; a moment when ``quick``. Raises ``RuntimeError`` if the two versions differ."""
    rounds, number = (3, 3) if quick else (30, 20)
    return [_against(size, ranks, rounds, number) for size, ranks in _SHAPES] + [
        *(_descriptors(order, shuffled) for order, shuffled in (("consecutive", False), ("shuffled", True)))
    ]


def straightforward(
    *,
    src_page_indices: Int64,
    dst_page_indices: Int64,
    physical_page_size: int,
    dcp_size: int,
    dcp_rank: int,
    src_page_offset: int,
    decode_prefix_len: int,
    num_kv_tokens: int,
) -> tuple[Int64, Int64]:
    """Source and destination rows by the definition, nothing checked."""
    sent = src_page_offset * physical_page_size
    first = (dcp_rank - decode_prefix_len - sent) % dcp_size
    offsets = np.arange(first, num_kv_tokens, dcp_size, dtype=np.int64)
    local = (sent + offsets) // dcp_size
    return (
        src_page_indices[offsets // physical_page_size] * physical_page_size + offsets % physical_page_size,
        dst_page_indices[local // physical_page_size] * physical_page_size + local % physical_page_size,
    )


def arguments(size: int, ranks: int, shuffled: bool = True) -> dict[str, object]:
    """A request of :data:`TOKENS` tokens that rank 1 gets its rows of. Pools are twice as large as the request."""
    rng = np.random.default_rng(7)

    def pages(count: int) -> Int64:
        return rng.permutation(2 * count)[:count].astype(np.int64) if shuffled else np.arange(count, dtype=np.int64)

    return {
        "src_page_indices": pages(-(-TOKENS // size)), "dst_page_indices": pages(-(-TOKENS // (size * ranks))),
        "physical_page_size": size, "dcp_size": ranks, "dcp_rank": 1, "src_page_offset": 0, "decode_prefix_len": 0,
        "num_kv_tokens": TOKENS,
    }  # fmt: skip


def _against(size: int, ranks: int, rounds: int, number: int) -> Result:
    given = arguments(size, ranks)
    names = {"given": given, "ours": plan_dcp_relayout, "plain": straightforward}
    plan, rows = _plan(given), straightforward(**given)  # type: ignore[arg-type]  # the dict is of mixed types
    if not (np.array_equal(plan.src_rows, rows[0]) and np.array_equal(plan.dst_rows, rows[1])):
        raise RuntimeError(f"pages of {size}, {ranks} ranks: the two versions differ")
    timers = {name: Timer(f"{name}(**given)", globals=names) for name in ("ours", "plain")}
    timed = interleave(timers, dict.fromkeys(timers, 1), rounds, number)
    return Result(
        f"DCP plan, {TOKENS} tokens, page {size}, 1 of {ranks} ranks / plain numpy",
        timed["ours"].best / timed["plain"].best, MARK, says="minimum over rounds; ours checked, plain not",
        bare=(timed["ours"].bare("ours", "us"), timed["plain"].bare("plain", "us")),
    )  # fmt: skip


def _descriptors(order: str, shuffled: bool) -> Result:
    given = arguments(64, 4, shuffled)
    plan = _plan(given)
    draft = plan_dcp_draft(**{k: v for k, v in given.items() if k != "dcp_rank"})  # type: ignore[arg-type]
    counts = {
        "rows": len(plan), "dense": len(plan.runs()), "packed": len(plan.packed_runs()), "draft": len(draft.runs()),
    }  # fmt: skip
    return Result(
        f"descriptors per entry, page 64, 1 of 4 ranks, {order} pages",
        bare=tuple(Bare(name, count, "descriptors") for name, count in counts.items()),
    )


def _plan(given: dict[str, object]) -> RowPlan:
    return plan_dcp_relayout(**given)  # type: ignore[arg-type]
