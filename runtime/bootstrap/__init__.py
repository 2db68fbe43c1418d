"""The bootstrap service: where decode processes find the prefill ranks behind a bootstrap address.

``registry`` decides (pure), ``models`` are the bodies, ``server`` and ``client`` speak HTTP. Importing this package
loads none of them: the names below are looked up on first use, so that an engine without the ``server`` extra can still
import kvpoll.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .client import BootstrapClient, Keeper, RegistrationThread
    from .models import BootstrapError, EngineView, NoteRequest, RankEntry, RankFilter, RankView, RegisterRequest
    from .registry import Limits, Registry
    from .server import KVBootstrapServer, create_app

__all__ = [
    "BootstrapClient",
    "BootstrapError",
    "EngineView",
    "KVBootstrapServer",
    "Keeper",
    "Limits",
    "NoteRequest",
    "RankEntry",
    "RankFilter",
    "RankView",
    "RegisterRequest",
    "RegistrationThread",
    "Registry",
    "create_app",
]

_HOMES = {
    "client": ("BootstrapClient", "Keeper", "RegistrationThread"),
    "models": (
        "BootstrapError",
        "EngineView",
        "NoteRequest",
        "RankEntry",
        "RankFilter",
        "RankView",
        "RegisterRequest",
    ),
    "registry": ("Limits", "Registry"),
    "server": ("KVBootstrapServer", "create_app"),
}


def __getattr__(name: str) -> object:
    for home, names in _HOMES.items():
        if name in names:
            value: object = getattr(importlib.import_module(f"{__name__}.{home}"), name)
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
