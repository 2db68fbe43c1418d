"""A declared world as a TLA+ module: the same steps as :mod:`.run` and :mod:`.promela`, for people to read.

The state is one record ``w``: a record for each machine, the counters, and what is in flight. A statement is an operator
from one such record to the next, so a step reads from top to bottom as it is declared. A claim that does not hold inside a
step is noted in ``w.broken``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kvpoll.spec.table import EventSpec, Field, Row, Verdict

from .terms import Arg, Both, Either, Empty, Has, In, Less, No, Num, Pick, Same, Sum, Term, Var
from .tla_table import guard_tla, value_tla
from .world import Body, Call, Channel, Clear, DeclaredWorld, Feed, Machine, Must, Put, Say, Statement, When

__all__ = ["world_tla"]


def world_tla(world: DeclaredWorld) -> str:
    """The module of a world, named after it with ``-`` as ``_``."""
    return "\n".join(_Module(world).lines()) + "\n"


class _Module:
    def __init__(self, world: DeclaredWorld) -> None:
        self.world = world
        self._fresh = 0
        self.operators: dict[str, list[str]] = {}  #: in the order in which they can be defined

    def lines(self) -> Iterator[str]:
        world = self.world
        actions = list(self._actions())  # fills operators
        yield f"---- MODULE {world.name.replace('-', '_')} ----"
        yield f"(* {world.about} {world.faults}"
        yield "   Made by `kvpoll docs --write` (or `make docs`) from spec/ and model_tests/declared/. Do not edit. *)"
        yield "EXTENDS Naturals, Sequences"
        yield "VARIABLE w"
        yield ""
        yield "Init == w = ["
        yield from self._start()
        yield "]"
        yield ""
        yield "\\* An invariant that is broken inside a step is noted; the first one stays."
        yield 'Note(v, name) == [v EXCEPT !.broken = IF @ = "" THEN name ELSE @]'
        for lines in self.operators.values():
            yield ""
            yield from lines
        yield ""
        yield from actions
        yield ""
        yield "Spec == Init /\\ [][Next]_w"
        yield ""
        yield 'NothingBroken == w.broken = ""'
        for number, claim in enumerate(world.claims, 1):
            yield f"\\* not: {claim.sentence}"
            yield f"{claim.name}_{number} == {self.truth(claim.term, 'w')}"
        yield "===="

    def _start(self) -> Iterator[str]:
        for machine in self.world.machines:
            state = machine.table.initial if machine.start is None else machine.start
            fields = "".join(f", {f.name} |-> {value_tla(f.initial)}" for f in machine.table.fields)
            yield f'  {machine.name} |-> [state |-> "{state.name}"{fields}],'
        yield from (f"  {var.name} |-> {var.initial}, \\* {var.why}" for var in self.world.variables)
        yield from (f"  {channel.name} |-> {'{}' if channel.is_set else '<<>>'}," for channel in self.world.channels)
        yield '  broken |-> ""'

    # -- steps ---------------------------------------------------------------------------------------------------------
    def _actions(self) -> Iterator[str]:
        names: list[str] = []
        for number, step in enumerate(self.world.steps, 1):
            name = f"Step_{number}"
            spent = "w" if step.budget is None else f"[w EXCEPT !.{step.budget.name} = @ - 1]"
            yield from (f"\\* {step.name}", f"{name} ==")
            if step.budget is not None:
                yield f"  /\\ w.{step.budget.name} > 0"
            for term in step.guard.terms if isinstance(step.guard, Both) else (step.guard,):
                yield f"  /\\ {self._inner(term, 'w')}"
            yield "  /\\ w' ="
            self._fresh = 0
            yield from _indent(self.body(step.body, spent), 7)
            names.append(name)
        for channel in self.world.channels:
            for receive in self.world.receives:
                if receive.channel == channel.name:
                    name = f"Hear_{channel.name}_{receive.kind}"
                    self.operators[name] = self._operator(f"{name}(v, m) ==", receive.body)
            yield from self._deliveries(channel, names)
        yield "Next == " + " \\/ ".join(names)

    def _deliveries(self, channel: Channel, names: list[str]) -> Iterator[str]:
        here = channel.name
        options = f"w.{here}" if channel.is_set else f"{{w.{here}[i] : i \\in 1..(IF w.{here} = <<>> THEN 0 ELSE 1)}}"
        rest = "@ \\ {m}" if channel.is_set else "Tail(@)"
        gone = f"[w EXCEPT !.{here} = {rest}]"
        cases = "\n".join(
            f'    {"CASE" if i == 0 else "  []"} m.kind = "{kind.name}" -> Hear_{here}_{kind.name}(v, m)'
            for i, kind in enumerate(channel.kinds)
        )
        self.operators[f"Hear_{here}"] = [f"Hear_{here}(v, m) ==", cases]
        names.append(f"Arrives_{here}")
        yield f"Arrives_{here} == \\E m \\in {options} : w' = Hear_{here}({gone}, m)"
        if channel.losses is not None:
            left = channel.losses.name
            names.append(f"Lost_{here}")
            yield f"Lost_{here} == w.{left} > 0 /\\ \\E m \\in {options} : w' = [{gone} EXCEPT !.{left} = @ - 1]"
        if channel.copies is not None:
            left = channel.copies.name
            names.append(f"Twice_{here}")
            stays = f"[w EXCEPT !.{left} = @ - 1]"
            yield f"Twice_{here} == w.{left} > 0 /\\ \\E m \\in {options} : w' = Hear_{here}({stays}, m)"

    # -- statements ----------------------------------------------------------------------------------------------------
    def body(self, body: Body, at: str) -> list[str]:
        """What the state is after these statements, from the state that ``at`` names."""
        if len(body) == 0 or (len(body) == 1 and at.isidentifier()):
            return self._statement(body[0], at) if body else [at]
        lines: list[str] = []
        now, todo = at, list(body)
        while len(todo) > 1 or not now.isidentifier():
            inner = self._statement(todo.pop(0), now) if now.isidentifier() else [now]
            self._fresh += 1
            now = f"v{self._fresh}"
            lines += [f"{'    ' if lines else 'LET '}{now} == {inner[0]}", *_indent(inner[1:], 4 + len(now) + 4)]
        last = self._statement(todo[0], now)
        return [*lines, f"IN  {last[0]}", *_indent(last[1:], 4)]

    def _statement(self, statement: Statement, at: str) -> list[str]:
        match statement:
            case Put(var=var, value=value):
                return [f"[{at} EXCEPT !.{var.name} = {self.number(value, at)}]"]
            case Must(name=name, term=term):
                return [at] if term == Num(1) else [f'IF {self.truth(term, at)} THEN {at} ELSE Note({at}, "{name}")']
            case Say(channel=name):
                return [self._say(statement, self.world.channel(name), at)]
            case Clear(channel=name):
                return [f"[{at} EXCEPT !.{name} = {'{}' if self.world.channel(name).is_set else '<<>>'}]"]
            case Call(name=name):
                self._define(name, self.world.procedures[name])
                return [f"{name}({at})"]
            case Feed():
                return [self._feed(statement, at)]
            case When(term=term, then=then, other=other):
                return [
                    f"IF {self.truth(term, at)}",
                    *_headed("THEN ", self.body(then, at)),
                    *_headed("ELSE ", self.body(other, at)),
                ]

    def _define(self, name: str, body: Body) -> None:
        if name not in self.operators:
            self.operators[name] = self._operator(f"{name}(v) ==", body)

    def _operator(self, head: str, body: Body) -> list[str]:
        """An operator on a state ``v``. Inside of it states are called v1, v2, ..."""
        before, self._fresh = self._fresh, 0
        lines = [head, *_indent(self.body(body, "v"), 2)]
        self._fresh = before
        return lines

    def _say(self, say: Say, channel: Channel, at: str) -> str:
        _, kind = channel.base(say.kind)
        given = dict(say.fields)
        fields = "".join(f", {f} |-> {self.number(given.get(f, Num(0)), at)}" for f, _ in kind.fields)
        message = f'[kind |-> "{say.kind}"{fields}]'
        if channel.is_set:
            return f"[{at} EXCEPT !.{say.channel} = @ \\union {{{message}}}]"
        if "Queued" not in self.operators:
            self.operators["Queued"] = [
                "\\* The same message twice in a row is one.",
                "Queued(q, m) == IF q # <<>> /\\ q[Len(q)] = m THEN q ELSE Append(q, m)",
            ]
        return f"[{at} EXCEPT !.{say.channel} = Queued(@, {message})]"

    def _feed(self, feed: Feed, at: str) -> str:
        machine = self.world.by_name[feed.machine]
        spec = next(spec for spec in machine.table.events if spec.event is feed.event)
        rows = [row for row in machine.table.rows if row.event is feed.event]
        parted = any((feed.machine, e, feed.part) in self.world.effects for row in rows for e in row.effects)
        name = f"{feed.machine}_{feed.event.name}" + (f"_{feed.part}" if parted and feed.part >= 0 else "")
        if name not in self.operators:
            lines = list(self._rows(machine, spec, rows, feed.part))
            args = "".join(f", {arg.name}" for arg in spec.args)
            self.operators[name] = [f"\\* {spec.why}", f"{name}(v{args}) ==", *lines]
        given = dict(feed.args)
        return f"{name}({at}{''.join(f', {self.truth(given[arg.name], at)}' for arg in spec.args)})"

    def _rows(self, machine: Machine, spec: EventSpec, rows: list[Row], part: int) -> Iterator[str]:
        yield f"  LET m == v.{machine.name} IN"
        for i, row in enumerate(rows):
            guard = _guard(row, spec)
            yield f"  {'CASE' if i == 0 else '  []'} {guard} -> \\* {row.verdict.name}: {row.why}"
            if row.verdict in (Verdict.NEVER, Verdict.REFUSE):
                name = "TotalHandlers" if row.verdict is Verdict.NEVER else "EngineObeys"
                yield f'         Note(v, "{name}")'
                continue
            changes = [f"!.{machine.name}.{u.field.name} = {_new(u.value, spec)}" for u in row.updates]
            if row.next is not row.state:
                changes.append(f'!.{machine.name}.state = "{row.next.name}"')
            after = f"[v EXCEPT {', '.join(changes)}]" if changes else "v"
            for effect in row.effects:
                body = self.world.effect(machine.name, effect, part)
                if body:
                    own = part >= 0 and (machine.name, effect, part) in self.world.effects
                    name = f"{machine.name}_does_{effect.name}" + (f"_{part}" if own else "")
                    self._define(name, body)
                    after = f"{name}({after})"
            yield f"         {after}"

    # -- terms ---------------------------------------------------------------------------------------------------------
    def truth(self, term: Term, at: str) -> str:
        match term:
            case Num(value=value):
                return "TRUE" if value else "FALSE"
            case In(machine=machine, states=states):
                if len(states) == 1:
                    return f'{at}.{machine}.state = "{states[0].name}"'
                names = ", ".join(f'"{state.name}"' for state in states)
                return f"{at}.{machine}.state \\in {{{names}}}"
            case Has(machine=machine, field=field, value=value):
                return f"{at}.{machine}.{field.name} = {value_tla(value)}"
            case Same(first=first, second=second):
                return f"{self.number(first, at)} = {self.number(second, at)}"
            case Less(first=first, second=second):
                return f"{self.number(first, at)} < {self.number(second, at)}"
            case No(term=Var() | Arg() as inner):
                return f"{self.number(inner, at)} = 0"
            case No(term=Has(machine=machine, field=field, value=value)):
                return f"{at}.{machine}.{field.name} # {value_tla(value)}"
            case No(term=Empty(channel=channel)):
                return f"{at}.{channel} # {'{}' if self.world.channel(channel).is_set else '<<>>'}"
            case No(term=inner):
                return f"~({self.truth(inner, at)})"
            case Both(terms=terms):
                return " /\\ ".join(self._inner(t, at) for t in terms)
            case Either(terms=terms):
                return " \\/ ".join(self._inner(t, at) for t in terms)
            case Pick(term=test, then=then, other=other):
                return f"(IF {self.truth(test, at)} THEN {self.truth(then, at)} ELSE {self.truth(other, at)})"
            case Empty(channel=channel):
                return f"{at}.{channel} = {'{}' if self.world.channel(channel).is_set else '<<>>'}"
            case _:
                return f"{self.number(term, at)} # 0"

    def _inner(self, term: Term, at: str) -> str:
        text = self.truth(term, at)
        return f"({text})" if isinstance(term, Both | Either) else text

    def number(self, term: Term, at: str) -> str:
        match term:
            case Num(value=value):
                return str(value)
            case Var(name=name):
                return f"{at}.{name}"
            case Arg(name=name):
                return f"m.{name}"
            case Sum(terms=terms):
                return f"({' + '.join(self.number(t, at) for t in terms if t != Num(0)) or '0'})"
            case Pick(term=test, then=then, other=other):
                return f"(IF {self.truth(test, at)} THEN {self.number(then, at)} ELSE {self.number(other, at)})"
            case _:
                return f"(IF {self.truth(term, at)} THEN 1 ELSE 0)"


def _guard(row: Row, spec: EventSpec) -> str:
    guard = guard_tla(row.guard, lambda field: field.name if field in spec.args else f"m.{field.name}")
    return f'm.state = "{row.state.name}"' + (f" /\\ {guard}" if guard != "TRUE" else "")


def _new(value: object, spec: EventSpec) -> str:
    if isinstance(value, Field):
        return value.name if value in spec.args else f"m.{value.name}"
    assert isinstance(value, bool | str)
    return value_tla(value)


def _headed(head: str, lines: list[str]) -> list[str]:
    return [f"  {head}{lines[0]}", *_indent(lines[1:], 2 + len(head))]


def _indent(lines: Iterable[str], by: int) -> list[str]:
    return [" " * by + line for line in lines]
