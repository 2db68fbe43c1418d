"""One side of the reference: a real core, what its shell does with the core's outputs, and its memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
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
from kvpoll.spec.wire import (
    VERSION,
    Deadlines,
    Fingerprint,
    Heads,
    Layers,
    Page,
    Part,
    Registration,
    Versions,
)  # fmt: skip

from ..plug import PREFILL, Side, other
from .mover import FENCE, Copy

if TYPE_CHECKING:
    from .world import World

__all__ = ["Handle", "Process"]


_NO_KEY = SessionKey("", 0)


@dataclass(slots=True, eq=False)
class Handle:
    """What the engine holds of one room at one side."""

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
    arrived: dict[int, bytes] = field(default_factory=dict)  #: by part
    chunks: int = 0


class Process:
    """See the module text."""

    def __init__(self, world: World, side: Side) -> None:
        self.world, self.side = world, side
        setting = world.setting
        self.memory = bytearray(setting.pages * setting.page_bytes)
        self.handles: dict[SessionKey, Handle] = {}
        self.ops: dict[OpKey, Submit] = {}
        self.alive = True
        self.config = CoreConfig(
            instance=next(world.ids), engine=next(world.ids), timing=setting.timing, page_nbytes=setting.page_bytes,
            max_parts=64, max_rooms=64, max_links=8, max_half_open=64, credits=16, direct=setting.direct,
            push=(("reference", setting.push),),
        )  # fmt: skip
        self.core = Core(self.config, lambda: next(world.ids), lambda link: self._registration(), _judge)
        self.core.env.now = world.now
        self.core.env.trace = self._stepped
        self._tick_at: int | None = None
        world.places[side] = self

    def _registration(self) -> Registration:
        config = self.config
        return Registration(
            versions=Versions(VERSION, VERSION), role=self.side, engine=config.engine, model="", weights="",
            layers=Layers(1, 0, 1), page=Page(1, config.page_nbytes), kv_dtype="uint8", layout="", heads=Heads(1, 1),
            transports=(), deadlines=Deadlines(1, 1, 1, 1, 1, 1),
        )  # fmt: skip

    def _stepped(self, key: SessionKey, edge: Edge, signal: Signal) -> None:
        if self.world.rows is not None:
            self.world.rows(key, edge)

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

    # -- the engine ----------------------------------------------------------------------------------------------------
    def create(self, room: int, total: int, digest: bytes) -> Handle:
        """Raises :class:`LocalProtocolError`: the room is live here."""
        want = Fingerprint(tokens=total, digest=digest)
        handle = Handle(self, room, total)
        self.core.env.now = self.world.now
        if self.side == PREFILL:
            handle.key = self.core.create_sender(room, want, 1)
        else:
            handle.key = self.core.create_receiver(room, want, [(other(self.side), 0)])
        self.handles[handle.key] = handle
        self.settle()
        return handle

    def metadata(self, handle: Handle, pages: Sequence[int]) -> None:
        handle.pages = list(pages)
        self.core.env.now = self.world.now
        try:
            if self.core.on_receiver(handle.key, lambda session: session.send_metadata()):
                handle.lent.add((LeaseKind.PAGES, 0))
        finally:
            self.settle()

    def send(self, handle: Handle, pages: Sequence[int], last: bool) -> None:
        start, stop = handle.sent, handle.sent + len(pages)
        shape = (1, len(pages), self.config.page_nbytes)
        part = Part(no=0, start=start, stop=stop, layer_start=0, layer_stop=1, shape=shape)
        self.core.env.now = self.world.now
        try:
            nos = self.core.send(handle.key, [part] if pages else [], last)
            handle.sent, handle.closed = stop, last
            if nos:
                handle.lent.add((LeaseKind.SOURCE, handle.chunks))
                handle.chunks += 1
                handle.copies[nos[0]] = Copy(bytearray(len(pages) * self.config.page_nbytes))
                self.world.after(self.world.setting.latency, partial(self._gather, handle, nos[0], list(pages)))
        finally:
            self.settle()

    def _gather(self, handle: Handle, no: int, pages: list[int]) -> None:
        copy = handle.copies.get(no)
        if copy is not None:
            copy.data[:] = self.read(pages)
        self.run(lambda: self.core.on_sender(handle.key, lambda session: session.gathered([no])))

    def abort(self, handle: Handle) -> None:
        self.run(lambda: self.core.call(handle.key, lambda session: session.abort("given up", 0)))

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
                world.put(self.side, link, message)
            case Connect(link=link):
                world.ends[link] = (self.side, other(self.side))
            case Changed(session=key, state=state, failure=failure) if key in self.handles:
                self.handles[key].state, self.handles[key].failure = state, failure
            case Expose(session=key):
                world.mover.expose(self.handles[key], out)
            case OfferPart(session=key):
                world.mover.offer(self, self.handles[key].copies[out.part.no], out)
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
        session = self.core.receiver(handle.key)
        if session is None:
            return
        for part in session.rec.peers[0].parts:
            want, got = (part.stop - part.start) * self.config.page_nbytes, len(handle.arrived.get(part.no, b""))
            if want != got:
                self.core.on_receiver(handle.key, lambda s, p=part, w=want, g=got: s.data_missing(p.no, w, g))  # type: ignore[misc]
                return
        self.world.after(self.world.setting.latency, partial(self.run, partial(self._begin, handle)))

    def _begin(self, handle: Handle) -> None:
        try:
            if not self.core.on_receiver(handle.key, lambda session: session.begin_commit()):
                return
        except LocalProtocolError:
            return  # it has failed meanwhile
        self.world.after(self.world.setting.latency, partial(self.run, partial(self._end, handle)))

    def _end(self, handle: Handle) -> None:
        session = self.core.receiver(handle.key)
        if session is not None and not self.world.setting.direct:
            for part in session.rec.peers[0].parts:
                self.write(handle.pages[part.start : part.stop], handle.arrived[part.no])
        self.core.on_receiver(handle.key, lambda session: session.end_commit(""))

    def crash(self) -> None:
        """Gone without a word."""
        self.alive = False
        del self.world.places[self.side]
        self.world.mover.crash(self)


def _judge(ours: Registration, theirs: Registration, initiator: bool) -> Judgement:
    """Both ends are made alike."""
    return Judgement((), "reference", "")
