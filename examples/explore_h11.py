"""Explore somebody else's machine: the connection state of h11, an HTTP/1.1 library, both roles at once.

Run it: ``python examples/explore_h11.py``. It finds an event that h11 0.16 answers with an AttributeError instead of its
own LocalProtocolError, two events after the start; then it goes on as if that were one, and sees every state there is.
"""

from __future__ import annotations

import sys
from collections.abc import Hashable, Sequence

import h11
from h11._state import _SWITCH_CONNECT, _SWITCH_UPGRADE, ConnectionState

from kvpoll.model_tests.explorer import Result, Violation, explore

ROLES = {"client": h11.CLIENT, "server": h11.SERVER}
EVENTS = {
    "client": (h11.Request, h11.Data, h11.EndOfMessage, h11.ConnectionClosed),
    "server": (h11.InformationalResponse, h11.Response, h11.Data, h11.EndOfMessage, h11.ConnectionClosed),
}
SWITCHES = {"UPGRADE": (_SWITCH_UPGRADE, h11.InformationalResponse), "CONNECT": (_SWITCH_CONNECT, h11.Response)}
OVER = (h11.CLOSED, h11.ERROR, h11.SWITCHED_PROTOCOL)


class Http:
    """The world: one ConnectionState. Whatever is sent or received is an action, allowed or not."""

    def __init__(self, forgiving: bool = False, atomic: bool = False) -> None:
        self.machine, self.forgiving, self.atomic = ConnectionState(), forgiving, atomic

    def actions(self) -> Sequence[Hashable]:
        events = [(role, event.__name__) for role, known in EVENTS.items() for event in known]
        switches = [(how, name) for how in ("propose", "accept") for name in SWITCHES]
        errors = [(role, "error") for role in ROLES]
        return [*events, *switches, *errors, ("either", "keep-alive off"), ("both", "next cycle")]

    def do(self, action: Hashable) -> None:
        before = self.snapshot()
        try:
            self._do(action)
        except h11.LocalProtocolError:
            if self.atomic and self.snapshot() != before:
                raise Violation("RefusedChangesNothing", f"{action} was refused, and changed the state") from None
        except AttributeError:
            if not self.forgiving:
                raise

    def fair(self, action: Hashable) -> bool:
        return True  # both ends go on, and so it must be possible for them to end

    def snapshot(self) -> Hashable:
        m = self.machine
        return m.keep_alive, frozenset(m.pending_switch_proposals), m.states[h11.CLIENT], m.states[h11.SERVER]

    def restore(self, snapshot: Hashable) -> None:
        assert isinstance(snapshot, tuple)
        m = self.machine
        m.keep_alive, proposals, client, server = snapshot
        m.pending_switch_proposals, m.states = set(proposals), {h11.CLIENT: client, h11.SERVER: server}

    def ended(self) -> bool:
        return all(state in OVER for state in self.machine.states.values())

    def outcome(self) -> str:
        return " ".join(f"{role}:{self.machine.states[sentinel]!r}" for role, sentinel in ROLES.items())

    def _do(self, action: Hashable) -> None:
        match action:
            case (str(role), "error"):
                self.machine.process_error(ROLES[role])
            case (_, "keep-alive off"):
                self.machine.process_keep_alive_disabled()
            case (_, "next cycle"):
                self.machine.start_next_cycle()
            case ("propose", str(name)):
                self.machine.process_client_switch_proposal(SWITCHES[name][0])
            case ("accept", str(name)):
                switch, event = SWITCHES[name]
                self.machine.process_event(h11.SERVER, event, switch)
            case (str(role), str(name)):
                (known,) = (each for each in EVENTS[role] if each.__name__ == name)
                self.machine.process_event(ROLES[role], known)


def told(what: str, result: Result) -> str:
    """A result in a few lines."""
    lines = [f"{what}: {result.states} states, {result.edges} edges, {'PROVED' if result.proved else 'REFUTED'}"]
    lines += [f"  {number} {action}" for number, action in enumerate(result.trace, 1)]
    return "\n".join([*lines, *([f"  {result.violation}"] if result.violation else [])])


def main() -> int:
    found = explore(Http())
    print(told("every event is decided", found))
    print(told("a refused event changes nothing", explore(Http(forgiving=True, atomic=True))))
    print(told("every connection can end", explore(Http(forgiving=True))))
    return 0 if found.broken else 1  # of the version of h11 that this was written for


if __name__ == "__main__":
    sys.exit(main())
