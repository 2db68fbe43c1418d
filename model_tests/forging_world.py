"""A pair world with a peer that breaks the protocol once: it says something that contradicts what it, or both, said before.

Where ``Budget.lies`` is spent, a message is sent in the name of the peer. It may be any of :data:`FORGERIES` that makes no
claim about memory (nobody can defend their memory against a peer that says it is quiet and is not). Some are last words: the
peer says that it holds nothing, and is gone, so that this is true. Who hears it ends the attempt at once, and says so. That
is claimed under the names of what would be broken otherwise:

* ``PositionsAbsolute``: another plan than before, or one that does not fit, is refused, never truncated.
* ``NoDoneWithoutData``: a conclusion before everything was started is not one.
* ``TerminalPropagates``: who refuses the attempt, or holds nothing of it, has ended it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import NamedTuple

from kvpoll.spec import KVPoll
from kvpoll.spec.wire import (
    Close,
    Conclude,
    Heartbeat,
    Message,
    Metadata,
    MetaGroup,
    Part,
    PartDone,
    Reason,
    Refusal,
)

from .actions import Action
from .explorer import Violation
from .memory import ATTEMPTS
from .pair import PairWorld
from .process import SessionView
from .setting import ROOM, request_of

__all__ = ["FORGERIES", "ForgingWorld"]


class Forgery(NamedTuple):
    """``make`` gets the envelope of a message of this attempt."""

    by_receiver: bool
    make: Callable[[PairWorld, dict[str, int]], Message]
    broken: str
    last: bool = False  #: who says it crashes


def _metadata(world: PairWorld, pages: int, envelope: dict[str, int]) -> Message:
    meta = MetaGroup(key=1, pages=pages, max_nbytes=1)
    return Metadata(fingerprint=request_of(world.setting, False), transport="t", meta=meta, **envelope)


_OUTSIDE = Part(no=0, start=7, stop=8, layer_start=0, layer_stop=1, shape=(1,))

#: What may be said once, by name.
FORGERIES: dict[str, Forgery] = {
    "conclude": Forgery(True, lambda world, envelope: Conclude(**envelope), "NoDoneWithoutData"),
    "another place": Forgery(True, lambda world, envelope: _metadata(world, 1, envelope), "PositionsAbsolute"),
    "too few pages": Forgery(True, lambda world, envelope: _metadata(world, 0, envelope), "PositionsAbsolute"),
    "a part outside": Forgery(
        False, lambda world, envelope: PartDone(parts=(_OUTSIDE,), **envelope), "PositionsAbsolute"
    ),
    "five parts": Forgery(False, lambda world, envelope: Close(total=5, **envelope), "PositionsAbsolute"),
    "no parts": Forgery(False, lambda world, envelope: Close(total=0, **envelope), "PositionsAbsolute"),
    "busy": Forgery(False, lambda world, envelope: _refusal(Reason.ROOM_BUSY, envelope), "TerminalPropagates"),
    "no leg": Forgery(False, lambda world, envelope: _refusal(Reason.NO_LEG, envelope), "TerminalPropagates"),
    "busy, and gone": Forgery(
        False, lambda world, envelope: _refusal(Reason.ROOM_BUSY, envelope), "TerminalPropagates", True
    ),
    "no leg, and gone": Forgery(
        False, lambda world, envelope: _refusal(Reason.NO_LEG, envelope), "TerminalPropagates", True
    ),
    "forgotten, and gone": Forgery(True, lambda world, envelope: _forgotten(envelope), "TerminalPropagates", True),
}


def _forgotten(envelope: dict[str, int]) -> Message:
    link, source, target, engine = (envelope[name] for name in ("link", "source", "target", "engine"))
    return Heartbeat(link=link, source=source, target=target, engine=engine, low_water=envelope["gen"] + 1)


def _refusal(reason: Reason, envelope: dict[str, int]) -> Message:
    of = envelope
    return Refusal(
        reason=reason, link=of["link"], source=of["source"], target=of["target"], source_rank=of["source_rank"],
        room=of["room"], engine=of["engine"], gen=of["gen"],
    )  # fmt: skip


class ForgingWorld(PairWorld):
    """See the module text. Which forgeries: see :meth:`_may`."""

    def actions(self) -> list[Action]:
        todo = [action for action in super().actions() if action[0] != "lie"]
        if self.budget.lies:
            for slot in self.living():
                for link, record in self.view(slot).links.items():
                    if record.open and self.view_of(record.instance) is not None:
                        todo += [
                            ("forge", slot, link, name) for name in FORGERIES if self._may(slot, record.initiator, name)
                        ]
        return todo

    def _may(self, slot: int, receiver: bool, name: str) -> bool:
        """None of these may claim that memory is quiet which is not: a refusal says that nothing of the sender is in flight,
        a plan of no parts says it of a push, a conclusion says it of a pull."""
        if FORGERIES[name].by_receiver is not receiver or not self._attempts():
            return False
        push, half = self.setting.push, self.setting.only == "decode"
        if FORGERIES[name].last:
            alone = self.setting.decodes > 1 and any(r.state is KVPoll.Bootstrapping for r in self.rooms if r.sender)
            return not half and not self.memory.flights and not alone
        if name in ("busy", "no leg"):
            return half
        if name == "conclude":  # once everything was started, nobody can tell that this is a lie
            legs = [view for other in self.living() for view in self.view(other).sessions if view.key.role == "sender"]
            return push and not any(view.started or view.terminal for view in legs)
        if name == "another place":
            return all(view.has_meta for view in self.view(slot).sessions)
        return push if name == "a part outside" else not push or name != "no parts"

    def _attempts(self) -> list[int]:
        return [room.attempt for room in self.rooms if not room.sender and room.attempt]

    def do(self, action: Hashable) -> None:
        match action:
            case ("forge", int(slot), int(link), str(name)):
                self._forge(slot, link, name)
                self.check()
            case _:
                super().do(action)

    def _forge(self, slot: int, link: int, name: str) -> None:
        """It arrives at once: a lie that is told late is told later."""
        self.spend(lies=True)
        message = FORGERIES[name].make(self, self._envelope(slot, link))
        other = self.target(self.mail.number(message))
        before = [
            view for view in self.view(other).sessions if view.attempt == self._attempts()[0] and not view.terminal
        ]
        self.call(other, ("hear", self.mail.number(message)))
        for view in before:
            self._refused(name, other, view)
        if FORGERIES[name].last:
            self.budget = self.budget._replace(crashes=self.budget.crashes + 1)
            self._process("crash", slot)

    def _envelope(self, slot: int, link: int) -> dict[str, int]:
        engine, gen = divmod(self._attempts()[0] if self._attempts() else 0, ATTEMPTS)
        source, target = self.instances[slot], self.view(slot).links[link].instance
        rank = slot if slot < self.setting.prefills else slot - self.setting.prefills
        names = {"link": link, "source": source, "target": target, "source_rank": rank}
        return names | {"room": ROOM, "engine": engine, "gen": gen}

    def _refused(self, name: str, slot: int, before: SessionView) -> None:
        if name.startswith(("busy", "no leg")) or self.setting.decodes > 1:
            return  # what a refusal must do is looked at in every world (see answers); one rank of several may be over already
        if (name, before.state is KVPoll.Bootstrapping) in (("five parts", False), ("another place", True)):
            return  # if nothing else was said before, the truth is what is refused later
        state = next((r.state for r in self.rooms if (r.instance, r.key) == (self.instances[slot], before.key)), None)
        if state is not KVPoll.Failed:
            raise Violation(FORGERIES[name].broken, f"{before.key} is {state and state.name} after {name!r}")
