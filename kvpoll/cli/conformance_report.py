"""``kvpoll conformance report`` and ``kvpoll conformance merge``: what a run wrote, in other forms and side by side.

Exit status of both: 0 written, 2 could not. What the run itself found is its own exit status; a report only tells it.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

__all__ = ["merge", "report"]

_RESULTS = Annotated[
    list[Path],
    typer.Argument(help="JSON files that `kvpoll conformance run` or `merge` wrote; several stand side by side."),
]


def report(
    results: _RESULTS,
    format: Annotated[str, typer.Option(help="text, junit, sarif, markdown or html.")] = "text",
    output: Annotated[Path | None, typer.Option(help="Write to this file.", show_default=False)] = None,
) -> None:
    """Tell a result for a terminal, a CI server, code scanning, a pull request, or as a page for a browser."""
    from kvpoll.model_tests.conformance.reports import FORMATS, read_results
    from kvpoll.model_tests.conformance.result import ResultError

    try:
        if format not in FORMATS:
            raise ResultError(f"--format: expected one of {', '.join(FORMATS)}, got {format!r}")
        text = FORMATS[format](read_results(results))
        if output is None:
            sys.stdout.write(text)
        else:
            output.write_text(text, encoding="utf-8")
    except (ResultError, OSError) as error:
        raise _cannot(error) from None


def merge(
    results: _RESULTS,
    output: Annotated[Path, typer.Option(help="The JSON file to write.")],
) -> None:
    """Put the results of several implementations into one file. All must come from the same version of the suite."""
    from kvpoll.model_tests.conformance.reports import read_results, write_merged
    from kvpoll.model_tests.conformance.result import ResultError

    try:
        merged = read_results(results)
        write_merged(merged, output)
    except (ResultError, OSError) as error:
        raise _cannot(error) from None
    typer.echo(f"written: {output}, {len(merged.results)} side by side")


def _cannot(error: Exception) -> typer.Exit:
    typer.echo(f"kvpoll conformance: could not: {error}", err=True)
    return typer.Exit(2)
