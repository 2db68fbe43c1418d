"""A counterexample as a Mermaid sequence diagram, and as a test that does it again."""

from __future__ import annotations

from pprint import pformat
from textwrap import indent

from .counterexample import Counterexample, line_of
from .telling import Arrow, Note

__all__ = ["to_mermaid", "to_pytest"]


def to_mermaid(found: Counterexample) -> str:
    """Actors as life lines; what arrives is an arrow, what is lost one that ends in a cross, all else a note."""
    names = {actor: f"a{number}" for number, actor in enumerate(found.actors)}
    everybody = ",".join(dict.fromkeys((names[found.actors[0]], names[found.actors[-1]])))
    lines = ["sequenceDiagram", *(f"    participant {name} as {_safe(actor)}" for actor, name in names.items())]
    for number, each in enumerate(found.steps, 1):
        match each.picture:
            case Arrow(source, target, text, lost):
                lines.append(f"    {names[source]}{'-x' if lost else '->>'}{names[target]}: {_safe(text)}")
            case Note(actor, text):
                lines.append(f"    Note over {names[actor]}: {_safe(text)}")
        lines += [f"    Note right of {names[actor]}: {_safe(text)}" for actor, text in each.after if text]
        if number == found.doomed < len(found.steps):
            lines.append(f"    Note over {everybody}: from here no way out is sure")
    lines.append(f"    Note over {everybody}: {_safe(f'{found.invariant}: {found.sentence}')}")
    return "\n".join([*lines, ""])


def _safe(text: str) -> str:
    """Mermaid ends a statement at a semicolon, and reads what follows a hash as a character's code."""
    return text.replace("#", "no. ").replace(";", ",").replace("\n", " ")


def to_pytest(found: Counterexample, imports: str = "", make: str = "") -> str:
    """A test file that passes as long as the counterexample stands.

    ``make`` is the expression that makes a fresh world, and ``imports`` the statement that it needs, for a world of your
    own: ``"from my.worlds import shop"`` and ``"shop()"``. If left out, the world is one of :data:`.worlds.WORLDS`.
    """
    imports = imports or "from kvpoll.model_tests.worlds import WORLDS"
    make = make or f"WORLDS[{found.world!r}].make()"
    uses = ["from kvpoll.model_tests.counterexample import replay", imports]
    call = [f"    found = replay({make}, STEPS)"]
    if found.mutant:
        uses += ["from kvpoll.model_tests.breaking import broken", "from kvpoll.model_tests.tables import instead"]
        call = [f"    with instead(broken({found.mutant!r})):", f"    {call[0]}"]
    steps = []
    for number, each in enumerate(found.steps, 1):
        steps += [f"# {number} {line_of(each.picture)}", f"{pformat(each.data, width=112, sort_dicts=False)},"]
    lines = [
        f'"""{found.invariant} does not hold in {found.world}. Made by `kvpoll check`.', "", found.sentence, "",
        "This passes as long as the counterexample stands. When it is repaired, `replay` returns None, or raises Stale",
        "because a step cannot happen any more: then turn the test round, or delete it.", '"""', "",
        *sorted(uses), "", "STEPS = [", indent("\n".join(steps), "    "), "]", "", "",
        "def test_the_counterexample_stands() -> None:", *call, '    assert found is not None, "all is well"',
        f"    assert found.invariant == {found.invariant!r}, found", "",
    ]  # fmt: skip
    return "\n".join(lines)
