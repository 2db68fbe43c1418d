"""The data plane of a process: its transports, and what they hold for each session.

The core speaks of sessions, peers and parts; a transport speaks of links as text, keys and operation ids. This file
translates, holds payloads while they may be read, and turns reports back into events of the core.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import entry_points
from typing import TypeAlias

from kvpoll.protocol.core import Core
from kvpoll.protocol.errors import LocalProtocolError
from kvpoll.protocol.outputs import (
    Cancel,
    ClosePeer,
    Expose,
    FenceOp,
    FencePeer,
    HandBack,
    OfferPart,
    OpenPeer,
    Output,
    Submit,
)  # fmt: skip
from kvpoll.protocol.records import LeaseKind, OpKey, SenderRecord, SessionKey
from kvpoll.spec.wire import Part, TransportOffer

from .receive_slots import ReceiveSlots
from .relay import Arrived
from .transports.base import (
    Direction,
    Exposure,
    Operation,
    OpReport,
    Outcome,
    Payload,
    PayloadSpec,
    PeerFenced,
    Transport,
)  # fmt: skip
from .transports.memory import BufferPool

__all__ = ["DataPlane", "default_transports", "load_transport"]

GROUP = "kvpoll.transports"
_STAGING_NBYTES = 512 << 20  #: staging buffers that are kept for the next chunk, at most


def load_transport(name: str, options: Mapping[str, int | str]) -> Transport:
    """A transport by the name that its package registered under the entry-point group ``kvpoll.transports``."""
    found = entry_points(group=GROUP, name=name)
    if not found:
        known = ", ".join(sorted(entry_points(group=GROUP).names))
        raise LocalProtocolError(f"transports: expected one of {known}, got {name}", field="transports")
    make = next(iter(found)).load()
    transport: Transport = make(**options)
    return transport


def default_transports() -> tuple[str, ...]:
    """jax first where the engine runs on an accelerator, zmq where it runs on a CPU (two to four times faster there)."""
    jax = sys.modules.get("jax")  # an engine that uses an accelerator has loaded it; nobody else should
    return ("jax", "zmq") if jax is not None and jax.default_backend() != "cpu" else ("zmq",)


#: What the receiver rank on a link gets of a part: (the gathered payload, the leg, our number of the part, the link).
Portion: TypeAlias = Callable[[Payload, SenderRecord, int, int], Payload]


class DataPlane:
    """Every transport of a process. Used under the process's lock."""

    def __init__(
        self, transports: Sequence[Transport], notify: Callable[[], None], portion: Portion = lambda payload, *_: payload
    ) -> None:  # fmt: skip
        self._portion = portion
        self.transports = {t.capabilities.name: t for t in transports}
        self.receive_slots: ReceiveSlots | None = None  #: of a decode process that was given some
        self._ops: dict[OpKey, tuple[int, Transport]] = {}
        self._keys: dict[int, OpKey] = {}
        self._next = 0
        source = next((s for t in transports if (s := t.staging()) is not None), None)
        self.staging = BufferPool(_STAGING_NBYTES, source)  #: sender: where copies on the host are gathered
        self._payloads: dict[tuple[SessionKey, int], Payload] = {}  #: sender: gathered copies, by part
        self._offers: dict[tuple[SessionKey, int], list[tuple[Transport, int]]] = {}  #: sender, pull: keys, by part
        self._early: dict[
            tuple[SessionKey, int], list[OfferPart]
        ] = {}  #: told to the peer, while the copy is being made
        self._taken: dict[SessionKey, set[tuple[str, int]]] = {}  #: receiver: (transport, key) to release
        self._links: dict[int, set[str]] = {}  #: transports opened for a link
        self._fencing: dict[int, set[str]] = {}  #: transports that have not proved their fence yet
        pulls = [t.capabilities for t in transports if t.capabilities.direction is Direction.PULL]
        #: May a peer be told of a copy that is still being made? Which transport it picks is not known yet.
        self.waits = bool(pulls) and all(each.waits for each in pulls)
        for transport in transports:
            transport.start(notify)

    def pushes(self) -> tuple[tuple[str, bool], ...]:
        return tuple((n, t.capabilities.direction is Direction.PUSH) for n, t in self.transports.items())

    @property
    def lead(self) -> float:
        """As the transport that is offered first wants it: which one a receiver picks is not known yet."""
        return next(iter(self.transports.values())).capabilities.lead

    def offers(self, link: int) -> tuple[TransportOffer, ...]:
        """What the handshake says of our transports."""
        name = _name(link)
        return tuple(TransportOffer(name=n, descriptor=dict(t.descriptor(name))) for n, t in self.transports.items())

    def mismatch(self, ours: TransportOffer, theirs: TransportOffer) -> Sequence[str]:
        """Descriptor fields that make a transport impossible for this pair."""
        transport = self.transports.get(ours.name)
        return ("name",) if transport is None else transport.mismatches(ours.descriptor, theirs.descriptor)

    # -- payloads ----------------------------------------------------------------------------------------------------------
    def keep(self, core: Core, key: SessionKey, part: int, payload: Payload) -> None:
        """Hold a gathered copy until its lease comes back, and offer it to whoever was told of it before."""
        self._payloads[key, part] = payload
        for out in self._early.pop((key, part), ()):
            self._offer(core, out)

    def forget(self, key: SessionKey, parts: Sequence[int]) -> None:
        """Drop copies that no lease holds: their room went while they were made."""
        for part in parts:
            self._payloads.pop((key, part), None)

    def collect(self, core: Core, key: SessionKey) -> list[Arrived]:
        """Receiver: what arrived, of every sender rank."""
        session = core.receiver(key)
        assert session is not None
        transport = self.transports[session.rec.transport]
        pushes = transport.capabilities.direction is Direction.PUSH
        found: list[Arrived] = []
        for peer in session.rec.peers:
            for part in peer.parts:
                at = peer.key if pushes else part.key
                assert isinstance(at, int)
                found.append(Arrived(part, transport.collect(at, part.no), peer.cut))
        return found

    # -- outputs of the core ---------------------------------------------------------------------------------------------
    def carry_out(self, core: Core, out: Output) -> None:
        """Carry out an output that concerns transports or memory of ours; others are nothing to do here."""
        match out:
            case OpenPeer(link=link, registration=registration):
                self._open(link, registration.transports)
            case Expose(session=session, link=link, key=key, max_nbytes=nbytes, max_parts=parts):
                name = self._transport_of(core, session)
                self._taken.setdefault(session, set()).add((name, key))
                landing = None if self.receive_slots is None else self.receive_slots.landing(session)
                memory = None if landing is None else landing.lend
                self.transports[name].expose(Exposure(_name(link), key, nbytes, parts, memory))
            case OfferPart():
                self._offer(core, out)
            case Submit(op=op, link=link, key=key, part=part):
                self._submit(core, op, link, key, part)
            case Cancel(op=op) if op in self._ops:
                number, transport = self._ops[op]
                transport.cancel(number)
            case FenceOp(op=op) if op in self._ops:
                number, transport = self._ops[op]
                transport.fence_operation(number)
            case FencePeer(link=link):
                self._fence(core, link)
            case ClosePeer(link=link):
                for name in self._links.pop(link, ()):
                    self.transports[name].close_peer(_name(link))
            case HandBack(session=session, lease=lease):
                self._handed_back(session, lease.kind, lease.no)
            case _:
                pass

    def _transport_of(self, core: Core, key: SessionKey) -> str:
        session = core.session(key)
        return next(iter(self.transports)) if session is None else session.rec.transport

    def _open(self, link: int, theirs: Sequence[TransportOffer]) -> None:
        for offer in theirs:
            transport = self.transports.get(offer.name)
            if transport is not None and offer.name not in self._links.get(link, ()):
                ours = transport.descriptor(_name(link))
                if not transport.mismatches(ours, offer.descriptor):
                    transport.open_peer(_name(link), offer.descriptor)
                    self._links.setdefault(link, set()).add(offer.name)

    def _offer(self, core: Core, out: OfferPart) -> None:
        if (out.session, out.no) not in self._payloads:
            self._early.setdefault((out.session, out.no), []).append(out)
            return
        transport = self.transports[self._transport_of(core, out.session)]
        self._offers.setdefault((out.session, out.no), []).append((transport, out.key))
        try:
            transport.offer(_name(out.link), out.key, self._portion_of(core, out.session, out.no, out.link))
        except ValueError as error:
            detail = str(error)
            # A mistake of ours (a deleted array): the room fails, everything else goes on.
            core.call(
                out.session,
                lambda s: s.op_failed(next(i for i, p in enumerate(s.rec.peers) if p.link == out.link), out.no, detail),
            )

    def _portion_of(self, core: Core, key: SessionKey, no: int, link: int) -> Payload:
        """What the receiver rank on this link gets of a gathered part."""
        session = core.sender(key)
        assert session is not None  # its own output is being carried out
        return self._portion(self._payloads[key, no], session.rec, no, link)

    def _submit(self, core: Core, op: OpKey, link: int, key: int, part: Part) -> None:
        transport = self.transports[self._transport_of(core, op.session)]
        self._next += 1
        self._ops[op] = (self._next, transport)
        self._keys[self._next] = op
        pulls = transport.capabilities.direction is Direction.PULL
        payload = None if pulls else self._portion_of(core, op.session, op.part, link)
        if pulls:
            self._taken.setdefault(op.session, set()).add((transport.capabilities.name, key))
        operation = Operation(self._next, _name(link), key, part.no, PayloadSpec(part.shape, part.dtype), payload)
        try:
            transport.submit(operation)
        except ValueError as error:
            self._forget_op(self._next)
            core.op_failed(op, str(error))

    def _fence(self, core: Core, link: int) -> None:
        names = self._links.get(link, set())
        self._fencing[link] = set(names)
        for name in names:
            self.transports[name].fence_peer(_name(link))
        if not names:
            self._fenced(core, link, "")

    def _fenced(self, core: Core, link: int, name: str) -> None:
        left = self._fencing.get(link)
        if left is not None:
            left.discard(name)
            if not left:
                del self._fencing[link]
                core.peer_fenced(link)

    def _handed_back(self, session: SessionKey, kind: LeaseKind, no: int) -> None:
        if kind is LeaseKind.COPY:
            self._payloads.pop((session, no), None)
            self._early.pop((session, no), None)
            for transport, key in self._offers.pop((session, no), ()):
                transport.forget(key)
        elif kind is LeaseKind.BUFFER:
            for name, key in self._taken.pop(session, ()):
                transport = self.transports[name]
                if transport.capabilities.direction is Direction.PUSH:
                    transport.retract(key)
                transport.release(key)
            if self.receive_slots is not None:
                self.receive_slots.back(session)

    # -- reports -------------------------------------------------------------------------------------------------------------
    def poll(self, core: Core) -> None:
        """Turn every report into an event of the core."""
        for name, transport in self.transports.items():
            for report in transport.poll():
                match report:
                    case PeerFenced(link=link):
                        self._fenced(core, int(link, 16), name)
                    case OpReport(op=number, outcome=outcome, detail=detail):
                        self._report(core, number, outcome, detail)

    def _report(self, core: Core, number: int, outcome: Outcome, detail: str) -> None:
        op = self._keys.get(number)
        if op is None:
            return
        if outcome is not Outcome.UNRESOLVED:
            self._forget_op(number)
        match outcome:
            case Outcome.DONE:
                core.op_done(op)
            case Outcome.FAILED:
                core.op_failed(op, detail)
            case Outcome.UNRESOLVED:
                core.op_unresolved(op, detail)
            case Outcome.FENCED:
                core.op_fenced(op)

    def _forget_op(self, number: int) -> None:
        self._ops.pop(self._keys.pop(number), None)

    def tick(self) -> None:
        for transport in self.transports.values():
            transport.tick()
        if self.receive_slots is not None:
            self.receive_slots.tick()

    def gauges(self) -> dict[str, int]:
        sizes = {
            "operations": len(self._ops), "payloads": len(self._payloads), "offers": len(self._offers), "early": len(self._early),
            "taken": len(self._taken), "fencing": len(self._fencing),
        }  # fmt: skip
        if self.receive_slots is not None:
            sizes |= self.receive_slots.gauges()
        for name, transport in self.transports.items():
            sizes |= {f"{name}.{gauge}": size for gauge, size in transport.gauges().items()}
        return sizes

    def close(self) -> None:
        for transport in self.transports.values():
            transport.close()


def _name(link: int) -> str:
    """A link as transports call it."""
    return f"{link:x}"
