"""Memory as an observer sees it: who lent what, and what can touch it. Independent of what the cores believe.

It is modelled hostile. An operation in flight can touch both ends' memory until its owner reports it; after a crash, a
wrongly declared loss, or a room that is long over, it still can, until *that* end has fenced the other one. A crashed
process has no memory any more, but what it started goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeAlias

from kvpoll.protocol.records import LeaseKind, OpKey, SessionKey

from .explorer import Violation

__all__ = ["ATTEMPTS", "Flight", "Loan", "Memory", "Work"]

#: An attempt as one number: engine * ATTEMPTS + gen.
ATTEMPTS = 1000


class Flight(NamedTuple):
    """An operation in flight between two instances, and whose memory it can still touch."""

    owner: int
    other: int
    link: int
    op: OpKey
    attempt: int
    mine: bool = True  #: it can touch the owner's memory, and the owner counts it
    theirs: bool = True  #: it can touch the other's
    unresolved: bool = False
    fencing: bool = False  #: its fence was asked for
    cancelled: bool = False  #: it may fail, for it was told to
    copy: int = 0  #: which part it moves, as the sender numbers them ...
    place: int = 0  #: ... and as the receiver does


class Loan(NamedTuple):
    """Memory that a session was given, by the engine or by its own process."""

    instance: int
    key: SessionKey
    kind: LeaseKind
    no: int


class Work(NamedTuple):
    """Device work of the engine that touches memory: a gather of one chunk, or a commit."""

    instance: int
    key: SessionKey
    chunk: int  #: -1: a commit


Need: TypeAlias = tuple[Loan, str]


class Memory(NamedTuple):
    """All of it; immutable."""

    flights: frozenset[Flight] = frozenset()
    lent: frozenset[Loan] = frozenset()
    work: frozenset[Work] = frozenset()
    moved: frozenset[tuple[int, int, int, int]] = frozenset()  #: (prefill, decode, attempt, part): the bytes are there

    def give(self, loans: Iterable[Loan]) -> Memory:
        return self._replace(lent=self.lent.union(loans))

    def back(self, loan: Loan) -> Memory:
        """A lease was handed back."""
        if loan not in self.lent:
            raise Violation("ExactlyOnceFree", f"{loan.kind.value} {loan.no} of {loan.key} came back but was not lent")
        return self._replace(lent=self.lent - {loan})

    def begin(self, work: Work) -> Memory:
        return self._replace(work=self.work | {work})

    def move(self, prefill: int, decode: int, attempt: int, part: int) -> Memory:
        """The bytes of a part are at their destination."""
        return self._replace(moved=self.moved | {(prefill, decode, attempt, part)})

    def forget(self, decode: int, attempt: int) -> Memory:
        """The attempt is over: what it moved matters to nobody any more."""
        return self._replace(moved=frozenset(m for m in self.moved if m[1:3] != (decode, attempt)))

    def swap(self, flight: Flight, *after: Flight) -> Memory:
        return self._replace(flights=(self.flights - {flight}).union(after))

    def cancel(self, which: Callable[[Flight], bool]) -> Memory:
        """These may fail from now on, for they were told to."""
        return self._replace(flights=frozenset(f._replace(cancelled=True) if which(f) else f for f in self.flights))

    def fence(self, owner: int, op: OpKey) -> Memory:
        """The fence of an operation was asked for: its proof arrives some time."""
        return self._replace(
            flights=frozenset(f._replace(fencing=True) if (f.owner, f.op) == (owner, op) else f for f in self.flights)
        )

    def cut(self, instance: int, link: int | None = None) -> Memory:
        """Nothing of the peer on ``link`` can touch this instance's memory any more, and what it started towards that
        peer is over for it. Without a link: the instance is gone, with its memory."""
        left = set()
        for f in self.flights:
            if link is None or f.link == link:
                f = f._replace(mine=f.mine and f.owner != instance, theirs=f.theirs and f.other != instance)
            if f.mine or f.theirs:
                left.add(f)
        after = self._replace(flights=frozenset(left))
        if link is not None:
            return after
        return after._replace(
            lent=frozenset(loan for loan in self.lent if loan.instance != instance),
            work=frozenset(work for work in self.work if work.instance != instance),
        )

    def check(self, sender_of: dict[tuple[int, int], SessionKey], direct: bool) -> None:
        """Everything that something can touch is lent. ``sender_of``: the leg of (instance, attempt)."""
        for loan, what in self._needs(sender_of, direct):
            if loan not in self.lent:
                name = f"{loan.kind.value} {loan.no} of {loan.key} at instance {loan.instance}"
                broken = "UnresolvedIsNotFree" if what.startswith("unresolved") else "NoFreeInFlight"
                raise Violation(broken, f"{name} went back while {what} can touch it")

    def _needs(self, sender_of: dict[tuple[int, int], SessionKey], direct: bool) -> Iterator[Need]:
        for f in self.flights:
            for instance, touches in ((f.owner, f.mine), (f.other, f.theirs)):
                if not touches:
                    continue
                what = f"{'unresolved ' * f.unresolved}operation {f.op}"
                leg = sender_of.get((instance, f.attempt))
                if leg is not None:
                    yield Loan(instance, leg, LeaseKind.COPY, f.copy), what
                else:
                    receiver = SessionKey("receiver", f.attempt % ATTEMPTS)
                    yield Loan(instance, receiver, LeaseKind.BUFFER, 0), what
                    if direct:
                        yield Loan(instance, receiver, LeaseKind.PAGES, 0), what
        for work in self.work:
            if work.chunk >= 0:
                yield Loan(work.instance, work.key, LeaseKind.SOURCE, work.chunk), "a gather"
                yield Loan(work.instance, work.key, LeaseKind.COPY, work.chunk), "a gather"
            else:
                yield Loan(work.instance, work.key, LeaseKind.PAGES, 0), "a commit"
                yield Loan(work.instance, work.key, LeaseKind.BUFFER, 0), "a commit"
