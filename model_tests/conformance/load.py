"""Find an adapter by the name that a person gave: ``module:make`` or ``path/to/file.py:make``."""

from __future__ import annotations

import importlib.util
import sys
from importlib import import_module
from pathlib import Path

from .plug import Make

__all__ = ["LoadError", "load"]


class LoadError(ValueError):
    """There is no such adapter. Says what was looked for."""


def load(name: str) -> Make:
    """``make`` of an adapter. Raises :class:`LoadError`; what the module itself raises passes through."""
    place, _, attribute = name.rpartition(":")
    if not place or not attribute:
        raise LoadError(f"--impl: expected module:make or file.py:make, got {name!r}")
    if place.endswith(".py"):
        path = Path(place)
        spec = importlib.util.spec_from_file_location(path.stem, path)
        if spec is None or spec.loader is None or not path.is_file():
            raise LoadError(f"--impl: no file {place}")
        module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = module
        sys.path.insert(0, str(path.parent))
        spec.loader.exec_module(module)
    else:
        sys.path.insert(0, "")
        try:
            module = import_module(place)
        except ModuleNotFoundError as error:
            if error.name is not None and (place == error.name or place.startswith(f"{error.name}.")):
                raise LoadError(f"--impl: no module {place}") from None
            raise
    make: Make | None = getattr(module, attribute, None)
    if make is None or not callable(make):
        raise LoadError(f"--impl: {place} has no callable {attribute!r}")
    return make
