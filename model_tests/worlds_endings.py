"""Ways to end: a process that drains or is shut down, and rooms of which only one leg ever comes.

A process that closes ends its rooms (a shutdown) or lets them end (draining), closes its links when nothing of a room is
left, and exits with no memory of its engine. The other one is not shut down: it goes on until it is idle.
"""

from __future__ import annotations

from .entries import Entry, both_ways, ends
from .network import Network
from .setting import Budget, Clocks, Setting

__all__ = ["ENDING_WORLDS"]

#: The engines come late, or never; the network keeps the order.
LATE = Setting(True, network=Network.ORDERED)
EAGER = LATE._replace(eager=True)
#: Every order of messages, and some get lost.
HOSTILE = LATE._replace(network=Network.HOSTILE)
HALF = ends("", "PF", "DF")
BOTH = ends("PS DS", "PF DF", "P? DF", "P? DS")

QUICK = (
    Entry(
        "drain", "Either process drains at any step: rooms that are there go on, new ones are refused, at both ends.",
        LATE, HALF | BOTH, Budget(drains=1),
    ),
    Entry(
        "drain-exit", "Either process drains, closes its links when its rooms are over, and exits.",
        EAGER._replace(closes=True), BOTH, Budget(drains=1),
    ),
    Entry(
        "shutdown-exit", "Either process is shut down, before any leg came too, closes its links, and exits.",
        LATE._replace(closes=True), HALF | BOTH, Budget(shutdowns=1),
    ),
    Entry(
        "shutdown-both-exit", "Both processes are shut down, one after the other, and exit.",
        EAGER._replace(closes=True), BOTH, Budget(shutdowns=2),
    ),
    Entry(
        "shutdown-loss-exit", "Either process is shut down and exits, and any one message is lost.",
        EAGER._replace(closes=True, network=Network.LOSSY), BOTH, Budget(shutdowns=1, losses=1),
    ),
    Entry(
        "only-prefill", "Only the prefill engine hears of the request: its leg ends.",
        HOSTILE._replace(only="prefill"), ends("", "PF"), Budget(aborts=1, losses=1),
    ),
    Entry(
        "only-decode", "Only the decode engine hears of the request: its attempt ends.",
        HOSTILE._replace(only="decode"), ends("", "DF"), Budget(aborts=1, losses=1),
    ),
    Entry(
        "only-decode-no-fault", "Only the decode engine hears of the request; no deadline but that for pairing goes off.",
        HOSTILE._replace(only="decode", clocks=Clocks.RESEND), ends("DF"), Budget(losses=1),
    ),
)  # fmt: skip

DEEP = (
    Entry(
        "shutdown-exit-reordered", "Either process is shut down and exits, and messages overtake each other.",
        EAGER._replace(closes=True, network=Network.HOSTILE), BOTH, Budget(shutdowns=1),
    ),
    Entry(
        "drain-exit-late", "Either process drains before any leg came too, and exits.",
        LATE._replace(closes=True), HALF | BOTH, Budget(drains=1),
    ),
    Entry(
        "drain-shutdown-abort", "A drain, a shutdown and an abort, of either side.",
        EAGER._replace(closes=True), BOTH, Budget(drains=1, shutdowns=1, aborts=1),
    ),
)  # fmt: skip

ENDING_WORLDS = (*both_ways(QUICK), *both_ways(DEEP, deep=True, limit=4_000_000))
