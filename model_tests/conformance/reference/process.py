"""One rank of the reference: a real core, what its shell does with the core's outputs, and its memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import prod
from typing import TYPE_CHECKING

from kvpoll.protocol.core import Core, CoreConfig
from kvpoll.protocol.errors import Failure, LocalProtocolError
from kvpoll.protocol.interpreter import Edge, Signal
from kvpoll.protocol.links import Judgement
from kvpoll.protocol.outputs import (
    Changed,
    Connect,
    Dropped,
    Expose,
    FenceOp,
    FencePeer,
    HandBack,
    OfferPart,
    Output,
    Ready,
    Send,
    Submit,
)  # fmt: skip
from kvpoll.protocol.records import LeaseKind, OpKey, SessionKey
from kvpoll.spec import KVPoll
from kvpoll.spec.wire import Fingerprint, Part, Registration

from ..plug import DECODE, PREFILL, Side
from .mover import FENCE, Copy
from .topology import Address

if TYPE_CHECKING:
    from .world import World

__all__ = ["Handle", "Process"]


_NO_KEY = SessionKey("", 0)


@dataclass(slots=True, eq=False)
class Handle:
    """What a rank of the engine holds of one room."""

    process: Process
    room: int
    total: int  #: pages of the request, as this side sees it
    key: SessionKey = _NO_KEY
    state: KVPoll = KVPoll.Bootstrapping
    failure: Failure | None = None
    ready: bool = False  #: init() was called
    sent: int = 0  #: pages
    closed: bool = False  #: the last chunk was sent
    pages: list[int] = field(default_factory=list)  #: decode: where the data goes
    lent: set[tuple[LeaseKind, int]] = field(default_factory=set)  #: the engine's own memory that has not come back
    copies: dict[int, Copy] = field(default_factory=dict)  #: by part
    keys: list[int] = field(default_factory=list)  #: push: under which the receive side is exposed
    gates: list[str] = field(default_factory=list)  #: local steps that Success waits for
    arrived: dict[tuple[int, int], bytes] = field(default_factory=dict)  #: by prefill rank and part
    chunks: int = 0

    def pages_of(self, part: Part) -> list[int]:
        """Decode: where this part goes at this rank."""
        return [self.pages[token] for token in self.process.tokens_of(part)]


class Process:
    """See the module text."""

    def __init__(self, world: World, address: Address, engine: int, last_gen: int = 0) -> None:
        self.world, self.address = world, address
        setting, topology = world.setting, world.topology
        self.memory = bytearray(setting.pages * setting.page_bytes)
        self.offsets = topology.offsets(address, setting.page_bytes)  #: bytes of a page that are this rank's
        self.owner = topology.owner(address)  #: tokens, a page each, that are this rank's
        self.handles: dict[SessionKey, Handle] = {}
        self.ops: dict[OpKey, Submit] = {}
        self.alive = True
        self.config = CoreConfig(
            instance=next(world.ids), engine=engine, rank=address.rank, timing=setting.timing,
            page_nbytes=topology.layer_bytes(address, setting.page_bytes), layers=topology.layers(address),
            owners=self.owner.size, max_parts=64, max_rooms=64, max_links=8, max_half_open=64, credits=setting.credits,
            direct=setting.direct, push=(("reference", setting.push),),
        )  # fmt: skip
        self.registration = topology.registration(address, engine, setting.page_bytes)
        self.core = Core(self.config, lambda: next(world.ids), lambda link: self.registration, self._judge)
        self.core.env.now = world.now
        self.core.env.trace = self._stepped
        self.core.last_gen = last_gen
        self.changed: Callable[[Handle], None] = lambda handle: None  #: the engine hears of every new state
        self._tick_at: int | None = None
        world.places[address] = self

    @property
    def side(self) -> Side:
        return self.address.side

    def _judge(self, ours: Registration, theirs: Registration, initiator: bool) -> Judgement:
        """All ranks are made alike, and have their places."""
        if self.world.mismatched:
            return Judgement(("model",), "", "another model")
        pair = (ours, theirs) if self.side == PREFILL else (theirs, ours)
        return Judgement((), "reference", "", self.world.topology.cut(*pair))

    def _stepped(self, key: SessionKey, edge: Edge, signal: Signal) -> None:
        if self.world.rows is not None:
            rank = self.address.rank
            self.world.rows(SessionKey(f"{key.role}/{rank}", key.no) if rank else key, edge)

    # -- memory --------------------------------------------------------------------------------------------------------
    def write(self, pages: Sequence[int], data: bytes) -> None:
        """Write from the start of these pages; short data leaves the rest as it is."""
        size = self.world.setting.page_bytes
        for at, page in enumerate(pages):
            piece = data[at * size : (at + 1) * size]
            self.memory[page * size : page * size + len(piece)] = piece

    def read(self, pages: Sequence[int]) -> bytes:
        size = self.world.setting.page_bytes
        return b"".join(self.memory[page * size : (page + 1) * size] for page in pages)

    def shared(self, other: Address) -> tuple[int, ...]:
        """The bytes of a page that both ranks hold."""
        theirs = self.world.topology.offsets(other, self.world.setting.page_bytes)
        return self.offsets if self.offsets == theirs else tuple(at for at in self.offsets if at in theirs)

    def tokens_of(self, part: Part) -> list[int]:
        """The tokens of a part that this rank holds."""
        return [token for token in range(part.start, part.stop) if self.owner.held(token, token + 1)]

    def put(self, pages: Sequence[int], source: Address, data: bytes) -> None:
        """Write what came from another rank, and no other bytes of these pages."""
        size, shared = self.world.setting.page_bytes, self.shared(source)
        if len(shared) == size:
            self.write(pages, data)
            return
        places = (page * size + at for page in pages for at in shared)
        for place, byte in zip(places, data, strict=False):
            self.memory[place] = byte

    # -- the engine ----------------------------------------------------------------------------------------------------
    def create(self, room: int, total: int, digest: bytes, gen: int | None = None) -> Handle:
        """``gen``: of the attempt, at the decode side. Raises :class:`LocalProtocolError`: the room is live here."""
        want, topology, rank = Fingerprint(tokens=total, digest=digest), self.world.topology, self.address.rank
        handle = Handle(self, room, total)
        self.core.env.now = self.world.now
        if self.side == PREFILL:
            handle.key = self.core.create_sender(room, want, topology.readers(rank))
        else:
            sources = [(f"{PREFILL}/{source}", source) for source in topology.sources(rank)]
            handle.key = self.core.create_receiver(room, want, sources, gen)
        self.handles[handle.key] = handle
        self.settle()
        return handle

    def metadata(self, handle: Handle, pages: list[int]) -> None:
        handle.pages = pages
        self.core.env.now = self.world.now
        try:
            if self.core.on_receiver(handle.key, lambda session: session.send_metadata(gates=handle.gates)):
                handle.lent.add((LeaseKind.PAGES, 0))
        finally:
            self.settle()

    def send(self, handle: Handle, pages: Sequence[int], last: bool) -> None:
        start, stop = handle.sent, handle.sent + len(pages)
        low, high = self.config.layers
        shape = (high - low, len(pages), self.config.page_nbytes)
        part = Part(no=0, start=start, stop=stop, layer_start=low, layer_stop=high, shape=shape)
        self.core.env.now = self.world.now
        try:
            nos = self.core.send(handle.key, [part] if pages else [], last)
            handle.sent, handle.closed = stop, last
            if nos:
                handle.lent.add((LeaseKind.SOURCE, handle.chunks))
                handle.chunks += 1
                handle.copies[nos[0]] = Copy(bytearray(prod(shape)))
                self.world.after(self.world.setting.latency, partial(self._gather, handle, nos[0], list(pages)))
        finally:
            self.settle()

    def _gather(self, handle: Handle, no: int, pages: list[int]) -> None:
        copy = handle.copies.get(no)
        if copy is not None:
            copy.data[:] = self._own(pages)
        self.run(lambda: self.core.on_sender(handle.key, lambda session: session.gathered([no])))

    def _own(self, pages: Sequence[int]) -> bytes:
        """The bytes of these pages that this rank holds."""
        size = self.world.setting.page_bytes
        if len(self.offsets) == size:
            return self.read(pages)
        return bytes(self.memory[page * size + at] for page in pages for at in self.offsets)

    def abort(self, handle: Handle, reason: str = "given up") -> None:
        self.run(lambda: self.core.call(handle.key, lambda session: session.abort(reason, 0)))

    # -- the shell -----------------------------------------------------------------------------------------------------
    def run(self, action: Callable[[], object]) -> None:
        """Do something with the core, now, and carry out what follows."""
        if self.alive:
            self.core.env.now = self.world.now
            action()
            self.settle()

    def settle(self) -> None:
        while outputs := self.core.take():
            for out in outputs:
                self._carry_out(out)
        due = self.core.clocks.next()
        if due is not None and (self._tick_at is None or due < self._tick_at):
            self._tick_at = due
            self.world.after(max(0, due - self.world.now), partial(self._tick, due), late=True)

    def _tick(self, due: int) -> None:
        if self._tick_at == due and self.alive:
            self._tick_at = None
            self.run(lambda: self.core.tick(self.world.now))

    def report(self, op: OpKey, how: str) -> None:
        """What the mover says of a movement."""
        if how != "unresolved":
            self.ops.pop(op, None)
        core = self.core
        match how:
            case "done":
                self.run(lambda: core.op_done(op))
            case "failed":
                self.run(lambda: core.op_failed(op, "on purpose"))
            case "unresolved":
                self.run(lambda: core.op_unresolved(op, "no answer"))
            case _:
                self.run(lambda: core.op_fenced(op))

    def _carry_out(self, out: Output) -> None:
        world = self.world
        match out:
            case Send(link=link, message=message):
                world.put(self.address, link, message)
            case Connect(link=link, address=address):
                world.ends[link] = (self.address, _address(address))
            case Changed(session=key, state=state, failure=failure) if key in self.handles:
                self.handles[key].state, self.handles[key].failure = state, failure
                self.changed(self.handles[key])
            case Expose(session=key):
                world.mover.expose(self.handles[key], out)
            case OfferPart(session=key):
                world.mover.offer(self, self.handles[key].copies[out.no], out)
            case Submit(op=op):
                self.ops[op] = out
                world.mover.submit(self, self.handles[op.session], out)
            case FenceOp(op=op) if op in self.ops:
                world.mover.fence_operation(self, self.ops[op])
            case FencePeer(link=link):
                world.after(FENCE, partial(self._fenced, link))
            case HandBack(session=key) if key in self.handles:
                self._handed_back(self.handles[key], out.lease.kind, out.lease.no)
            case Ready(session=key):
                self._arrived(self.handles[key])
            case Dropped(session=key):
                self.handles.pop(key, None)

    def _fenced(self, link: int) -> None:
        if self.alive:
            self.world.mover.fence_peer(self, link)
            self.run(lambda: self.core.peer_fenced(link))

    def _handed_back(self, handle: Handle, kind: LeaseKind, no: int) -> None:
        handle.lent.discard((kind, no))
        if kind is LeaseKind.COPY and no in handle.copies:
            handle.copies.pop(no).wipe()
        elif kind is LeaseKind.BUFFER:
            for key in handle.keys:
                self.world.mover.exposed.pop(key, None)

    # -- decode: everything planned is here ----------------------------------------------------------------------------
    def _arrived(self, handle: Handle) -> None:
        look = partial(self.run, partial(self._look, handle))
        if self.world.setting.looks_late:
            self.world.after(self.world.setting.latency, look)
        else:
            self._look(handle)

    def _look(self, handle: Handle) -> None:
        session = self.core.receiver(handle.key)
        if session is None:
            return
        for rank, part in ((peer.rank, part) for peer in session.rec.peers for part in peer.parts):
            want, got = prod(part.shape), len(handle.arrived.get((rank, part.no), b""))
            if want != got:
                self.core.on_receiver(handle.key, lambda s, p=part, w=want, g=got: s.data_missing(p.no, w, g))  # type: ignore[misc]
                return
        self.world.after(self.world.setting.latency, partial(self.run, partial(self._begin, handle)))

    def _begin(self, handle: Handle) -> None:
        if self.world.strikes(self.side, "aux_wrong", handle.room):
            mine, other = f"room {handle.room}", "another request"
            self.core.on_receiver(handle.key, lambda session: session.aux_mismatch(mine, other))
        try:
            if not self.core.on_receiver(handle.key, lambda session: session.begin_commit()):
                return
        except LocalProtocolError:
            return  # it has failed meanwhile
        self.world.after(self.world.setting.latency, partial(self.run, partial(self._end, handle)))

    def _end(self, handle: Handle) -> None:
        if (self.side, handle.room) in self.world.slow:
            self.world.held.append(partial(self.run, partial(self._end, handle)))
            return
        if self.world.strikes(self.side, "commit_fails", handle.room):
            self.core.on_receiver(handle.key, lambda session: session.end_commit("on purpose"))
            return
        session = self.core.receiver(handle.key)
        if session is not None and not self.world.setting.direct:
            for rank, part in ((peer.rank, part) for peer in session.rec.peers for part in peer.parts):
                self.put(handle.pages_of(part), Address(PREFILL, rank), handle.arrived[rank, part.no])
        self.core.on_receiver(handle.key, lambda session: session.end_commit(""))

    def crash(self) -> None:
        """Gone without a word."""
        self.alive = False
        del self.world.places[self.address]
        self.world.mover.crash(self)


def _address(text: str) -> Address:
    side, _, rank = text.partition("/")
    return Address(DECODE if side == DECODE else PREFILL, int(rank))
