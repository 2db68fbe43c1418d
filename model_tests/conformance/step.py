"""The words that cases are written in: one step a line, for people, files and the driver alike.

==============================  ============================================================================================
``create SIDE ROOM N``          the request reaches a side; N pages
``init SIDE ROOM``              the second half of a creation
``meta ROOM N``                 decode: the data goes to N pages
``send ROOM N [last]``          prefill: the next N pages
``abort SIDE ROOM``             ``clear SIDE ROOM`` likewise
``ranks P D``                   first of all: the prefill side has P ranks, the decode side D
``gate ROOM NAME WHAT``         decode: ``close``, ``open`` or ``fail`` a local step that Success waits for
``stop SIDE HOW``               ``drain`` or ``shutdown``
``fault SIDE ROOM NAME``        from now on; ``heal`` ends all of them
``tick N``                      N short whiles, of which 50 make the time in which an engine reacts
``settle``                      the time in which an engine reacts
``wait LIMIT [PART]``           until every room is over, at most this limit of the engine's (PART of 100 of it)
``over LIMIT``                  until every room is over, and they must be: ``KVX-...`` says by which requirement
``expect SIDE ROOM STATES``     must be so within ``within LIMIT``, at once without it; ``for KVX-...`` says by which
``holds SIDE ROOM STATES``      must be so all along ``during LIMIT [PART]``
``tables SIDE ROOM STATE WHY``  profile kvpoll: how the room ended, and the cause that it names
``forge ROOM``                  expect other bytes than were filled in: for probes of the plug's honesty only
==============================  ============================================================================================

A call that starts with ``!`` is wrong: it should be refused, and must do no harm. One that starts with ``?`` may be refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from .plug import SIDES, Side

__all__ = ["CALLS", "Step", "needs_of", "steps", "text_of"]

#: Verbs that call the engine.
CALLS = frozenset({"create", "init", "meta", "send", "abort", "clear", "gate", "stop"})
_SHAPES: dict[str, tuple[str, ...]] = {
    "create": ("side", "room", "n"), "init": ("side", "room"), "meta": ("room", "n"), "send": ("room", "n"),
    "abort": ("side", "room"), "clear": ("side", "room"), "fault": ("side", "room", "word"), "heal": (), "tick": ("n",),
    "settle": (), "wait": ("word",), "over": ("word",), "expect": ("side", "room", "word"), "holds": ("side", "room", "word"),
    "tables": ("side", "room", "word"), "forge": ("room",), "gate": ("room", "word"), "stop": ("side", "word"),
    "ranks": ("n", "word"),
}  # fmt: skip


class Step(NamedTuple):
    """One step. ``word``: a fault, a limit, a gate, how to stop, or states as digits; ``rest``: what follows."""

    verb: str
    side: Side = "prefill"
    room: str = ""
    n: int = 0
    word: str = ""
    rest: tuple[str, ...] = ()
    mark: str = ""  #: "!" or "?"

    @property
    def last(self) -> bool:
        return "last" in self.rest

    def after(self, word: str, default: str = "") -> str:
        """What follows ``word``, as in ``within pairing``."""
        return self.rest[self.rest.index(word) + 1] if word in self.rest else default


def steps(lines: str | Iterable[str]) -> tuple[Step, ...]:
    """Read steps: lines, or one text with ``;`` between them. Raises ``ValueError`` naming the line."""
    each = lines.split(";") if isinstance(lines, str) else lines
    return tuple(_step(line) for line in each if line.strip())


def _step(line: str) -> Step:
    words = line.split()
    mark = words[0][0] if words[0][0] in "!?" else ""
    words[0] = words[0][len(mark) :]
    verb, *args = words
    shape = _SHAPES.get(verb)
    if shape is None or len(args) < len(shape):
        raise ValueError(f"step {line.strip()!r}: expected one of {', '.join(_SHAPES)} with its words")
    named = dict(zip(shape, args, strict=False))
    side = named.get("side", "prefill")
    if side not in SIDES:
        raise ValueError(f"step {line.strip()!r}: side: expected prefill or decode, got {side!r}")
    rest = tuple(args[len(shape) :])
    picked: Side = "decode" if side == "decode" else "prefill"
    return Step(verb, picked, named.get("room", ""), int(named.get("n", "0")), named.get("word", ""), rest, mark)


def text_of(step: Step) -> str:
    """The line that reads as this step."""
    shape = _SHAPES[step.verb]
    words = [str(getattr(step, name)) for name in shape]
    return " ".join([step.mark + step.verb, *words, *step.rest])


def needs_of(script: Iterable[Step]) -> tuple[str, ...]:
    """What an engine must declare to be driven so."""
    needs: set[str] = set()
    created: set[tuple[Side, str]] = set()
    sent: set[str] = set()
    attempts: Counter[tuple[str, str]] = Counter()  # creations and destinations, by room
    ever: set[tuple[Side, str]] = set()
    held: set[tuple[Side, str]] = set()  # created, and not cleared since
    for step in script:
        match step.verb:
            case "create":
                if (step.side, step.room) in ever and not step.mark:
                    needs.add("reuse")
                if not step.n:
                    needs.add("empty")
                attempts[step.side, step.room] += not step.mark
                ahead = attempts["decode", step.room] > attempts["prefill", step.room]
                if step.side == "decode" and ahead and ("prefill", step.room) in held:
                    needs.add("retry")
                created.add((step.side, step.room))
                ever.add((step.side, step.room))
                held.add((step.side, step.room))
            case "meta" if not step.mark:
                if ("prefill", step.room) not in ever:
                    needs.add("early-metadata")
                attempts["given", step.room] = attempts["decode", step.room]
            case "send" if not step.mark:
                if (
                    attempts["given", step.room] < attempts["prefill", step.room]
                ):  # an engine whose scheduler waits for destinations never makes this call
                    needs.add("early-send")
                if step.room in sent or not step.last:
                    needs.add("chunks")
                sent.add(step.room)
            case "abort" | "clear":
                needs.add(step.verb)
                if step.verb == "clear":
                    held.discard((step.side, step.room))
            case "fault":
                needs.add(step.word)
            case "gate":
                needs.add("gates")
            case "stop":
                needs.add(step.word)
            case "ranks":
                needs.add("ranks")
            case "wait" | "over":
                needs |= _limit(step.word)
            case "expect":
                needs |= _limit(step.after("within", "react"))
            case "holds":
                needs |= _limit(step.after("during", "react"))
    return tuple(sorted(needs))


def _limit(name: str) -> set[str]:
    return {f"limit:{name}"} if name in ("pairing", "waiting", "silence", "total", "gate") else set()
