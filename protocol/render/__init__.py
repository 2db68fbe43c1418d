"""A table for people and programs: text, Markdown, Mermaid, Graphviz dot and JSON, all from the same rows.

Output depends on the table alone (no clock, no set order), so that generated files can be compared byte by byte.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from kvpoll.spec.table import Table

from .dot import dot
from .guard import guard_text, update_text
from .json import json_text
from .markdown import markdown
from .mermaid import mermaid
from .support import support_json, support_markdown, support_text
from .text import text

__all__ = ["Format", "guard_text", "render", "render_support", "update_text"]


class Format(StrEnum):
    """The value is what a command line calls it."""

    TEXT = "text"
    MARKDOWN = "markdown"
    MERMAID = "mermaid"
    DOT = "dot"
    JSON = "json"


_RENDERERS: dict[Format, Callable[[Table], str]] = {
    Format.TEXT: text,
    Format.MARKDOWN: markdown,
    Format.MERMAID: mermaid,
    Format.DOT: dot,
    Format.JSON: json_text,
}


def render(table: Table, format: Format | str) -> str:
    """The table in one of the formats, ending with a newline. Raises ``ValueError`` for a format that is not one."""
    return _RENDERERS[Format(format)](table)


_SUPPORT: dict[Format, Callable[[], str]] = {
    Format.TEXT: support_text,
    Format.MARKDOWN: support_markdown,
    Format.JSON: support_json,
}


def render_support(format: Format | str) -> str:
    """The support matrix, ending with a newline. Raises ``ValueError`` for a format that it does not have: it is no graph."""
    if (make := _SUPPORT.get(Format(format))) is None:
        raise ValueError(f"the support matrix is no graph: it can be {', '.join(f.value for f in _SUPPORT)}")
    return make()
