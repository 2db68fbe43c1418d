"""A counterexample that leaves the process: built from a result, told as text, diagram, data or test, and replayed.

Steps are data, not indices, and messages stand in them in full: they mean the same in a fresh world and in a later version
of the tables. A step that cannot happen any more is :class:`Stale`, which says what can.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from .explorer import Result, Violation, World, stays, step
from .telling import Arrow, Data, Note, Picture, teller_of

__all__ = ["VERSION", "Counterexample", "Stale", "Step", "line_of", "replay", "steps_of", "tell", "to_json", "to_text"]

#: Of the JSON form.
VERSION = 1
#: States that :func:`replay` searches for a way out of a hang.
ENOUGH = 100_000


class Stale(Exception):
    """A step cannot happen: this is no trace of this world any more."""


@dataclass(frozen=True)
class Step:
    """One action, and what came of it: who stands differently after it, and how."""

    data: Data
    picture: Picture
    after: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Counterexample:
    """``doomed``: a hang is sure after so many steps, the others are one way to where it stays; -1: the last step broke it.
    ``mutant``: what was changed in the tables, in the words of :mod:`.breaking`; empty for nothing."""

    world: str
    invariant: str
    sentence: str
    actors: tuple[str, ...]
    steps: tuple[Step, ...]
    doomed: int = -1
    mutant: str = ""


def tell(name: str, world: World, result: Result, mutant: str = "") -> Counterexample:
    """The counterexample that a search of ``world`` found. Raises ``ValueError`` for a result without one."""
    if result.violation is None:
        raise ValueError("this result has no violation")
    teller, steps = teller_of(world), []
    world.restore(result.start)
    standing = dict(teller.standing())
    for action in result.trace:
        data, picture = teller.data(action), teller.picture(action)
        try:
            step(world, action)
        except Violation:  # the last one
            steps.append(Step(data, picture))
            break
        now = dict(teller.standing())
        after = tuple((actor, text) for actor, text in now.items() if standing.get(actor) != text)
        steps.append(Step(data, picture, after))
        standing = now
    violation = result.violation
    return Counterexample(
        name, violation.invariant, violation.sentence, tuple(teller.actors()), tuple(steps), result.doomed, mutant
    )


def replay(world: World, steps: Sequence[Data]) -> Violation | None:
    """Do in a fresh world what a counterexample did. Returns what is violated on the way, or at its end, if it stays there;
    ``None`` if all is well. Raises :class:`Stale` for a step that cannot happen."""
    teller = teller_of(world)
    for number, wanted in enumerate(map(json.dumps, steps), 1):
        enabled = {json.dumps(teller.data(action)): action for action in world.actions()}
        if wanted not in enabled:
            can = "".join(f"\n  {each}" for each in enabled)
            raise Stale(f"step {number} cannot happen: {wanted}; what can:{can}")
        try:
            step(world, enabled[wanted])
        except Violation as violation:
            return violation
    return _hang(world)


def _hang(world: World) -> Violation | None:
    """What is violated if no good end is reached from here along fair actions; the names are those of where it is now."""
    here = world.snapshot()
    met, todo = {here}, [here]
    for state in todo:
        world.restore(state)
        if world.ended() or len(met) > ENOUGH:
            return None
        for action in world.actions():
            world.restore(state)
            step(world, action)
            if world.fair(action) and (after := world.snapshot()) not in met:
                met.add(after)
                todo.append(after)
    world.restore(here)
    return stays(world)


def to_text(found: Counterexample) -> str:
    """For a terminal: one step a line, and how an actor stands whenever that changes."""
    lines = [f"{found.invariant} does not hold in {found.world}{_mutant(found)}, after {len(found.steps)} steps:"]
    if found.doomed == 0:
        lines.append("     -- no end is sure from the start")
    for number, each in enumerate(found.steps, 1):
        stands = "".join(f"   [{actor}: {text}]" for actor, text in each.after if text)
        lines.append(f"{number:4} {line_of(each.picture)}{stands}")
        if number == found.doomed:
            lines.append("     -- from here no end is sure; one way to where all stays as it is:")
    return "\n".join([*lines, f"   > {found.invariant}: {found.sentence}", ""])


def to_json(found: Counterexample) -> str:
    """For programs: ``steps[i].do`` is what :func:`replay` takes."""
    steps = [{"do": each.data, "text": line_of(each.picture), "after": dict(each.after)} for each in found.steps]
    body = {
        "version": VERSION, "world": found.world, "mutant": found.mutant, "invariant": found.invariant,
        "sentence": found.sentence, "doomed": found.doomed, "actors": list(found.actors), "steps": steps,
    }  # fmt: skip
    return json.dumps(body, indent=1) + "\n"


def steps_of(text: str) -> tuple[str, list[Data]]:
    """The world's name and the steps for :func:`replay` of what :func:`to_json` wrote. Raises ``ValueError`` for another
    version, or for what is no counterexample, naming the field."""
    body = json.loads(text)
    if not isinstance(body, dict) or body.get("version") != VERSION:
        raise ValueError(
            f"version: expected {VERSION}, got {body.get('version') if isinstance(body, dict) else body!r}"
        )
    world, steps = body.get("world"), body.get("steps")
    if not isinstance(world, str):
        raise ValueError(f"world: expected a name, got {world!r}")
    if not isinstance(steps, list) or not all(isinstance(each, dict) and "do" in each for each in steps):
        raise ValueError("steps: expected a list of objects with a field 'do'")
    return world, [each["do"] for each in steps]


def _mutant(found: Counterexample) -> str:
    return f" with {found.mutant!r}" if found.mutant else ""


def line_of(picture: Picture) -> str:
    """A picture in words."""
    match picture:
        case Arrow(source, target, text, lost):
            return f"{source} {'-x' if lost else '->'} {target}: {text}"
        case Note(actor, text):
            return f"{actor}: {text}"
