"""One report in the forms that people and machines read. Every form is made from the same :class:`~..report.Report`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kvpoll.protocol.evolution.report import Report

from .as_json import as_json
from .github import as_github
from .junit import as_junit
from .markdown import as_markdown
from .sarif import as_sarif
from .text import as_text

__all__ = ["FORMATS"]

FORMATS: Mapping[str, Callable[[Report], str]] = {
    "text": as_text, "json": as_json, "junit": as_junit, "sarif": as_sarif, "github": as_github, "markdown": as_markdown,
}  # fmt: skip
