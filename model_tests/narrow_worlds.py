"""Pair worlds in which a fault happens at one place, or at one time, only: else they were too large.

In a :class:`RetryWorld` a decode engine gives an attempt up, and tries the room anew before the other end hears of that. Only
it aborts, and its ABORT is lost. So the announcement of the newer attempt may be the first that the prefill engine hears of
the older one's end. Claimed is ``AttemptUnique``: the older attempt is over then; where it is in doubt, it is asked first.

In a :class:`LateCrashWorld` the last process crashes, and only once each end of every attempt knows the other. In a
:class:`LastWordsWorld` it says first that it has forgotten everything. In an :class:`EarlyPairingWorld` only the pairing
deadlines of senders go off early.
"""

from __future__ import annotations

from collections.abc import Hashable

from kvpoll.protocol.records import Deadline, SessionKey
from kvpoll.spec import KVPoll
from kvpoll.spec.wire import Query

from .actions import Action
from .explorer import Violation
from .forging_world import ForgingWorld
from .memory import ATTEMPTS
from .network import take
from .pair import PairWorld
from .setting import ROOM

__all__ = ["EarlyPairingWorld", "LastWordsWorld", "LateCrashWorld", "RetryWorld"]


class RetryWorld(PairWorld):
    """See the module text."""

    def actions(self) -> list[Action]:
        return [action for action in super().actions() if self._wanted(action)]

    def _wanted(self, action: Action) -> bool:
        match action:
            case ("abort", int(slot), _):
                return slot >= self.setting.prefills
            case ("create", int(slot), _):
                return not self.tried(slot, ROOM) or not self.budget.aborts
            case ("clock", _, SessionKey() as key, Deadline.RESEND, _):
                return key.no == 1  # of the second attempt nothing is lost
        return True

    def ended(self) -> bool:
        return super().ended() or (self.budget.aborts > 0 and not self.net and all(room.over for room in self.rooms))

    def do(self, action: Hashable) -> None:
        before, known, net = self.rooms, self._announced(), self.net
        super().do(action)
        if isinstance(action, tuple) and action[0] == "abort":
            for number in set(self.net) - set(net):
                self.net = take(self.net, number)  # nobody hears of it
            return
        fresh = self._announced() - known
        asked = any(isinstance(self.mail[number], Query) for number in set(self.net) - set(net))
        for room in self.rooms:
            was = next((r for r in before if (r.instance, r.key) == (room.instance, room.key)), room)
            if not fresh or not room.sender or not was.attempt or room.over or asked:
                continue
            if was.attempt < max(fresh):
                raise Violation("AttemptUnique", f"{room.key} is {room.state.name}, and a newer attempt was announced")

    def _announced(self) -> set[int]:
        """Attempts that wait for a leg."""
        return {
            engine * ATTEMPTS + gen
            for slot in range(self.setting.prefills)
            if self.cores[slot] >= 0
            for engine, gen, *_ in self.view(slot).half_open
        }


class LateCrashWorld(PairWorld):
    """See the module text."""

    def actions(self) -> list[Action]:
        last = len(self.cores) - 1
        return [action for action in super().actions() if action[0] != "crash" or (action[1] == last and self._met())]

    def _met(self) -> bool:
        """Every leg was announced to by every attempt's rank: META of each is known, or it failed."""
        senders = [room for room in self.rooms if room.sender]
        return bool(senders) and all(room.state is not KVPoll.Bootstrapping for room in senders)


class LastWordsWorld(ForgingWorld):
    """See the module text."""

    def actions(self) -> list[Action]:
        last = len(self.cores) - 1
        wanted = ("forge", last, "forgotten, and gone")
        return [a for a in super().actions() if a[0] != "forge" or (a[0], a[1], a[3]) == wanted]


class EarlyPairingWorld(PairWorld):
    """See the module text. Every engine has heard of the request before anything else happens."""

    def actions(self) -> list[Action]:
        todo = super().actions()
        return [a for a in todo if a[0] == "create"][:1] or [a for a in todo if self._wanted(a)]

    def _wanted(self, action: Action) -> bool:
        match action:
            case ("clock", _, SessionKey(role=role), clock, False):
                return role == "sender" and clock is Deadline.PAIRING
        return True
