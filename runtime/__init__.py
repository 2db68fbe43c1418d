"""Where the protocol meets the world: manager, sender, receiver, bootstrap server, transports.

Names are loaded when they are first used (PEP 562), so that this package costs nothing until then.
"""

if __name__ != "kvpoll.runtime":
    raise ImportError(
        f"import this room as 'kvpoll.runtime', not as {__name__!r}: a second copy would have a second KVPoll"
    )

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .aux_slots import AuxAnswer, AuxSlots
    from .bootstrap.server import KVBootstrapServer
    from .config import AuxBuffer, Draft, Durations, EngineSpec, Limits, ManagerConfig, Role
    from .manager import KVManager, Released
    from .pool import PagePool
    from .receiving import KVReceiver
    from .request import Request
    from .sending import KVSender

_HOMES = {
    "AuxAnswer": "aux_slots", "AuxSlots": "aux_slots", "KVBootstrapServer": "bootstrap.server", "AuxBuffer": "config",
    "Draft": "config", "Durations": "config", "EngineSpec": "config", "Limits": "config", "ManagerConfig": "config",
    "Role": "config",
    "KVReceiver": "receiving", "KVSender": "sending", "KVManager": "manager", "Released": "manager", "PagePool": "pool",
    "Request": "request",
}  # fmt: skip

__all__ = [
    "AuxAnswer", "AuxBuffer", "AuxSlots", "Draft", "Durations", "EngineSpec", "KVBootstrapServer", "KVManager",
    "KVReceiver", "KVSender", "Limits", "ManagerConfig", "PagePool", "Released", "Request", "Role",
]  # fmt: skip


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(f".{home}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
