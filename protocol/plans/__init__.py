"""Transfer plans: who meets whom, which heads, layers, pages and rows go where. Pure arithmetic, every number checked first.

A plan is computed at both ends from what the handshake agreed, and a wrong number is a refusal
(:class:`~kvpoll.protocol.errors.LocalProtocolError`) that names the field. Names are loaded when they are first used (PEP
562): the plans over pages and rows need numpy, the others do not.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .dcp import RowPlan, plan_dcp_draft, plan_dcp_relayout
    from .entries import dcp_token_nbytes, needs_dcp_relayout, pair_entries
    from .heads import HeadSlice, heads_of, slice_heads
    from .layers import LayerSlice, plan_stages, slice_layers
    from .ranks import Place, Shape, Source, dcp_rank_of, readers_of, sources_of
    from .runs import Runs, page_runs

__all__ = [
    "HeadSlice",
    "LayerSlice",
    "Place",
    "RowPlan",
    "Runs",
    "Shape",
    "Source",
    "dcp_rank_of",
    "dcp_token_nbytes",
    "heads_of",
    "needs_dcp_relayout",
    "page_runs",
    "pair_entries",
    "plan_dcp_draft",
    "plan_dcp_relayout",
    "plan_stages",
    "readers_of",
    "slice_heads",
    "slice_layers",
    "sources_of",
]

_HOME = {
    "dcp": ("RowPlan", "plan_dcp_draft", "plan_dcp_relayout"),
    "entries": ("dcp_token_nbytes", "needs_dcp_relayout", "pair_entries"),
    "heads": ("HeadSlice", "heads_of", "slice_heads"),
    "layers": ("LayerSlice", "plan_stages", "slice_layers"),
    "ranks": ("Place", "Shape", "Source", "dcp_rank_of", "readers_of", "sources_of"),
    "runs": ("Runs", "page_runs"),
}
_MODULE = {name: module for module, names in _HOME.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _MODULE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f".{_MODULE[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
