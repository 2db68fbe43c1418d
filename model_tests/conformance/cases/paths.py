"""Paths through the graph of what public calls can do: see :mod:`..explore`, which found them.

``paths.json`` has those that the first capabilities make. ``more.json`` has those in which gates, commits, stops, new attempts
and peers that break the protocol disturb a hand-off, as far as they fire what nothing before fires.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib.resources import files

import msgspec

from ..case import Case, case

__all__ = ["Path", "cases", "read_paths"]


class Path(msgspec.Struct, frozen=True):
    """One path. ``script`` is read by :func:`..step.steps`; ``rows`` are the rows of the tables, and ``pairs`` the pairs of
    neighbouring rows, that no earlier path fires."""

    id: str
    script: str
    rows: tuple[str, ...] = ()
    pairs: tuple[str, ...] = ()


@cache
def read_paths(name: str = "paths") -> tuple[Path, ...]:
    """What ``kvpoll conformance explore`` wrote: "paths", or "more"."""
    text = (files("kvpoll.model_tests.conformance.cases") / f"{name}.json").read_bytes()
    return msgspec.json.decode(text, type=tuple[Path, ...])


def cases() -> Iterator[Case]:
    """Every case of the families ``paths`` and ``more``."""
    for path in (*read_paths(), *read_paths("more")):
        verbs = [line.split()[0] for line in path.script.split("; ")]
        title = f"{len(verbs)} steps for {len(path.rows)} rows and {len(path.pairs)} pairs of rows"
        yield case(path.id, title, path.script, covers=(*path.rows, *path.pairs))
