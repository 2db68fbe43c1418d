"""The suite, held to what it asks of others: ``kvpoll conformance mutants``, ``coverage``, ``explore`` and ``marks``."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer

__all__ = ["coverage", "explore", "marks", "mutants"]


def mutants(
    sample: Annotated[
        int | None, typer.Option(help="Only so many wrong rows, spread evenly.", min=1, show_default=False)
    ] = None,
    most: Annotated[int, typer.Option(help="Cases that are tried for one row and transport.", min=1)] = 60,
    at_least: Annotated[float, typer.Option(help="Exit status 1 below this kill rate, in percent.")] = 95.0,
    verbose: Annotated[bool, typer.Option("--verbose", help="Say of every mutant what became of it.")] = False,
) -> None:
    """Does the suite find wrong engines? Seeded mutants of the reference through the public plug, and the kill rate."""
    from kvpoll.model_tests.conformance.mutation import Fate, Gate, rate, summary, wrong_engines

    start = perf_counter()
    gate = Gate(most)
    gate.prepare(progress=lambda line: typer.echo(f"{perf_counter() - start:6.0f} s  {line}", err=True))
    rows = gate.run(much=sample, progress=lambda line: typer.echo(f"{perf_counter() - start:6.0f} s  {line}", err=True))
    engines = wrong_engines()
    for each in (*rows, *engines):
        if verbose or each.fate is Fate.SURVIVED:
            typer.echo(f"{each.fate.value:<10}  {each.name}{each.case and '  in '}{each.case}  {each.reason}".rstrip())
    typer.echo(f"wrong rows: {summary(rows)}")
    typer.echo(f"wrong engines: {summary(engines)}")
    worst = min(rate(rows), rate(engines))
    raise typer.Exit(0 if worst * 100 >= at_least else 1)


def coverage() -> None:
    """How many rows of the tables, and pairs of neighbouring rows, the cases fire in the reference."""
    from kvpoll.model_tests.conformance.cases import all_cases
    from kvpoll.model_tests.conformance.cases.paths import read_paths
    from kvpoll.model_tests.conformance.explore import covered, reachable_rows

    found = covered([each.lines() for each in all_cases() if "mover_corrupts" not in each.needs])
    could = reachable_rows()
    for table in ("sender", "receiver", "link"):
        mine = [row for row in could if row.startswith(f"{table} ")]
        typer.echo(f"{table}: {len(found.rows & set(mine))} of {len(mine)} rows that do something")
    searched = {pair for path in read_paths() for pair in path.pairs}
    typer.echo(
        f"{len(found.pairs)} pairs of neighbouring rows; of {len(searched)} that the search found, {len(searched & found.pairs)}"
    )
    typer.echo("The other rows are about gates, aux data, several ranks, draining and shutdown: not behind this plug.")


def explore(
    output: Annotated[Path, typer.Option(help="The file of paths to write.")],
    most: Annotated[int, typer.Option(help="Scripts that are tried.", min=100)] = 45_000,
    keep: Annotated[int, typer.Option(help="Paths that are kept at most.", min=1)] = 400,
) -> None:
    """Search the graph of what public calls can do, and write the paths that the suite is made of."""
    import msgspec

    from kvpoll.model_tests.conformance.explore import found_paths

    paths = found_paths(most, keep)
    output.write_bytes(msgspec.json.format(msgspec.json.encode(paths), indent=1) + b"\n")
    rows, pairs = sum(len(path.rows) for path in paths), sum(len(path.pairs) for path in paths)
    typer.echo(f"written: {output}, {len(paths)} paths for {rows} rows and {pairs} pairs of rows")


def marks() -> None:
    """How long the suite takes on the reference, in seconds and as ratios to a bare start of pytest."""
    import subprocess
    import sys
    import tempfile

    from kvpoll.model_tests.conformance.cases import all_cases
    from kvpoll.model_tests.conformance.process import ProcessAdapter
    from kvpoll.model_tests.conformance.reference import make
    from kvpoll.model_tests.conformance.run import must, run_suite

    with tempfile.TemporaryDirectory() as empty:
        started = perf_counter()
        subprocess.run([sys.executable, "-m", "pytest", "-q", empty], capture_output=True, check=False)
        bare = perf_counter() - started
    typer.echo(f"bare pytest start-up: {bare:.2f} s")
    host = [
        sys.executable,
        "-m",
        "kvpoll.model_tests.conformance.host",
        "kvpoll.model_tests.conformance.reference:make",
    ]
    for name, cases in (("MUST", must(all_cases())), ("everything", list(all_cases()))):
        for where, maker in (("in this process", make), ("in a process of its own", lambda: ProcessAdapter(host))):
            seconds = run_suite(maker, cases, traces=False).seconds
            typer.echo(f"{name}, {len(cases)} cases, {where}: {seconds:.1f} s, {seconds / bare:.1f} starts of pytest")
