"""Where a machine can be, after what its trace has shown.

A trace names states, the rows' guards look at fields too. So a machine is followed through the interpreter's own nodes:
a :class:`Place` is the set of nodes that it can be at. There is one of them for a trace that was read from its start, and
all of a state where it starts in the middle; each step leaves those that could have taken it. Places are interned, so a
step that was seen before costs one look-up, however many machines make it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum

from kvpoll.spec import TABLES
from kvpoll.spec.table import Row, Verdict

from ..errors import LocalProtocolError
from ..interpreter import Edge, Node, Rules, Signal

__all__ = ["MAPS", "PROOF", "Map", "Move", "Place"]

#: Events that are the other end's word: the state that it speaks of.
PROOF = {"CONCLUDED": "Success", "PEER_FAILED": "Failed"}
#: What a step says of itself: the states before and after, effects, cause ("" for none).
Said = tuple[str, str, tuple[str, ...], str]


class Move:
    """What the table lets one event do at a place. ``other``: the same event with other consequences, where nodes differ."""

    __slots__ = ("after", "before", "cause", "effects", "event", "other", "place", "proof", "special", "terminal")

    def __init__(self, signal: Signal, said: Said, place: Place, other: Move | None) -> None:
        self.event = signal.name
        self.before, self.after, self.effects, self.cause = said
        self.place = place
        self.other = other
        self.proof = PROOF.get(signal.event.name, "")  #: the state that the other end must have spoken of
        self.terminal = self.after != self.before and place.terminal  #: its machine is over with this
        self.special = bool(self.terminal or self.proof)


class Place:
    """The nodes that a machine can be at. ``moves``: by event as a trace writes it, filled as events are met."""

    __slots__ = ("map", "moves", "nodes", "terminal")

    def __init__(self, map: Map, nodes: frozenset[Node]) -> None:
        self.map = map
        self.nodes = nodes
        self.moves: dict[str, Move | None] = {}
        self.terminal = all(node.state in map.rules.table.terminal for node in nodes)

    @property
    def states(self) -> list[str]:
        return sorted({node.state.name for node in self.nodes})

    def move(self, event: str) -> Move | None:
        """Every legal consequence of ``event`` here, chained by ``other``. ``None``: the table says refused, never, or has
        no such event."""
        if event not in self.moves:
            if (signal := self.map.signals.get(event)) is None:
                return None  # not kept: what a file says must not grow a table
            self.moves[event] = self._worked_out(signal)
        return self.moves[event]

    def _worked_out(self, signal: Signal) -> Move | None:
        ends: dict[Said, set[Node]] = {}
        for node in self.nodes:
            edge = self.map.edge(node, signal)
            if edge is not None and edge.verdict is not Verdict.NEVER:
                ends.setdefault(said(edge), set()).add(edge.node)
        move: Move | None = None
        for key, nodes in sorted(ends.items()):
            move = Move(signal, key, self.map.place(nodes), move)
        return move

    def rows(self, event: str) -> list[Row]:
        """Every row that decides ``event`` at one of the nodes, whatever its verdict."""
        signal = self.map.signals.get(event)
        if signal is None:
            return []
        found = [row for node in self.nodes for row in self.map.rules.match(node, signal)]
        return list(dict.fromkeys(found))

    def legal(self) -> Iterator[Move]:
        """Every move from here, by event name."""
        for event in sorted(self.map.signals):
            move = self.move(event)
            while move is not None:
                yield move
                move = move.other

    def text(self) -> str:
        """State and fields: ``Bootstrapping (bound=True, push=?, ...)`` where ``?`` is not known."""
        fields = self.map.rules.table.fields
        named = []
        for index, field in enumerate(fields):
            values = {node.values[index] for node in self.nodes}
            named.append(f"{field.name}={values.pop() if len(values) == 1 else '?'}")
        states = " or ".join(self.states) or "nowhere"
        return f"{states} ({', '.join(named)})" if named else states


class Map:
    """All places of one machine."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.signals = {signal.name: signal for signal in rules.signals()}
        self.events = {spec.event.name for spec in rules.table.events}
        self._places: dict[frozenset[Node], Place] = {}
        self._reached: frozenset[Node] = frozenset()
        self.start = self.place((rules.initial,))

    def place(self, nodes: Iterable[Node]) -> Place:
        """The one object for these nodes."""
        key = frozenset(nodes)
        known = self._places.get(key)
        if known is None:
            known = self._places[key] = Place(self, key)
        return known

    def anywhere(self, state: str) -> Place:
        """Every reachable node of a state: where a trace starts in the middle. Empty for a state that there is not."""
        if not self._reached:
            self._reached = self._reachable()
        return self.place(node for node in self._reached if node.state.name == state)

    def edge(self, node: Node, signal: Signal) -> Edge | None:
        """``None`` for a refused event: it changes nothing and is not traced."""
        try:
            return node.edges.get(signal) or self.rules.expand(node, signal)
        except LocalProtocolError:
            return None

    def _reachable(self) -> frozenset[Node]:
        seen = {self.rules.initial}
        left = [self.rules.initial]
        while left:
            node = left.pop()
            for signal in self.signals.values():
                edge = self.edge(node, signal)
                if edge is not None and edge.verdict is not Verdict.NEVER and edge.node not in seen:
                    seen.add(edge.node)
                    left.append(edge.node)
        return frozenset(seen)

    @property
    def states(self) -> list[str]:
        states: type[Enum] = self.rules.table.states
        return [state.name for state in states]


def said(edge: Edge) -> Said:
    """An edge in the words of a trace."""
    cause = "" if edge.cause is None else edge.cause.name
    return (edge.row.state.name, edge.node.state.name, tuple(effect.name for effect in edge.effects), cause)


#: By ``role`` of a step. Leases are followed by the sessions that hold them and not traced.
MAPS: dict[str, Map] = {name: Map(Rules(TABLES[name])) for name in ("sender", "receiver", "link")}
