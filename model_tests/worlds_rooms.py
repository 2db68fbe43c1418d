"""Two rooms at once: what they share are the pages of the decode engine, the link, the credits, and nothing else.

The decode engine has two pages. Where a room takes both, the second room waits for what comes back from the first; where it
takes one, both move data at once. Either order is explored, with every fault in either room.
"""

from __future__ import annotations

from .entries import Entry, both_ways, ends, two_rooms
from .network import Network
from .setting import Budget, Clocks, Setting

__all__ = ["ROOM_WORLDS"]

GOOD = ends("PS DS")
BOTH = ends("PS DS", "PF DF", "P? DF", "P? DS")
#: One room of the two ends like this, the other one succeeds.
ONE_FAILS = ends("PS DS + PS DS", "PF DF + PS DS", "P? DF + PS DS", "P? DS + PS DS")
#: Who has an operation that is unresolved fails: the sender where it pushes, and then it may be in doubt; the receiver where
#: it pulls, and then it says so.
PUSH_UNRESOLVED = ends("PS DS + PS DS", "PF DF + PS DS", "P? DF + PS DS")
PULL_UNRESOLVED = ends("PS DS + PS DS", "PF DF + PS DS")

#: Both legs of both rooms are there; each room is two parts, and takes both pages.
SHARED = Setting(
    True, eager=True, rooms=2, chunks=2, pages=2, credits=4, clocks=Clocks.NONE, network=Network.ORDERED
)  # fmt: skip
#: Each room is one part, and takes one page of two.
APART = SHARED._replace(chunks=1)
LOSSY = Network.LOSSY

#: One page for two rooms: the second one has not started when the first one ends.
NOT_BOTH_IN_DOUBT = two_rooms(BOTH) - ends("P? DF + P? DF", "P? DF + P? DS", "P? DS + P? DS")
PUSH_TWO_FAULTS = two_rooms(BOTH) - ends("P? DS + P? DS", "PF DF + P? DS", "PF DF + PF DF")
#: What the crashed process had stays where it was: in one of the rooms, before it had pages, in Bootstrapping.
CRASHED = ends(
    "PS DS + PS DS", "P? DT + PS DS", "P? DW + PS DS", "PB DF + PB DF", "PB DF + PS DS", "PB DF + PT DF", "PB DF + PT DS",
    "PB DF + PW DF", "PF DB + P? DS", "PF DB + P? DT", "PF DB + P? DW", "PF DB + PF DW", "PF DB + PS DS", "PF DW + P? DS",
    "PF DW + PS DS", "PS DS + PT DF", "PS DS + PT DS", "PS DS + PW DF", "P? DS + PS DS",
)  # fmt: skip

QUICK = (
    Entry(
        "two-rooms-share-pages", "The second room gets the pages that come back from the first.", SHARED, two_rooms(GOOD)
    ),
    Entry(
        "two-rooms-share-pages-abort", "One room is aborted at any step; the other gets its pages, and succeeds.",
        SHARED, ONE_FAILS, Budget(aborts=1),
    ),
    Entry(
        "two-rooms-share-pages-unresolved",
        "An operation of one room stays unresolved until it is fenced; its pages go to the other room only then.",
        SHARED._replace(clocks=Clocks.RESEND), PUSH_UNRESOLVED, Budget(unresolved=1), PULL_UNRESOLVED,
    ),
    Entry(
        "two-rooms-share-pages-late", "The engines come late, or never: every room ends, and all pages come back.",
        SHARED._replace(clocks=Clocks.ALL), two_rooms(BOTH),
    ),
    Entry(
        "two-rooms-apart-loss", "Both rooms move data at once, and any one message is lost: both succeed.",
        APART._replace(clocks=Clocks.RESEND, network=LOSSY), two_rooms(GOOD), Budget(losses=1),
    ),
    Entry(
        "two-rooms-mixed-up", "A message of one room arrives under the number of the other: it changes neither.",
        APART._replace(clocks=Clocks.RESEND), two_rooms(GOOD), Budget(mixups=1),
    ),
    Entry(
        "two-rooms-crash", "One page for two rooms, and either process crashes.",
        APART._replace(pages=1, clocks=Clocks.RESEND), CRASHED, Budget(crashes=1),
    ),
)  # fmt: skip

DEEP = (
    Entry(
        "two-rooms-apart-abort", "Both rooms move data at once, and one is aborted: the other succeeds.",
        APART, ONE_FAILS, Budget(aborts=1),
    ),
    Entry(
        "two-rooms-one-page-reordered", "One page for two rooms, and every order of messages.",
        APART._replace(pages=1, network=Network.HOSTILE), two_rooms(GOOD),
    ),
    Entry(
        "two-rooms-abort-unresolved", "One page for two rooms; one abort, and an operation that stays unresolved until fenced.",
        APART._replace(pages=1, clocks=Clocks.RESEND), PUSH_TWO_FAULTS, Budget(aborts=1, unresolved=1), NOT_BOTH_IN_DOUBT,
    ),
    Entry(
        "two-rooms-wrongly-lost", "One page for two rooms, and a peer that lives is declared lost while data moves.",
        APART._replace(pages=1, clocks=Clocks.RESEND), NOT_BOTH_IN_DOUBT, Budget(wrong=1),
    ),
    Entry(
        "two-rooms-mixed-up-abort",
        "One page for two rooms; one abort, and a message of one room arrives under the number of the other.",
        APART._replace(pages=1, clocks=Clocks.RESEND), ONE_FAILS, Budget(mixups=1, aborts=1),
    ),
    Entry(
        "two-rooms-abort-loss", "One page for two rooms; one abort, and any one message is lost.",
        APART._replace(pages=1, clocks=Clocks.RESEND, network=LOSSY), ONE_FAILS, Budget(aborts=1, losses=1),
    ),
)  # fmt: skip

ROOM_WORLDS = (*both_ways(QUICK), *both_ways(DEEP, deep=True, limit=4_000_000))
