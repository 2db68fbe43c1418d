"""The declared worlds by name, each sized to finish, and the one for a long run."""

from __future__ import annotations

from kvpoll.model_tests.network import Network
from kvpoll.spec import KVPoll
from kvpoll.spec.receiver_table import busy
from kvpoll.spec.sender_table import doubt

from .receiver_side import BUFFER, PAGES, receiver_side
from .sender_side import passes, sender_side
from .shape import TO_RECEIVER, TO_SENDER, Op, Shape, channels, out, touched
from .terms import Empty, Has, In, Term, Var, every
from .world import Claim, DeclaredWorld

__all__ = ["DEEP", "SHAPES", "pair", "world"]

_O, _R, _L, _D = Network.ORDERED, Network.REORDERING, Network.LOSSY, Network.DUPLICATING

#: Name -> (what is in it, shape). Compared with Spin in every run of the tests.
SHAPES: dict[str, tuple[str, Shape]] = {
    "push": ("One part is pushed; messages overtake each other, and one arrives twice.", Shape(True, network=_R | _D, copies=1)),
    "pull": ("One part is pulled; messages overtake each other, and one arrives twice.", Shape(False, network=_R | _D, copies=1)),
    "chunks": ("Two parts are pushed over a link that keeps order and loses two messages.", Shape(True, 2, _O | _L, losses=2)),
    "tail": ("Two parts are pulled and a call without rows closes the plan.", Shape(False, 2, tail=True)),
    "empty": ("There is nothing to send; either side aborts.", Shape(True, 0, aborts=1)),
    "abort-loss": ("Either side aborts, and a message is lost.", Shape(False, 1, _R | _L, aborts=1, losses=1)),
    "unresolved": ("An operation fails, one is unresolved until it is fenced, and a message is lost.", Shape(
        True, 1, _O | _L, low_water=True, losses=1, failures=1, unresolved=1)),
    "fence": ("A pull is unresolved until it is fenced; either side aborts.", Shape(False, 1, unresolved=1, aborts=1)),
    "low-water": ("A pull is unresolved, a message is lost, and the receiver's low water goes past the attempt.", Shape(
        False, 1, _O | _L, low_water=True, losses=1, unresolved=1, aborts=1)),
    "crash": ("Either process crashes, and either side aborts.", Shape(True, 1, crashes=1, aborts=1)),
    "deadlines": ("Two deadlines go off early, behind a gate.", Shape(False, 1, _O, gate=True, silence=True, deadlines=2)),
    "shutdown": ("Either process stops, and the gate fails.", Shape(True, 1, _O, gate=True, shutdowns=1, failures=1)),
}  # fmt: skip
#: For a long run of Spin alone: too many states for anything else.
DEEP: dict[str, tuple[str, Shape]] = {
    "deep": (
        "Two parts are pulled; two aborts, two losses, a copy, and an operation that is unresolved.",
        Shape(False, 2, _R | _L | _D, aborts=2, losses=2, copies=1, unresolved=1),
    ),
}


def world(name: str) -> DeclaredWorld:
    """The declared world of this name. Raises ``KeyError`` naming those that there are."""
    worlds = {**SHAPES, **DEEP}
    if name not in worlds:
        raise KeyError(f"no declared world is called {name!r}; there are {', '.join(worlds)}")
    return pair(name, *worlds[name])


def pair(name: str, about: str, shape: Shape) -> DeclaredWorld:
    """Both sides, the channels between them, and what must hold."""
    sender, receiver = sender_side(shape), receiver_side(shape)
    return DeclaredWorld(
        name=name,
        about=about,
        faults=shape.faults,
        machines=sender.machines + receiver.machines,
        variables=(*shape.ops, *sender.variables, *receiver.variables, *shape.budgets),
        channels=channels(shape),
        procedures={**sender.procedures, **receiver.procedures},
        effects={**sender.effects, **receiver.effects},
        receives=sender.receives + receiver.receives,
        steps=sender.steps + receiver.steps + passes(shape, receiver.settled),
        claims=_claims(shape),
        ended=every((Empty(TO_SENDER), Empty(TO_RECEIVER), sender.settled, receiver.settled)),
        control=("sender", "receiver"),
        sides=tuple(
            (*(machine.name for machine in side.machines), *(var.name for var in side.variables))
            for side in (sender, receiver)
        ),
    )


def _claims(shape: Shape) -> tuple[Claim, ...]:
    success, failed = (KVPoll.Success,), (KVPoll.Failed,)
    done = In("receiver", success)
    s_alive, r_alive = ~shape.dead("s"), ~shape.dead("r")
    found: list[Claim] = []

    def claim(name: str, term: Term, sentence: str) -> None:
        found.append(Claim(name, term, sentence))

    for part, op in enumerate(shape.ops):
        held = ~s_alive | out(f"copy{part}")
        claim("NoFreeInFlight", ~touched(op) | held, f"the copy of part {part} went back while it was read")
        held = ~r_alive | out(BUFFER)
        claim("NoFreeInFlight", ~touched(op) | held, f"the receive buffer went back while part {part} was written")
        if shape.push:
            claim(
                "NoWriteAfterArrival",
                ~Var(f"r_heard{part}") | ~touched(op),
                f"part {part} arrived and can be written again",
            )
    writes = Has("receiver", busy, True) & r_alive
    claim("NoFreeInFlight", ~writes | (out(BUFFER) & out(PAGES)), "memory went back while the engine committed")
    claim("SuccessOrder", ~In("sender", success) | done, "the sender succeeded and the receiver has not")
    doubtful = Has("sender", doubt, True)
    claim(
        "SuccessOrder",
        ~(In("sender", failed) & done) | doubtful,
        "the sender failed without doubt, the receiver succeeded",
    )
    here = every(op.is_(Op.DONE.value) for op in shape.ops)
    claim("CompleteOrNotSuccess", ~done | here, "the receiver succeeded without every part")
    return tuple(found)
