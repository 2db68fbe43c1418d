"""What engines do with one end of a room: prefill sends chunks, decode allocates pages, commits and compares.

The engine knows of a room what ``poll()`` would tell it, and is as late as its plan says: it may still send, allocate or
abort when the room is over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from kvpoll.protocol.coverage import pages_for
from kvpoll.protocol.errors import LocalProtocolError
from kvpoll.protocol.receiver import ReceiverSession
from kvpoll.protocol.records import Lease, LeaseKind
from kvpoll.spec import KVPoll
from kvpoll.spec.wire import Part, PartKind

from .memory import Buffer, Copy, Page, Shadow, pattern, touch, untouch
from .rooms import End

__all__ = ["DecodeEnd", "PrefillEnd", "aux_pattern"]

#: ms after which an engine that found no free pages looks again.
_RETRY = 15
_AUX_NBYTES = 16


def aux_pattern(request: int) -> int:
    """What the aux data of a request holds: whose it is (AuxSelfIdentifying)."""
    return pattern(request, 63, 63, 4095)


@dataclass(slots=True, eq=False)
class PrefillEnd(End):
    """The sending side of a room at one rank."""

    copies: dict[int, Copy] = field(default_factory=dict)  #: by part
    chunks: dict[int, list[Page]] = field(default_factory=dict)  #: source pages, as the core numbers chunks
    keys: dict[int, list[int]] = field(default_factory=dict)  #: pull: under which each part can be read
    sent: int = 0  #: chunks

    def begin(self) -> None:
        if self.room.plan.lazy != "prefill":
            self.process.later(self.room.plan.computes, self._chunk)

    def _chunk(self) -> None:
        """The next chunk is computed: fill pages and hand them over."""
        plan, process = self.room.plan, self.process
        if self.over and self.room.serial % 3:
            return  # most engines look before they send
        stops = [plan.prefix, *plan.cuts, plan.tokens]
        start, stop = list(pairwise(stops))[self.sent]
        size, last = process.config.page_size, self.sent + 2 == len(stops)
        pages = process.pool.allocate(pages_for(start, stop, size), self)
        if pages is None:
            process.later(_RETRY, self._chunk)
            return
        low, high = process.config.layers
        for at, page in enumerate(pages, start // size):
            page.values = [pattern(plan.request, self.rank, layer, at) for layer in range(low, high)]
        self.sent += 1
        self._send(self._parts(start, stop, pages, last), pages, last)
        if not last and not self.dropped:
            process.later(plan.computes, self._chunk)

    def _parts(self, start: int, stop: int, pages: Sequence[Page], last: bool) -> list[tuple[Part, list[Page]]]:
        """The parts of a chunk, each with its pages."""
        config, plan = self.process.config, self.room.plan
        size, (low, high) = config.page_size, config.layers
        each = max(1, -(-len(pages) // plan.pieces))
        parts = []
        for at in range(0, len(pages), each):
            mine = list(pages[at : at + each])
            first = start // size + at
            shape = (high - low, len(mine), config.page_nbytes)
            tokens = max(start, first * size), min(stop, (first + len(mine)) * size)
            part = Part(no=0, start=tokens[0], stop=tokens[1], layer_start=low, layer_stop=high, shape=shape)
            parts.append((part, mine))
        if last and plan.aux and self.rank == (0 if self.process.setting.fan else self.rank):
            parts.append((Part(no=0, kind=PartKind.AUX, shape=(_AUX_NBYTES,)), []))
        return parts

    def _send(self, parts: Sequence[tuple[Part, list[Page]]], pages: list[Page], last: bool) -> None:
        process = self.process
        process.log(f"send {len(parts)} parts{', the last' if last else ''}", self)
        nos = process.core.send(self.key, [part for part, _ in parts], last)
        if not nos:
            process.pool.free(pages, self)  # it is over: nothing was kept
            return
        chunk = len(self.chunks)
        self.chunks[chunk] = pages
        self.lent[LeaseKind.SOURCE, chunk] = None
        for no in nos:
            copy = self.copies[no] = Copy(process.clock, f"copy of part {no}")
            copy.lend(self)
            self.lent[LeaseKind.COPY, no] = None
            touch([copy], self)
        touch(pages, self)  # the gather reads them, and writes the copies
        work = [(no, part, mine) for no, (part, mine) in zip(nos, parts, strict=True)]
        process.later(self.room.plan.gathers, lambda: self._gathered(work, pages))

    def _gathered(self, work: Sequence[tuple[int, Part, list[Page]]], pages: list[Page]) -> None:
        low = self.process.config.layers[0]
        for no, part, mine in work:
            copy = self.copies[no]
            copy.written(self)
            copy.values = tuple(
                page.values[layer - low] for layer in range(part.layer_start, part.layer_stop) for page in mine
            ) or (aux_pattern(self.room.plan.request),)
            untouch([copy])
        untouch(pages)
        nos = [no for no, _, _ in work]
        self.process.core.on_sender(self.key, lambda session: session.gathered(nos))

    def readable(self, copy: Copy) -> None:
        """An operation starts to read a copy."""
        if not copy.values:
            self.process.broken("ReadAfterCompute", f"{copy.name} is read before it was gathered", self)

    def handed_back(self, lease: Lease) -> None:
        if lease.kind is LeaseKind.SOURCE:
            self.process.pool.free(self.chunks[lease.no], self)
            self.chunks[lease.no] = []
        elif lease.kind is LeaseKind.COPY:
            self.copies.pop(lease.no).give_back(self)
            self.process.fabric.withdraw(self.keys.pop(lease.no, ()))


@dataclass(slots=True, eq=False)
class DecodeEnd(End):
    """The receiving side of a room at one rank."""

    buffer: Buffer = field(init=False)
    pages: list[Page] = field(default_factory=list)
    slot: list[Page] = field(default_factory=list)  #: the aux slot, if there is one
    keys_of_buffer: list[int] = field(default_factory=list)  #: push: one for each sender rank
    met: bool = False  #: the core has called it ready

    def __post_init__(self) -> None:
        self.buffer = Buffer(self.process.clock, "receive buffer")

    @property
    def direct(self) -> bool:
        """Operations write the pages themselves."""
        return self.process.config.direct

    def begin(self) -> None:
        if self.room.plan.lazy != "decode":
            self.process.later(self.room.plan.allocates, self._allocate)

    def _allocate(self) -> None:
        """Look for pages and an aux slot, and say where data goes."""
        plan, process = self.room.plan, self.process
        if self.over and self.room.serial % 3:
            return
        pages = process.pool.allocate(pages_for(plan.prefix, plan.tokens, process.config.page_size), self)
        slot = process.slots.allocate(1 if plan.aux else 0, self) if pages is not None else None
        if pages is None or slot is None:
            process.pool.free(pages or (), self)
            if not self.over:
                process.later(_RETRY, self._allocate)
            return
        self.pages, self.slot = pages, slot
        aux = slot[0].no if slot else None
        process.log(f"allocated {len(pages)} pages", self)
        if not process.core.on_receiver(self.key, lambda session: session.send_metadata(aux, plan.gates)):
            process.pool.free(pages, self)
            process.slots.free(slot, self)
            return
        self.buffer.lend(self)
        kinds = (LeaseKind.PAGES, LeaseKind.BUFFER, *((LeaseKind.AUX,) if slot else ()))
        self.lent |= dict.fromkeys((kind, 0) for kind in kinds)
        self._watch_gates()

    def _watch_gates(self) -> None:
        plan, process = self.room.plan, self.process
        for at, gate in enumerate(plan.gates):
            wrong = plan.gate if at == 0 else ""
            if wrong == "fails":
                process.later(5, lambda gate=gate: self._on(lambda s: s.fail_gate(gate, "on purpose")))  # type: ignore[misc]
            elif not wrong:
                process.later(10 + 40 * at, lambda gate=gate: self._on(lambda s: s.open_gate(gate)))  # type: ignore[misc]

    def _on(self, action: object) -> None:
        self.process.core.on_receiver(self.key, action)  # type: ignore[arg-type]

    # -- data ------------------------------------------------------------------------------------------------------------------
    def pages_of(self, part: Part) -> list[Page]:
        """Destination pages of a part, in token order."""
        size = self.process.config.page_size
        at = part.start // size - self.room.plan.prefix // size
        return self.pages[at : at + pages_for(part.start, part.stop, size)]

    def reached(self, part: Part) -> list[Shadow]:
        """What an operation for this part can touch."""
        return [self.buffer, *(self.pages_of(part) if self.direct and part.kind is PartKind.KV else ())]

    def ready(self) -> None:
        """The core says that everything is here. Look; then commit, some time."""
        plan, core = self.room.plan, self.process.core
        session = core.receiver(self.key)
        if session is None or self.met:
            return
        self.met = True
        for peer in session.rec.peers:
            for part in peer.parts:
                if (peer.link, part.no) not in self.buffer.parts:
                    self.process.broken("NoDoneWithoutData", f"part {part.no} is called done and is not here", self)
        if plan.missing == "data":
            core.on_receiver(self.key, lambda s: s.data_missing(0, 1, 0))
        elif plan.missing == "aux":
            core.on_receiver(self.key, lambda s: s.aux_mismatch("mine", "another's"))
        else:
            self.process.later(1 + self.room.serial % 5, self._begin_commit)

    def _begin_commit(self) -> None:
        try:
            if not self.process.core.on_receiver(self.key, lambda session: session.begin_commit()):
                return
        except LocalProtocolError:
            if not self.over:
                raise
            return  # it has failed meanwhile
        session = self.process.core.receiver(self.key)
        assert session is not None
        held: list[Shadow] = [self.buffer, *self.pages, *self.slot]
        touch(held, self)
        parts = [(peer.link, part) for peer in session.rec.peers for part in peer.parts]
        self.process.log("commits", self)
        self.process.later(self.room.plan.commits, lambda: self._end_commit(parts, held))

    def _end_commit(self, parts: Sequence[tuple[int, Part]], held: Sequence[Shadow]) -> None:
        error = "on purpose" if self.room.plan.commit_fails else ""
        if not error:
            self._write(parts)
            self.compare()
        untouch(held)

        def over(session: ReceiverSession) -> None:
            session.end_commit(error)

        if not self.process.core.on_receiver(self.key, over):
            self.process.broken("NoFreeInFlight", "the record was dropped while the engine committed", self)

    def _write(self, parts: Sequence[tuple[int, Part]]) -> None:
        for link, part in parts:
            values = self.buffer.parts[link, part.no]
            if part.kind is PartKind.AUX:
                for slot in self.slot:
                    slot.written(self)
                    slot.values[0] = values[0]
                continue
            pages = self.pages_of(part)
            for layer in range(part.layer_start, part.layer_stop):
                for at, page in enumerate(pages):
                    page.written(self)
                    value = values[(layer - part.layer_start) * len(pages) + at]
                    if not self.direct:
                        page.values[layer] = value

    def compare(self) -> None:
        """Every page of every layer holds what its prefill rank computed for this request, and the slot is ours."""
        plan, setting = self.room.plan, self.process.setting
        first = plan.prefix // self.process.config.page_size
        for at, page in enumerate(self.pages, first):
            for layer, got in enumerate(page.values):
                rank = layer // setting.layers if setting.fan else self.rank
                if got != pattern(plan.request, rank, layer, at):
                    self.process.broken("CompleteOrNotSuccess", f"layer {layer} of page {at} holds {got:#x}", self)
        for slot in self.slot:
            if slot.values[0] != aux_pattern(plan.request):
                self.process.broken("AuxSelfIdentifying", f"the aux slot holds {slot.values[0]:#x}", self)

    def handed_back(self, lease: Lease) -> None:
        if lease.kind is LeaseKind.BUFFER:
            self.buffer.give_back(self)
            for key in self.keys_of_buffer:
                self.process.fabric.retract(key)
        elif lease.kind is LeaseKind.AUX:
            slot, self.slot = self.slot, []
            self.process.slots.free(slot, self)
        elif self.state is KVPoll.Success and self.pages:
            self.process.later(self.room.plan.keeps, self._used)
        else:
            self._free()

    def _used(self) -> None:
        """The engine has decoded all that it wants: nothing has touched the pages meanwhile."""
        self.compare()
        self._free()

    def _free(self) -> None:
        pages, self.pages = self.pages, []
        self.process.pool.free(pages, self)
