"""Ranges: pages, what a plan covers, what overlaps, and what cannot be a part of a request."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvpoll.protocol.coverage import covers, overlap, pages_for, part_fault
from kvpoll.spec.wire import Part, PartKind

from .pair import part, request


def cells(parts: list[Part]) -> list[tuple[int, int]]:
    """Every (layer, token) that KV parts carry, as often as they carry it."""
    return [
        (layer, token)
        for p in parts
        if p.kind is PartKind.KV
        for layer in range(p.layer_start, p.layer_stop)
        for token in range(p.start, p.stop)
    ]


@st.composite
def _parts(draw: st.DrawFn, tokens: int = 6, layers: int = 3) -> Part:
    start = draw(st.integers(0, tokens - 1), label="start")
    low = draw(st.integers(0, layers - 1), label="first layer")
    return part(
        start,
        draw(st.integers(start + 1, tokens), label="stop"),
        (low, draw(st.integers(low + 1, layers), label="last layer")),
        kind=draw(st.sampled_from((PartKind.KV, PartKind.KV, PartKind.KV, PartKind.AUX)), label="kind"),
    )


@pytest.mark.parametrize(
    ("start", "stop", "size", "pages"),
    [(0, 0, 4, 0), (3, 3, 4, 0), (0, 1, 4, 1), (0, 4, 4, 1), (0, 5, 4, 2), (3, 5, 4, 2), (4, 8, 4, 1), (5, 6, 4, 1)],
)
def test_pages_hold_the_tokens_and_a_shared_page_counts(start: int, stop: int, size: int, pages: int) -> None:
    assert pages_for(start, stop, size) == pages


@given(st.integers(0, 200), st.integers(0, 200), st.integers(1, 40))
def test_pages_are_those_that_a_token_of_the_range_lies_in(start: int, length: int, size: int) -> None:
    expected = len({token // size for token in range(start, start + length)})
    assert pages_for(start, start + length, size) == expected


@given(st.lists(_parts(), max_size=6))
def test_two_parts_overlap_when_they_share_a_token_of_a_layer(parts: list[Part]) -> None:
    for i, p in enumerate(parts):
        others = [q for q in parts[:i] if set(cells([p])) & set(cells([q]))]
        found = overlap(p, parts[:i])
        assert found == (others[0] if others else None)


@given(st.lists(_parts(), max_size=8), st.integers(0, 6))
def test_a_plan_covers_a_request_when_every_token_of_every_layer_is_carried(parts: list[Part], prefix: int) -> None:
    wanted = {(layer, token) for layer in range(3) for token in range(prefix, 6)}
    missing = covers(parts, request(6, prefix), (0, 3))
    assert (missing is None) == (wanted <= set(cells(parts))), missing


@given(st.lists(_parts(), max_size=5))
def test_what_is_named_missing_really_is(parts: list[Part]) -> None:
    missing = covers(parts, request(6), (0, 3))
    if missing is not None:
        words = missing.replace("[", "").replace(")", "").replace(",", "").split()
        low, high, token = int(words[1]), int(words[2]), int(words[-1])
        assert all((layer, token) not in cells(parts) for layer in range(low, high))


def test_a_request_that_the_receiver_holds_already_needs_nothing() -> None:
    assert covers([], request(4, prefix=4), (0, 9)) is None


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        (part(0, 8), "part.start, part.stop"),
        (part(1, 4), "part.start, part.stop"),
        (part(6, 4, shape=()), "part.start, part.stop"),
        (part(3, 8), "part.start"),
        (part(2, 6), "part.stop"),
        (part(2, 8, (0, 3)), "part.layers"),
        (part(2, 8, (1, 1)), "part.layers"),
    ],
)
def test_a_part_outside_the_request_is_refused_naming_the_field(wrong: Part, field: str) -> None:
    fault = part_fault(wrong, request(10, prefix=2), (0, 2), 4)
    assert fault is not None
    assert fault[0] == field
    assert all(fault)


@pytest.mark.parametrize("right", [part(2, 4), part(4, 8), part(8, 10), part(2, 10, (0, 2)), part(4, 8, (1, 2))])
def test_a_part_may_begin_at_the_prefix_and_end_at_the_last_token_but_else_at_pages(right: Part) -> None:
    assert part_fault(right, request(10, prefix=2), (0, 2), 4) is None
