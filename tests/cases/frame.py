"""How a test says which cases it replays."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T", bound=Callable[..., object])


def case(*ids: str) -> Callable[[T], T]:
    """``@case("A01", "A02")``: the test replays these cases, in every variant that it is parametrized over. Each of them
    names the test in ``spec/cases.py``; ``test_catalogue.py`` compares the two, both ways."""
    assert ids, "which case?"

    def mark(test: T) -> T:
        test.__dict__["cases"] = ids
        return test

    return mark
