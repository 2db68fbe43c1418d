"""The implementer's file of known failures: one line each, and every line must be true.

    # pattern               verdict  reason        link                           until
    abort/prefill-*/**      fail     KVX-ABORT-3   https://tracker.example/17     until=2027-01-31

Columns are two or more spaces (or a tab) apart. In a pattern ``*`` is one part of a case id or a piece of it, ``**`` any number
of parts. ``verdict`` is how it fails (fail, non-strict, crash, timeout), and ``reason`` must occur in what is said of it. A line
that begins with ``#`` is a comment, and only such a line. The first line that matches a case speaks for it. A line that speaks
for no case, that is past its date, or for cases that do not fail like that, is an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import date
from itertools import groupby
from typing import NamedTuple

from .result import CaseResult, Verdict

__all__ = ["Known", "KnownError", "KnownLine", "lines_for", "matcher", "pruned"]

_MAY = {each.value: each for each in (Verdict.FAIL, Verdict.NON_STRICT, Verdict.CRASH, Verdict.TIMEOUT)}
_COLUMNS = re.compile(r"\t+| {2,}")


class KnownError(ValueError):
    """The file cannot be read. Says which line, and what was expected."""


class KnownLine(NamedTuple):
    """One line of the file."""

    number: int
    pattern: str
    verdict: Verdict
    reason: str
    link: str
    until: date


class Known:
    """A file. Raises :class:`KnownError`."""

    def __init__(self, text: str, name: str = "known-failing") -> None:
        self.name = name
        self.lines = tuple(_line(number, line, name) for number, line in _useful(text))
        self._matchers = [matcher(line.pattern) for line in self.lines]

    def line_for(self, id: str) -> KnownLine | None:
        """The line that speaks for a case."""
        return next((line for line, match in zip(self.lines, self._matchers, strict=True) if match.fullmatch(id)), None)

    def problems(self, ids: Iterable[str], today: date) -> tuple[str, ...]:
        """Lines that speak for none of all cases there are, and lines past their date."""
        used = {line.number for id in ids if (line := self.line_for(id)) is not None}
        return tuple(
            [f"{self.name}:{line.number}: {line.pattern} speaks for no case" for line in self.lines if line.number not in used]
            + [f"{self.name}:{line.number}: {line.pattern} expired on {line.until}" for line in self.lines if line.until < today]
        )  # fmt: skip

    def judge(self, id: str, found: Verdict, reason: str) -> tuple[Verdict, str, str]:
        """Verdict, reason and link of a case, given what was found."""
        line = self.line_for(id)
        if line is None or found in (Verdict.UNSUPPORTED, Verdict.BLOCKED, Verdict.FLAKY):
            return found, reason, ""
        where = f"{self.name}:{line.number}"
        if found is Verdict.PASS:
            return Verdict.STALE, f"{where} says {line.verdict.value}, and it passes", line.link
        if found is not line.verdict:
            return Verdict.STALE, f"{where} says {line.verdict.value}, and it is {found.value}: {reason}", line.link
        if line.reason not in reason:
            return Verdict.STALE, f"{where} says {line.reason!r}, and it fails otherwise: {reason}", line.link
        return Verdict.KNOWN_FAILING, reason, line.link


def matcher(pattern: str) -> re.Pattern[str]:
    """``*`` within one part, ``**`` over parts."""
    parts = re.split(r"(\*\*|\*)", pattern)
    return re.compile("".join({"**": ".*", "*": "[^/]*"}.get(part, re.escape(part)) for part in parts))


def lines_for(cases: Sequence[CaseResult], link: str, until: date) -> str:
    """A file that says of each case how it fails now: one line for a whole subject where all of it fails alike."""
    rows: list[tuple[str, str, str]] = []
    for subject, group in groupby(sorted(cases, key=lambda each: each.id), key=lambda each: each.id.rpartition("/")[0]):
        each = list(group)
        kinds = {_kind(one) for one in each}
        if len(kinds) == 1 and len(each) > 1:
            rows += [(f"{subject}/*", *kind) for kind in kinds if kind is not None]
        else:
            rows += [(one.id, *kind) for one in each if (kind := _kind(one)) is not None]
    wide = [max((len(row[at]) for row in rows), default=0) for at in range(3)]
    lines = ["  ".join([*(row[at].ljust(wide[at]) for at in range(3)), link or "-", f"until={until}"]) for row in rows]
    return "\n".join(["# pattern, verdict, reason, link, until", *lines]) + "\n"


def _kind(each: CaseResult) -> tuple[str, str] | None:
    found = each.found or each.verdict
    if found.value not in _MAY:
        return None
    said = each.reason.partition(":")[0]  # the strictest requirement, which need not be the first that broke
    return found.value, said if said in each.broken else re.sub(r" {2,}|\t", " ", each.reason)[:40].strip()


def pruned(text: str, cases: Iterable[CaseResult]) -> str:
    """The file without lines that speak for no case, or only for cases that pass. Comments stay."""
    known, alive = Known(text), set[int]()
    for each in cases:
        line = known.line_for(each.id)
        if line is not None and (each.found or each.verdict) is not Verdict.PASS:
            alive.add(line.number)
    dead = {line.number for line in known.lines} - alive
    return "".join(line for number, line in enumerate(text.splitlines(keepends=True), 1) if number not in dead)


def _useful(text: str) -> list[tuple[int, str]]:
    return [(n, line) for n, line in enumerate(text.splitlines(), 1) if line.strip() and not line.startswith("#")]


def _line(number: int, line: str, name: str) -> KnownLine:
    columns = [column for column in _COLUMNS.split(line.strip()) if column]
    where = f"{name}:{number}"
    if len(columns) != 5:
        raise KnownError(
            f"{where}: expected 5 columns (pattern, verdict, reason, link, until=DATE), got {len(columns)}"
        )
    pattern, verdict, reason, link, until = columns
    if verdict not in _MAY:
        raise KnownError(f"{where}: verdict: expected one of {', '.join(_MAY)}, got {verdict!r}")
    try:
        if not until.startswith("until="):
            raise ValueError
        last = date.fromisoformat(until.removeprefix("until="))
    except ValueError:
        raise KnownError(f"{where}: expected until=YYYY-MM-DD, got {until!r}") from None
    return KnownLine(number, pattern, _MAY[verdict], reason, link, last)
