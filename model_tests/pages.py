"""Destination pages by number: what a decode engine gives to a room, and takes back for the next one.

A page that a transfer or a commit can still write is a page of that room. The lease of a room is the same claim without
numbers; with them it also bites where two rooms share the memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kvpoll.protocol.records import LeaseKind, SessionKey

from .explorer import Violation
from .memory import ATTEMPTS, Loan, Memory

__all__ = ["Placed", "check_pages", "free_pages"]


class Placed(NamedTuple):
    """The pages that a receiver was given once. They stay written here: what was started late knows no other."""

    instance: int
    key: SessionKey
    pages: tuple[int, ...]


def free_pages(much: int, instance: int, placed: Sequence[Placed], memory: Memory) -> list[int]:
    """The free pages of an instance that has so many, lowest first: what came back is given out again at once."""
    taken = owners(instance, placed, memory)
    return [page for page in range(much) if page not in taken]


def owners(instance: int, placed: Sequence[Placed], memory: Memory) -> dict[int, SessionKey]:
    """Whose each page is that is lent."""
    return {
        page: each.key
        for each in placed
        if each.instance == instance and Loan(instance, each.key, LeaseKind.PAGES, 0) in memory.lent
        for page in each.pages
    }


def check_pages(placed: Sequence[Placed], memory: Memory, direct: bool) -> None:
    """NoFreeInFlight, page by page: what can still be written by something of a room is that room's."""
    for each in placed:
        writer = _writer(each, memory, direct)
        if writer:
            mine = owners(each.instance, placed, memory)
            for page in each.pages:
                if mine.get(page) != each.key:
                    whose = f"is {mine[page]}'s" if page in mine else "is free"
                    raise Violation("NoFreeInFlight", f"page {page} {whose} while {writer} of {each.key} can write it")


def _writer(each: Placed, memory: Memory, direct: bool) -> str:
    for work in memory.work:
        if (work.instance, work.key, work.chunk) == (each.instance, each.key, -1):
            return "a commit"
    for f in memory.flights:
        touches = (f.mine and f.owner == each.instance) or (f.theirs and f.other == each.instance)
        if direct and touches and f.attempt % ATTEMPTS == each.key.no:
            return f"operation {f.op}"
    return ""
