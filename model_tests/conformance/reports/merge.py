"""Several results side by side. Every result stays whole; merging only puts them into one document and looks that they can
be compared: the same suite, the same requirements in the same words, and no implementation twice.

A report is made from such a document. A single result is one with one column.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from ..result import SCHEMA, RequirementText, Result, ResultError, Suite, read_result
from .words import name_of

__all__ = ["MERGED_SCHEMA", "MOST_RESULTS", "Merged", "merge", "read_results", "write_merged"]

#: Name and version of the merged document.
MERGED_SCHEMA = "kvpoll-conformance-merged/1"
#: Columns of one document; nobody can compare more.
MOST_RESULTS = 16
_MOST = 1024 * 1024 * 1024
_LEVELS = ("MUST", "SHOULD", "MAY")


class Merged(Struct, frozen=True, kw_only=True):
    """Results of one suite, in the order in which they were given."""

    schema: str = MERGED_SCHEMA
    suite: Suite
    results: tuple[Result, ...]

    @property
    def requirements(self) -> tuple[RequirementText, ...]:
        """Of every result, each once, in the order of the first that has it."""
        return tuple({r.id: r for result in self.results for r in result.requirements}.values())

    @property
    def status(self) -> int:
        """The worst exit status: 1 something is wrong, else 2 something could not be found out, else 0."""
        found = {result.status for result in self.results}
        return 1 if 1 in found else max(found, default=0)


class _Head(Struct):
    schema: str


def read_results(paths: Sequence[Path]) -> Merged:
    """Read results and merged documents, and merge them all. Raises :class:`ResultError` naming the file and the field."""
    return merge([result for path in paths for result in _read(path)])


def merge(results: Iterable[Result]) -> Merged:
    """Put results side by side. Raises :class:`ResultError` naming the field in which they cannot be compared, and for a
    result that contradicts itself."""
    found = tuple(results)
    if not 1 <= len(found) <= MOST_RESULTS:
        raise ResultError(f"results: expected 1 to {MOST_RESULTS} of them, got {len(found)}")
    first, words, columns = found[0], dict[str, tuple[str, RequirementText]](), set[tuple[str, str]]()
    for result in found:
        name = name_of(result)
        _check(result, name)
        if result.suite.name != first.suite.name:
            raise ResultError(
                f"{name}: suite.name: expected {first.suite.name!r} as of {name_of(first)}, got {result.suite.name!r}"
            )
        if result.suite.version != first.suite.version:
            raise ResultError(
                f"{name}: suite.version: expected {first.suite.version} as of {name_of(first)}, got {result.suite.version}: "
                "run both with the same version of the suite"
            )
        if (name, result.profile) in columns:
            raise ResultError(
                f"{name}: implementation: expected each name, version and profile once, got {name!r} twice"
            )
        columns.add((name, result.profile))
        for requirement in result.requirements:
            whose, told = words.setdefault(requirement.id, (name, requirement))
            if told != requirement:
                raise ResultError(
                    f"{name}: requirements: expected {requirement.id} to say what it says for {whose}, it does not"
                )
    return Merged(suite=first.suite, results=found)


def write_merged(merged: Merged, path: Path) -> None:
    """Write the document. Raises ``OSError``."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(merged), indent=1) + b"\n")


def _read(path: Path) -> tuple[Result, ...]:
    try:
        if path.stat().st_size > _MOST:
            raise ResultError(f"{path}: expected at most {_MOST} bytes, got {path.stat().st_size}")
        text = path.read_bytes()
        name = msgspec.json.decode(text, type=_Head).schema
        if name != MERGED_SCHEMA:
            if name != SCHEMA:
                raise ResultError(f"{path}: schema: expected {SCHEMA} or {MERGED_SCHEMA}, got {name}")
            return (read_result(path),)
        merged = msgspec.json.decode(text, type=Merged)
    except OSError as error:
        raise ResultError(f"{path}: cannot be read: {error.strerror}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ResultError(f"{path}: {error}") from None
    for result in merged.results:
        if result.schema != SCHEMA:
            raise ResultError(f"{path}: results: schema: expected {SCHEMA}, got {result.schema}")
        if result.suite != merged.suite:
            raise ResultError(
                f"{path}: suite: expected what every result in it says, got another one for {name_of(result)}"
            )
    return merged.results


def _check(result: Result, name: str) -> None:
    """What the types cannot say of a result."""
    known: set[str] = set()
    for requirement in result.requirements:
        where = f"{name}: requirements: {requirement.id}"
        if requirement.id in known:
            raise ResultError(f"{where}: expected each id once")
        if requirement.level not in _LEVELS:
            raise ResultError(f"{where}: level: expected {', '.join(_LEVELS)}, got {requirement.level!r}")
        known.add(requirement.id)
    cases: set[str] = set()
    for case in result.cases:
        where = f"{name}: cases: {case.id}"
        if case.id in cases:
            raise ResultError(f"{where}: expected each id once")
        if case.level not in _LEVELS:
            raise ResultError(f"{where}: level: expected {', '.join(_LEVELS)}, got {case.level!r}")
        if unknown := {*case.requirements, *case.broken} - known:
            raise ResultError(f"{where}: requirements: expected ids of this result, got {min(unknown)!r}")
        cases.add(case.id)
