"""A declared world as Promela, for Spin: compiled from the declarations, never from an explored graph.

How it is laid out, so that Spin's states are the states of :mod:`.run` one for one:

* One process with one loop; each option is one step, done without interruption. So the only states that are stored are those
  between steps, and Spin's transitions are our edges, and one more for the start.
* The state vector holds a state and the fields for each machine, the counters, and what is in flight. Everything that lives
  only inside a step is ``hidden``, which keeps it out of the vector.
* A channel in which messages overtake each other is a set: one bit for each message. Otherwise it is a queue.
* Feeding a machine picks the one row whose guard holds, makes its updates, then carries out its effects. A row that is
  called impossible, a refused call and a claim that does not hold print ``BROKEN name`` and fail an assertion.
* Each step prints the two control states that it leads to, when they are new: ``PAIR a b``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kvpoll.spec.effects import Effect
from kvpoll.spec.table import EventSpec, Row, Verdict

from .promela_parts import (
    WORD,
    broken,
    clear_lines,
    comment_text,
    ended,
    fields_of,
    guard_text,
    indented,
    next_up,
    numbers_of,
    put_lines,
    state_text,
    take_lines,
    update_texts,
    value_text,
    words_of,
)
from .terms import Arg, Both, Either, Empty, Has, In, Less, No, Num, Pick, Same, Scaled, Sum, Term, Var
from .world import Body, Call, Channel, Clear, DeclaredWorld, Feed, Machine, Must, Put, Say, Statement, Step, When

__all__ = ["promela"]

#: Statements in one uninterrupted step; Spin takes about two thousand.
LONGEST = 1000
#: Messages of a channel that fit in a byte, one added.
MESSAGES = 254


def promela(world: DeclaredWorld) -> str:
    """The whole model. Raises ``KeyError`` for a name that the world does not declare, ``ValueError`` for a channel with more
    messages than a byte can number."""
    for channel in world.channels:
        if channel.size > MESSAGES:
            raise ValueError(f"{world.name}: {channel.name} has {channel.size} messages, expected at most {MESSAGES}")
    return "\n".join(_Model(world).lines()) + "\n"


class _Model:
    def __init__(self, world: DeclaredWorld) -> None:
        self.world = world
        self.inlines: dict[str, list[str]] = {}  #: in the order in which they can be defined

    def lines(self) -> Iterator[str]:
        world = self.world
        body = list(self._process())  # fills inlines
        yield f"/* {world.name}: {world.about}"
        yield f"   {world.faults}"
        yield "   Made by `kvpoll docs --write` (or `make docs`) from spec/ and model_tests/declared/. Do not edit. */"
        yield ""
        yield from self._constants()
        yield from self._variables()
        for lines in self.inlines.values():
            yield ""
            yield from lines
        yield ""
        yield from body

    # -- declarations --------------------------------------------------------------------------------------------------
    def _constants(self) -> Iterator[str]:
        for states in dict.fromkeys(m.table.states for m in self.world.machines):
            for number, state in enumerate(states):
                yield f"#define {state_text(state)} {number}"
        for table in {m.table.name: m.table for m in self.world.machines}.values():
            for field in fields_of(table):
                for number, value in enumerate(field.domain):
                    if isinstance(value, str):
                        yield f"#define {field.name}_{value} {number}"
        yield ""

    def _variables(self) -> Iterator[str]:
        for machine in self.world.machines:
            start = machine.table.initial if machine.start is None else machine.start
            yield f"/* {machine.name}: {machine.table.about} */"
            yield f"byte {machine.name}_state = {state_text(start)};"
            for field in machine.table.fields:
                kind = "bit" if len(field.domain) == 2 else "byte"
                yield f"{kind} {machine.name}_{field.name} = {value_text(field, field.initial)}; /* {field.why} */"
        yield ""
        for var in self.world.variables:
            comment = f" /* {var.why} */" if var.why else ""
            yield f"{'bit' if var.top == 1 else 'byte'} {var.name} = {var.initial};{comment}"
        for channel in self.world.channels:
            yield f"/* in flight {channel.name}: {numbers_of(channel)} */"
            if channel.is_set:
                yield from (f"int {channel.name}_{word};" for word in range(words_of(channel)))
            else:
                yield f"byte {channel.name}_n;"
                yield f"byte {channel.name}[{channel.capacity}]; /* 0: nothing, else a message's number and one */"
        yield "/* inside a step only */"
        yield "hidden byte fx, msg;"
        args = dict.fromkeys(f for c in self.world.channels for kind in c.kinds for f, _ in kind.fields)
        yield from (f"hidden byte in_{name};" for name in args)
        spoken = {(m.name, a.name): None for m in self.world.machines for spec in m.table.events for a in spec.args}
        yield from (f"hidden byte {machine}_arg_{name};" for machine, name in spoken)
        first, second = (self.world.by_name[name].table for name in self.world.control)
        yield f"hidden byte pair[{len(first.states) * len(second.states)}];"

    # -- the process ---------------------------------------------------------------------------------------------------
    def _process(self) -> Iterator[str]:
        self._done()
        options = [line for step in self.world.steps for line in self._step(step)]
        for channel in self.world.channels:
            options += self._arrivals(channel)
        yield "active proctype world() {"
        yield "end: do"
        yield from options
        yield "od }"

    def _step(self, step: Step) -> Iterator[str]:
        guard, budget = self.term(step.guard), step.budget
        guard = guard if budget is None else f"({budget.name} > 0 && {guard})"
        spend = "skip" if budget is None else f"{budget.name} = {budget.name} - 1"
        yield f":: atomic {{ /* {step.name} */"
        yield f"     d_step {{ {guard} -> {spend} }}"
        yield from indented(self._uninterrupted(step.body), 5)
        yield "     d_step { done() } }"

    def _uninterrupted(self, body: Body) -> Iterator[str]:
        """Statements inside of ``atomic``, as few steps as Spin can take: what is longer than it takes in one is split."""
        lines = list(self.body(body))
        if self._length(lines) <= LONGEST:
            yield f"d_step {{ {lines[0]}" if len(lines) == 1 else "d_step {"
            yield from indented(lines, 2) if len(lines) > 1 else ()
            yield "}"
            return
        for statement in body:
            if isinstance(statement, When) and self._length(self._statement(statement)) > LONGEST:
                yield "if"
                yield f":: {self.term(statement.term)} ->"
                yield from indented(self._uninterrupted(statement.then), 3)
                yield ":: else" + (" ->" if statement.other else "")
                yield from indented(self._uninterrupted(statement.other), 3) if statement.other else ()
                yield "fi;"
            else:
                yield "d_step {"
                yield from indented(self._statement(statement), 2)
                yield "}"

    def _length(self, lines: Iterable[str]) -> int:
        """About how many statements this is with everything written out."""
        total = 0
        for line in lines:
            name, called, _ = line.strip().partition("(")
            total += self._length(self.inlines[name]) if called and name in self.inlines else 1 + line.count(";")
        return total

    def _arrivals(self, channel: Channel) -> Iterator[str]:
        if not channel.is_set:
            self.inlines[f"take_{channel.name}"] = [
                f"inline take_{channel.name}() {{",
                *indented(take_lines(channel), 2),
                "}",
            ]
        for receive in self.world.receives:
            if receive.channel == channel.name:
                yield from self._choice(f"{receive.kind} arrives", channel, receive.kind, channel.copies)
                yield from indented(self._uninterrupted(receive.body), 5)
                yield "     d_step { done() } }"
        if channel.losses is not None:
            budget = channel.losses.name
            yield f":: atomic {{ /* {channel.name}: a message is lost */"
            yield "     if"
            for kind in channel.kinds:
                for number, _ in channel.messages(kind.name):
                    here, take = next_up(channel, number)
                    yield f"     :: d_step {{ {budget} > 0 && {here} -> {'; '.join(take)} }}"
            yield "     fi;"
            yield f"     d_step {{ {budget} = {budget} - 1; done() }} }}"

    def _choice(self, what: str, channel: Channel, kind: str, copies: Var | None) -> Iterator[str]:
        """One of the messages of a kind that may be next: its fields are put where the handler finds them. With a budget of
        copies it may stay in flight as well."""
        yield f":: atomic {{ /* {channel.name}: {what} */"
        yield "     if"
        for number, fields in channel.messages(kind):
            here, take = next_up(channel, number)
            told = [f"in_{name} = {value}" for name, value in fields.items()]
            yield f"     :: d_step {{ {here} -> {'; '.join([*take, *told])} }}"
            if copies is not None:
                spend = f"{copies.name} = {copies.name} - 1"
                yield f"     :: d_step {{ {copies.name} > 0 && {here} -> {'; '.join([spend, *told])} }}"
        yield "     fi;"

    def _done(self) -> None:
        """After each step: the claims, and the control states."""
        lines = ["inline done() {"]
        for claim in self.world.claims:
            lines += indented(self._must(claim.name, claim.term, claim.sentence), 2)
        first, second = self.world.control
        width = len(self.world.by_name[second].table.states)
        at = f"{first}_state * {width} + {second}_state"
        lines.append(
            f'  if :: pair[{at}] == 0 -> pair[{at}] = 1; printf("PAIR %d %d\\n", {first}_state, {second}_state) :: else fi'
        )
        self.inlines["done"] = [*lines, "}"]

    # -- statements ----------------------------------------------------------------------------------------------------
    def body(self, body: Body) -> Iterator[str]:
        """Statements, each ended by a semicolon."""
        for statement in body:
            yield from self._statement(statement)

    def _statement(self, statement: Statement) -> Iterable[str]:
        match statement:
            case Put(var=var, value=value):
                return [f"{var.name} = {self.term(value)};"]
            case Must(name=name, term=term, sentence=sentence):
                return self._must(name, term, sentence)
            case Say(channel=name):
                return self._say(statement, self.world.channel(name))
            case Clear(channel=name):
                return clear_lines(self.world.channel(name))
            case Call(name=name):
                self._define(name, f"inline {name}() {{", self.world.procedures[name])
                return [f"{name}();"]
            case Feed():
                return self._feed(statement)
            case When(term=term, then=then, other=other):
                return self._when(term, then, other)

    def _when(self, term: Term, then: Body, other: Body) -> Iterator[str]:
        yield "if"
        yield f":: {self.term(term)} ->"
        yield from ended(indented(self.body(then), 3))
        yield ":: else" + (" ->" if other else "")
        yield from ended(indented(self.body(other), 3)) if other else ()
        yield "fi;"

    def _must(self, name: str, term: Term, sentence: str) -> list[str]:
        if term == Num(1):
            return []
        return [f"if :: {self.term(term)} -> skip :: else -> {broken(name, sentence)} fi;"]

    def _say(self, say: Say, channel: Channel) -> list[str]:
        number = channel.number(say)
        assert isinstance(number, Sum)
        if channel.is_set and len(number.terms) == 1 and isinstance(number.terms[0], Num):
            word, bit = divmod(number.terms[0].value, WORD)
            return [f"{channel.name}_{word} = {channel.name}_{word} | {1 << bit}; /* {say.kind} */"]
        name = f"put_{channel.name}"
        if name not in self.inlines:
            self.inlines[name] = [f"inline {name}(number) {{", "  msg = number;", *indented(put_lines(channel), 2), "}"]
        return [f"{name}({self.term(number)}); /* {say.kind} */"]

    def _define(self, name: str, head: str, body: Body) -> None:
        if name not in self.inlines:
            lines = list(ended(indented(self.body(body), 2)))
            self.inlines[name] = [head, *lines, "}"]

    # -- machines ------------------------------------------------------------------------------------------------------
    def _feed(self, feed: Feed) -> list[str]:
        machine = self.world.by_name[feed.machine]
        spec = next(spec for spec in machine.table.events if spec.event is feed.event)
        rows = [row for row in machine.table.rows if row.event is feed.event]
        parted = any((feed.machine, e, feed.part) in self.world.effects for row in rows for e in row.effects)
        name = f"{feed.machine}_{feed.event.name}" + (f"_{feed.part}" if parted and feed.part >= 0 else "")
        if name not in self.inlines:
            lines = list(self._rows(machine, spec, rows, feed.part))
            self.inlines[name] = [f"inline {name}() {{ /* {spec.why} */", *lines, "}"]
        args = [f"{feed.machine}_arg_{arg} = {self.term(term)};" for arg, term in feed.args]
        return [*args, f"{name}();"]

    def _rows(self, machine: Machine, spec: EventSpec, rows: list[Row], part: int) -> Iterator[str]:
        outcomes: dict[tuple[Effect, ...], int] = {(): 0}
        alike: dict[str, list[Row]] = {}  # rows that do the same, in whatever state, are one option
        for row in rows:
            alike.setdefault(self._outcome(row, machine, spec, outcomes), []).append(row)
        yield "  if"
        for outcome, members in alike.items():
            for row in members:
                guard = guard_text(row.guard, machine, spec)
                here = f"({machine.name}_state == {state_text(row.state)}{f' && {guard}' if guard != 'true' else ''})"
                # Spin ends a statement at the end of a line where it can: the operator stands before it.
                after = "->" if row is members[-1] else "||"
                yield f"  {'::' if row is members[0] else '  '} {here} {after} /* {row.verdict.name}: {comment_text(row.why)} */"
            yield f"     {outcome}"
        del outcomes[()]
        if not outcomes:
            yield "  fi"
            return
        yield "  fi;"
        yield "  if"
        for effects, number in outcomes.items():
            names = ", ".join(effect.name for effect in effects)
            done = [line for e in effects for line in self.body(self.world.effect(machine.name, e, part))]
            yield f"  :: fx == {number} -> /* {names} */"
            yield from ended(indented(done, 5))
        yield "  :: else"
        yield "  fi"

    def _outcome(
        self, row: Row, machine: Machine, spec: EventSpec, outcomes: dict[tuple[Effect, ...], int]
    ) -> str:  # fmt: skip
        if row.verdict in (Verdict.NEVER, Verdict.REFUSE):
            name = "TotalHandlers" if row.verdict is Verdict.NEVER else "EngineObeys"
            return broken(name, f"{machine.name} on {spec.event.name}")
        number = outcomes.setdefault(row.effects, len(outcomes))
        return "; ".join([*update_texts(row, machine, spec), f"fx = {number}"])

    # -- terms ---------------------------------------------------------------------------------------------------------
    def term(self, term: Term) -> str:
        match term:
            case Num(value=value):
                return str(value)
            case Var(name=name):
                return name
            case Arg(name=name):
                return f"in_{name}"
            case In(machine=machine, states=states):
                return f"({' || '.join(f'{machine}_state == {state_text(s)}' for s in states)})"
            case Has(machine=machine, field=field, value=value):
                return f"({machine}_{field.name} == {value_text(field, value)})"
            case Same(first=first, second=second):
                return f"({self.term(first)} == {self.term(second)})"
            case Less(first=first, second=second):
                return f"({self.term(first)} < {self.term(second)})"
            case No(term=inner):
                return f"!{self.term(inner)}" if not isinstance(inner, Var | Arg) else f"({self.term(inner)} == 0)"
            case Both(terms=terms):
                return f"({' && '.join(self.term(t) for t in terms)})"
            case Either(terms=terms):
                return f"({' || '.join(self.term(t) for t in terms)})"
            case Sum(terms=terms):
                return f"({' + '.join(self.term(t) for t in terms if t != Num(0)) or '0'})"
            case Scaled(term=inner, by=by):
                return f"{self.term(inner)} * {by}"
            case Pick(term=test, then=then, other=other):
                return f"({self.term(test)} -> {self.term(then)} : {self.term(other)})"
            case Empty(channel=name):
                channel = self.world.channel(name)
                words = [f"{name}_{w} == 0" for w in range(words_of(channel))] if channel.is_set else [f"{name}_n == 0"]
                return f"({' && '.join(words)})"
        raise TypeError(f"not a term: {term!r}")
