"""Push inside one process: for tests and simulations. Copies, has no thread and no clock, and fails when told to.

An operation completes inside :meth:`InprocTransport.submit` unless the hub's :class:`Faults` say otherwise; what they
hold back stays "on the wire" until the test releases it. The payload is read when it lands, from the sender's live
memory, so a sender that lets go of its pages too early is caught with wrong bytes, as on real hardware.
"""

from __future__ import annotations

import itertools
import os
import secrets
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from kvpoll.runtime.transports.base import (
    Capabilities,
    Descriptor,
    Direction,
    Exposure,
    Operation,
    Outcome,
    Report,
    Source,
)
from kvpoll.runtime.transports.landing import LandingTable, Piece, Refusal
from kvpoll.runtime.transports.ledger import Ledger
from kvpoll.runtime.transports.memory import BufferPool, Bytes, byte_view

__all__ = ["Fate", "Faults", "InprocHub", "InprocTransport"]

_SPARE_BYTES = 64 << 20


class Fate(Enum):
    """What becomes of an operation when it is submitted."""

    DELIVER = "deliver"
    HOLD = "hold"  #: nothing, until :meth:`InprocHub.release`
    FAIL = "fail"  #: FAILED, nothing lands
    UNRESOLVED = "unresolved"  #: UNRESOLVED; the data lands at :meth:`InprocHub.release`, unless fenced or retracted


class Faults:
    """A plan: the fate named for an operation id, else the next one of the queue, else ``default``."""

    def __init__(self, default: Fate = Fate.DELIVER) -> None:
        self.default = default
        self._next: deque[Fate] = deque()
        self._named: dict[int, Fate] = {}

    def then(self, *fates: Fate) -> None:
        """The fates of the next operations, in the order of their submission."""
        self._next.extend(fates)

    def name(self, op: int, fate: Fate) -> None:
        self._named[op] = fate

    def decide(self, op: int) -> Fate:
        if op in self._named:
            return self._named.pop(op)
        return self._next.popleft() if self._next else self.default


class InprocHub:
    """Connects transports by address and holds what is on the wire between them. Thread-safe."""

    def __init__(self, faults: Faults | None = None) -> None:
        self.faults = faults or Faults()
        self.name = f"{os.getpid()}-{secrets.token_hex(8)}"  # another process has another hub: no way to it
        self.lock = threading.RLock()
        self._addresses = itertools.count(1)
        self._members: dict[str, InprocTransport] = {}
        self._dropped: set[str] = set()
        self._wire: dict[tuple[str, int], _Flight] = {}

    def release(self, op: int, sender: str | None = None) -> bool:
        """Let a held or unresolved operation land now; ``True`` when its bytes were accepted.

        ``sender`` (an address) tells operations of one id apart. Raises ``LookupError`` when there is no such one. It
        stays on the wire when the peer is gone.
        """
        flight = self._take(op, sender)
        return flight.sender.arrive(flight)

    def fail(self, op: int, sender: str | None = None) -> None:
        """End a held operation as FAILED. Raises ``LookupError`` like :meth:`release`."""
        flight = self._take(op, sender)
        flight.sender.ended(flight, Outcome.FAILED, "failed by the plan")

    def on_wire(self) -> list[int]:
        """Ids of the operations that may still land, oldest first."""
        with self.lock:
            return [op for (_, op), flight in self._wire.items() if not flight.spent]

    def drop(self, address: str) -> None:
        """The instance at ``address`` answers nobody from now on; operations towards it stay on the wire."""
        with self.lock:
            self._dropped.add(address)

    def restore(self, address: str) -> None:
        """It answers again; operations that waited only for it land."""
        with self.lock:
            self._dropped.discard(address)
            waiting = [flight for flight in self._wire.values() if flight.target == address and flight.waiting]
        for flight in waiting:
            self.release(flight.operation.op, flight.sender.address)

    def reachable(self, address: str) -> bool:
        with self.lock:
            return address in self._members and address not in self._dropped

    # For the transports of this hub; all called with `lock` held.
    def join(self, member: InprocTransport) -> str:
        address = f"inproc-{next(self._addresses)}"
        self._members[address] = member
        return address

    def leave(self, address: str) -> None:
        self._members.pop(address, None)
        self._dropped.discard(address)

    def member(self, address: str) -> InprocTransport | None:
        return self._members.get(address) if address not in self._dropped else None

    def put(self, flight: _Flight) -> None:
        self._wire[(flight.sender.address, flight.operation.op)] = flight

    def pull_out(self, sender: str, op: int) -> _Flight | None:
        return self._wire.pop((sender, op), None)

    def flight(self, sender: str, op: int) -> _Flight | None:
        return self._wire.get((sender, op))

    def flights(self, sender: str, link: str | None = None) -> list[_Flight]:
        return [f for (who, _), f in self._wire.items() if who == sender and link in (None, f.operation.link)]

    def _take(self, op: int, sender: str | None) -> _Flight:
        with self.lock:
            flights = [
                f for (who, each), f in self._wire.items() if each == op and sender in (None, who) and not f.spent
            ]
            if len(flights) != 1:
                raise LookupError(f"op: {op} is {len(flights)} times on the wire, expected once")
            flight = flights[0]
            flight.spent = flight.unresolved  # stays for the fence that has to end it
            if not flight.unresolved:
                self.pull_out(flight.sender.address, op)
            return flight


#: What ``InprocTransport()`` joins: all transports of the process that were not given a hub.
_DEFAULT_HUB = InprocHub()


class InprocTransport:
    """A :class:`~kvpoll.runtime.transports.base.Transport` that joins ``hub`` at :meth:`start`."""

    def __init__(self, hub: InprocHub | None = None, *, max_in_flight: int = 64) -> None:
        self.hub = hub or _DEFAULT_HUB
        self.address = ""
        self.landing = LandingTable(BufferPool(_SPARE_BYTES))
        self._ledger = Ledger(max_in_flight)
        self._peers: dict[str, str] = {}  # link -> address
        self._fenced: set[str] = set()
        self._closed = False
        self._capabilities = Capabilities("inproc", Direction.PUSH, True, True, max_in_flight)

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities

    def start(self, notify: Callable[[], None]) -> None:
        if self.address or self._closed:
            raise RuntimeError("start: called before, expected once")
        self._ledger.start(notify)
        with self.hub.lock:
            self.address = self.hub.join(self)

    def staging(self) -> Source | None:
        return None

    def descriptor(self, link: str) -> Descriptor:
        if not self.address:
            raise RuntimeError("start: not called yet")
        return {"transport": "inproc", "hub": self.hub.name, "address": self.address}

    def mismatches(self, ours: Descriptor, theirs: Descriptor) -> Sequence[str]:
        wrong = [name for name in ("transport", "hub") if ours.get(name) != theirs.get(name)]
        return wrong if isinstance(theirs.get("address"), str) else [*wrong, "address"]

    def open_peer(self, link: str, theirs: Descriptor) -> None:
        """Raises ``ValueError`` for a descriptor that :meth:`mismatches` refuses."""
        wrong = self.mismatches(self.descriptor(link), theirs)
        if wrong:
            raise ValueError(f"theirs: cannot be used because of {', '.join(wrong)}")
        with self.hub.lock:
            self._peers[link] = str(theirs["address"])

    def close_peer(self, link: str) -> None:
        self._fence_flights(link)
        self.landing.forget_link(link)
        with self.hub.lock:
            self._peers.pop(link, None)
            self._fenced.discard(link)

    def expose(self, exposure: Exposure) -> None:
        self.landing.expose(exposure)

    def retract(self, key: int) -> None:
        self.landing.retract(key)

    def offer(self, link: str, key: int, payload: object) -> None:
        raise NotImplementedError("offer: inproc pushes, there is nothing to fetch")

    def withdraw(self, key: int) -> None:
        """Nothing is offered, so nothing is left to withdraw."""

    def forget(self, key: int) -> None:
        """Nothing is offered, so nothing is left to forget."""

    def submit(self, operation: Operation) -> None:
        """Raises ``ValueError`` for a payload that cannot be sent, an id in use, or too many operations in flight."""
        data = byte_view(operation)
        self._ledger.admit(operation.op)
        with self.hub.lock:
            target = None if self._closed or operation.link in self._fenced else self._peers.get(operation.link)
            if target is None:
                fate = Fate.FAIL
            else:
                fate = self.hub.faults.decide(operation.op)
                flight = _Flight(self, target, operation, data)
                if fate is Fate.DELIVER and self.hub.member(target) is None:
                    flight.waiting, fate = True, Fate.HOLD
                flight.unresolved = fate is Fate.UNRESOLVED
                if fate in (Fate.HOLD, Fate.UNRESOLVED):
                    self.hub.put(flight)
        if target is None:
            self._ledger.report(operation.op, Outcome.FAILED, "link: no usable peer, nothing was sent")
        elif fate is Fate.FAIL:
            self._ledger.report(operation.op, Outcome.FAILED, "failed by the plan")
        elif fate is Fate.UNRESOLVED:
            self._ledger.report(operation.op, Outcome.UNRESOLVED, "unresolved by the plan")
        elif fate is Fate.DELIVER:
            self.arrive(flight)

    def cancel(self, op: int) -> None:
        """FAILED when it could be taken off the wire; UNRESOLVED when the peer that would have to say so is gone."""
        with self.hub.lock:
            flight = self.hub.flight(self.address, op)
            if flight is None or flight.unresolved:
                return
            answered = self.hub.reachable(flight.target)
            if answered:
                self.hub.pull_out(self.address, op)
            else:
                flight.unresolved, flight.waiting = True, False
        self._ledger.report(op, Outcome.FAILED if answered else Outcome.UNRESOLVED, "cancelled")

    def fence_operation(self, op: int) -> None:
        with self.hub.lock:
            flight = self.hub.pull_out(self.address, op)
        if flight is not None:
            self._fence(flight)

    def fence_peer(self, link: str) -> None:
        with self.hub.lock:
            if link in self._peers:
                self._fenced.add(link)
        self.landing.fence_link(link)
        self._fence_flights(link)
        self._ledger.peer_fenced(link)

    def poll(self) -> list[Report]:
        return self._ledger.drain()

    def collect(self, key: int, part: int) -> Bytes | None:
        """The part as bytes, shape ``(nbytes,)``; the caller views it as what it is."""
        return self.landing.collect(key, part)

    def release(self, key: int) -> None:
        self.landing.retract(key)

    def tick(self) -> None:
        """No housekeeping: nothing happens here by itself."""

    def probe(self, link: str) -> bool:
        return link in self._peers and link not in self._fenced and self.hub.reachable(self._peers[link])

    def gauges(self) -> dict[str, int]:
        with self.hub.lock:
            sizes = {"peers": len(self._peers), "on_wire": len(self.hub.flights(self.address))}
        return {**self.landing.gauges(), **self._ledger.gauges(), **sizes}

    def close(self) -> None:
        """Operations on the wire are taken off it and reported UNRESOLVED and FENCED."""
        with self.hub.lock:
            self._closed = True
            self.hub.leave(self.address)
            for flight in self.hub.flights(self.address):
                self.hub.pull_out(self.address, flight.operation.op)
            self._peers.clear()
            self._fenced.clear()
        self._ledger.abandon("transport closed")
        self.landing.clear()

    # For the hub.
    def arrive(self, flight: _Flight) -> bool:
        """The bytes of one of our operations reach the peer: land them there, and report unless that was done."""
        operation = flight.operation
        piece = Piece(self.address.encode(), operation.link, operation.key, operation.part, operation.op, 0,
                      flight.data.nbytes)  # fmt: skip
        with self.hub.lock:
            peer = self.hub.member(flight.target)
            if peer is None:
                flight.waiting, flight.spent = not flight.unresolved, False
                self.hub.put(flight)
                return False
            landed = peer.landing.land(piece, flight.data)
        if isinstance(landed, Refusal):
            self.ended(flight, Outcome.FAILED, f"refused: {landed.name.lower()}")
            return False
        self.ended(flight, Outcome.DONE)
        return True

    def ended(self, flight: _Flight, outcome: Outcome, detail: str = "") -> None:
        """An operation left the wire. For an unresolved one the ledger takes no report but that of a fence."""
        self._ledger.report(flight.operation.op, outcome, detail)

    def _fence_flights(self, link: str) -> None:
        with self.hub.lock:
            flights = self.hub.flights(self.address, link)
            for flight in flights:
                self.hub.pull_out(self.address, flight.operation.op)
        for flight in flights:
            self._fence(flight)

    def _fence(self, flight: _Flight) -> None:
        op = flight.operation.op
        self._ledger.report(op, Outcome.UNRESOLVED, "fenced")  # no second one if it was reported before
        self._ledger.report(op, Outcome.FENCED, "fenced")


@dataclass(slots=True)
class _Flight:
    """An operation on the wire."""

    sender: InprocTransport
    target: str
    operation: Operation
    data: Bytes
    waiting: bool = False  # only for a dropped peer to come back
    unresolved: bool = False  # reported as such: its landing reports nothing
    spent: bool = False  # landed, or was refused, while unresolved: it only waits for its fence
