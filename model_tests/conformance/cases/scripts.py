"""The hand-offs that cases are made from, and how a disturbance is put into one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

__all__ = ["ORDERS", "chunks_of", "handoff", "maybe", "paced", "settled", "slug", "where", "whole", "with_at"]

#: Who comes when. "prefill first" is what every engine can do; the others need early destinations or early chunks.
ORDERS: dict[str, tuple[str, ...]] = {
    "prefill first": ("create prefill", "create decode", "init decode", "meta", "settle", "init prefill", "send"),
    "decode first": ("create decode", "create prefill", "init decode", "meta", "settle", "init prefill", "send"),
    "prefill is ready": ("create prefill", "init prefill", "create decode", "init decode", "meta", "settle", "send"),
    "destinations first": ("create decode", "init decode", "meta", "settle", "create prefill", "init prefill", "send"),
    "chunks first": ("create prefill", "init prefill", "send", "settle", "create decode", "init decode", "meta"),
    "all at once": ("create prefill", "create decode", "init decode", "meta", "init prefill", "send"),
}


def chunks_of(pages: int, sizes: Sequence[int], room: str = "A") -> list[str]:
    """The sends of a plan; the last one says so."""
    assert sum(sizes) == pages
    return [f"send {room} {n}{' last' if at == len(sizes) - 1 else ''}" for at, n in enumerate(sizes)]


def handoff(order: str = "prefill first", pages: int = 4, sizes: Sequence[int] = (), room: str = "A") -> list[str]:
    """A whole hand-off."""
    sizes = sizes or (pages,)
    lines: list[str] = []
    for what in ORDERS[order]:
        match what.split():
            case ["create", side]:
                lines.append(f"create {side} {room} {pages}")
            case ["init", side]:
                lines.append(f"init {side} {room}")
            case ["meta"]:
                lines.append(f"meta {room} {pages}")
            case ["send"]:
                lines += chunks_of(pages, sizes, room)
            case _:
                lines.append(what)
    return lines


def whole(room: str, pages: int = 2) -> list[str]:
    """The plainest hand-off there is, that must succeed."""
    return [*handoff("prefill first", pages, room=room), f"expect decode {room} 4 within transfer", "settle"]


def settled(lines: Iterable[str]) -> list[str]:
    """With time to react after every step."""
    return paced(lines, "settle")


def paced(lines: Iterable[str], pace: str) -> list[str]:
    """With a pause after every step that is none."""
    return [each for line in lines for each in ((line,) if line.startswith(("settle", "tick")) else (line, pace))]


def maybe(lines: Sequence[str]) -> list[str]:
    """Calls that may be refused, because their room may be over."""
    return [f"?{line}" if line.split()[0] in ("create", "init", "meta", "send", "gate") else line for line in lines]


def slug(text: str) -> str:
    """As part of an id."""
    return text.replace("_", "-").replace(" ", "-")


def where(at: int, lines: Sequence[str]) -> str:
    """Step number ``at``, in words."""
    return f"before {lines[at]!r}" if at < len(lines) else "at the end"


def with_at(lines: Sequence[str], at: int, extra: Iterable[str]) -> list[str]:
    """With something before step number ``at``."""
    return [*lines[:at], *extra, *lines[at:]]
