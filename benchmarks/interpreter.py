"""One event: our interpreter, against a nested-dict table in a slotted class, and against the ``transitions`` library.

All four machines do the same: the state changes, the effects of the row are returned (or stand in the model), and an event
that the state does not take raises a typed error. The dict machine is the least that can be called a table-driven machine:
states and events are objects hashed by identity, rows are tuples, and it has no fields, so its rows cannot have guards.

A guarded row of ours depends on a field of the machine and on an argument of the event. As sessions do, the signal for the
arguments is looked up in a dict first; that is part of what is measured.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from timeit import Timer

from transitions import Machine as TransitionsMachine

from kvpoll.protocol.errors import LocalProtocolError
from kvpoll.protocol.interpreter import Machine, Rules
from kvpoll.protocol.to_transitions import machine as as_transitions
from kvpoll.spec.effects import Effect
from kvpoll.spec.table import ALWAYS, EventSpec, Field, Source, Table, go, refuse, stay

from .result import Result, Timed, interleave

__all__ = ["run"]

#: Marks: against the dict machine, and how much cheaper than ``transitions``.
UNGUARDED, GUARDED, CHEAPER = 2.0, 4.0, 40.0
#: Calls written out in one timed statement, so that the loop around them weighs little.
_UNROLLED = 10


def run(quick: bool = False) -> list[Result]:
    """Measure everything: a few seconds, or a moment when ``quick``."""
    rounds, number = (3, 2_000) if quick else (25, 40_000)
    slow = {name for name in _STATEMENTS if name.startswith("transitions")}
    timers = {name: Timer(text, setup, globals=_names()) for name, (setup, text) in _STATEMENTS.items()}
    calls = dict.fromkeys(timers, _UNROLLED)
    fast = interleave({n: t for n, t in timers.items() if n not in slow}, calls, rounds, number)
    # Fewer calls at a time, more often: a round must be short to fall between the turns of other processes.
    beside = {n: timers[n] for n in ("ours", *sorted(slow))}
    second = interleave(beside, calls, 3 * rounds, number // 100)
    return [
        _against("unguarded event / dict machine", fast["ours"], fast["dict"], UNGUARDED),
        _against("guarded event / dict machine", fast["ours guarded"], fast["dict"], GUARDED),
        _against("refused event / dict machine", fast["ours refused"], fast["dict refused"], None),
        _cheaper("transitions, plain / unguarded event", second["transitions plain"], second["ours"], CHEAPER),
        _cheaper("transitions, of our table / unguarded event", second["transitions table"], second["ours"], CHEAPER),
    ]


def _against(name: str, ours: Timed, theirs: Timed, target: float | None) -> Result:
    return Result(
        name, ours.best / theirs.best, target, says="minimum over rounds, ours / dict",
        bare=(ours.bare("ours"), theirs.bare("dict")),
    )  # fmt: skip


def _cheaper(name: str, theirs: Timed, ours: Timed, target: float) -> Result:
    return Result(
        name, theirs.best / ours.best, target, at_least=True, says="minimum over rounds, transitions / ours",
        bare=(theirs.bare("transitions"), ours.bare("ours")),
    )  # fmt: skip


# The same small machine four times ------------------------------------------------------------------------------------
class _State(Enum):
    IDLE = "idle"
    BUSY = "busy"


class _Event(Enum):
    START = "start"
    STOP = "stop"
    COUNT = "count"


_odd = Field("odd", (False, True), False, "an odd number was counted")
_twice = Field("twice", (False, True), False, "the count goes up by two")
_S, _E = _State, _Event

TABLE = Table(
    name="benchmark",
    states=_State,
    initial=_S.IDLE,
    terminal=frozenset(),
    waiting={},
    fields=(_odd,),
    events=(
        EventSpec(_E.START, Source.ENGINE, (), "work begins"),
        EventSpec(_E.STOP, Source.ENGINE, (), "work ends"),
        EventSpec(_E.COUNT, Source.ENGINE, (_twice,), "one more, or two"),
    ),
    rows=(
        go(_S.IDLE, _E.START, ALWAYS, _S.BUSY, (), (Effect.ARM_SILENCE, Effect.SEND_HELLO), "work begins"),
        refuse(_S.IDLE, _E.STOP, ALWAYS, "there is no work"),
        refuse(_S.IDLE, _E.COUNT, ALWAYS, "there is no work"),
        refuse(_S.BUSY, _E.START, ALWAYS, "work has begun"),
        go(_S.BUSY, _E.STOP, ALWAYS, _S.IDLE, (), (Effect.CLOSE,), "work ends"),
        stay(_S.BUSY, _E.COUNT, _twice, (), (Effect.REPLY,), "odd stays odd, even stays even"),
        stay(_S.BUSY, _E.COUNT, ~_twice & _odd, (_odd.to(False),), (Effect.REPLY,), "odd becomes even"),
        stay(_S.BUSY, _E.COUNT, ~_twice & ~_odd, (_odd.to(True),), (Effect.REPLY,), "even becomes odd"),
    ),
    broken=None,
    about="Counts while it works.",
)


class _Name:
    """A state or an event of the dict machine: hashed by identity, the fastest key there is."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


class _Refused(Exception):
    def __init__(self, state: _Name, event: _Name) -> None:
        super().__init__(f"{event.name} is refused in {state.name}")
        self.state, self.event = state, event


_IDLE, _BUSY, _START, _STOP = _Name("IDLE"), _Name("BUSY"), _Name("START"), _Name("STOP")
_ROWS: dict[_Name, dict[_Name, tuple[_Name, tuple[Effect, ...]]]] = {
    _IDLE: {_START: (_BUSY, (Effect.ARM_SILENCE, Effect.SEND_HELLO))},
    _BUSY: {_STOP: (_IDLE, (Effect.CLOSE,))},
}


class _DictMachine:
    __slots__ = ("state",)

    def __init__(self) -> None:
        self.state = _IDLE

    def feed(self, event: _Name) -> tuple[_Name, tuple[Effect, ...]]:
        try:
            row = _ROWS[self.state][event]
        except KeyError:
            raise _Refused(self.state, event) from None
        self.state = row[0]
        return row


class _Model:
    """What the plain ``transitions`` machine acts on; effects are callbacks there."""

    def __init__(self) -> None:
        self.done: tuple[Effect, ...] = ()

    def begun(self) -> None:
        self.done = (Effect.ARM_SILENCE, Effect.SEND_HELLO)

    def ended(self) -> None:
        self.done = (Effect.CLOSE,)


def _plain() -> Callable[[str], bool]:
    """The trigger of a machine made with ``transitions`` alone: strings for states, nothing switched on."""
    model = _Model()
    made = TransitionsMachine(model, states=["IDLE", "BUSY"], initial="IDLE", auto_transitions=False)
    made.add_transition("START", "IDLE", "BUSY", after="begun")
    made.add_transition("STOP", "BUSY", "IDLE", after="ended")
    trigger: Callable[[str], bool] = model.trigger  # type: ignore[attr-defined]
    return trigger


def _names() -> dict[str, object]:
    """What the timed statements speak of."""
    rules = Rules(TABLE)
    busy = Machine(rules)
    busy.feed(rules.signal(_E.START))
    return {
        "machine": lambda: Machine(rules),
        "busy": busy,
        "dict_machine": _DictMachine,
        "start": rules.signal(_E.START),
        "stop": rules.signal(_E.STOP),
        "counts": {two: rules.signal(_E.COUNT, twice=two) for two in (False, True)},
        "START": _START,
        "STOP": _STOP,
        "Refused": _Refused,
        "LocalProtocolError": LocalProtocolError,
        "plain": _plain,
        "of_table": lambda: as_transitions(TABLE).models[0].trigger,
    }


def _repeat(pair: str) -> str:
    return pair * (_UNROLLED // 2)


def _refusals(call: str, error: str) -> str:
    return f"try:\n {call}\nexcept {error}:\n pass\n" * _UNROLLED


#: By name: set-up, and the statement, which makes ``_UNROLLED`` calls and ends where it began.
_STATEMENTS = {
    "dict": ("feed, a, b = dict_machine().feed, START, STOP", _repeat("feed(a);feed(b);")),
    "ours": ("feed, a, b = machine().feed, start, stop", _repeat("feed(a);feed(b);")),
    "ours guarded": ("feed, by = busy.feed, counts", _repeat("feed(by[False]);feed(by[True]);")),
    "dict refused": ("feed, a = dict_machine().feed, STOP", _refusals("feed(a)", "Refused")),
    "ours refused": ("feed, a = machine().feed, stop", _refusals("feed(a)", "LocalProtocolError")),
    "transitions plain": ("feed = plain()", _repeat("feed('START');feed('STOP');")),
    "transitions table": ("feed = of_table()", _repeat("feed('START');feed('STOP');")),
}
