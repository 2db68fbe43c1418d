"""The list of commands. To add one: write a module here, and a line in ``COMMANDS`` or ``GROUPS``.

Every module of this folder is imported at the start, so that ``--help`` is complete; therefore it imports only typer,
``kvpoll.spec`` and ``kvpoll.protocol`` at its top, and what is heavy (jax, zmq, HTTP, the runtime) inside the function
that needs it. A test holds it to that.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from typing import Annotated

import typer

from .bootstrap import bootstrap
from .check import check
from .conformance import conformance
from .demo import demo
from .docs import docs
from .export import export
from .schema import schema
from .simulate import simulate
from .tables import tables
from .trace import trace

__all__ = ["COMMANDS", "GROUPS", "cli", "run"]

#: Single commands, in the order that ``kvpoll --help`` shows.
COMMANDS: dict[str, Callable[..., None]] = {
    "demo": demo,
    "bootstrap": bootstrap,
    "tables": tables,
    "check": check,
    "simulate": simulate,
    "docs": docs,
}

#: Commands that have commands of their own (``kvpoll NAME SUB``).
GROUPS: dict[str, typer.Typer] = {"schema": schema, "trace": trace, "conformance": conformance, "export": export}

cli = typer.Typer(name="kvpoll", no_args_is_help=True, add_completion=False)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"kvpoll {version('kvpoll')}")
        raise typer.Exit


@cli.callback()
def _root(
    show: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """The prefill-to-decode KV-cache hand-off protocol, formally modelled."""


for _name, _command in COMMANDS.items():
    cli.command(_name)(_command)
for _name, _group in GROUPS.items():
    cli.add_typer(_group, name=_name)


def run() -> None:
    """Run the command named by ``sys.argv`` and leave the process with its exit status."""
    cli()
