"""How a pair world is told: processes as actors, messages as arrows, calls, clocks, operations and faults as notes."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING

from kvpoll.protocol.records import OpKey, SessionKey
from kvpoll.spec.wire import Hello, Message, Welcome

from .memory import Flight, Work
from .telling import Arrow, Data, Note, Picture, data_of

if TYPE_CHECKING:
    from .pair import PairWorld

__all__ = ["PairTeller"]

#: Of a message: what stands in every one of them, or says nothing to a reader.
_ENVELOPE = {
    "link",
    "source",
    "target",
    "source_rank",
    "target_rank",
    "engine",
    "fingerprint",
    "registration",
    "transport",
}
_POST = ("deliver", "copy", "lose")


class PairTeller:
    def __init__(self, world: PairWorld) -> None:
        self.world = world

    def actors(self) -> Sequence[str]:
        setting = self.world.setting
        return [self._actor(slot) for slot in range(setting.prefills + setting.decodes)]

    def _actor(self, slot: int) -> str:
        setting = self.world.setting
        side, much, rank = ("prefill", setting.prefills, slot)
        if slot >= setting.prefills:
            side, much, rank = ("decode", setting.decodes, slot - setting.prefills)
        return side if much == 1 else f"{side} {rank}"

    def _at(self, instance: int) -> str:
        """The actor with this instance, now or before."""
        return self._actor(instance % 100 - 10)

    def data(self, action: Hashable) -> Data:
        assert isinstance(action, tuple)
        if action[0] in _POST:
            return [str(action[0]), data_of(self.world.mail[action[1]])]
        return data_of(action)

    def picture(self, action: Hashable) -> Picture:
        world = self.world
        match action:
            case ("deliver" | "copy" | "lose" as how, int(number)):
                message = world.mail[number]
                text = f"{'' if how == 'deliver' else f'{how}: '}{_message(message)}"
                return Arrow(self._at(message.source), self._actor(world.target(number)), text, lost=how == "lose")
            case (str(how), Flight() as flight, bool(free)):
                early = "" if free or how == "unresolved" else " (a fault)"
                return Note(self._at(flight.owner), f"{_op(flight.op)} {how}{early}")
            case ("clock", int(slot), about, clock, bool(free)):
                whose = _text(about) if isinstance(about, SessionKey) else "link"
                return Note(self._actor(slot), f"clock {_text(clock)} of {whose}{'' if free else ' (early)'}")
            case ("send", int(slot), SessionKey() as key, int(no)):
                return Note(self._actor(slot), f"send: {_text(key)}, part {no}")
            case (str(name), int(slot), *rest):
                said = " ".join(filter(None, (_text(each) for each in rest)))
                return Note(self._actor(slot), f"{name}{': ' * bool(said)}{said}")
        return Note(self._actor(0), str(action))

    def standing(self) -> Mapping[str, str]:
        world, found = self.world, {}
        for slot, core in enumerate(world.cores):
            states = [
                f"{r.state.name}{' in doubt' * r.in_doubt}" for r in world.rooms if r.instance == world.instances[slot]
            ]
            found[self._actor(slot)] = ", ".join(states) if core >= 0 else "dead"
        return found


def _message(message: Message) -> str:
    said = data_of(message)
    assert isinstance(said, dict)
    ((kind, body),) = said.items()
    if isinstance(message, Hello | Welcome) or not isinstance(body, dict):
        return kind
    told = (f"{name}={_short(each)}" for name, each in body.items() if name not in _ENVELOPE)
    return " ".join((kind, *told))


def _short(data: Data) -> str:
    """Data as a few words: names of structures go, and so does what hangs below them."""
    match data:
        case dict():
            inner = (f"{name}={_short(each)}" for name, each in data.items() if name not in _ENVELOPE)
            return f"({' '.join(inner)})" if len(data) != 1 else _short(next(iter(data.values())))
        case list():
            return f"[{', '.join(map(_short, data))}]"
        case str():
            return data.rpartition(".")[2]
    return str(data)


def _op(op: OpKey) -> str:
    return f"operation of part {op.part}"


def _text(value: Hashable) -> str:
    match value:
        case bool():
            return ""
        case SessionKey():
            return f"{value.role} {value.no}"
        case Work():
            return "commit" if value.chunk < 0 else f"chunk {value.chunk}"
        case OpKey():
            return _op(value)
    return _short(data_of(value))
