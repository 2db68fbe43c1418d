"""The checker of tables: every rule a table must keep, each decided by looking at all cases, since all are finite.

It works in three steps, and a step is taken only when the one before found nothing, so that one mistake is one finding:

1. *declared*: every name stands for something, every value is one its field can have.
2. *decided*: each (state, event) has exactly one row for each assignment, and each row does what its verdict may do.
3. *walked*: following the rows from the initial node, every state and row is reached and every wait ends.

A guard reads only the names in it, so step 2 assigns those that the rows of one (state, event) name, which is the same
as assigning all. Step 3 uses the interpreter's own look-up. ``NEVER`` rows are claims about sessions; the explorer
proves them, this file does not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import permutations, product

from kvpoll.spec.causes import CATALOGUE, Cause
from kvpoll.spec.effects import Effect
from kvpoll.spec.states import KVPoll
from kvpoll.spec.table import All, AnyOf, EventSpec, Expr, Field, Is, Not, Row, Source, Table, Value, Verdict, evaluate

from .interpreter import Machine, Node, Rules, Signal
from .render.guard import guard_text, value_text, variables

__all__ = ["Finding", "Rule", "check", "reachable"]


class Rule(Enum):
    """The value is the rule; a finding says where it is broken."""

    # declared
    NAME_ONCE = "within one event, a name is declared once, as a field or as an argument"
    INITIAL_IN_DOMAIN = "an initial value is in its domain"
    STATE_DECLARED = "every state in the table is one of its states"
    EVENT_DECLARED = "every event in the table is one of its events"
    GUARD_NAMES = "a guard names only fields of the table and arguments of its event"
    GUARD_VALUES = "a guard compares with values of the domain, and only a truth value stands bare"
    UPDATE_FIELDS = "an update assigns a field of the table, at most once a row"
    UPDATE_VALUES = "an update assigns values of the field's domain, from what is declared"
    EFFECT_DECLARED = "an effect is in the list of effects, at most once a row"
    USED = "every event can happen, a row names every field, a row reads every argument"
    WHY = "every row, event, field and argument says why"
    # decided
    ORDER = "rows stand in one order: each state one block, in it the events as declared"
    TOTAL = "each (state, event) has a row for every assignment"
    DISJOINT = "no two rows match the same assignment"
    NEXT = "GO changes the state; STAY, IGNORE, REFUSE and NEVER do not"
    UNTOUCHED = "IGNORE, REFUSE and NEVER update nothing, REFUSE and NEVER have no effects"
    REFUSE_ENGINE = "only a call of the engine can be refused"
    CAUSE = "a FAIL row has a cause of the catalogue, NEVER has INTERNAL, no other row has one"
    FAIL_TARGET = "a room that fails becomes Failed"
    TERMINAL = "no row leaves a terminal state, and a broken machine ends in one"
    WAITING = "each state that is not terminal says which events end it"
    # walked
    REACHABLE_STATE = "every state is reached"
    REACHABLE_ROW = "every row that is not NEVER matches at some node that is reached"
    EXIT = "the events that end a waiting state leave it, in whatever order they come"


@dataclass(frozen=True, slots=True)
class Finding:
    """``where`` names table, state, event and guard; ``sentence`` says what is wrong there."""

    rule: Rule
    where: str
    sentence: str

    def __str__(self) -> str:
        return f"{self.where}: {self.sentence} ({self.rule.name}: {self.rule.value})"


def check(table: Table) -> list[Finding]:
    """Every rule that the table breaks; empty for a good table. Never raises for a table of well-typed rows."""
    for step in (_declared, _decided, _walked):
        found = list(step(table))
        if found:
            return found
    return []


def reachable(rules: Rules) -> list[Node]:
    """Every node that signals reach from the initial one, nearest first. ``NEVER`` rows are not followed."""
    seen = {rules.initial: None}
    queue = [rules.initial]
    for node in queue:
        for signal in rules.signals():
            if {r.verdict for r in rules.match(node, signal)} & {Verdict.GO, Verdict.STAY, Verdict.FAIL}:
                target = rules.expand(node, signal).node
                if target not in seen:
                    seen[target] = None
                    queue.append(target)
    return queue


# -- step 1


def _declared(table: Table) -> Iterator[Finding]:
    specs = {spec.event: spec for spec in table.events}
    fields = set(table.fields)
    yield from _names(table)
    for field in (*table.fields, *(a for s in table.events for a in s.args)):
        if not _has(field, field.initial):
            yield Finding(Rule.INITIAL_IN_DOMAIN, f"{table.name} {field.name}", f"{field.initial!r} is no value of it")
    yield from _states(table)
    for row in table.rows:
        where = _where(table, row)
        if row.event not in specs:
            yield Finding(Rule.EVENT_DECLARED, where, f"{row.event} is not declared")
            continue
        known = fields | set(specs[row.event].args)
        for name in (f.name for f in variables(row.guard) if f not in known):
            yield Finding(Rule.GUARD_NAMES, where, f"{name} is neither a field nor an argument of this event")
        yield from (Finding(Rule.GUARD_VALUES, where, s) for s in _strange(row.guard))
        yield from _updates(row, where, fields, known)
        yield from _effects(row.effects, where)
    if table.broken is not None:
        yield from _effects(table.broken[1], f"{table.name} broken")
    yield from _unused(table)
    yield from _reasons(table)


def _names(table: Table) -> Iterator[Finding]:
    own = [f.name for f in table.fields]
    for spec in table.events:
        names = own + [a.name for a in spec.args]
        for name in sorted({n for n in names if names.count(n) > 1}):
            yield Finding(Rule.NAME_ONCE, f"{table.name} {spec.event.name}", f"{name} is declared twice")
    declared = [s.event for s in table.events]
    for event in dict.fromkeys(e for e in declared if declared.count(e) > 1):
        yield Finding(Rule.NAME_ONCE, f"{table.name} {event.name}", "the event is declared twice")


def _states(table: Table) -> Iterator[Finding]:
    named = [
        ("initial", table.initial),
        *(("terminal", s) for s in table.terminal),
        *(("waiting", s) for s in table.waiting),
    ]
    named += [("broken", table.broken[0])] if table.broken is not None else []
    named += [(_place(r), s) for r in table.rows for s in (r.state, r.next)]
    for place, state in named:
        if not isinstance(state, table.states):
            yield Finding(Rule.STATE_DECLARED, f"{table.name} {place}", f"{state} is no {table.states.__name__}")
    declared = {s.event for s in table.events}
    for state, events in table.waiting.items():
        for event in events:
            if event not in declared:
                yield Finding(Rule.EVENT_DECLARED, f"{table.name} waiting {state.name}", f"{event} is not declared")


def _strange(guard: Expr) -> Iterator[str]:
    match guard:
        case Field():
            if not _has(guard, True):
                yield f"{guard.name} is never true, so it cannot stand bare"
        case Is(field=field, value=value):
            if not _has(field, value):
                yield f"{field.name} is never {value!r}"
        case Not(term=term):
            yield from _strange(term)
        case All(terms=terms) | AnyOf(terms=terms):
            for term in terms:
                yield from _strange(term)


def _updates(row: Row, where: str, fields: set[Field], known: set[Field]) -> Iterator[Finding]:
    targets = [u.field for u in row.updates]
    for update in row.updates:
        target, value = update.field, update.value
        if target not in fields or targets.count(target) > 1:
            yield Finding(Rule.UPDATE_FIELDS, where, f"{target.name} is not a field of the table, or assigned twice")
        elif isinstance(value, Field):
            if value not in known or not all(_has(target, v) for v in value.domain):
                yield Finding(
                    Rule.UPDATE_VALUES, where, f"{value.name} is not declared here, or wider than {target.name}"
                )
        elif not _has(target, value):
            yield Finding(Rule.UPDATE_VALUES, where, f"{value!r} is no value of {target.name}")


def _effects(effects: Sequence[Effect], where: str) -> Iterator[Finding]:
    for effect in effects:
        if not isinstance(effect, Effect) or effects.count(effect) > 1:
            yield Finding(Rule.EFFECT_DECLARED, where, f"{effect} is not an effect, or stands twice")


def _unused(table: Table) -> Iterator[Finding]:
    named = {f for r in table.rows for f in variables(r.guard)}
    named |= {f for r in table.rows for u in r.updates for f in (u.field, u.value) if isinstance(f, Field)}
    for field in table.fields:
        if field not in named:
            yield Finding(Rule.USED, f"{table.name} {field.name}", "no row names this field")
    for spec in table.events:
        rows = [r for r in table.rows if r.event is spec.event]
        if all(r.verdict is Verdict.NEVER for r in rows):
            yield Finding(Rule.USED, f"{table.name} {spec.event.name}", "no row lets this event happen")
        read = {f for r in rows for f in (*variables(r.guard), *(u.value for u in r.updates)) if isinstance(f, Field)}
        for arg in spec.args:
            if rows and arg not in read:
                yield Finding(Rule.USED, f"{table.name} {spec.event.name}", f"no row reads its argument {arg.name}")


def _reasons(table: Table) -> Iterator[Finding]:
    said: list[tuple[str, str]] = [(_place(r), r.why) for r in table.rows]
    said += [(e.event.name, e.why) for e in table.events]
    said += [(f.name, f.why) for f in (*table.fields, *(a for e in table.events for a in e.args))]
    for place, why in said:
        if not why.strip():
            yield Finding(Rule.WHY, f"{table.name} {place}", "the reason is missing")


# -- step 2


def _decided(table: Table) -> Iterator[Finding]:
    sources = {spec.event: spec.source for spec in table.events}
    for row in table.rows:
        yield from (Finding(rule, _where(table, row), s) for rule, s in _verdict(table, row, sources[row.event]))
    yield from _order(table)
    for state in table.states:
        for spec in table.events:
            yield from _pair(table, state, spec)
    rests = table.terminal or {table.initial}  # a machine without terminal states goes round and rests where it began
    for state in table.states:
        listed = bool(table.waiting.get(state))
        if listed and state in table.terminal:
            yield Finding(Rule.WAITING, f"{table.name} {state.name}", "a terminal state waits for nothing")
        if not listed and state not in rests:
            yield Finding(Rule.WAITING, f"{table.name} {state.name}", "nothing is listed that ends this state")
    if table.broken is not None and table.broken[0] not in table.terminal:
        yield Finding(Rule.TERMINAL, f"{table.name} broken", f"{table.broken[0].name} is not terminal")


def _verdict(table: Table, row: Row, source: Source) -> Iterator[tuple[Rule, str]]:
    moves, verdict = row.next is not row.state, row.verdict
    if verdict is not Verdict.FAIL and moves != (verdict is Verdict.GO):
        yield Rule.NEXT, f"a {verdict.name} row leads to {row.next.name}"
    if verdict in (Verdict.IGNORE, Verdict.REFUSE, Verdict.NEVER) and row.updates:
        yield Rule.UNTOUCHED, f"a {verdict.name} row updates {row.updates[0].field.name}"
    if verdict in (Verdict.REFUSE, Verdict.NEVER) and row.effects:
        yield Rule.UNTOUCHED, f"a {verdict.name} row has the effect {row.effects[0].name}"
    if verdict is Verdict.REFUSE and source is not Source.ENGINE:
        yield Rule.REFUSE_ENGINE, f"{row.event.name} comes from the {source.value}, which cannot be refused"
    match verdict:
        case Verdict.FAIL if row.cause not in CATALOGUE:
            yield Rule.CAUSE, f"the cause is {row.cause}"
        case Verdict.NEVER if row.cause is not Cause.INTERNAL:
            yield Rule.CAUSE, f"the cause is {row.cause}, not INTERNAL"
        case Verdict.GO | Verdict.STAY | Verdict.IGNORE | Verdict.REFUSE if row.cause is not None:
            yield Rule.CAUSE, f"a {verdict.name} row has the cause {row.cause.name}"
    if verdict is Verdict.FAIL and (row.next is not KVPoll.Failed if table.states is KVPoll else not moves):
        yield Rule.FAIL_TARGET, f"it leads to {row.next.name}"
    if row.state in table.terminal and (moves or verdict is Verdict.FAIL):
        yield Rule.TERMINAL, f"it leads from {row.state.name} to {row.next.name}"


def _order(table: Table) -> Iterator[Finding]:
    """Each row belongs at or after the one before it; the first that does not is the one to move."""
    place = {spec.event: i for i, spec in enumerate(table.events)}
    done: set[Enum] = set()
    for before, row in zip(table.rows, table.rows[1:], strict=False):
        if row.state is not before.state:
            done.add(before.state)
        if row.state in done or (row.state is before.state and place[row.event] < place[before.event]):
            yield Finding(Rule.ORDER, _where(table, row), "this row stands too late")
            return


def _pair(table: Table, state: Enum, spec: EventSpec) -> Iterator[Finding]:
    rows = [r for r in table.rows if r.state is state and r.event is spec.event]
    read = list(dict.fromkeys(f for r in rows for f in variables(r.guard)))
    where = f"{table.name} {state.name} on {spec.event.name}"
    missing: list[str] = []
    for values in product(*(f.domain for f in read)):
        env = {f.name: v for f, v in zip(read, values, strict=True)}
        matching = [r for r in rows if evaluate(r.guard, env)]
        said = _assignment(env)
        if not matching:
            missing.append(said)
        elif len(matching) > 1:
            guards = "; ".join(guard_text(r.guard) for r in matching)
            yield Finding(Rule.DISJOINT, where, f"{said}, {len(matching)} rows match: {guards}")
    if missing:
        yield Finding(Rule.TOTAL, where, f"no row matches {' or '.join(missing)}")


# -- step 3


def _walked(table: Table) -> Iterator[Finding]:
    rules = Rules(table)
    nodes = reachable(rules)
    seen = {node.state for node in nodes}
    for state in table.states:
        if state not in seen:
            yield Finding(Rule.REACHABLE_STATE, f"{table.name} {state.name}", "no chain of events leads here")
    matched = {id(r) for n in nodes for s in rules.signals() for r in rules.match(n, s)}
    for row in table.rows:
        # One finding for a state that is not reached, not one for each of its rows.
        if row.verdict is not Verdict.NEVER and row.state in seen and id(row) not in matched:
            yield Finding(Rule.REACHABLE_ROW, _where(table, row), "its guard holds at no node that is reached")
    for node in nodes:
        listed = table.waiting.get(node.state, ())
        for order in permutations(listed) if listed else ():
            stuck = _stuck(rules, node, order)
            if stuck is not None:
                said = " then ".join(s.name for s in stuck)
                yield Finding(Rule.EXIT, f"{table.name} {node.state.name}", f"{said} does not leave {node!r}")
                break


def _stuck(rules: Rules, node: Node, order: Sequence[Enum]) -> tuple[Signal, ...] | None:
    """Signals for these events, in this order, after which the machine is still in the same state; None if none are."""
    for signals in product(*([s for s in rules.signals() if s.event is event] for event in order)):
        machine = Machine(rules, node)
        for signal in signals:
            if {r.verdict for r in rules.match(machine.node, signal)} & {Verdict.GO, Verdict.STAY, Verdict.FAIL}:
                machine.feed(signal)
            if machine.node.state is not node.state:
                break
        else:
            return signals
    return None


# -- words


def _has(field: Field, value: Value) -> bool:
    """``True`` is not ``1`` and not ``"True"`` here: what is compared on other sides is compared with its type."""
    return any(type(v) is type(value) and v == value for v in field.domain)


def _place(row: Row) -> str:
    return f"{row.state.name} on {row.event.name} [{guard_text(row.guard)}]"


def _where(table: Table, row: Row) -> str:
    return f"{table.name} {_place(row)}"


def _assignment(env: dict[str, Value]) -> str:
    return "always" if not env else " ".join(f"{name}={value_text(value)}" for name, value in env.items())
