"""Two ends of the jax pull transport in one process: fixtures and helpers for its tests.

A test module takes the fixtures by name: ``ends, pair, make = jax_rig.ends, jax_rig.pair, jax_rig.make``.
"""

import itertools
import secrets

import pytest

from .jax_peer import Driven

ops = itertools.count(1)


def new_key():
    return secrets.randbits(62) + 1


def join(sender, receiver, link="peer"):
    theirs, ours = sender.transport.descriptor(link), receiver.transport.descriptor(link)
    assert receiver.transport.mismatches(ours, theirs) == []
    receiver.transport.open_peer(link, theirs)
    sender.transport.open_peer(link, ours)


@pytest.fixture(scope="module")
def ends():
    sender, receiver = Driven(max_servers=64), Driven(max_servers=64)
    yield sender, receiver
    sender.transport.close()
    receiver.transport.close()


@pytest.fixture
def pair(ends):
    """A sender and a receiver that know each other as "peer", with connections of this test's own."""
    join(*ends)
    yield ends
    for driven in ends:
        driven.leave("peer")


@pytest.fixture
def make():
    """Transports with options, closed at the end."""
    made = []

    def build(**options):
        made.append(Driven(**options))
        return made[-1]

    yield build
    for each in made:
        each.transport.close()


def fetch(receiver, key, shape, dtype="uint8", link="peer"):
    op = next(ops)
    receiver.pull(op, link, key, shape, dtype)
    return receiver.end_of(op)


def started(receiver, key, shape=(64,), link="peer"):
    """A pull that nobody answers: in progress, its connection made."""
    op = next(ops)
    receiver.pull(op, link, key, shape)
    return op


def detail(driven, op):
    return [each.detail for each in driven.reports if getattr(each, "op", None) == op]
