"""``kvpoll export``: declared worlds and tables in the notations of other checkers, and Spin's opinion of a world."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from kvpoll.spec import TABLES

__all__ = ["MODELS", "export"]

export = typer.Typer(
    name="export", no_args_is_help=True, help="Write worlds and tables for other checkers, and compare with Spin."
)

_World = Annotated[str, typer.Argument(help="A declared world; `kvpoll export worlds` lists them.")]
_Out = Annotated[Path | None, typer.Option(help="A file to write instead of the terminal.", dir_okay=False)]


@export.command()
def worlds() -> None:
    """List the declared worlds."""
    from kvpoll.model_tests.declared.catalogue import DEEP, SHAPES

    for name, (about, shape) in {**SHAPES, **DEEP}.items():
        typer.echo(f"{name:12}{about} {shape.faults}{' (only Spin finishes it)' if name in DEEP else ''}")


@export.command()
def promela(world: _World, out: _Out = None) -> None:
    """A declared world as Promela, for Spin."""
    _write(_text("promela", world), out)


@export.command()
def tla(
    name: Annotated[str, typer.Argument(metavar="WORLD|TABLE", help="A declared world, or a table.")], out: _Out = None
) -> None:
    """A declared world, or one table, as a TLA+ module."""
    _write(_text("tla", name), out)


@export.command()
def spin(
    world: _World,
    memory: Annotated[int, typer.Option(help="MB that the search may use.", min=1)] = 2_000,
    seconds: Annotated[float, typer.Option(help="How long the search may take.", min=1)] = 600.0,
) -> None:
    """Check a declared world with our explorer and with Spin, and compare. Exits 0 when both prove it and agree, 1 when they
    differ or one refutes it, 3 when a search was not whole or Spin is missing."""
    from kvpoll.model_tests.declared.catalogue import DEEP
    from kvpoll.model_tests.declared.catalogue import world as declared
    from kvpoll.model_tests.declared.compare import compare
    from kvpoll.model_tests.declared.spin import Limits, SpinVerdict, missing_tools, run_spin

    if missing := missing_tools():
        typer.echo(f"UNDETERMINED: not installed: {', '.join(missing)}", err=True)
        raise typer.Exit(3)
    differences: tuple[str, ...] = ()
    limits = Limits(depth=3_000_000, memory=memory, seconds=seconds, optimise=world in DEEP)
    try:
        if world in DEEP:
            found = run_spin(declared(world), limits)
        else:
            agreement = compare(declared(world), limits)
            found, differences = agreement.spin, agreement.differences
            ours = agreement.ours
            typer.echo(f"kvpoll  {ours.states} states, {ours.edges} edges, {len(agreement.pairs)} control pairs")
    except KeyError as error:
        raise typer.BadParameter(error.args[0], param_hint="WORLD") from None
    typer.echo(
        f"Spin    {found.states} states, {found.edges} edges, {len(found.pairs)} control pairs, {found.verdict.value}; "
        f"built in {found.build_s:.1f} s, searched in {found.search_s:.1f} s, {found.memory_mb:.0f} MB"
    )
    for difference in differences or (f for f in (found.broken, found.why) if f):
        typer.echo(f"differs: {difference}")
    if found.verdict is SpinVerdict.UNDETERMINED:
        raise typer.Exit(3)
    if differences or found.verdict is SpinVerdict.REFUTED:
        raise typer.Exit(1)


def _text(notation: str, name: str) -> str:
    """The one text. Imported late: what makes it is not needed for ``--help``."""
    from kvpoll.model_tests.declared.catalogue import world
    from kvpoll.model_tests.declared.promela import promela
    from kvpoll.model_tests.declared.tla import world_tla
    from kvpoll.model_tests.declared.tla_table import table_tla

    try:
        if notation == "promela":
            return promela(world(name))
        return table_tla(TABLES[name]) if name in TABLES else world_tla(world(name))
    except KeyError as error:
        raise typer.BadParameter(error.args[0], param_hint="WORLD") from None


def _write(text: str, out: Path | None) -> None:
    if out is None:
        typer.echo(text, nl=False)
        return
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise typer.BadParameter(f"cannot write {out}: {error.strerror}", param_hint="--out") from None


#: Exports that are kept in the repository: path from the root -> how. A world of each direction, and the tables.
MODELS: dict[str, Callable[[], str]] = {
    **{f"docs/models/{name}.tla": partial(_text, "tla", name) for name in TABLES},
    "docs/models/abort_loss.tla": partial(_text, "tla", "abort-loss"),
    "docs/models/abort_loss.pml": partial(_text, "promela", "abort-loss"),
    "docs/models/push.pml": partial(_text, "promela", "push"),
}
