"""Several ranks on a side: real sessions with two ranks on one side, and groups of two by two abstract members.

Two by two real sessions are more than can be explored. So the worlds with up to three real ones show that a session does
what its abstract member may do and nothing else (:mod:`.projection`), and the world of two by two members shows what the
groups of them come to.
"""

from __future__ import annotations

from .entries import Entry, both_ways, ends, one_way
from .group_world import GroupWorld
from .named import NamedWorld
from .network import Network
from .setting import Budget, Clocks, Setting, Shapes

__all__ = ["RANK_WORLDS"]

EAGER = Setting(True, eager=True, clocks=Clocks.NONE, network=Network.ORDERED)
SENDERS, RECEIVERS = EAGER._replace(prefills=2), EAGER._replace(decodes=2)
GOOD_SENDERS, GOOD_RECEIVERS = ends("PS PS DS"), ends("PS DS DS")
ABORTED_SENDERS = GOOD_SENDERS | ends("PF PF DF", "P? PF DF", "PF P? DF", "P? PS DS", "PS P? DS")
ABORTED_RECEIVERS = GOOD_RECEIVERS | ends(
    "PF DF DF", "P? DF DF", "PF DF DS", "PF DS DF", "P? DF DS", "P? DS DF", "P? DS DS"
)

CRASHED_SENDERS = ends(
    "PS PS DS", "P? PS DS", "PS P? DS", "P? P? DS", "P? P? DT", "P? P? DW", "P? PF DT", "P? PF DW", "PB PF DF", "PF P? DT",
    "PF P? DW", "PF PB DF", "PF PF DW", "PF PT DF", "PF PW DF", "PS PT DS", "PT PF DF", "PT PS DS", "PW PF DF",
)  # fmt: skip
CRASHED_RECEIVERS = ends(
    "PS DS DS", "P? DF DS", "P? DS DF", "P? DS DS", "P? DF DT", "P? DF DW", "P? DS DT", "P? DS DW", "P? DT DF", "P? DT DS",
    "P? DW DF", "P? DW DS", "PB DF DF", "PF DF DW", "PF DW DF", "PT DF DF", "PT DF DS", "PT DS DF", "PT DS DS", "PW DF DF",
)  # fmt: skip

#: Two decode engines want one room; the prefill engine makes a leg for each.
RIVALS = EAGER._replace(eager=False, decodes=2, rivals=True)
RIVAL_ENDS = ends("PS PF DF DS", "PS PF DS DF", "PS PS DS DS")

RIVALS_ABORTED = RIVAL_ENDS | ends(
    "P? PF DF DF", "P? PF DF DS", "P? PF DS DF", "P? PS DF DS", "P? PS DS DF", "P? PS DS DS", "PF PF DF DF", "PF PS DF DS",
    "PF PS DS DF", "PS P? DF DS", "PS P? DS DF", "PS P? DS DS",
)  # fmt: skip

QUICK = (
    Entry(
        "two-engines", "Two decode engines want one room: one gets the leg, the other the next one, or it hears ROOM_BUSY.",
        RIVALS, RIVAL_ENDS,
    ),
    Entry("two-prefill-ranks-in-order", "Two prefill ranks send one part each to one decode rank.", SENDERS, GOOD_SENDERS),
    Entry("two-decode-ranks-in-order", "One prefill rank sends one part to each of two decode ranks.", RECEIVERS, GOOD_RECEIVERS),
    Entry(
        "two-prefill-ranks-loss", "Two prefill ranks, and any one message is lost.",
        SENDERS._replace(clocks=Clocks.RESEND, network=Network.LOSSY), GOOD_SENDERS, Budget(losses=1),
    ),
    Entry(
        "two-decode-ranks-loss", "Two decode ranks, and any one message is lost.",
        RECEIVERS._replace(clocks=Clocks.RESEND, network=Network.LOSSY), GOOD_RECEIVERS, Budget(losses=1),
    ),
)  # fmt: skip

#: One rank stays where it was when its process crashed. Where there is nothing to send, pushing and pulling is the same.
CRASHES = (
    Entry(
        "two-prefill-ranks-crash", "Two prefill ranks with nothing to send; any process crashes.",
        SENDERS._replace(chunks=0), CRASHED_SENDERS, Budget(crashes=1),
    ),
    Entry(
        "two-decode-ranks-crash", "Two decode ranks with nothing to receive; any process crashes.",
        RECEIVERS._replace(chunks=0), CRASHED_RECEIVERS, Budget(crashes=1),
    ),
)  # fmt: skip

DEEP = (
    Entry(
        "two-engines-abort", "Two decode engines want one room, and any engine aborts at any step.",
        RIVALS, RIVALS_ABORTED, Budget(aborts=1),
    ),
    Entry(
        "two-engines-copy", "Two decode engines want one room, and any one message arrives twice, as late as it likes.",
        RIVALS._replace(eager=True, clocks=Clocks.RESEND, network=Network.HOSTILE), RIVAL_ENDS, Budget(copies=1),
    ),
    Entry(
        "two-prefill-ranks-abort", "Two prefill ranks; any rank aborts at any step.",
        SENDERS, ABORTED_SENDERS, Budget(aborts=1),
    ),
    Entry(
        "two-decode-ranks-abort", "Two decode ranks; any rank aborts at any step.",
        RECEIVERS, ABORTED_RECEIVERS, Budget(aborts=1),
    ),
)  # fmt: skip

HEADS, SPARE = SENDERS._replace(shapes=Shapes.HEADS), SENDERS._replace(shapes=Shapes.SPARE)
ROWS = RECEIVERS._replace(shapes=Shapes.ROWS)

#: Ranks that divide the heads or the tokens of a request, and ranks that bring nothing.
SHAPED = (
    Entry("head-shares", "Two prefill ranks bring half of the heads each.", HEADS, GOOD_SENDERS),
    Entry("spare-rank", "Two prefill ranks have the same data: one brings it, one closes an empty plan.", SPARE, GOOD_SENDERS),
    Entry(
        "spare-rank-tail", "As spare-rank, and a call without rows closes the plan.", SPARE._replace(tail=True), GOOD_SENDERS
    ),
    Entry("token-rows", "One token, two decode ranks that own every second one.", ROWS, GOOD_RECEIVERS),
    Entry("token-rows-two", "Two tokens in two parts: each decode rank gets one.", ROWS._replace(chunks=2), GOOD_RECEIVERS),
    Entry(
        "token-rows-tail", "Two tokens in two parts, and a call without rows closes the plan.",
        ROWS._replace(chunks=2, tail=True, gathers=True), GOOD_RECEIVERS,
    ),
    Entry(
        "head-shares-loss", "Two prefill ranks bring half of the heads each, and any one message is lost.",
        HEADS._replace(clocks=Clocks.RESEND, network=Network.LOSSY), GOOD_SENDERS, Budget(losses=1),
    ),
    Entry(
        "spare-rank-loss", "One of two prefill ranks brings nothing, and any one message is lost.",
        SPARE._replace(clocks=Clocks.RESEND, network=Network.LOSSY), GOOD_SENDERS, Budget(losses=1),
    ),
    Entry(
        "token-rows-loss", "One token, two decode ranks, and any one message is lost.",
        ROWS._replace(clocks=Clocks.RESEND, network=Network.LOSSY), GOOD_RECEIVERS, Budget(losses=1),
    ),
)  # fmt: skip

SHAPED_DEEP = (
    Entry(
        "head-shares-abort", "Two prefill ranks bring half of the heads each; any rank aborts at any step.",
        HEADS, ABORTED_SENDERS, Budget(aborts=1),
    ),
    Entry(
        "spare-rank-abort", "One of two prefill ranks brings nothing; any rank aborts at any step.",
        SPARE, ABORTED_SENDERS, Budget(aborts=1),
    ),
    Entry(
        "token-rows-abort", "Two tokens in two parts, two decode ranks; any rank aborts at any step.",
        ROWS._replace(chunks=2), ABORTED_RECEIVERS, Budget(aborts=1),
    ),
)  # fmt: skip

GROUPS = NamedWorld(
    name="ranks-2x2",
    about="Two by two abstract members: decisions of a group are immutable, in order, and in doubt iff every failed rank is.",
    make=GroupWorld,
    ends=ends("PS DS", "PF DF", "P? DF", "P? DS"),
    faults="reports late or missing; any rank fails at any step",
    limit=400_000,
)

RANK_WORLDS = (
    *both_ways(QUICK), *both_ways(SHAPED), *map(one_way, CRASHES), GROUPS,
    *both_ways((*DEEP, *SHAPED_DEEP), deep=True, limit=4_000_000),
)  # fmt: skip
