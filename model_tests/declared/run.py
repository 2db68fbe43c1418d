"""A declared world as an explorer's world: real nodes of the production interpreter, counters, and channels.

What belongs to one side changes together, so it is kept as one *cell*: a tuple of nodes and counters, by number. A state is
the number of each cell and what is in flight; taking a snapshot and restoring one are assignments.

What an action does depends on few slots. It is worked out once for these, over the nodes' edges and hence the rows, and
remembered, as a node remembers its edges; and once more by the numbers of the cells, which are found faster. The same holds
for which actions are enabled and whether the claims hold.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from enum import Enum
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias

from kvpoll.model_tests.explorer import Violation

from .compiled import Compiler, Do, Slots, Worth, queued
from .terms import YES, Both, Empty, Less, Num, Term, Var, every
from .world import Body, Channel, DeclaredWorld, Put

__all__ = ["Action", "Running"]

#: The number of each cell, then what is in flight on each channel: a mask for a set, a tuple for a queue.
State: TypeAlias = tuple[Any, ...]
Key: TypeAlias = Callable[[Any], Hashable]


class _Change(NamedTuple):
    """What an action does to the slots it depends on, and what it says: a mask for a set, numbers for a queue."""

    puts: tuple[tuple[int, Any], ...]
    says: tuple[tuple[int, Any], ...]


#: The same to a state. Numbers in it: what stays of them and what is added (a cell is replaced, messages of a set come and
#: go). Queues: how many messages are taken out, and what is added. And whether a cell changed.
_Move: TypeAlias = tuple[tuple[tuple[int, int, int], ...], tuple[tuple[int, int, tuple[int, ...]], ...], bool]


class Action:
    """One thing that can happen, by name."""

    __slots__ = ("by_cells", "by_slots", "cells", "do", "fair", "key", "name", "slot_key", "slots", "take")

    def __init__(self, name: str, do: Do, slots: Sequence[int], cells: Sequence[int], fair: bool) -> None:
        self.name = name
        self.do = do
        self.fair = fair
        self.slots, self.cells = slots, cells  #: what it depends on; cells and channels as they are numbered in a state
        self.slot_key, self.key = _key(slots), _key(cells)
        self.by_slots: dict[Hashable, _Change] = {}
        self.by_cells: dict[Hashable, _Move] = {}
        self.take: tuple[int, int] | None = None  #: channel and number of the message that is gone afterwards

    def __repr__(self) -> str:
        return self.name


class _Group:
    """Actions whose guards depend on the same cells. ``empty``: channels that must be empty for any of them."""

    def __init__(self, cells: Sequence[int], empty: Sequence[int], actions: list[tuple[Action, Worth]]) -> None:
        self.key, self.empty, self.actions = _key(cells), tuple(empty), actions
        self.known: dict[Hashable, tuple[Action, ...]] = {}


class _Arrivals:
    """What can become of the messages in flight on one channel: each arrives; with a budget it may be lost, or arrive and
    stay in flight."""

    def __init__(self, channel: Channel, actions: dict[int, list[Action]], may: list[Worth]) -> None:
        self.is_set, self.actions, self.may = channel.is_set, actions, may
        self.of: dict[
            int, dict[Any, tuple[Action, ...]]
        ] = {}  #: by number of the shared cell, then by what is in flight
        self._of: dict[tuple[bool, ...], dict[Any, tuple[Action, ...]]] = {}

    def known(self, shared: int, slots: Slots) -> dict[Any, tuple[Action, ...]]:
        """What is known where the shared cell has this number: the same for all in which the same budgets are left."""
        left = tuple(bool(can(slots)) for can in self.may)
        self.of[shared] = self._of.setdefault(left, {})
        return self.of[shared]

    def work_out(self, net: Any, slots: Slots) -> tuple[Action, ...]:  # noqa: ANN401 - a mask or a tuple
        up, left = list(net[:1]) if not self.is_set else [], net if self.is_set else 0
        while left:
            up.append((left & -left).bit_length() - 1)
            left &= left - 1
        may = [True, *(bool(can(slots)) for can in self.may)]
        return tuple(a for n in up for a, can in zip(self.actions[n], may, strict=True) if can)


class Running:
    """A :class:`~kvpoll.model_tests.explorer.World`."""

    def __init__(self, world: DeclaredWorld) -> None:
        self.world = world
        self._compiler = compiler = Compiler(world)
        slot, start = compiler.slot, compiler.start()
        self._cells = compiler.cells
        self._shared = len(self._cells) - 1  #: the cell of no side: the last one
        self._cell_of = {at: number for number, slots in enumerate(self._cells) for at in slots}
        self._cell_of |= {slot[c.name]: len(self._cells) + i for i, c in enumerate(world.channels)}
        self._nets = {len(self._cells) + i: channel for i, channel in enumerate(world.channels)}
        self._net_slot = {at: slot[channel.name] for at, channel in self._nets.items()}
        self._numbers: list[dict[tuple[Any, ...], int]] = [{} for _ in self._cells]
        self._values: list[list[tuple[Any, ...]]] = [[] for _ in self._cells]
        at_start = [self._number(i, tuple(start[at] for at in slots)) for i, slots in enumerate(self._cells)]
        self._now: State = (*at_start, *(start[slot[channel.name]] for channel in world.channels))
        self._claims = [(claim, compiler.worth(claim.term)) for claim in world.claims]
        self._claim_key = _key(sorted({slot[n] for claim in world.claims for n in compiler.reads(claim.term, {})}))
        self._sides = slice(len(self._cells))
        self._fine: set[Hashable] = set()  #: cells for which every claim holds
        self._fine_slots: set[Hashable] = set()
        self._end_empty, rest = self._split(world.ended)
        self._ended = compiler.worth(rest)
        groups = self._grouped(list(self._steps()))
        self._looked_up = [(group.key, group.known, group.empty, group) for group in groups]
        self._arrivals = [(at, self._arriving(at, channel)) for at, channel in self._nets.items()]
        self._check()

    # -- what the explorer asks for ------------------------------------------------------------------------------------
    def actions(self) -> list[Action]:
        now = self._now
        found: list[Action] = []
        for key_of, known, empty, group in self._looked_up:
            for at in empty:
                if now[at]:
                    break
            else:
                key = key_of(now)
                enabled = known.get(key)
                if enabled is None:
                    slots = self._slots(now)
                    enabled = known[key] = tuple(action for action, guard in group.actions if guard(slots))
                found += enabled
        for at, arrivals in self._arrivals:
            net = now[at]
            if net:
                shared = now[self._shared]
                of_nets = arrivals.of.get(shared)
                if of_nets is None:
                    of_nets = arrivals.known(shared, self._slots(now))
                enabled = of_nets.get(net)
                if enabled is None:
                    enabled = of_nets[net] = arrivals.work_out(net, self._slots(now))
                found += enabled
        return found

    def fair(self, action: Hashable) -> bool:
        return action.fair  # type: ignore[attr-defined, no-any-return]

    def do(self, action: Hashable) -> None:
        now = self._now
        move = action.by_cells.get(action.key(now))  # type: ignore[attr-defined]
        if move is None:
            assert isinstance(action, Action)
            move = self._work_out(action, now)
        numbers, queues, changed = move
        state = list(now)
        for at, stays, added in numbers:
            state[at] = state[at] & stays | added
        if queues:
            self._queue(state, queues)
        self._now = now = tuple(state)
        if changed and now[self._sides] not in self._fine:
            self._check()

    def snapshot(self) -> State:
        return self._now

    def restore(self, snapshot: Hashable) -> None:
        self._now = snapshot  # type: ignore[assignment]

    def ended(self) -> bool:
        now = self._now
        for at in self._end_empty:
            if now[at]:
                return False
        return bool(self._ended(self._slots(now)))

    def outcome(self) -> str:
        """The states of the two machines that the world names."""
        return " ".join(state.name for state in self.control())

    def control(self) -> list[Enum]:
        """The states of the machines whose states are compared between checkers."""
        slots = self._slots(self._now)
        return [slots[self._compiler.slot[name]].state for name in self.world.control]

    # -- what happens --------------------------------------------------------------------------------------------------
    def _queue(self, state: list[Any], queues: tuple[tuple[int, int, tuple[int, ...]], ...]) -> None:
        for at, gone, added in queues:
            channel = self._nets[at]
            state[at] = state[at][gone:]
            for number in added:
                state[at] = queued(state[at], number, channel.name, channel.capacity)

    def _slots(self, state: State) -> Slots:
        slots: Slots = []
        for number, values in zip(state, self._values, strict=False):
            slots += values[number]
        slots += state[len(self._values) :]
        return slots

    def _number(self, cell: int, values: tuple[Any, ...]) -> int:
        numbers = self._numbers[cell]
        number = numbers.setdefault(values, len(numbers))
        if number == len(self._values[cell]):
            self._values[cell].append(values)
        return number

    def _work_out(self, action: Action, now: State) -> _Move:
        """What an action does here, by cells; over the machines where it was not done on these slots before."""
        slots = self._slots(now)
        key = action.slot_key(slots)
        change = action.by_slots.get(key)
        if change is None:
            change = action.by_slots[key] = self._do_it(action, list(slots))
        for at, value in change.puts:
            slots[at] = value
        changed = sorted({self._cell_of[at] for at, _ in change.puts} - self._nets.keys())
        numbers = [(cell, 0, self._number(cell, tuple(slots[at] for at in self._cells[cell]))) for cell in changed]
        takes, says = dict([action.take] if action.take is not None else []), dict(change.says)
        queues: list[tuple[int, int, tuple[int, ...]]] = []
        for at, channel in self._nets.items():
            net = slots[self._net_slot[at]]
            if at in action.cells:  # cleared: what is in flight is part of what the action depends on
                if channel.is_set:
                    numbers.append((at, 0, net))
                else:
                    queues.append((at, channel.capacity, net))
            elif channel.is_set and (at in takes or at in says):
                numbers.append((at, ~(1 << takes[at]) if at in takes else -1, says.get(at, 0)))
            elif at in takes or at in says:
                queues.append((at, int(at in takes), says.get(at, ())))
        move = action.by_cells[action.key(now)] = (tuple(numbers), tuple(queues), bool(changed))
        return move

    def _do_it(self, action: Action, slots: Slots) -> _Change:
        """Do it over the machines. Channels that it only sends on start empty, so that what it says stands alone."""
        before = list(slots)
        alone = {at: self._net_slot[at] for at in self._nets if at not in action.cells}
        for at, slot in alone.items():
            slots[slot] = 0 if self._nets[at].is_set else ()
        action.do(slots)
        puts = tuple((slot, slots[slot]) for slot in action.slots if slots[slot] is not before[slot])
        return _Change(puts, tuple((at, slots[slot]) for at, slot in alone.items() if slots[slot]))

    def _check(self) -> None:
        slots = self._slots(self._now)
        key = self._claim_key(slots)
        if key not in self._fine_slots:
            for claim, worth in self._claims:
                if not worth(slots):
                    raise Violation(claim.name, claim.sentence)
            self._fine_slots.add(key)
        self._fine.add(self._now[self._sides])

    # -- building ------------------------------------------------------------------------------------------------------
    def _action(self, name: str, body: Body, fields: dict[str, int], fair: bool) -> Action:
        slots = sorted(self._compiler.slot[n] for n in self._compiler.touches(body, fields, set()))
        return Action(name, self._compiler.body(body, fields), slots, self._cells_of(slots), fair)

    def _cells_of(self, slots: Iterable[int]) -> list[int]:
        return sorted({self._cell_of[at] for at in slots})

    def _steps(self) -> Iterator[tuple[Action, Term]]:
        for step in self.world.steps:
            spend, guard = _spend(step.budget)
            yield self._action(step.name, spend + step.body, {}, step.fair), every((guard, step.guard))

    def _arriving(self, at: int, channel: Channel) -> _Arrivals:
        actions: dict[int, list[Action]] = {}
        for receive in self.world.receives:
            if receive.channel != channel.name:
                continue
            for number, fields in channel.messages(receive.kind):
                name = " ".join((channel.name, receive.kind, *(f"{f}={v}" for f, v in fields.items())))
                each = actions[number] = [self._action(name, receive.body, fields, True)]
                each[0].take = at, number
                if channel.losses is not None:
                    lost = self._action(f"{name} is lost", _spend(channel.losses)[0], {}, False)
                    lost.take = at, number
                    each.append(lost)
                if channel.copies is not None:
                    twice = _spend(channel.copies)[0] + receive.body
                    each.append(self._action(f"a copy of {name}", twice, fields, False))
        budgets = [_spend(budget)[1] for budget in (channel.losses, channel.copies) if budget is not None]
        may = [self._compiler.worth(can) for can in budgets]
        return _Arrivals(channel, dict(sorted(actions.items())), may)

    def _split(self, guard: Term) -> tuple[list[int], Term]:
        """The channels that a guard needs to be empty, and what else it says."""
        terms = guard.terms if isinstance(guard, Both) else (guard,)
        empty = [self._cell_of[self._compiler.slot[t.channel]] for t in terms if isinstance(t, Empty)]
        return empty, every(t for t in terms if not isinstance(t, Empty))

    def _grouped(self, steps: list[tuple[Action, Term]]) -> list[_Group]:
        """Steps whose guards depend on the same cells, and need the same channels to be empty."""
        found: dict[tuple[tuple[int, ...], tuple[int, ...]], list[tuple[Action, Worth]]] = {}
        for action, guard in steps:
            empty, rest = self._split(guard)
            cells = self._cells_of(self._compiler.slot[n] for n in self._compiler.reads(rest, {}))
            found.setdefault((tuple(cells), tuple(empty)), []).append((action, self._compiler.worth(rest)))
        # Widest first: a guard that depends on some of the cells of a group is looked up with it.
        wide: dict[tuple[tuple[int, ...], tuple[int, ...]], list[tuple[Action, Worth]]] = {}
        for (cells_of, empty_of), members in sorted(found.items(), key=lambda item: -len(item[0][0])):
            home = next((k for k in wide if k[1] == empty_of and set(cells_of) <= set(k[0]) and len(k[0]) <= 2), None)
            wide.setdefault(home or (cells_of, empty_of), []).extend(members)
        return [_Group(*key, members) for key, members in wide.items()]


def _spend(budget: Var | None) -> tuple[Body, Term]:
    """Taking one off a budget, and when that can be done."""
    if budget is None:
        return (), YES
    return (Put(budget, budget.plus(-1)),), Less(Num(0), budget)


def _key(slots: Sequence[int]) -> Key:
    if not slots:
        return lambda state: ()
    return itemgetter(*slots)
