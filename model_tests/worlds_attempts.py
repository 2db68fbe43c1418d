"""Attempts that follow each other: a room that is tried again, and processes that come back as somebody else.

A receiver engine that failed tries the room again with a higher gen, while the leg of the first attempt may still live:
the newer attempt ends it (SUPERSEDED) unless it is in doubt. A process that comes back at its address is another instance
with another engine id; what was meant for the dead one changes no room of it.
"""

from __future__ import annotations

from .entries import Entry, both_ways, ends, one_way
from .network import Network
from .setting import Budget, Clocks, Setting

__all__ = ["ATTEMPT_WORLDS"]

#: Both legs are there; what follows is explored, the second attempt included.
EAGER = Setting(True, eager=True, clocks=Clocks.RESEND, network=Network.ORDERED)
TWICE = ends("PS PS DS DS")
#: One of the attempts, or of the legs, failed: the legs and attempts meet in any combination.
RETRIED = TWICE | ends(
    "PS PF DS DF", "PF PS DS DF", "PF PS DF DS", "PS P? DS DF", "P? PS DF DS", "P? PS DS DS", "PS P? DS DS",
)  # fmt: skip

#: An operation that failed has moved nothing: nobody is in doubt whose receiver succeeded.
PUSH_FAILED = TWICE | ends("PS PF DS DF", "PF PS DF DS", "PS P? DS DF", "P? PS DF DS")
PULL_FAILED = TWICE | ends("PS PF DS DF", "PF PS DF DS")
#: A crash stops a leg or an attempt where it stands. The process that comes back creates its own: it meets the leg that still
#: waits, or nobody, because the attempt of the dead one is over at the other end, too.
RESTARTED = ends(
    "P? DS", "P? DS DF", "P? DT", "P? DT DF", "P? DW", "P? DW DF", "PB DF", "PB DF PF", "PF DW", "PF DW DF", "PS DS",
    "PS DS DF", "PS DS PF", "PS DW DS", "PT DF", "PT DF PF", "PT DS", "PT DS PF", "PW DF", "PW DF PF",
)  # fmt: skip

#: The engines may never try again, or one of them, or too late for the other.
LATE = RETRIED | ends(
    "P? DF", "P? DF DF", "P? DS", "P? DS DF", "P? P? DF DF", "P? P? DF DS", "P? P? DS DF", "P? P? DS DS", "P? PF DF",
    "P? PF DF DF", "P? PF DS", "P? PF DS DF", "PF DF", "PF DF DF", "PF P? DF DF", "PF P? DF DS", "PF PF DF", "PF PF DF DF",
    "PS DS", "PS DS DF", "PS PF DS",
)  # fmt: skip

QUICK = (
    Entry(
        "two-attempts", "The room is used twice, one attempt after the other.",
        EAGER._replace(clocks=Clocks.NONE), TWICE, Budget(attempts=2),
    ),
    Entry(
        "two-attempts-abort", "Either side aborts one attempt, at any step, and tries again.",
        EAGER, RETRIED, Budget(attempts=2, aborts=1),
    ),
    Entry(
        "two-attempts-failure", "An operation, a commit or a check of the data fails, and the room is tried again.",
        EAGER, PUSH_FAILED, Budget(attempts=2, failures=1), PULL_FAILED,
    ),
    Entry(
        "two-attempts-loss", "The room is used twice, and any one message is lost.",
        EAGER._replace(network=Network.LOSSY), TWICE, Budget(attempts=2, losses=1),
    ),
    Entry(
        "two-attempts-late", "The engines come late, or never, both times: every leg and every attempt ends.",
        EAGER._replace(clocks=Clocks.ALL), LATE - ends("PF PS DS DF"), Budget(attempts=2),
    ),
    Entry(
        "another-request-first", "The room's first leg is of another request: its attempt waits for the right one, or ends.",
        EAGER._replace(eager=False, retries=True), ends("PF PF DF DF", "PF PS DS DF", "PF PS DF DS"), Budget(attempts=2),
    ),
    Entry(
        "restart", "Either process crashes, and comes back at its address as another instance that wants the room, too.",
        EAGER, RESTARTED, Budget(crashes=1, restarts=1),
    ),
)  # fmt: skip

#: Where there is nothing to send, pushing and pulling is the same.
EMPTY = Entry(
    "two-attempts-early-clock", "A clock of one attempt goes off too early, and the room is tried again; nothing to send.",
    EAGER._replace(chunks=0), RETRIED, Budget(attempts=2, clocks=1),
)  # fmt: skip

#: An attempt that was aborted before anybody heard of it leaves its leg to the next one, and the second leg without any.
CROSSED = ends("PS PF DF DS")
#: Both attempts fail, or a leg of one and an attempt of the other.
RETRIED_IN_VAIN = RETRIED | ends(
    "P? P? DF DF", "P? P? DF DS", "P? P? DS DF", "P? P? DS DS", "P? PF DF DF", "P? PF DS DF", "PF P? DF DF", "PF P? DF DS",
    "PF P? DS DF", "PF PF DF DF",
)  # fmt: skip
RESTARTED_LATE = RESTARTED | ends(
    "P? DF", "P? DF DF", "P? DF PF", "P? DS PF", "P? DW DS", "PF DF", "PF DF DF", "PF DF PF",
)  # fmt: skip
ABORTED_LATE = LATE | ends("PF P? DF", "PF P? DS", "PF PS DS", "PF P? DS DF")
ANOTHER_LATE = ends(
    "", "PF", "PF PF", "DF", "PF DF", "PF PF DF", "DF DF", "PF DF DF", "PF PF DF DF", "PF PS DS", "PF P? DF", "PF P? DS",
    "PF PS DS DF", "PF PS DF DS", "PF P? DF DF", "PF P? DS DF", "PF P? DF DS",
)  # fmt: skip

#: ... and the engine that saw its peer come back tries once more.
AGAIN = ends(
    "P? DS", "P? DT", "P? DW", "P? PF DS DF", "P? PF DT DF", "P? PF DW DF", "P? PS DS DS", "P? PS DT DS", "P? PS DW DS",
    "PB DF", "PB DF DS PS", "PF DW", "PF PF DW DF", "PF PS DW DS", "PS DS", "PS DS DF PF", "PS DS DS PS", "PS P? DW DS",
    "PS PF DS DF", "PS PF DW DS", "PS PS DS DS", "PT DF", "PT DF DS PS", "PT DS", "PT DS DF PF", "PT DS DS PS", "PW DF",
    "PW DF DS PS",
)  # fmt: skip

DEEP = (
    Entry(
        "restart-again", "Either process crashes and comes back, and the engine of the other one tries once more, too.",
        EAGER._replace(clocks=Clocks.NONE, again=True), AGAIN, Budget(crashes=1, restarts=1), AGAIN | ends("PT DF DF PF"),
    ),
    Entry(
        "two-attempts-abort-early-clock", "Two attempts with an abort, and a clock that goes off too early.",
        EAGER, RETRIED_IN_VAIN, Budget(attempts=2, aborts=1, clocks=1),
    ),
    Entry(
        "two-attempts-early-clock-data", "A clock of one attempt goes off too early while data moves.",
        EAGER, RETRIED, Budget(attempts=2, clocks=1),
    ),
    Entry(
        "two-attempts-abort-late", "Two attempts with an abort, and engines that come late, or never.",
        EAGER._replace(clocks=Clocks.ALL), ABORTED_LATE, Budget(attempts=2, aborts=1),
    ),
    Entry(
        "two-attempts-abort-loss", "Two attempts with an abort, and any one message is lost.",
        EAGER._replace(network=Network.LOSSY), RETRIED | CROSSED, Budget(attempts=2, aborts=1, losses=1),
    ),
    Entry(
        "another-request-first-late", "The room's first leg is of another request, and the engines come late, or never.",
        EAGER._replace(eager=False, retries=True, clocks=Clocks.ALL), ANOTHER_LATE, Budget(attempts=2),
    ),
    Entry(
        "restart-late", "Either process crashes and comes back, and the engines come late, or never.",
        EAGER._replace(clocks=Clocks.ALL), RESTARTED_LATE, Budget(crashes=1, restarts=1),
    ),
    Entry(
        "restart-loss", "Either process crashes and comes back, and any one message is lost.",
        EAGER._replace(network=Network.LOSSY), RESTARTED, Budget(crashes=1, restarts=1, losses=1),
    ),
    Entry(
        "restart-reordered", "Either process crashes and comes back, and messages of both lives overtake each other.",
        EAGER._replace(network=Network.HOSTILE, clocks=Clocks.NONE), RESTARTED, Budget(crashes=1, restarts=1),
    ),
)  # fmt: skip

ATTEMPT_WORLDS = (*both_ways(QUICK), one_way(EMPTY), *both_ways(DEEP, deep=True, limit=4_000_000))
