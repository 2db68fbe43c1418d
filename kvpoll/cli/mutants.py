"""``kvpoll check --mutants``: the tables made wrong row by row, and which invariant finds it."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter

import typer

__all__ = ["check_mutants"]


def check_mutants(table: str, sample: int | None, json: bool, write: Path | None) -> int:
    """Try the mutants of a table (all, if empty), or a sample of them; tell, and return the exit status."""
    from kvpoll.model_tests.mutation import all_mutants, run
    from kvpoll.model_tests.mutation import sample as some
    from kvpoll.model_tests.mutation_report import mutants_json, mutants_page, mutants_text

    try:
        found = all_mutants(table)
    except KeyError as error:
        raise typer.BadParameter(str(error.args[0]), param_hint="--table") from None
    if write is not None and (table or sample is not None):
        raise typer.BadParameter("the page is about all mutants: leave out --table and --sample", param_hint="--write")
    start = perf_counter()
    report = run(
        found if sample is None else some(found, sample),
        progress=None if json else lambda line: typer.echo(f"{perf_counter() - start:6.0f} s  {line}", err=True),
    )
    typer.echo(mutants_json(report) if json else mutants_text(report), nl=False)
    if write is not None:
        if not report.finished:
            typer.echo(f"kvpoll: cut short, so {write} was not written", err=True)
            return report.status
        try:
            write.write_text(mutants_page(report), encoding="utf-8")
        except OSError as error:
            raise typer.BadParameter(f"cannot write {write}: {error.strerror}", param_hint="--write") from None
    return report.status
