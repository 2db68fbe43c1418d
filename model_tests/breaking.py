"""Break one row of a table on purpose, in words: ``sender Transferring PEER_FAILED ignore``.

The words are the table, the state, the event, then values of the row's fields and arguments that are not the initial ones
(``all=true``), and what happens to the row: ``ignore``, ``forget`` (its updates), ``to=STATE`` or ``without=EFFECT``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from kvpoll.spec import Effect
from kvpoll.spec.table import Row, Table, Value

from .tables import RULES, changed, ignored, row_of, to, unstated, without

__all__ = ["broken"]

T = TypeVar("T")


def broken(words: str) -> Table:
    """The table with that row changed. Raises ``ValueError`` naming the word that is wrong, and what was expected."""
    name, state_name, event_name, *rest = [*words.split(), "", "", ""][: max(3, len(words.split()))]
    table = _one(RULES, name, "table").table
    state = _one({s.name: s for s in table.states}, state_name, "state")
    spec = _one({s.event.name: s for s in table.events}, event_name, "event")
    domains = {f.name: f.domain for f in (*table.fields, *spec.args)}
    where: dict[str, Value] = {}
    how: Callable[[Row], Row] | None = None
    for word in rest:
        key, _, text = word.partition("=")
        if key in domains:
            where[key] = _one({str(value).lower(): value for value in domains[key]}, text.lower(), key)
        elif how is None:
            how = _how(key, text, table)
        else:
            raise ValueError(f"{word!r}: expected one of {', '.join(domains) or 'nothing more'}")
    if how is None:
        raise ValueError(f"{words!r} does not say what happens to the row: ignore, forget, to=STATE or without=EFFECT")
    try:
        return changed(table, row_of(table, state, spec.event, **where), how)
    except LookupError as error:
        raise ValueError(f"{error}; give values of {', '.join(domains) or 'nothing'}") from None


def _how(key: str, text: str, table: Table) -> Callable[[Row], Row]:
    if key == "to":
        return to(_one({s.name: s for s in table.states}, text, "to"))
    if key == "without":
        return without(_one({e.name: e for e in Effect}, text, "without"))
    return _one({"ignore": ignored, "forget": unstated}, key, "change")


def _one(known: dict[str, T], name: str, what: str) -> T:
    if name not in known:
        raise ValueError(f"{what}: expected one of {', '.join(known)}, got {name!r}")
    return known[name]
