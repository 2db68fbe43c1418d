"""Every world with a name, in the order in which they are checked. A module that adds worlds is joined here."""

from __future__ import annotations

from collections.abc import Iterable

from .alone_worlds import ALONE_WORLDS
from .named import NamedWorld
from .pair_worlds import PAIR_WORLDS
from .staging_worlds import STAGING_WORLDS
from .upgrade_world import UPGRADE_WORLDS
from .worlds_attempts import ATTEMPT_WORLDS
from .worlds_endings import ENDING_WORLDS
from .worlds_ranks import RANK_WORLDS
from .worlds_rooms import ROOM_WORLDS

__all__ = ["WORLDS", "NamedWorld", "joined"]


def joined(*groups: Iterable[NamedWorld]) -> dict[str, NamedWorld]:
    """Worlds by name, in order. Raises ``ValueError`` for a name that two have."""
    found: dict[str, NamedWorld] = {}
    for group in groups:
        for world in group:
            if found.setdefault(world.name, world) is not world:
                raise ValueError(f"two worlds are called {world.name!r}")
    return found


#: By name.
WORLDS: dict[str, NamedWorld] = joined(
    PAIR_WORLDS, ROOM_WORLDS, ATTEMPT_WORLDS, RANK_WORLDS, ENDING_WORLDS, ALONE_WORLDS, UPGRADE_WORLDS, STAGING_WORLDS
)
