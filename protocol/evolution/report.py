"""A whole check: one schema against its baselines, what was waived, and what follows for an upgrade."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from kvpoll.spec.schema import Snapshot

from .compare import compare, edits_of
from .findings import Finding, Order, orders_left
from .waivers import Waiver

__all__ = ["FORMAT", "Pair", "Report", "Source", "Waived", "check"]

#: Of the JSON form: a reader refuses another major number.
FORMAT = "kvpoll-schema-report/1"

Verdict: TypeAlias = Literal["fine", "breaking"]


class Source(Struct, frozen=True, kw_only=True):
    """A snapshot and where it came from. ``path`` and ``text`` give findings their place in a file."""

    snapshot: Snapshot
    path: str = ""
    text: str = ""

    @property
    def label(self) -> str:
        return f"{self.snapshot.schema} {self.snapshot.version}"


class Waived(Struct, frozen=True, kw_only=True):
    """A finding that somebody accepted, with the reason."""

    finding: Finding
    reason: str
    expires: str
    issue: str = ""


class Pair(Struct, frozen=True, kw_only=True):
    """One baseline against the new schema."""

    old: Source
    new: Source
    findings: tuple[Finding, ...]
    waived: tuple[Waived, ...] = ()

    @property
    def breaking(self) -> tuple[Finding, ...]:
        return tuple(f for f in self.findings if f.breaking)

    @property
    def orders(self) -> tuple[Order, ...]:
        """Upgrade orders that are safe between these two; waived findings count, for they are as true as before."""
        return orders_left([*self.findings, *(w.finding for w in self.waived)])


class Report(Struct, frozen=True, kw_only=True):
    """Everything that a check found."""

    pairs: tuple[Pair, ...]
    problems: tuple[str, ...] = ()  #: waivers that are stale or over
    strict: bool = False
    order: Order | None = None  #: what the project promises; findings that only the other order meets are none
    format: str = FORMAT

    @property
    def verdict(self) -> Verdict:
        return "breaking" if self.problems or any(self.counts(f) for p in self.pairs for f in p.findings) else "fine"

    def counts(self, finding: Finding) -> bool:
        """Does this finding fail the check?"""
        if finding.severity == "warning":
            return self.strict
        if not finding.breaking:
            return False
        return self.order is None or self.order not in orders_left([finding])

    @property
    def orders(self) -> tuple[Order, ...]:
        """Safe from every baseline."""
        return tuple(o for o in ("sender-first", "receiver-first") if all(o in p.orders for p in self.pairs))


def check(
    new: Source, baselines: Sequence[Source], waivers: Sequence[Waiver] = (), today: str = "", *, strict: bool = False,
    order: Order | None = None, every_pair: bool = False,
) -> Report:  # fmt: skip
    """Compare with every baseline, oldest first: a peer may be of any release. ``every_pair``: the baselines with each other,
    too. ``today`` is an ISO date. Raises ``ValueError`` for a baseline of another schema."""
    used: set[Waiver] = set()
    pairs = []
    meetings = [(old, new) for old in baselines]
    if every_pair:
        meetings = [*combinations(baselines, 2), *meetings]
    edited = {id(source): edits_of(source.snapshot) for source in (*baselines, new)}
    for old, newer in meetings:
        findings, waived = list[Finding](), list[Waived]()
        told = [
            *compare(old.snapshot, newer.snapshot, trusted=True),
            *edited.pop(id(old), ()),
            *edited.pop(id(newer), ()),
        ]
        for finding in told:
            waiver = next((w for w in waivers if w.covers(finding, old.snapshot.version)), None)
            if waiver is not None:
                used.add(waiver)
            if waiver is None or waiver.over(today):
                findings.append(finding)
            else:
                waived.append(Waived(finding=finding, reason=waiver.reason, expires=waiver.expires, issue=waiver.issue))
        pairs.append(Pair(old=old, new=newer, findings=tuple(findings), waived=tuple(waived)))
    problems = [
        f"waiver of {w.rule} at {w.at}: it ran out on {w.expires}" for w in waivers if w in used and w.over(today)
    ]
    problems += [
        f"waiver of {w.rule} at {w.at}: nothing is found there any more, delete it" for w in waivers if w not in used
    ]
    return replace(Report(pairs=tuple(pairs), strict=strict, order=order), problems=tuple(problems))
