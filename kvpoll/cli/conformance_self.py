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
    most: Annotated[int, typer.Option(help="Cases that are tried for one row and transport.", min=1)] = 200,
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


def coverage(
    walls: Annotated[bool, typer.Option("--walls", help="Name the second walls, too.")] = False,
) -> None:
    """How many rows of the tables, and pairs of neighbouring rows, the cases fire in the reference."""
    from kvpoll.model_tests.conformance.cases import all_cases
    from kvpoll.model_tests.conformance.cases.paths import read_paths
    from kvpoll.model_tests.conformance.explore import covered
    from kvpoll.model_tests.conformance.rows import standings

    found = covered([each.lines() for each in all_cases() if "mover_corrupts" not in each.needs], everywhere=True)
    every = standings(found.rows)
    for each in every:
        told = f"{each.fired} of {each.reachable} rows that a session can reach"
        typer.echo(f"{each.table}: {told}; {len(each.walls)} second walls (model_tests/coverage.py says why)")
        for name in each.missing:
            typer.echo(f"  missing: {name}")
        for name, why in each.walls.items() if walls else ():
            typer.echo(f"  wall: {name}: {why}")
    searched = {pair for name in ("paths", "more") for path in read_paths(name) for pair in path.pairs}
    typer.echo(f"{len(found.pairs)} pairs of neighbouring rows")
    typer.echo(f"{len(searched & found.pairs)} of the {len(searched)} pairs that the searches found")
    raise typer.Exit(1 if any(each.missing for each in every) else 0)


def explore(
    output: Annotated[Path, typer.Option(help="The file of paths to write.")],
    most: Annotated[int, typer.Option(help="Scripts that are tried.", min=100)] = 45_000,
    keep: Annotated[int, typer.Option(help="Paths that are kept at most.", min=1)] = 400,
    more: Annotated[
        bool,
        typer.Option("--more", help="With what came later as disturbances, beyond what other cases fire: more.json."),
    ] = False,
) -> None:
    """Search the graph of what public calls can do, and write the paths that the suite is made of."""
    import msgspec

    from kvpoll.model_tests.conformance.explore import found_more, found_paths

    paths = (found_more if more else found_paths)(most, keep)
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
