"""A pair world that is searched once with the tables as they are, and again with one row wrong, at the cost of the difference.

A core is a pure function of its state and of the call, and a world of its snapshot and of the action. So what the first
search did holds for every wrong table, too, but for the steps in which one of the changed rows fired. Those are run anew; if
each of them does the same as before, the whole graph is the same. Else the search takes the known edge wherever no such step
is part of it, and runs the real objects where one is, and in states that the first search did not meet.

:class:`Again` is a world like any other: what explores it is :func:`.explorer.explore`, so verdicts, names and traces are
those that a search from scratch comes to.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager

from kvpoll.protocol.core import Core
from kvpoll.protocol.interpreter import Edge, Node, Signal
from kvpoll.spec.table import Table

from .actions import Action
from .explorer import Violation
from .mutation_worlds import MutationWorld
from .pair import PairWorld
from .process import Call, Mail, Process, Step
from .setting import make_core
from .silence_world import TIMING, Silent, TimedWorld
from .stage import State, slot_of
from .tables import RULES, instead, nodes_of

__all__ = ["Again", "Fired", "Recording"]

#: A row: name and number.
Fired = tuple[str, int]


class _Looked(dict[Signal, Edge]):
    """The edges of a node, noting who looks at them."""

    def __init__(self, node: Node, log: set[tuple[Node, Signal]]) -> None:
        super().__init__()
        self.node, self.log = node, log

    def get(self, signal: Signal, default: Edge | None = None) -> Edge | None:  # type: ignore[override]
        self.log.add((self.node, signal))
        return super().get(signal, default)

    def __getitem__(self, signal: Signal) -> Edge:
        self.log.add((self.node, signal))
        return super().__getitem__(signal)


class _Book:
    """Every step of the first search: what it did, and which rows fired in it."""

    def __init__(self) -> None:
        self.numbers: dict[tuple[int, int, Call], int] = {}  #: (instance, state, call) -> number
        self.keys: list[tuple[int, int, Call]] = []
        self.steps: list[Step] = []
        self.fired: list[frozenset[Fired]] = []
        self.used: set[int] = set()  #: steps since somebody cleared this
        self.log: set[tuple[Node, Signal]] = set()
        self.closed = False  #: the first search is over
        self.wrong: frozenset[int] = frozenset()  #: steps that are not the same any more
        self.fresh: dict[tuple[int, int, Call], Step] = {}  #: steps of the wrong table only

    def rows(self) -> frozenset[Fired]:
        """The rows that were looked up since the log was cleared."""
        found = set()
        for node, signal in self.log:
            table = node.rules.table
            (row,) = node.rules.match(node, signal)
            found.add((table.name, next(i for i, other in enumerate(table.rows) if other is row)))
        return frozenset(found)


class _Actor(Process):
    """A process whose steps are in the book."""

    def __init__(self, make: Callable[[Callable[[], int]], Core], mail: Mail, instance: int, book: _Book) -> None:
        self.instance, self.book = instance, book
        super().__init__(make, mail, instance * 1000)

    def step(self, state: int, call: Call) -> Step:
        book, key = self.book, (self.instance, state, call)
        number = book.numbers.get(key)
        if book.closed:
            if number is not None and number not in book.wrong:
                return book.steps[number]
            step = book.fresh.get(key)
            if step is None:
                step = book.fresh[key] = self.run(state, call)
            return step
        if number is None:
            book.log.clear()
            step = self.run(state, call)
            number = book.numbers[key] = len(book.steps)
            book.keys.append(key)
            book.steps.append(step)
            book.fired.append(book.rows())
        book.used.add(number)
        return book.steps[number]

    def forget(self, states: int) -> None:
        """Forget the states from this one on."""
        for state in self._states[states:]:
            del self._numbers[state]
        del self._states[states:], self.views[states:]


def _cast(world: MutationWorld, book: _Book, actors: dict[int, _Actor], mail: Mail) -> PairWorld:
    """A world of this kind whose processes and messages are those of another one."""

    class Cast(world.kind):  # type: ignore[name-defined, misc]
        def process(self, instance: int) -> Process:
            self.mail = mail
            if instance not in actors:
                slot = slot_of(instance)
                actors[instance] = _Actor(
                    lambda ids: make_core(world.setting, slot, instance, ids), mail, instance, book
                )
                if issubclass(world.kind, TimedWorld):
                    actors[instance].core.env.timing = TIMING
            self.processes[instance] = actors[instance]
            return actors[instance]

    cast: PairWorld = Cast(world.setting, world.budget)
    return cast


def seen_from_outside(snapshot: Hashable) -> Hashable:
    """What an observer sees of a state: everything but what the processes are like inside."""
    if isinstance(snapshot, Silent):
        return snapshot._replace(state=snapshot.state._replace(cores=()))
    assert isinstance(snapshot, State)
    return snapshot._replace(cores=())


class Recording:
    """The first search. Raises ``ValueError`` when it finds a violation or more than ``limit`` states."""

    def __init__(self, world: MutationWorld, limit: int) -> None:
        self.of = world
        self.book, self.mail = _Book(), Mail()
        self.actors: dict[int, _Actor] = {}
        self.order: list[Hashable] = []
        self.index: dict[Hashable, int] = {}
        self.out: list[dict[Action, int]] = []  #: by state: action -> target
        self.fairs: list[dict[Action, bool]] = []
        self.ends: dict[int, str] = {}  #: good ends, by number: their names
        self.uses: dict[int, list[tuple[int, Action]]] = {}  #: by step: the edges that it is part of
        with self._noting():
            self.world = self._make()
            self.opening = frozenset(self.book.used)  #: steps before the search
            self._search(limit)
        self.book.closed = True
        self.edges = sum(len(out) for out in self.out)
        self.fired: frozenset[Fired] = frozenset().union(*self.book.fired)
        self.lengths = {instance: actor.states for instance, actor in self.actors.items()}
        self.messages = len(self.mail)

    def _make(self) -> PairWorld:
        return _cast(self.of, self.book, self.actors, self.mail)

    @contextmanager
    def _noting(self) -> Iterator[None]:
        for rules in RULES.values():
            for node in nodes_of(rules):
                node.edges = _Looked(node, self.book.log)
        try:
            yield
        finally:
            for rules in RULES.values():
                for node in nodes_of(rules):
                    node.edges = {}

    def _search(self, limit: int) -> None:
        world = self.world
        self._number(world.snapshot())
        at = 0
        while at < len(self.order):
            if len(self.order) > limit:
                raise ValueError(f"more than {limit} states")
            state = self.order[at]
            world.restore(state)
            if world.ended():
                self.ends[at] = world.outcome()
            out: dict[Action, int] = {}
            fair: dict[Action, bool] = {}
            for action in world.actions():
                world.restore(state)
                self.book.used.clear()
                world.do(action)
                out[action] = self._number(world.snapshot())
                fair[action] = world.fair(action)
                for step in self.book.used:
                    self.uses.setdefault(step, []).append((at, action))
            self.out.append(out)
            self.fairs.append(fair)
            at += 1

    def _number(self, state: Hashable) -> int:
        number = self.index.setdefault(state, len(self.order))
        if number == len(self.order):
            self.order.append(state)
        return number

    def steps_of(self, rows: frozenset[Fired]) -> list[int]:
        """The steps in which one of these rows fired."""
        return [number for number, fired in enumerate(self.book.fired) if fired & rows]

    @contextmanager
    def plain(self) -> Iterator[Again]:
        """The world with the tables as they are."""
        yield Again(self, self._make())

    @contextmanager
    def follow(self, table: Table, rows: frozenset[Fired]) -> Iterator[Again | None]:
        """The world with another table, which differs from its namesake in these rows; ``None``: no step differs.

        Raises what the opening of the world raises: :class:`Violation`, or any other error."""
        book = self.book
        with instead(table):
            try:
                suspects = self.steps_of(rows)
                book.wrong = frozenset(number for number in suspects if not self._same(number))
                yield Again(self, self._make()) if book.wrong else None
            finally:
                book.wrong = frozenset()
                book.fresh.clear()
                for instance, actor in list(self.actors.items()):
                    if instance in self.lengths:
                        actor.forget(self.lengths[instance])
                    else:
                        del self.actors[instance]
                self.mail.forget(self.messages)

    def _same(self, number: int) -> bool:
        instance, state, call = key = self.book.keys[number]
        try:
            step = self.book.fresh[key] = self.actors[instance].run(state, call)
        except Exception:  # noqa: BLE001  # it is raised again, and told, where the search comes to it
            self.book.fresh.pop(key, None)
            return False
        return step == self.book.steps[number]


class Again:
    """The world with another table. States are numbers: those of the first search, then new ones."""

    def __init__(self, first: Recording, world: PairWorld) -> None:
        self.first, self.world = first, world
        self.known = len(first.order)
        self.fresh: list[Hashable] = []
        self.numbers: dict[Hashable, int] = {}
        self.changed: dict[int, set[Action]] = {}
        for step in first.book.wrong:
            for at, action in first.uses.get(step, ()):
                self.changed.setdefault(at, set()).add(action)
        self.out: dict[tuple[int, Action], int] = {}  #: what was run anew
        self.todo: dict[int, list[Action]] = {}
        self.at = self.start = self._number(world.snapshot())
        self._after = -1  #: the world stands at this state
        self._fair = False

    def actions(self) -> Sequence[Action]:
        if self.at < self.known:
            return list(self.first.out[self.at])
        if self.at not in self.todo:
            self._stand()
            self.todo[self.at] = self.world.actions()
        return self.todo[self.at]

    def do(self, action: Hashable) -> None:
        assert isinstance(action, tuple)
        at = self.at
        if at < self.known and action not in self.changed.get(at, ()):
            self.at, self._fair = self.first.out[at][action], self.first.fairs[at][action]
            return
        self.world.restore(self.state(at))
        self._after = -1
        self.world.do(action)
        self._fair = self.world.fair(action)
        self._after = self.at = self.out[at, action] = self._number(self.world.snapshot())

    def fair(self, action: Hashable) -> bool:
        return self._fair

    def snapshot(self) -> Hashable:
        return self.at

    def restore(self, snapshot: Hashable) -> None:
        assert isinstance(snapshot, int)
        self.at = snapshot

    def ended(self) -> bool:
        if self.at < self.known:
            return self.at in self.first.ends
        self._stand()
        return self.world.ended()

    def outcome(self) -> str:
        if self.at < self.known:
            return self.first.ends[self.at]
        self._stand()
        return self.world.outcome()

    def lacks(self) -> Sequence[Violation]:
        self._stand()
        return self.world.lacks()

    def state(self, number: int) -> Hashable:
        return self.first.order[number] if number < self.known else self.fresh[number - self.known]

    def tell(self, trace: list[Hashable]) -> list[str]:
        """A trace for people: one action a line."""
        return self.world.tell(trace).splitlines()

    def does_the_same(self) -> str:
        """After a complete search: does everything that can be seen from outside happen as before? Empty when it does not;
        else how: the states of both graphs are walked in pairs, and where they stand in a pair their actions (with the
        messages), what is in flight, lent and over, and whether it ended are equal, and every action leads to a pair."""
        pairs = {(0, self.start)}
        todo = [(0, self.start)]
        for one, two in todo:
            a, b = self.state(one), self.state(two)
            if a is not b and seen_from_outside(a) != seen_from_outside(b):
                return ""
            self.at = two
            ended = self.outcome() if self.ended() else None
            out = self.first.out[one]
            if ended != self.first.ends.get(one) or list(out) != list(self.actions()):
                return ""
            changed = self.changed.get(two, ()) if two < self.known else out
            for action, target in out.items():
                other = self.out[two, action] if action in changed else self.first.out[two][action]
                if (target, other) not in pairs:
                    pairs.add((target, other))
                    todo.append((target, other))
        ones, twos = len({one for one, _ in pairs}), len({two for _, two in pairs})
        return "the same graph" if ones == twos == len(pairs) else "states that cannot be told apart"

    def _stand(self) -> None:
        if self._after != self.at:
            self.world.restore(self.state(self.at))
            self._after = self.at

    def _number(self, state: Hashable) -> int:
        number = self.first.index.get(state)
        if number is None:
            number = self.numbers.setdefault(state, self.known + len(self.fresh))
            if number == self.known + len(self.fresh):
                self.fresh.append(state)
        return number
