"""The blocks of docs/operations.md that list every knob: read off the configuration models."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, get_args

from kvpoll.protocol.render.markdown import grid

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic.fields import FieldInfo

__all__ = ["KNOBS"]


def _table(name: str) -> str:
    from kvpoll.runtime import config

    models: dict[str, type[BaseModel]] = {
        "process": config.ManagerConfig, "engine": config.EngineSpec, "durations": config.Durations, "limits": config.Limits,
    }  # fmt: skip
    rows = [
        (f"`{field}`", _default(info), _type(info), info.description or "")
        for field, info in models[name].model_fields.items()
    ]
    return grid(("knob", "default", "type", "what it is"), rows) + "\n"


def _default(info: FieldInfo) -> str:
    from pydantic import BaseModel

    if info.is_required():
        return "(must be given)"
    value = info.get_default(call_default_factory=True, validated_data={})
    return "see below" if isinstance(value, BaseModel) else f"`{value!r}`"


def _type(info: FieldInfo) -> str:
    annotation = info.annotation
    names = [getattr(a, "__name__", str(a)) for a in get_args(annotation)] if annotation is not None else []
    return (
        " or ".join(names).replace("NoneType", "nothing")
        if names and "|" in str(annotation)
        else getattr(annotation, "__name__", str(annotation))
    )


#: Name of the block -> how it is made.
KNOBS: dict[str, Callable[[], str]] = {
    f"knobs-{name}": partial(_table, name) for name in ("process", "engine", "durations", "limits")
}
