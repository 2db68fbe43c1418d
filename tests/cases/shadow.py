"""Two cores, a fake wire, and memory that is really written: what the replays of cases stand on.

:class:`Shadow` is a :class:`~tests.protocol.pair.Pair` whose processes have cells. Each lease that a core takes out gets a
cell, the one that came back last if there is any, so whatever is freed too early is somebody else's a moment later. A
gather fills cells, an operation that ends copies from one to another, and what a receiver is about to commit must be what
its own sender gathered for this very attempt. On top of what :class:`Pair` watches, these raise ``Broken``:

* NoFreeInFlight: an operation reads or writes a cell that belongs to somebody else by now;
* ReadAfterCompute: it reads a copy that was not gathered; or source pages came back before they were;
* NoWriteAfterArrival: it writes what had arrived;
* CompleteOrNotSuccess: a room is called complete and its cells do not hold its own data;
* CountExact: ``started - quiescent`` is not the number of operations in flight, or a record went while there were some.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from kvpoll.protocol.outputs import Expose, OfferPart, Output, Ready, Submit
from kvpoll.protocol.records import LeaseKind, OpKey, SessionKey
from kvpoll.spec.wire import Fingerprint, PartKind

from ..protocol.pair import ROOM, Broken, Leg, Pair, Process, request

__all__ = ["Act", "Cell", "Engine", "Shadow", "in_flight", "outcomes"]

#: A lease, whoever's: process, session, kind, number.
Owner = tuple[str, SessionKey, LeaseKind, int]
#: What a gather wrote: sender process, leg, part.
Data = tuple[str, SessionKey, int]


@dataclass(eq=False)
class Cell:
    """A piece of memory: whose it is, and what was written into it since, by (sender process, part)."""

    owner: Owner | None = None
    holds: dict[tuple[str, int], Data] = field(default_factory=dict)


@dataclass
class Move:
    """What an operation will do when it ends: decided when it starts, whatever becomes of the memory."""

    source: Owner
    target: Owner
    cells: tuple[Cell, Cell]
    part: tuple[str, int]


class Book(Leg):
    """A leg whose gathers write."""

    def gathered(self, *nos: int) -> None:
        assert isinstance(self.process, Engine)
        self.process.gather(self.key, nos)
        super().gathered(*nos)


class Engine(Process):
    """One core with memory around it."""

    pair: Shadow

    def __init__(self, pair: Shadow, name: str, **config: object) -> None:
        self.cells: dict[Owner, Cell] = {}  #: of leases that are out
        self.spare: list[Cell] = []  #: free, the last one back on top
        self.moves: dict[OpKey, Move] = {}
        super().__init__(pair, name, **config)

    def cell(self, leg: Leg, kind: LeaseKind, no: int = 0) -> Cell:
        return self.cells[self.name, leg.key, kind, no]

    def gather(self, key: SessionKey, nos: tuple[int, ...]) -> None:
        session = self.core.sender(key)
        for no in nos if session is not None else ():
            record = session.rec.parts[no]
            if not record.gathered and (self.name, key, LeaseKind.SOURCE, record.chunk) not in self.cells:
                raise Broken(f"ReadAfterCompute: the source pages of part {no} of {key} went before they were read")
            if cell := self.cells.get((self.name, key, LeaseKind.COPY, no)):
                cell.holds[self.name, no] = (self.name, key, no)

    def land(self, op: OpKey) -> None:
        """The data of an operation moves: when it ends, or at any time before, if it is unresolved."""
        move, touches = self.moves[op], self.ops[op].touches
        if not {move.source[0], move.target[0]} <= touches:
            return  # fenced, or one of the two is gone
        for owner, cell in zip((move.source, move.target), move.cells, strict=True):
            if cell.owner != owner:
                raise Broken(f"NoFreeInFlight: {op} of {owner} reaches memory that is {cell.owner}'s by now")
        if move.part not in move.cells[0].holds:
            raise Broken(f"ReadAfterCompute: {op} reads a copy that does not exist yet")
        if move.part in move.cells[1].holds:
            raise Broken(f"NoWriteAfterArrival: {op} writes what had arrived")
        move.cells[1].holds[move.part] = move.cells[0].holds[move.part]

    def end_op(self, how: str = "done", op: OpKey | None = None, detail: str = "") -> OpKey:
        op = next(iter(self.ops)) if op is None else op
        if how == "done":
            self.land(op)
        return super().end_op(how, op, detail)

    # -- what the core asks for ----------------------------------------------------------------------------------------
    def _adopt(self, key: SessionKey, room: int, want: Fingerprint) -> Leg:
        leg = self.legs[key] = Book(self, key, room, want)
        self.settle()
        return leg

    def settle(self) -> None:
        super().settle()
        self._count()

    def _lend(self) -> None:
        super()._lend()
        for session in self.core.sessions():
            for lease in session.rec.leases:
                owner = (self.name, session.key, lease.kind, lease.no)
                if owner not in self.cells:
                    cell = self.spare.pop() if self.spare else Cell()
                    cell.owner, cell.holds = owner, {}
                    self.cells[owner] = cell

    def _output(self, out: Output) -> None:
        super()._output(out)
        match out:
            case Expose(session=key, key=at):
                self.pair.at[at] = (self, key, None)
            case OfferPart(session=key, key=at, part=part):
                self.pair.at[at] = (self, key, part.no)
            case Submit():
                self._submitted(out)
            case Ready(session=key):
                self._complete(key)
            case _:
                pass

    def _submitted(self, out: Submit) -> None:
        other, key, _ = self.pair.at[out.key]
        no = out.part.no
        if out.op.session.role == "sender":
            source, target = (self, out.op.session), (other, key)
        else:
            source, target = (other, key), (self, out.op.session)
        kind = LeaseKind.BUFFER
        if target[0].config.direct:
            kind = LeaseKind.AUX if out.part.kind is PartKind.AUX else LeaseKind.PAGES
        reads: Owner = (source[0].name, source[1], LeaseKind.COPY, no)
        writes: Owner = (target[0].name, target[1], kind, 0)
        cells = source[0].cells[reads], target[0].cells[writes]
        self.moves[out.op] = Move(reads, writes, cells, (source[0].name, no))
        self.pair.met[target[0].name, target[1], source[0].name] = source[1]

    def _complete(self, key: SessionKey) -> None:
        session = self.core.receiver(key)
        assert session is not None
        held: dict[tuple[str, int], Data] = {}
        for owner, cell in self.cells.items():
            if owner[1] == key:
                held |= cell.holds
        expected = {
            (who, part.no): (who, self.pair.met.get((self.name, key, who)), part.no)
            for peer in session.rec.peers
            for who in [self.pair.other(peer.link, self.name)]
            for part in peer.parts
        }
        if held != expected:
            raise Broken(f"CompleteOrNotSuccess: {key} is called complete and holds {held} instead of {expected}")

    def _handed_back(self, key: SessionKey, kind: LeaseKind, no: int) -> None:
        super()._handed_back(key, kind, no)
        if cell := self.cells.pop((self.name, key, kind, no), None):
            cell.owner = None
            self.spare.append(cell)

    def _count(self) -> None:
        flying = Counter((op.session, op.peer) for op in self.ops)
        for session in self.core.sessions():
            for index, peer in enumerate(session.rec.peers):
                if peer.started - peer.quiescent != flying.pop((session.key, index), 0):
                    raise Broken(f"CountExact: {session.key} counts {peer.started} started, {peer.quiescent} quiescent")
        if flying:
            raise Broken(f"CountExact: a record went while {flying} was in flight")


class Shadow(Pair):
    """See the module text. ``direct``: the transport writes destination pages itself, without a receive buffer."""

    processes: dict[str, Engine]  # type: ignore[assignment]
    p: Engine
    d: Engine

    def __init__(self, push: bool = True, direct: bool = False, **config: object) -> None:
        self.at: dict[int, tuple[Engine, SessionKey, int | None]] = {}  #: what a key opens: whose, and which part
        self.met: dict[
            tuple[str, SessionKey, str], SessionKey
        ] = {}  #: (receiver process, attempt, sender process): leg
        super().__init__(push, direct=direct, **config)  # type: ignore[arg-type]

    def join(self, name: str, **config: object) -> Engine:
        process = self.processes[name] = Engine(self, name, **{**self._config, **config})
        process.core.tick(self.now)
        return process

    @property
    def mover(self) -> Engine:
        """Whoever starts operations."""
        return self.p if self.push else self.d

    def hold(self, held: bool = True) -> None:
        """Whether operations stay in flight until they are ended."""
        for process in self.processes.values():
            process.hold_ops = held

    def finish(self) -> None:
        """Everything that still moves comes to its end."""
        self.hold(False)
        for process in self.processes.values():
            process.hold_fences = False
        self.run()

    def operations(self) -> list[tuple[Engine, OpKey]]:
        """What is in flight, and who started it. An operation's key names it within one process only."""
        return [(process, op) for process in self.processes.values() for op in process.ops]


def in_flight(world: Shadow, *cuts: int, tokens: int = 4, room: int = ROOM) -> tuple[Leg, Leg]:
    """A room whose whole plan was handed over in chunks that end at ``cuts``, and whose operations have not ended."""
    s, r = world.both(room, request(tokens))
    r.metadata(aux=0)
    world.run()
    world.hold()
    s.send_all(*cuts)
    world.run()
    assert world.operations()
    return s, r


def outcomes(*legs: Leg) -> tuple[str, ...]:
    """The states of some legs, by name."""
    return tuple(leg.state.name for leg in legs)


#: Something that is done to a world.
Act = Callable[[Shadow, Leg, Leg], object]
