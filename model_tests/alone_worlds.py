"""The worlds of one machine alone, by name. What fires there only is a second wall: see :mod:`.coverage`."""

from __future__ import annotations

from .machine_worlds import MACHINE_WORLDS
from .named import NamedWorld

__all__ = ["ALONE_WORLDS"]

_ABOUT = {
    "one-lease": ("A lease, its owner and a peer, with every event at any moment, late and twice.", {"lent twice"}),
    "one-link": ("A link, its clocks and what may be heard on it, with every event at any moment.", {"over"}),
    "sender-wall": (
        "The table of senders without a session before it: every event in every state.",
        {"Success", "Failed"},
    ),
    "receiver-wall": (
        "The table of receivers without a session before it: every event in every state.",
        {"Success", "Failed"},
    ),
}

ALONE_WORLDS: tuple[NamedWorld, ...] = tuple(
    NamedWorld(name, _ABOUT[name][0], MACHINE_WORLDS[name][1], frozenset(_ABOUT[name][1]), "none") for name in _ABOUT
)
