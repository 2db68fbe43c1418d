"""One process of a world: a real core, and the memory of what it did.

A core is a pure function of what it is and what happens to it. So each (state, call) is run once, on the real object, and
remembered: the product of a few small machines is large, each of them is not. A world then holds numbers instead of cores.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import NamedTuple, TypeAlias

from msgspec.structs import replace

from kvpoll.protocol.core import Core
from kvpoll.protocol.errors import LocalProtocolError
from kvpoll.protocol.interpreter import Edge, Signal
from kvpoll.protocol.outputs import Output, Send
from kvpoll.protocol.receiver import ReceiverSession
from kvpoll.protocol.records import Deadline, SessionKey
from kvpoll.protocol.sender import SenderSession
from kvpoll.spec import KVPoll, LeaseState, LinkEvent, LinkState
from kvpoll.spec.sender_table import doubt, plan
from kvpoll.spec.table import Verdict
from kvpoll.spec.wire import Message

from .answers import Broken, Happened
from .duties import broken_duty
from .isolation import disturbed
from .memory import ATTEMPTS

__all__ = ["Call", "LinkView", "Mail", "Process", "SessionView", "Step", "View"]

#: What happens to a core: a name, and what tells two calls of that name apart.
Call: TypeAlias = tuple[Hashable, ...]


class Mail:
    """Every message that was ever sent, by number: as small as a message in flight can be."""

    def __init__(self) -> None:
        self._messages: list[Message] = []
        self._numbers: dict[Message, int] = {}

    def number(self, message: Message) -> int:
        number = self._numbers.setdefault(message, len(self._messages))
        if number == len(self._messages):
            self._messages.append(message)
        return number

    def __getitem__(self, number: int) -> Message:
        return self._messages[number]

    def __len__(self) -> int:
        return len(self._messages)

    def forget(self, number: int) -> None:
        """Forget the messages from this one on."""
        for message in self._messages[number:]:
            del self._numbers[message]
        del self._messages[number:]


class Step(NamedTuple):
    """What a call did: the state it led to, the messages it sent, everything else that came out, what it returned."""

    state: int
    sends: tuple[int, ...]
    outputs: tuple[Output, ...]
    value: Hashable
    refused: bool  #: it raised LocalProtocolError: the engine called at the wrong time
    never: str  #: a row that its table calls impossible, if one fired
    disturbed: str = ""  #: a session of another room that it changed, if any
    broken: Broken = ("", "")  #: what it must do at once, and did not


class SessionView(NamedTuple):
    """What the world reads of one session."""

    key: SessionKey
    attempt: int  #: 0: not bound
    state: KVPoll
    terminal: bool
    has_meta: bool  #: receiver: pages were handed over
    sent: int  #: sender: parts handed over so far
    open: bool  #: sender: its plan is
    timers: tuple[Deadline, ...]
    quarantined: bool  #: every lease that is still out waits for a fence
    arrived: tuple[tuple[int, int], ...]  #: receiver: (instance, part) that counts as arrived
    gates: tuple[str, ...]
    room: int = 0
    started: bool = False  #: sender: it is in doubt


class LinkView(NamedTuple):
    """What the world reads of one link."""

    state: LinkState
    instance: int  #: of the peer
    initiator: bool
    low_water: int  #: the largest that the peer said
    timers: tuple[LinkEvent, ...]

    @property
    def open(self) -> bool:
        return self.state is LinkState.OPEN


class View(NamedTuple):
    """What the world reads of one state of a core."""

    sessions: tuple[SessionView, ...]
    attempts: tuple[tuple[SessionKey, int], ...]  #: of every session
    links: dict[int, LinkView]
    in_flight: dict[tuple[SessionKey, int], int]  #: (session, peer): operations that it counts, where there are any
    credits_out: int
    sender: SessionKey | None  #: the live one
    receiver: SessionKey | None
    created: int  #: legs, or attempts
    half_open: tuple[tuple[int, int, int, int], ...]
    low_water: int
    idle: bool  #: every table is empty, and every link has its one address
    draining: bool = False

    def room_of(self, key: SessionKey) -> int:
        """The room of a session that is there."""
        return next(session.room for session in self.sessions if session.key == key)


class Process:
    """See the module text. ``make`` builds the core; it gets the source of ids, which is part of its state."""

    def __init__(self, make: Callable[[Callable[[], int]], Core], mail: Mail, first_id: int) -> None:
        self.mail = mail
        self._next_id = first_id
        self.core = make(self._id)
        self.core.env.arm = lambda key, deadline, due: None  # armed clocks are a set here, not times
        self.core.links.arm = lambda link, clock, due: None
        self.core.legs.arm = lambda ids, due: None
        self._numbers: dict[Hashable, int] = {}
        self._states: list[tuple[Hashable, int]] = []
        self.views: list[View] = []
        self._steps: dict[tuple[int, Call], Step] = {}
        self.core.env.trace = self._trace
        self._never = ""
        self.start = self._number()

    def _id(self) -> int:
        self._next_id += 1
        return self._next_id

    def _trace(self, key: SessionKey, edge: Edge, signal: Signal) -> None:
        if edge.verdict is Verdict.NEVER:
            self._never = f"{key}: {edge.row.state.name} {signal.name}: {edge.row.why}"

    def dues(self, state: int) -> list[tuple[SessionKey, Deadline, int]]:
        """When each clock of its sessions is due, from now."""
        self.core.restore(self._states[state][0])  # type: ignore[arg-type]
        return [(session.key, *timer) for session in self.core.sessions() for timer in session.rec.timers]

    def _pass(self, much: int) -> None:
        """Time passes: what is due is due sooner. Clocks of links and of half-open attempts stand still."""
        for session in self.core.sessions():
            session.rec = replace(session.rec, timers=tuple((d, due - much) for d, due in session.rec.timers))

    @property
    def states(self) -> int:
        """How many states of the core were seen."""
        return len(self._states)

    def step(self, state: int, call: Call) -> Step:
        """What ``call`` does in ``state``."""
        known = self._steps.get((state, call))
        if known is None:
            known = self._steps[state, call] = self.run(state, call)
        return known

    def run(self, state: int, call: Call) -> Step:
        """The same, on the core itself."""
        snapshot, self._next_id = self._states[state]
        self.core.restore(snapshot)  # type: ignore[arg-type]
        value: Hashable = None
        refused, self._never = False, ""
        try:
            value = self._carry_out(call)
        except LocalProtocolError:
            refused = True
        sends, others = [], []
        for output in self.core.take():
            if isinstance(output, Send):
                sends.append(self.mail.number(output.message))
            else:
                others.append(output)
        never, after = self._never, self._number()
        heard = self.mail[call[1]] if call[0] == "hear" else None  # type: ignore[index]
        said = [self.mail[number] for number in sends]
        before = self.views[state]
        broken = broken_duty(self.core, Happened(call, before.sessions, refused, heard, said, before.links))
        return Step(
            after, tuple(sends), tuple(others), value, refused, never, self._disturbed(state, call, after), broken
        )

    def _disturbed(self, state: int, call: Call, after: int) -> str:
        """Isolation: see :mod:`.isolation`."""
        views = self.views[state], self.views[after]
        if not any(len({session.room for session in view.sessions}) > 1 for view in views):
            return ""  # at most one room: no other to disturb
        before, then = self._states[state][0], self._states[after][0]
        return disturbed(self.core, before, call, then, self.mail.__getitem__)  # type: ignore[arg-type]

    def _carry_out(self, call: Call) -> Hashable:
        name, *arguments = call
        if name == "hear":
            (number,) = arguments
            assert isinstance(number, int)
            self.core.receive(self.mail[number])
            return None
        if name == "pass":
            (much,) = arguments
            assert isinstance(much, int)
            self._pass(much)
            return None
        if name == "session":
            key, method, *rest = arguments
            assert isinstance(key, SessionKey)
            assert isinstance(method, str)
            return self.core.call(key, lambda session: getattr(session, method)(*rest))
        assert isinstance(name, str)
        target: object = self.core
        for step in name.split("."):
            target = getattr(target, step)
        assert callable(target)
        result: Hashable = target(*arguments)
        return result

    def _number(self) -> int:
        state = (self.core.snapshot(), self._next_id)
        number = self._numbers.setdefault(state, len(self._states))
        if number == len(self._states):
            self._states.append(state)
            self.views.append(view_of(self.core))
        return number


def view_of(core: Core) -> View:
    """What a world may look at."""
    sessions = tuple(core.sessions())
    room_sender = next(iter(core.legs.rooms.values()), None)
    room_receiver = next(iter(core.rooms.values()), None)
    return View(
        sessions=tuple(session_view(s) for s in sessions),
        attempts=tuple((s.key, attempt_of(s)) for s in sessions),
        links={
            link: LinkView(r.state, r.instance, r.initiator, r.low_water, tuple(e for e, _ in r.timers))
            for link, r in core.links.table.items()
        },
        in_flight={
            (s.key, index): peer.started - peer.quiescent
            for s in sessions
            for index, peer in enumerate(s.rec.peers)
            if peer.started != peer.quiescent
        },
        credits_out=core.config.credits - core.env.credits,
        sender=None if room_sender is None else SessionKey("sender", room_sender),
        receiver=None if room_receiver is None else SessionKey("receiver", room_receiver),
        created=core.legs.count + core.last_gen,
        half_open=tuple(core.legs.half_open),
        low_water=core.low_water(),
        idle=not any(core.gauges().values())
        and set(core.links.by_address.values()) == {link for link, r in core.links.table.items() if r.initiator},
        draining=core.draining,
    )  # fmt: skip


def attempt_of(session: SenderSession | ReceiverSession) -> int:
    """The attempt as one number; 0 for a leg that is not paired."""
    return session.rec.engine * ATTEMPTS + session.rec.gen if session.rec.gen else 0


def session_view(session: SenderSession | ReceiverSession) -> SessionView:
    rec = session.rec
    sender = session.rec if isinstance(session, SenderSession) else None
    receiver = session.rec if isinstance(session, ReceiverSession) else None
    return SessionView(
        key=session.key,
        attempt=attempt_of(session),
        state=session.state,
        terminal=session.terminal,
        has_meta=receiver is not None and receiver.meta is not None,
        sent=0 if sender is None else len(sender.parts),
        open=sender is not None and sender.node[plan] == "open",
        timers=tuple(deadline for deadline, _ in rec.timers),
        quarantined=all(lease.state is LeaseState.QUARANTINED for lease in rec.leases),
        arrived=() if receiver is None else tuple((p.instance, no) for p in receiver.peers for no in p.arrived),
        gates=() if receiver is None else receiver.gates,
        room=rec.room,
        started=sender is not None and bool(sender.node[doubt]),
    )
