"""Reports of a conformance run, all made from the same document: one result, or several side by side (:mod:`.merge`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from .html import as_html
from .junit import as_junit
from .markdown import as_markdown
from .merge import MERGED_SCHEMA, Merged, merge, read_results, write_merged
from .sarif import as_sarif
from .text import as_text

__all__ = ["FORMATS", "MERGED_SCHEMA", "Merged", "merge", "read_results", "write_merged"]

#: Name of a format -> what makes it.
FORMATS: Mapping[str, Callable[[Merged], str]] = {
    "text": as_text, "junit": as_junit, "sarif": as_sarif, "markdown": as_markdown, "html": as_html,
}  # fmt: skip
