"""Hand-offs in which nothing goes wrong: every order of arrival, every way to cut a plan, several rooms at once."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations, product

from ..case import Case, case
from .scripts import ORDERS, chunks_of, handoff, paced, slug

__all__ = ["cases"]

#: How a plan of so many pages is cut.
_CUTS: dict[int, tuple[tuple[int, ...], ...]] = {
    1: ((1,),),
    2: ((2,), (1, 1)),
    5: ((5,), (1, 4), (4, 1), (2, 3), (1, 1, 1, 1, 1)),
}
_PACES = {"at once": "", "slowly": "settle", "while things move": "tick 1"}
_ABOUT = {"destinations first": "PAIR-3", "chunks first": "PAIR-4"}


def cases() -> Iterator[Case]:
    """Every case of the families ``handoff`` and ``memory``."""
    yield case("handoff/plain/001", "the plainest hand-off", handoff(), "PAIR-1", prerequisite="handoff/plain/001")
    yield from _orders()
    yield from _cuts()
    yield from _empty()
    yield from _lengths()
    yield from _many()
    yield from _looks()


def _orders() -> Iterator[Case]:
    for order, (pace, pause) in product(ORDERS, _PACES.items()):
        lines = handoff(order, 4, (2, 2))
        script = paced(lines, pause) if pause else [line for line in lines if line != "settle"]
        about = f"PAIR-2 {_ABOUT.get(order, '')}"
        if order != "destinations first":
            about = about.strip()
        yield case(f"handoff/order/{slug(order)}-{slug(pace)}", f"{order}, {pace}", script, about)


def _cuts() -> Iterator[Case]:
    for pages, cuts in _CUTS.items():
        for number, (sizes, order) in enumerate(product(cuts, ("prefill first", "chunks first", "all at once")), 1):
            title = f"{pages} pages in chunks of {', '.join(map(str, sizes))}, {order}"
            about = "PAIR-5" if len(sizes) > 1 else "PAIR-1"
            yield case(f"handoff/cut-{pages}/{number:03}", title, handoff(order, pages, sizes), about)


def _empty() -> Iterator[Case]:
    for number, (order, sizes) in enumerate(product(ORDERS, ((2, 0), (1, 1, 0))), 1):
        title = f"an empty last chunk after {len(sizes) - 1}, {order}"
        yield case(f"handoff/empty-last/{number:03}", title, handoff(order, 2, sizes), "PAIR-7")


def _lengths() -> Iterator[Case]:
    """The two sides were told different lengths."""
    for number, (p, d) in enumerate(((4, 3), (4, 1), (3, 4), (1, 4), (2, 3)), 1):
        script = [
            f"create prefill A {p}", f"create decode A {d}", "init decode A", f"meta A {d}", "settle", "init prefill A",
            f"?send A {p} last", "wait ends",
        ]  # fmt: skip
        yield case(f"handoff/lengths/{number:03}", f"prefill has {p} pages, decode {d}", script, "PAIR-6")


def _many() -> Iterator[Case]:
    """Three rooms, step by step in turn, in every order of their last steps."""
    for number, rooms in enumerate(permutations("ABC"), 1):
        each = {room: handoff("prefill first", 1 + "ABC".index(room), room=room) for room in "ABC"}
        turns = [each[room][at] for at in range(len(each["A"])) for room in rooms]
        script = [line for at, line in enumerate(turns) if line != "settle" or turns[at - 1] != "settle"]
        yield case(f"handoff/many/{number:03}", f"rooms {' '.join(rooms)} in turn", script, "PAIR-8")
    for number, pages in enumerate((1, 2, 4), len(list(permutations("ABC"))) + 1):
        script = [line for room in "ABCDE" for line in handoff("all at once", pages, room=room)]
        yield case(f"handoff/many/{number:03}", f"five rooms of {pages} pages at once", script, "PAIR-8")


def _looks() -> Iterator[Case]:
    """After Success nothing moves any more, and memory may be used again."""
    for number, order in enumerate(ORDERS, 1):
        script = [
            *handoff(order, 3, (1, 2)), "expect decode A 4 within transfer", "expect prefill A 4 within transfer",
            "holds decode A 4 during transfer 50 for STATE-2", "holds prefill A 4 during transfer 10 for STATE-2",
        ]  # fmt: skip
        yield case(f"memory/after-success/{number:03}", f"long after Success, {order}", script, "MEM-3 MEM-5")
    for number, sizes in enumerate(((1, 1, 1, 1), (2, 2), (3, 1), (1, 3)), 1):
        lines = ["create prefill A 4", "create decode A 4", "init decode A", "meta A 4", "settle", "init prefill A"]
        script = paced([*lines, *chunks_of(4, sizes)], "tick 2")
        yield case(
            f"memory/source/{number:03}", f"source pages go as chunks of {sizes} are sent", script, "MEM-7 MEM-4"
        )
    script = [
        *handoff("prefill first", 4, (2, 2))[:-1],
        "settle",
        "holds decode A 1|2|3 during react for DATA-2",
        "send A 2 last",
    ]
    yield case("memory/live/001", "half of the data is here, for a while", script, "MEM-6 DATA-2")
