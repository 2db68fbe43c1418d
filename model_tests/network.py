"""Kinds of networks: which message in flight may arrive next, and what may become of it.

What is in flight is a value, since it is part of a state. Where messages overtake each other it is a set: a message that is
said twice while in flight is one. Where they do not it is a tuple, sorted by channel (a link in one direction), each channel
first in, first out; only the same message twice *in a row* is one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import Flag, auto
from typing import TypeAlias

__all__ = ["Net", "Network", "empty", "next_up", "put", "take"]

#: Messages in flight, by number.
Net: TypeAlias = frozenset[int] | tuple[int, ...]
#: The channel of a message: link and slot that it goes to.
ChannelOf: TypeAlias = Callable[[int], tuple[int, int]]


class Network(Flag):
    """What a network may do. How often it loses or copies is the budget's business."""

    ORDERED = 0  #: each link keeps the order in each direction
    REORDERING = auto()  #: messages overtake each other
    LOSSY = auto()  #: messages get lost
    DUPLICATING = auto()  #: messages arrive twice; the second time as late as it likes
    HOSTILE = REORDERING | LOSSY | DUPLICATING


def empty(kind: Network) -> Net:
    """Nothing is in flight."""
    return frozenset() if Network.REORDERING in kind else ()


def put(net: Net, numbers: Iterable[int], channel: ChannelOf) -> Net:
    """These are sent, in this order."""
    if isinstance(net, frozenset):
        return net.union(numbers)
    queue = list(net)
    for number in numbers:
        here = channel(number)
        behind = next((i for i, other in enumerate(queue) if channel(other) > here), len(queue))
        if not (behind and queue[behind - 1] == number):
            queue.insert(behind, number)
    return tuple(queue)


def take(net: Net, number: int) -> Net:
    """This one arrives, or is lost."""
    if isinstance(net, frozenset):
        return net - {number}
    at = net.index(number)
    return (*net[:at], *net[at + 1 :])


def next_up(net: Net, channel: ChannelOf) -> Sequence[int]:
    """Which may arrive next, in a fixed order."""
    if isinstance(net, frozenset):
        return sorted(net)
    return [number for i, number in enumerate(net) if not i or channel(net[i - 1]) != channel(number)]
