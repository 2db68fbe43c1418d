"""SGLang behind the import plug: ``--impl adapter:copy``, or ``nixl``, or ``mooncake``; the word says what moves the data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, partialmethod

import pair as sglang

from kvpoll.model_tests.conformance.plug import About, Limits, Plain, Refused, Side, Unsupported


class Engine(Plain):
    def __init__(self, mover: str) -> None:
        self._pair, self._about = sglang.Pair(mover), About(limits=Limits(**sglang.LIMITS), **sglang.about(mover))

    def about(self) -> About:
        return self._about

    def begin(self, case: str, fresh: bool) -> None:
        self._pair.begin(fresh)

    def _ask(self, call: Callable[..., object], *said: object) -> object:
        try:
            return call(*said)
        except sglang.Refused as no:
            raise Refused(str(no)) from None

    def _tell(self, do: str, side: str, *said: object) -> object:
        return self._ask(self._pair.tell, side, do, *said)

    create, init = partialmethod(_tell, "create"), partialmethod(_tell, "init")
    poll, why, released = partialmethod(_tell, "poll"), partialmethod(_tell, "why"), partialmethod(_tell, "released")
    abort, clear = partialmethod(_tell, "abort"), partialmethod(_tell, "clear")

    def metadata(self, room: int, pages: Sequence[int]) -> None:
        self._tell("metadata", "decode", room, list(pages))

    def send(self, room: int, pages: Sequence[int], last: bool) -> None:
        self._tell("send", "prefill", room, list(pages))  # SGLang knows the last chunk by its count

    def fill(self, side: Side, pages: Sequence[int], data: bytes) -> None:
        self._tell("fill", side, list(pages), data.hex())

    def read(self, side: Side, pages: Sequence[int]) -> bytes:
        return bytes.fromhex(str(self._tell("read", side, list(pages))))

    def fault(self, side: Side, room: int, name: str) -> None:
        if name not in self._about.faults:
            raise Unsupported(f"fault {name}")
        self._ask(self._pair.fault, side, room, name)

    def heal(self) -> None:
        self._pair.heal()

    def close(self) -> None:
        self._pair.close()


copy, nixl, mooncake = (partial(Engine, mover) for mover in ("copy", "nixl", "mooncake"))
