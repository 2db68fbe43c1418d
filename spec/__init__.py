"""What is true: states, tables, effects, the failure catalogue, wire schemas. Data and types only."""

if __name__ != "kvpoll.spec":
    raise ImportError(
        f"import this room as 'kvpoll.spec', not as {__name__!r}: a second copy would have a second KVPoll"
    )

from .causes import CATALOGUE, Cause, CauseEntry, Retry, Side
from .effects import Effect
from .lease_table import LEASE, LeaseEvent
from .link_table import LINK, LinkEvent
from .receiver_table import RECEIVER, ReceiverEvent
from .sender_table import SENDER, SenderEvent
from .staging_table import STAGING, StagingEvent
from .states import TERMINAL, KVPoll, LeaseState, LinkState, StagingState
from .table import Row, Table

__all__ = [
    "CATALOGUE",
    "LEASE",
    "LINK",
    "RECEIVER",
    "SENDER",
    "STAGING",
    "TABLES",
    "TERMINAL",
    "Cause",
    "CauseEntry",
    "Effect",
    "KVPoll",
    "LeaseEvent",
    "LeaseState",
    "LinkEvent",
    "LinkState",
    "ReceiverEvent",
    "Retry",
    "Row",
    "SenderEvent",
    "Side",
    "StagingEvent",
    "StagingState",
    "Table",
]

#: Every machine there is, by name.
TABLES: dict[str, Table] = {t.name: t for t in (SENDER, RECEIVER, LEASE, LINK, STAGING)}
