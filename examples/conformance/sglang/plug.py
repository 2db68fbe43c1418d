"""SGLang behind the process plug: ``--command "python plug.py copy"``, or ``nixl``, or ``mooncake``. Standard library only.

One JSON object a line comes in, ``{"id": 7, "call": "poll", "side": "decode", "room": 12}``, and one goes out, with the same id
and one of ``value``, ``refused``, ``unsupported`` or ``raised``. What the calls mean is in the plug of the suite; what SGLang
makes of them is in ``pair.py`` and ``side.py``.
"""

from __future__ import annotations

import base64
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any, TextIO

from pair import LIMITS, Pair, Refused, about


class Unsupported(Exception):
    """There is no such call, or no such fault."""


class Plug:
    """The calls of the suite, by name. Arguments come by name and are those of the line."""

    def __init__(self, mover: str) -> None:
        self._pair, self._about = Pair(mover), {**about(mover), "limits": LIMITS}

    def about(self) -> dict[str, object]:
        return {name: sorted(value) if isinstance(value, frozenset) else value for name, value in self._about.items()}

    def begin(self, case: str, fresh: bool) -> None:
        self._pair.begin(fresh)

    def create(self, side: str, room: int, pages: int) -> object:
        return self._pair.tell(side, "create", room, pages)

    def init(self, side: str, room: int) -> object:
        return self._pair.tell(side, "init", room)

    def metadata(self, room: int, pages: list[int]) -> object:
        return self._pair.tell("decode", "metadata", room, pages)

    def send(self, room: int, pages: list[int], last: bool) -> object:
        return self._pair.tell("prefill", "send", room, pages)  # SGLang knows the last chunk by its count

    def poll(self, side: str, room: int) -> object:
        return self._pair.tell(side, "poll", room)

    def abort(self, side: str, room: int) -> object:
        return self._pair.tell(side, "abort", room)

    def clear(self, side: str, room: int) -> object:
        return self._pair.tell(side, "clear", room)

    def advance(self, seconds: float) -> None:
        time.sleep(seconds)

    def fill(self, side: str, pages: list[int], data: str) -> object:
        return self._pair.tell(side, "fill", pages, base64.b64decode(data).hex())

    def read(self, side: str, pages: list[int]) -> str:
        return base64.b64encode(bytes.fromhex(str(self._pair.tell(side, "read", pages)))).decode()

    def released(self, side: str, room: int) -> object:
        return self._pair.tell(side, "released", room)

    def why(self, side: str, room: int) -> object:
        return self._pair.tell(side, "why", room)

    def fault(self, side: str, room: int, name: str) -> None:
        if name not in self._about["faults"]:
            raise Unsupported(f"fault {name}")
        self._pair.fault(side, room, name)

    def heal(self) -> None:
        self._pair.heal()

    def close(self) -> None:
        self._pair.close()


CALLS = frozenset(name for name in vars(Plug) if not name.startswith("_"))


def answer(plug: Plug, request: dict[str, Any]) -> dict[str, object]:
    """What becomes of one call."""
    call = request.pop("call")
    try:
        if call not in CALLS:
            raise Unsupported(f"call {call}")
        method: Callable[..., object] = getattr(plug, call)
        return {"value": method(**request)}
    except Unsupported as missing:
        return {"unsupported": str(missing)}
    except Refused as no:
        return {"refused": str(no)}
    except Exception as error:  # noqa: BLE001 - whatever the engine raises is an answer
        return {"raised": f"{type(error).__name__}: {error}"[:500]}


def serve(plug: Plug, source: TextIO, out: TextIO) -> None:
    """Answer until the input ends."""
    for line in source:
        request = json.loads(line)
        out.write(json.dumps({"id": request.pop("id"), **answer(plug, request)}) + "\n")
        out.flush()
    plug.close()


if __name__ == "__main__":
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what is printed is no answer
    serve(Plug(sys.argv[1] if len(sys.argv) > 1 else "copy"), sys.stdin, out)
