"""``kvpoll tables``: the five machines as text, Markdown, Mermaid, Graphviz dot or JSON, and the support matrix."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kvpoll.protocol.render import Format, render, render_support
from kvpoll.spec import TABLES

__all__ = ["SUPPORT", "join", "tables"]

#: The name of the support matrix, which is no machine.
SUPPORT = "support"


def tables(
    name: Annotated[
        str | None,
        typer.Argument(help=f"One of {', '.join(TABLES)}, all of them if left out; or {SUPPORT}: what may meet what."),
    ] = None,
    format: Annotated[Format, typer.Option(help="How to write it.")] = Format.TEXT,
    output: Annotated[
        Path | None, typer.Option(help="A file to write instead of the terminal.", dir_okay=False)
    ] = None,
) -> None:
    """Print the transition tables, or the support matrix."""
    if name is not None and name not in (*TABLES, SUPPORT):
        raise typer.BadParameter(f"{name!r} is no table; there are {', '.join((*TABLES, SUPPORT))}", param_hint="NAME")
    if name == SUPPORT:
        try:
            text = render_support(format)
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="--format") from None
    else:
        text = join([render(t, format) for t in ([TABLES[name]] if name is not None else TABLES.values())], format)
    if output is None:
        typer.echo(text, nl=False)
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise typer.BadParameter(f"cannot write {output}: {error.strerror}", param_hint="--output") from None


def join(parts: list[str], format: Format) -> str:
    """Several tables as one text. JSON stays JSON: one table is an object, several are a list."""
    if format is Format.JSON and len(parts) > 1:
        return "[\n" + ",\n".join(p.rstrip("\n") for p in parts) + "\n]\n"
    return "\n".join(parts)
