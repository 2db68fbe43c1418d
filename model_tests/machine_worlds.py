"""Worlds of one machine alone, fed with everything that may happen to it, in any order, late and twice.

Sessions keep much away from their tables: they see that a message is a copy, disarm the clocks of what is over, and forget
memory that went back. So some rows are second walls, which no world of whole processes reaches. Here a machine stands
behind no first wall:

* :class:`LeaseWorld`: one piece of memory, which its owner and a peer may touch at the same time.
* :class:`LinkWorld`: one link, with its clocks and the time that passes.
* :class:`WallWorld`: a room that is over, and any event.

Requests for staging slots are tried against each other, and the real pool: see :mod:`.staging_world`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from enum import Enum
from typing import NamedTuple, Protocol

from kvpoll.protocol.interpreter import Edge, Machine, Node, Signal
from kvpoll.spec import Effect, LeaseEvent, LeaseState, LinkEvent, LinkState
from kvpoll.spec.table import Verdict

from .explorer import Violation, World
from .staging_world import PoolWorld, RingWorld, Shape
from .tables import RULES

__all__ = ["MACHINE_WORLDS", "Alone", "LeaseWorld", "LinkWorld", "WallWorld"]


class Alone(World, Protocol):
    """What a world of one machine can say besides."""

    def seen_from_outside(self) -> Hashable:
        """What an observer sees of the state."""

    def tell(self, trace: Sequence[Hashable]) -> list[str]:
        """A trace for people."""


class MachineWorld:
    """What the three have in common: an action is a name, a state is a node and what an observer knows besides."""

    def __init__(self, table: str) -> None:
        self.rules = RULES[table]
        self.machine = Machine(self.rules)

    def feed(self, event: Enum) -> Edge:
        """Raises :class:`Violation` when a row fires that is called impossible."""
        edge = self.machine.feed(self.rules.signal(event))
        if edge.verdict is Verdict.NEVER:
            raise Violation("TotalHandlers", f"a row that is called impossible fired: {edge.row.why}")
        return edge

    @property
    def node(self) -> Node:
        return self.machine.node

    def seen_from_outside(self) -> Hashable:
        return self.node.state, self.snapshot()[1]  # type: ignore[index]

    def snapshot(self) -> Hashable:
        raise NotImplementedError

    def tell(self, trace: Sequence[Hashable]) -> list[str]:
        return [action.name if isinstance(action, Enum) else str(action) for action in trace]


class Touched(NamedTuple):
    """What is true of a piece of memory."""

    lives: int = 0  #: how often it was lent
    own: int = 0  #: operations of ours in flight on it
    stuck: int = 0  #: of these, unresolved
    theirs: bool = False  #: a peer may have one
    theirs_stuck: bool = False
    over: bool = False  #: its room
    failed: bool = False  #: its room, for an operation was unresolved: nothing new is started


class LeaseWorld(MachineWorld):
    """See the module text. It is lent twice, one after the other."""

    def __init__(self) -> None:
        super().__init__("lease")
        self.true = Touched()

    def snapshot(self) -> Hashable:
        return self.node, self.true

    def restore(self, snapshot: Hashable) -> None:
        assert isinstance(snapshot, tuple)
        self.machine.node, self.true = snapshot

    def fair(self, action: Hashable) -> bool:
        return action in ("close", "operation ends", "drain word", "pick", "take")

    def ended(self) -> bool:
        return self.node.state is LeaseState.FREE and self.true.lives == 2

    def outcome(self) -> str:
        return "lent twice"

    def lacks(self) -> list[Violation]:
        return [
            Violation("EventuallyReleased", f"it stays {self.node.state.value}, and what is true of it is {self.true}")
        ]

    def actions(self) -> list[str]:
        state, true = self.node.state, self.true
        todo = ["late quiet"] * (not true.own) + ["late drain word", "late quarantine word"] * (not true.theirs)
        if state is LeaseState.FREE:
            return [*todo, "close again", *(["take"] if true.lives < 2 else [])]
        if state is LeaseState.HANDED:
            return [*todo, "close again", "pick"]
        todo.append("close again" if true.over else "close")
        if not true.over and not true.failed:
            todo += ["start"] * (true.own < 2) + ["expose"]
        todo += ["operation ends"] * (true.own > 0) + ["operation is unresolved"] * (true.own > true.stuck)
        todo += ["drain word"] * true.theirs + ["quarantine word"] * true.theirs
        return todo

    def do(self, action: Hashable) -> None:
        before, true = self.node.state, self.true
        match action:
            case "take":
                self.true = Touched(true.lives + 1)
                self._feed(LeaseEvent.TAKE)
            case "start":
                self.true = true._replace(own=true.own + 1)
                self._feed(LeaseEvent.START)
            case "expose":
                self.true = true._replace(theirs=True)
                self._feed(LeaseEvent.EXPOSE)
            case "operation ends":
                self.true = true._replace(own=true.own - 1, stuck=min(true.stuck, true.own - 1))
                if not self.true.own:
                    self._feed(LeaseEvent.QUIET)
            case "operation is unresolved":
                self.true = true._replace(stuck=true.stuck + 1, failed=True)
                self._told(self._feed(LeaseEvent.UNRESOLVED))
            case "drain word":
                self.true = true._replace(theirs=False, theirs_stuck=False)
                self._feed(LeaseEvent.DRAINED)
            case "quarantine word":
                self.true = true._replace(theirs_stuck=True, failed=True)
                edge = self._feed(LeaseEvent.PEER_UNRESOLVED)
                if before is not LeaseState.QUARANTINED:
                    self._told(edge)
            case "close" | "close again":
                self.true = true._replace(over=True)
                self._feed(LeaseEvent.CLOSE)
            case "late quiet":
                self._feed(LeaseEvent.QUIET)
            case "late drain word":
                self._feed(LeaseEvent.DRAINED)
            case "late quarantine word":
                self._feed(LeaseEvent.PEER_UNRESOLVED)
            case "pick":
                self._feed(LeaseEvent.PICKED)
        self._check(before, action)

    def _feed(self, event: LeaseEvent) -> Edge:
        before = self.node.state
        edge = self.feed(event)
        back = self.node.state is LeaseState.HANDED is not before
        if back is not (Effect.HAND_BACK in edge.effects):
            raise Violation("ExactlyOnceFree", f"{event.name}: handed back is {back}, the process was told otherwise")
        return edge

    def _told(self, edge: Edge) -> None:
        if Effect.NOTE_QUARANTINE not in edge.effects:
            raise Violation("UnresolvedIsNotFree", "memory waits for a fence, and the process was not told")

    def _check(self, before: Enum, action: Hashable) -> None:
        state, true = self.node.state, self.true
        if state in (LeaseState.HANDED, LeaseState.FREE):
            if true.own or true.theirs:
                stuck = true.stuck or true.theirs_stuck
                raise Violation(
                    "UnresolvedIsNotFree" if stuck else "NoFreeInFlight",
                    f"it is {state.value}, and can be touched: {true}",
                )
            if not true.over and true.lives:
                raise Violation("UniformRelease", f"it is {state.value}, and its room is not over")
        elif (true.stuck or true.theirs_stuck) and state is not LeaseState.QUARANTINED:
            raise Violation("UnresolvedIsNotFree", f"it is {state.value} although an operation is unresolved")
        if before in (LeaseState.HANDED, LeaseState.FREE) and state is not before and action not in ("take", "pick"):
            raise Violation("ExactlyOnceFree", f"{action}: it was {before.value} and is {state.value}")


class Linked(NamedTuple):
    """What is true of a link."""

    ours: bool | None = None  #: who said hello first; None: nobody yet
    heard: int = 0  #: so long ago, at most LATE
    armed: tuple[LinkEvent, ...] = ()
    lost_for: int = 0  #: since the peer-lost deadline was started


#: Time that passes before a peer is lost.
LATE = 2
_ENDS = (LinkEvent.LINK_OVER, LinkEvent.DISCONNECTED, LinkEvent.CLOSE)


class LinkWorld(MachineWorld):
    """See the module text."""

    def __init__(self) -> None:
        super().__init__("link")
        self.true = Linked()

    def snapshot(self) -> Hashable:
        return self.node, self.true

    def restore(self, snapshot: Hashable) -> None:
        assert isinstance(snapshot, tuple)
        self.machine.node, self.true = snapshot

    def fair(self, action: Hashable) -> bool:
        return action in ("our hello", LinkEvent.CLOSE, LinkEvent.WELCOME)

    def ended(self) -> bool:
        return self.node.state is LinkState.OVER

    def outcome(self) -> str:
        return "over"

    def actions(self) -> list[Hashable]:
        state, true = self.node.state, self.true
        if true.ours is None:
            return ["our hello", "their hello"]
        if not true.ours and state is LinkState.GREETING:
            return [LinkEvent.WELCOME, LinkEvent.MISMATCH]  # it is compared at once
        peer: list[Hashable] = [LinkEvent.WELCOME, LinkEvent.MISMATCH, LinkEvent.HEARD, *_ENDS]
        clocks = [clock for clock in true.armed if clock is not LinkEvent.LOST or true.lost_for >= LATE]
        stale = [
            e for e in (LinkEvent.BEAT, LinkEvent.HELLO_LATE) if state is not LinkState.GREETING and e not in clocks
        ]
        gone = [LinkEvent.LOST] if state is LinkState.OVER and LinkEvent.LOST not in clocks else []
        return [*peer, *clocks, *stale, *gone, "time passes"]

    def do(self, action: Hashable) -> None:
        before, true = self.node.state, self.true
        if isinstance(action, str) and action != "time passes":
            ours = action == "our hello"
            self.true = Linked(ours, armed=(LinkEvent.BEAT, LinkEvent.HELLO_LATE) if ours else ())
            return
        if not isinstance(action, LinkEvent):
            self.true = true._replace(heard=min(true.heard + 1, LATE), lost_for=min(true.lost_for + 1, LATE))
            return
        if action is LinkEvent.HEARD:
            true = true._replace(heard=0)
        left = {clock for clock in true.armed if clock is not action}
        edge = self.feed(action)
        for effect, clock in _ARMS.items():
            if effect in edge.effects:
                left.add(clock)
        lost_for = 0 if Effect.ARM_LOST in edge.effects else true.lost_for
        heard = 0 if Effect.OPEN_PEER in edge.effects else true.heard
        state = self.node.state
        armed = () if state is LinkState.OVER else tuple(sorted(left, key=lambda clock: clock.value))
        self.true = Linked(true.ours, heard, armed, lost_for)
        self._check(before, action, edge)

    def _check(self, before: Enum, event: LinkEvent, edge: Edge) -> None:
        state = self.node.state
        moved = state is not before
        if before is LinkState.OVER and moved:
            raise Violation("TerminalAbsorbing", "a link was opened again")
        if event is LinkEvent.LOST and moved and self.true.heard < LATE:
            raise Violation("EvidenceBeforeDeadline", "a peer was declared lost that was heard in time")
        if (
            event in _ENDS
            or (event is LinkEvent.HELLO_LATE and before is not LinkState.OPEN)
            or event is LinkEvent.LOST
        ):
            if state is not LinkState.OVER:
                raise Violation("EveryRoomEnds", f"{event.name}: the link is {state.value}; its rooms never hear of it")
        elif (before, event) in _AGREED:
            if state is not _AGREED[before, event]:
                raise Violation("EveryRoomEnds", f"{event.name}: the link is {state.value}, and rooms wait for it")
        elif moved:
            raise Violation(
                "TotalHandlers", f"{event.name} is a copy, or stale, and moved a link that is {before.value}"
            )
        told = {LinkState.GREETING: Effect.FAIL_ROOMS, LinkState.OPEN: Effect.DROP_PEER}.get(before)  # type: ignore[call-overload]
        if moved and state is not LinkState.OPEN and told is not None and told not in edge.effects:
            raise Violation("EveryRoomEnds", f"the link is {state.value}, and its rooms were not told")
        if moved and state is LinkState.OPEN and Effect.OPEN_PEER not in edge.effects:
            raise Violation("EveryRoomEnds", "the link is open, and the rooms that wait for it were not told")
        for clock in _NEEDS[state]:
            if clock not in self.true.armed:
                raise Violation("EveryRoomEnds", f"the link is {state.value} without its {clock.name} clock")
        if event is LinkEvent.BEAT and not moved:
            said = {LinkState.GREETING: Effect.SEND_HELLO, LinkState.OPEN: Effect.BEAT}.get(state)  # type: ignore[call-overload]
            if said is not None and said not in edge.effects:
                raise Violation("LossSurvivable", f"the link is {state.value}, and nothing is said again")


#: Links arm their hello deadline with FAIL_ROOMS, too: a refusal is remembered that long.
_ARMS = {
    Effect.ARM_BEAT: LinkEvent.BEAT,
    Effect.ARM_LOST: LinkEvent.LOST,
    Effect.ARM_HELLO: LinkEvent.HELLO_LATE,
    Effect.FAIL_ROOMS: LinkEvent.HELLO_LATE,
}
_AGREED: dict[tuple[Enum, LinkEvent], LinkState] = {
    (LinkState.GREETING, LinkEvent.WELCOME): LinkState.OPEN,
    (LinkState.GREETING, LinkEvent.MISMATCH): LinkState.REFUSED,
}
_NEEDS: dict[Enum, tuple[LinkEvent, ...]] = {
    LinkState.GREETING: (LinkEvent.BEAT, LinkEvent.HELLO_LATE),
    LinkState.OPEN: (LinkEvent.BEAT, LinkEvent.LOST),
    LinkState.REFUSED: (LinkEvent.HELLO_LATE,),
    LinkState.OVER: (),
}


class WallWorld(MachineWorld):
    """See the module text. Events that are refused, or that the table calls impossible, are left out."""

    def __init__(self, table: str) -> None:
        super().__init__(table)
        self.signals = list(self.rules.signals())

    def snapshot(self) -> Hashable:
        return self.node

    def restore(self, snapshot: Hashable) -> None:
        assert isinstance(snapshot, Node)
        self.machine.node = snapshot

    def fair(self, action: Hashable) -> bool:
        return True

    def ended(self) -> bool:
        return self.node.state in self.rules.table.terminal

    def outcome(self) -> str:
        return self.node.state.name

    def actions(self) -> list[Signal]:
        silent = (Verdict.NEVER, Verdict.REFUSE)
        return [s for s in self.signals if self.rules.match(self.node, s)[0].verdict not in silent]

    def do(self, action: Hashable) -> None:
        assert isinstance(action, Signal)
        before = self.node.state
        self.machine.feed(action)
        if before in self.rules.table.terminal and self.node.state is not before:
            raise Violation("TerminalAbsorbing", f"{action.name}: {before.name} was left for {self.node.state.name}")

    def tell(self, trace: Sequence[Hashable]) -> list[str]:
        return [action.name for action in trace if isinstance(action, Signal)]


#: Name -> the table, how to make it, and whether it is about rooms that are over only.
MACHINE_WORLDS: dict[str, tuple[str, Callable[[], Alone], bool]] = {
    "one-lease": ("lease", LeaseWorld, False),
    "one-link": ("link", LinkWorld, False),
    "sender-wall": ("sender", lambda: WallWorld("sender"), True),
    "receiver-wall": ("receiver", lambda: WallWorld("receiver"), True),
    "slots-too-large": ("staging", lambda: RingWorld(Shape(large=True, fails=0, losses=1, strays=1)), False),
    "slots-of-one-room": ("staging", lambda: PoolWorld(Shape(rooms=1, tickets=2, strays=2)), False),
    "slots-refused": ("staging", lambda: RingWorld(Shape(queue=0, fails=0, losses=1)), False),
    "slots-pool": ("staging", lambda: PoolWorld(Shape(strays=1)), False),
    "slots-ring": ("staging", lambda: RingWorld(Shape(losses=1)), False),
}
