"""A rank of an engine: what a GPU of its own would have. A plain engine has one.

All ranks of an engine share its id, its page ids and the numbers of its attempts; each has a place, a registration, a pool
shard, aux slots and a manager of its own, and meets the other engine's ranks by itself. Nobody tells a rank about another one:
what the engine makes of its ranks' states is in ``legs``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from demo.setting import EngineSetting, Message, places
from kvpoll.protocol.plans.ranks import Place
from kvpoll.runtime import AuxSlots, KVManager

__all__ = ["Rank", "make_ranks"]

_SLOTS = 32
_DAY_S = 86_400.0


class Rank:
    """``shard``: which of the model's pools is its own. Context parallel ranks share one: they hold copies."""

    def __init__(self, setting: EngineSetting, index: int, place: Place, engine_id: int) -> None:
        self.index = index
        self.place = place
        self.shard = place.pp * setting.shape.tp + place.tp
        self.has_aux = place.pp == setting.shape.pp - 1  #: the first token is known to the last stage
        self.aux = AuxSlots(_SLOTS, 64)
        self.manager = KVManager(setting.config(place, engine_id), aux=self.aux)
        self._watch: threading.Thread | None = None
        self._closing = False

    @property
    def name(self) -> str:
        return f"tp{self.place.tp} pp{self.place.pp} cp{self.place.cp}"

    def watch(self, tell: Callable[[], None]) -> None:
        """Call ``tell`` whenever something has changed here: an engine's one thread waits for one manager only."""

        def changed() -> bool:
            tell()
            return self._closing

        self._watch = threading.Thread(
            target=self.manager.wait, args=(changed, _DAY_S), name=f"changes of {self.name}", daemon=True
        )
        self._watch.start()

    def close(self) -> dict[str, int]:
        """What was cut off."""
        left = self.manager.close()
        self._closing = True
        self.manager.poke()
        if self._watch is not None:
            self._watch.join(5.0)
        return left

    def busy(self) -> Message:
        """What is not idle."""
        return self.manager.busy() | ({"aux slots lent": self.aux.lent} if self.aux.lent else {})


def make_ranks(setting: EngineSetting, engine_id: int) -> list[Rank]:
    return [Rank(setting, index, place, engine_id) for index, place in enumerate(places(setting.shape))]
