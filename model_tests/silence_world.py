"""Pair worlds about silence: who asks, who answers, and when a room gives up.

An observer remembers, for each room, whether it has asked since it heard last that its attempt lives. Two claims, both
``EvidenceBeforeDeadline``: a room that was answered is not given up for silence; and one that has asked in vain is, when
the silence deadline is over.

In a world with ``timed`` time passes, too: only when nothing is on its way (the network is prompt), and then to where the next
clock is due. So a room whose peer lives is never given up for silence, however late the engines are.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from kvpoll.protocol.errors import Failure
from kvpoll.protocol.outputs import Changed, Output
from kvpoll.protocol.records import Deadline, SessionKey
from kvpoll.protocol.session import Timing
from kvpoll.spec import KVPoll
from kvpoll.spec.wire import Close, Offer, PartDone, Query, RoomMessage, Status

from .actions import Action, quiet
from .explorer import Violation
from .memory import ATTEMPTS
from .pair import PairWorld
from .process import Call, Process, Step
from .setting import Budget, Setting
from .stage import State

__all__ = ["TIMING", "SilenceWorld", "Silent", "TimedWorld"]

Asker = tuple[int, SessionKey]


#: Milliseconds, as few as tell the deadlines apart. A question is asked at half of the silence deadline.
TIMING = Timing(pairing=5, silence=4, total=9, gate=6, resend=3, hello=100, beat=100, lost=100)


class Silent(NamedTuple):
    """The world, who has asked and heard nothing since, and how long ago each live room heard evidence, where time passes."""

    state: State
    asked: frozenset[Asker]
    heard: tuple[tuple[Asker, int], ...] = ()


class SilenceWorld(PairWorld):
    """See the module text."""

    timed = False

    def __init__(self, setting: Setting, budget: Budget) -> None:
        self.asked: frozenset[Asker] = frozenset()
        self._failures: dict[SessionKey, Failure] = {}  #: in this call
        super().__init__(setting, budget)

    def snapshot(self) -> Hashable:
        return Silent(self.state(), self.asked)

    def restore(self, snapshot: Hashable) -> None:
        assert isinstance(snapshot, Silent)
        super().restore(snapshot.state)
        self.asked = snapshot.asked

    def call(self, slot: int, call: Call) -> Step:
        instance, before = self.instances[slot], self.view(slot).sessions
        self._failures.clear()
        step = super().call(slot, call)
        match call:
            case ("fire", SessionKey() as key, Deadline.SILENCE):
                self._judge(slot, key)
            case ("hear", int(number)):
                message = self.mail[number]
                if isinstance(message, Status) and message.facts.state not in (KVPoll.Failed, KVPoll.Success):
                    self.asked -= {(instance, view.key) for view in before if view.attempt == _attempt(message)}
        for number in step.sends:
            if isinstance(message := self.mail[number], Query):
                self.asked |= {(instance, view.key) for view in before if view.attempt == _attempt(message)}
        live = {(instance, view.key) for view in self.view(slot).sessions if not view.terminal}
        self.asked = frozenset(asker for asker in self.asked if asker[0] != instance or asker in live)
        return step

    def _output(self, slot: int, instance: int, output: Output) -> None:
        if isinstance(output, Changed) and output.failure is not None:
            self._failures[output.session] = output.failure
        super()._output(slot, instance, output)

    def _judge(self, slot: int, key: SessionKey) -> None:
        """The silence deadline of ``key`` is over; ``self.asked`` is as it was before."""
        asked = (self.instances[slot], key) in self.asked
        failure = self._failures.get(key)
        lives = any(view.key == key and not view.terminal for view in self.view(slot).sessions)
        if failure is not None and failure.in_doubt and not asked:
            raise Violation(
                "EvidenceBeforeDeadline", f"{key.role} {key.no} is in doubt, and gave up without having asked"
            )
        if lives and asked and key.role == "sender":
            raise Violation("EvidenceBeforeDeadline", f"{key.role} {key.no} asked in vain, and goes on")
        if self.timed and failure is not None and all(self.lives(instance) for instance in self.instances):
            raise Violation("EvidenceBeforeDeadline", f"{key.role} {key.no} was given up for silence; its peer answers")


class TimedWorld(SilenceWorld):
    """See the module text. Its processes have :data:`TIMING`; whoever makes them sets it.

    Evidence is that the peer says that the attempt lives, or news of its plan. No clock of silence goes off sooner after it
    than it should."""

    timed = True

    def __init__(self, setting: Setting, budget: Budget) -> None:
        self.heard: dict[Asker, int] = {}
        super().__init__(setting, budget)

    def snapshot(self) -> Hashable:
        return Silent(self.state(), self.asked, tuple(sorted(self.heard.items())))

    def restore(self, snapshot: Hashable) -> None:
        super().restore(snapshot)
        assert isinstance(snapshot, Silent)
        self.heard = dict(snapshot.heard)

    def process(self, instance: int) -> Process:
        process = super().process(instance)
        process.core.env.timing = TIMING
        return process

    def actions(self) -> list[Action]:
        todo = [action for action in super().actions() if action[0] not in ("clock", "lost", "no leg")]
        if not quiet(self):
            return todo
        dues = [(due, slot, key, clock) for slot in self.living() for key, clock, due in self._dues(slot)]
        first = min((due for due, *_ in dues), default=0)
        todo += [("pass", first)] if first > 0 else [("clock", *of, True) for due, *of in dues if due <= 0]
        if all(view.terminal for slot in self.living() for view in self.view(slot).sessions):
            todo += [
                a
                for a in super().actions()
                if a[0] in ("no leg", "lost") or (a[0] == "clock" and isinstance(a[2], int))
            ]
        return todo

    def _dues(self, slot: int) -> list[tuple[SessionKey, Deadline, int]]:
        return self.processes[self.instances[slot]].dues(self.cores[slot])

    def fair(self, action: Hashable) -> bool:
        return (isinstance(action, tuple) and action[0] == "pass") or super().fair(action)

    def do(self, action: Hashable) -> None:
        match action:
            case ("pass", int(much)):
                self.heard = {asker: min(age + much, TIMING.silence) for asker, age in self.heard.items()}
                for slot in self.living():
                    self.call(slot, ("pass", much))
                self.check()
            case ("clock", int(slot), SessionKey() as key, Deadline.ASK | Deadline.SILENCE as clock, _):
                age = self.heard.get((self.instances[slot], key), TIMING.silence)
                if age < (TIMING.silence if clock is Deadline.SILENCE else TIMING.silence // 2):
                    raise Violation(
                        "EvidenceBeforeDeadline", f"{key.role} {key.no}: {clock.value}, and it heard {age} ms ago"
                    )
                super().do(action)
            case _:
                super().do(action)

    def call(self, slot: int, call: Call) -> Step:
        core, before = self.cores[slot], self.view(slot).sessions
        step = super().call(slot, call)
        if call[0] == "hear" and isinstance(message := self.mail[call[1]], RoomMessage):  # type: ignore[index]
            lives = isinstance(message, Status) and message.facts.state not in (KVPoll.Failed, KVPoll.Success)
            news = isinstance(message, Offer | PartDone | Close) and step.state != core
            if lives or news:
                told = [view.key for view in before if view.attempt == _attempt(message) and not view.terminal]
                self.heard |= {(self.instances[slot], key): 0 for key in told}
        live = {view.key for view in self.view(slot).sessions if not view.terminal}
        self.heard = {a: age for a, age in self.heard.items() if a[0] != self.instances[slot] or a[1] in live}
        return step


def _attempt(message: RoomMessage) -> int:
    return message.engine * ATTEMPTS + message.gen
