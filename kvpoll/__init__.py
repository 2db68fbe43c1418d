"""kvpoll: the prefill-to-decode KV-cache hand-off protocol, formally modelled.

``kvpoll.spec`` says what is true, ``kvpoll.protocol`` what follows from it, ``kvpoll.runtime`` binds it to sockets and
devices, ``kvpoll.model_tests`` explores it. Names of the runtime and of the plans are loaded when they are first used (PEP
562): importing kvpoll loads no jax, zmq or HTTP library, and no numpy.
"""

from typing import TYPE_CHECKING

from kvpoll.protocol.errors import Failure, KvpollError, KVTransferError, LocalProtocolError, RemoteProtocolError
from kvpoll.protocol.group import Decision, Vote, decide
from kvpoll.spec import CATALOGUE, TABLES, Cause, KVPoll, Retry

if TYPE_CHECKING:
    from kvpoll.protocol.plans import plan_dcp_relayout
    from kvpoll.runtime import (
        AuxAnswer,
        AuxBuffer,
        AuxSlots,
        Durations,
        EngineSpec,
        KVBootstrapServer,
        KVManager,
        KVReceiver,
        KVSender,
        Limits,
        ManagerConfig,
        PagePool,
        Released,
        Request,
        Role,
    )

__all__ = [
    "CATALOGUE",
    "TABLES",
    "AuxAnswer",
    "AuxBuffer",
    "AuxSlots",
    "Cause",
    "Decision",
    "Durations",
    "EngineSpec",
    "Failure",
    "KVBootstrapServer",
    "KVManager",
    "KVPoll",
    "KVReceiver",
    "KVSender",
    "KVTransferError",
    "KvpollError",
    "Limits",
    "LocalProtocolError",
    "ManagerConfig",
    "PagePool",
    "Released",
    "RemoteProtocolError",
    "Request",
    "Retry",
    "Role",
    "Vote",
    "decide",
    "plan_dcp_relayout",
]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "plan_dcp_relayout":
        from kvpoll.protocol import plans

        value: object = plans.plan_dcp_relayout
    else:
        from kvpoll import runtime

        value = getattr(runtime, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
