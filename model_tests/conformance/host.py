"""The process plug, the other end, for adapters in Python: ``python -m kvpoll.model_tests.conformance.host module:make``.

What the engine prints goes to standard error, so that it cannot be mistaken for an answer.
"""

from __future__ import annotations

import base64
import os
import sys
from collections.abc import Callable
from functools import partial
from typing import BinaryIO, TypeAlias

import msgspec

from .calls import ask
from .load import load
from .plug import About, Adapter, Counted, Gate, Gated, How, Ranked, Side, Stoppable, Unsupported

__all__ = ["serve"]


class Request(msgspec.Struct):
    """One call. Which arguments it has depends on ``call``."""

    id: int
    call: str
    side: Side = "prefill"
    room: int = 0
    pages: int | list[int] = 0
    last: bool = False
    seconds: float = 0.0
    data: bytes = b""
    name: str = ""
    case: str = ""
    fresh: bool = False
    ends: list[tuple[Side, int]] = []
    what: Gate = "close"
    how: How = "drain"
    prefill: int = 1
    decode: int = 1


Value: TypeAlias = int | bool | str | About | list[int | None] | None


def serve(adapter: Adapter, source: BinaryIO, out: BinaryIO) -> None:
    """Answer calls, line by line, until the input ends."""
    for line in source:
        request = msgspec.json.decode(line, type=Request)
        reply: dict[str, object] = {"id": request.id}
        try:
            answer = ask(lambda request=request: _call(adapter, request))  # type: ignore[misc]
            if answer.ok:
                reply["value"] = answer.value
            else:
                reply["raised" if answer.raised else "refused"] = answer.refused
        except Unsupported as missing:
            reply["unsupported"] = str(missing)
        out.write(msgspec.json.encode(reply) + b"\n")
        out.flush()
    adapter.close()


def _call(adapter: Adapter, r: Request) -> Value:
    many = r.pages if isinstance(r.pages, list) else []
    count = r.pages if isinstance(r.pages, int) else len(r.pages)
    calls: dict[str, Callable[[], Value]] = {
        "about": adapter.about,
        "begin": lambda: adapter.begin(r.case, r.fresh),
        "create": lambda: adapter.create(r.side, r.room, count),
        "init": lambda: adapter.init(r.side, r.room),
        "metadata": lambda: adapter.metadata(r.room, many),
        "send": lambda: adapter.send(r.room, many, r.last),
        "poll": lambda: adapter.poll(r.side, r.room),
        "abort": lambda: adapter.abort(r.side, r.room),
        "clear": lambda: adapter.clear(r.side, r.room),
        "advance": lambda: adapter.advance(r.seconds),
        "advance_and_poll": lambda: _advance_and_poll(adapter, r),
        "fill": lambda: adapter.fill(r.side, many, r.data),
        "read": lambda: base64.b64encode(adapter.read(r.side, many)).decode(),
        "released": lambda: adapter.released(r.side, r.room),
        "fault": lambda: adapter.fault(r.side, r.room, r.name),
        "heal": adapter.heal,
        "why": lambda: adapter.why(r.side, r.room),
        "gate": lambda: _gated(adapter).gate(r.room, r.name, r.what),
        "stop": lambda: _stoppable(adapter, r.how).stop(r.side, r.how),
        "left": lambda: _counted(adapter).left(r.side),
        "ranks": lambda: _ranked(adapter).ranks(r.prefill, r.decode),
    }
    if r.call not in calls:
        raise Unsupported(f"call {r.call}")
    return calls[r.call]()


def _gated(adapter: object) -> Gated:
    if not isinstance(adapter, Gated):
        raise Unsupported("gates")
    return adapter


def _stoppable(adapter: object, how: How) -> Stoppable:
    if not isinstance(adapter, Stoppable):
        raise Unsupported(how)
    return adapter


def _counted(adapter: object) -> Counted:
    if not isinstance(adapter, Counted):
        raise Unsupported("left")
    return adapter


def _ranked(adapter: object) -> Ranked:
    if not isinstance(adapter, Ranked):
        raise Unsupported("ranks")
    return adapter


def _advance_and_poll(adapter: Adapter, r: Request) -> list[int | None]:
    """What is not a number is asked again, one by one."""
    adapter.advance(r.seconds)
    told = [ask(partial(adapter.poll, side, room)).value for side, room in r.ends]
    return [each if type(each) is int else None for each in told]


def _main() -> None:
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    serve(load(sys.argv[1])(), sys.stdin.buffer, out)


if __name__ == "__main__":
    _main()
