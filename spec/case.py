"""What one entry of the catalogue of cases says. The entries stand in :mod:`cases <.cases>`."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Case", "tests_in"]


class Case(NamedTuple):
    """A failure that a public tracker reports of a real engine.

    ``property`` names the invariant that rules it out here; ``by`` are the tests that replay it. A case that this layer
    has no part in has neither, but ``outside`` says why.
    """

    id: str
    title: str  #: what went wrong, in our own words
    property: str = ""
    by: tuple[str, ...] = ()
    outside: str = ""


def tests_in(file: str, *names: str) -> tuple[str, ...]:
    """The ids of tests of ``tests/cases/test_FILE.py``; each name without its leading ``test_``."""
    return tuple(f"tests/cases/test_{file}.py::test_{name}" for name in names)
