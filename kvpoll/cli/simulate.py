"""``kvpoll simulate``: whole processes under a simulated network, clock and load; one seed is one run."""

from __future__ import annotations

import json as json_
import sys
from dataclasses import asdict
from typing import Annotated

import typer

__all__ = ["simulate"]

_FAULTS = "Names joined with commas: none, network, memory, rooms, processes, all."


def simulate(
    rooms: Annotated[int, typer.Option(help="Rooms that the router starts.", min=1, max=1_000_000)] = 1_000,
    seed: Annotated[int, typer.Option(help="Of everything; the same seed is the same run.", min=0)] = 0,
    faults: Annotated[str, typer.Option(help=_FAULTS)] = "all",
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Run thousands of rooms through real process cores, with faults, and check every claim about them.

    Ends with 0 when every claim held, 1 when one is violated (the seed reproduces it), 3 when it was interrupted.
    """
    from kvpoll.model_tests.simulation import SimulationViolation, faults_of
    from kvpoll.model_tests.simulation import simulate as run

    try:
        chosen = faults_of(faults)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--faults") from None
    started = 0

    def progress(count: int) -> None:
        nonlocal started
        started = count
        if sys.stderr.isatty():
            typer.echo(f"\r{count} of {rooms} rooms started", nl=False, err=True)

    try:
        summary = run(rooms, seed, chosen, progress=progress)
    except SimulationViolation as violation:
        again = f"kvpoll simulate --rooms {rooms} --seed {seed} --faults {faults}"
        if json:
            told = {
                "violated": violation.invariant,
                "sentence": str(violation),
                "again": again,
                "trace": violation.trace,
            }
            typer.echo(json_.dumps(told, indent=2))
        else:
            _clear()
            typer.echo("\n".join([*violation.trace, f"violated: {violation}", f"again: {again}"]))
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        _clear()
        typer.echo(f"interrupted after {started} of {rooms} rooms: nothing was violated so far, and nothing is claimed")
        raise typer.Exit(3) from None
    _clear()
    typer.echo(json_.dumps(asdict(summary), indent=2) if json else summary.text())


def _clear() -> None:
    if sys.stderr.isatty():
        typer.echo("\r\x1b[K", nl=False, err=True)
