"""Paths through the graph of what public calls can do: see :mod:`..explore`, which found them, and ``paths.json``."""

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
def read_paths() -> tuple[Path, ...]:
    """What ``kvpoll conformance explore`` wrote."""
    text = (files("kvpoll.model_tests.conformance.cases") / "paths.json").read_bytes()
    return msgspec.json.decode(text, type=tuple[Path, ...])


def cases() -> Iterator[Case]:
    """Every case of the family ``paths``."""
    for path in read_paths():
        verbs = [line.split()[0] for line in path.script.split("; ")]
        title = f"{len(verbs)} steps for {len(path.rows)} rows and {len(path.pairs)} pairs of rows"
        yield case(path.id, title, path.script, covers=(*path.rows, *path.pairs))
