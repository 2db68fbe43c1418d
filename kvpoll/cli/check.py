"""``kvpoll check``: search worlds exhaustively, and say which invariants hold in them and within which budgets."""

from __future__ import annotations

from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from kvpoll.model_tests.counterexample import Counterexample
    from kvpoll.model_tests.verdicts import Report
    from kvpoll.model_tests.worlds import NamedWorld

__all__ = ["Form", "check"]


class Form(StrEnum):
    """How to write a counterexample."""

    TEXT = "text"
    MERMAID = "mermaid"
    JSON = "json"
    PYTEST = "pytest"


_BREAK = "Break one row first, to see it found: 'sender Transferring PEER_FAILED ignore'. Also forget, to=STATE, without=EFFECT."


def check(
    worlds: Annotated[
        list[str] | None,
        typer.Argument(help="Names of worlds, or patterns such as 'push-*'; the CI selection if left out."),
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="Only list the worlds.")] = False,
    deep: Annotated[bool, typer.Option("--deep", help="Those that need minutes, too.")] = False,
    limit: Annotated[int | None, typer.Option(help="Give up a world after so many states.", min=1)] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
    format: Annotated[
        Form, typer.Option(help="How to write the shortest counterexample, if there is one.")
    ] = Form.TEXT,
    out: Annotated[
        Path | None, typer.Option(help="A file for it; it is printed if left out.", dir_okay=False, writable=True)
    ] = None,
    break_: Annotated[str, typer.Option("--break", help=_BREAK)] = "",
    mutants: Annotated[
        bool, typer.Option("--mutants", help="Break every row in every way, and see what finds it.")
    ] = False,
    table: Annotated[str, typer.Option(help="With --mutants: only this table.")] = "",
    sample: Annotated[int | None, typer.Option(help="With --mutants: so many of them, spread evenly.", min=1)] = None,
    write: Annotated[
        Path | None, typer.Option(help="With --mutants: write docs/mutants.md here.", dir_okay=False, writable=True)
    ] = None,
) -> None:
    """Prove the invariants by exploring the very objects that the runtime runs.

    Ends with 0 when everything is PROVED, 1 when something is REFUTED (or vacuous, or a row is uncovered), 2 when it cannot
    check, 3 when it is UNDETERMINED: cut short, by a limit or by Ctrl-C. The results so far are printed all the same. With
    --mutants it ends with 1 when a mutant survives, 3 when what became of one is not known.
    """
    if mutants:
        from .mutants import check_mutants

        raise typer.Exit(check_mutants(table, sample, json, write))
    from kvpoll.model_tests.breaking import broken
    from kvpoll.model_tests.report import list_text, report_json, report_text

    chosen = _choose(worlds or [], deep)
    if list_:
        typer.echo(list_text(chosen), nl=False)
        return
    if break_:
        try:
            broken(break_)
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="--break") from None
    try:
        from rich.console import Console
    except ImportError:
        typer.echo("kvpoll: check needs rich; install it with: pip install 'kvpoll[cli]'", err=True)
        raise typer.Exit(2) from None
    report = _run(chosen, not worlds, limit, break_, Console(stderr=json, highlight=False, soft_wrap=True), not json)
    typer.echo(report_json(report) if json else report_text(report), nl=False)
    found = [w.counterexample for w in (*report.worlds, *report.reach) if w.counterexample is not None]
    if found:
        _write(min(found, key=lambda each: len(each.steps)), format, out, quiet=json)
    raise typer.Exit(report.exit_code)


def _choose(names: list[str], deep: bool) -> list[NamedWorld]:
    """The worlds meant. A name that is written out is meant even if it is deep; a pattern means what ``--deep`` allows."""
    from kvpoll.model_tests.check import selection
    from kvpoll.model_tests.worlds import WORLDS

    if not names:
        return selection(deep)
    chosen: dict[str, NamedWorld] = {}
    for name in names:
        found = [WORLDS[name]] if name in WORLDS else [w for w in selection(deep) if fnmatchcase(w.name, name)]
        if not found:
            raise typer.BadParameter(f"{name!r} is no world; kvpoll check --list shows them", param_hint="WORLDS")
        chosen |= {w.name: w for w in found}
    return list(chosen.values())


def _run(chosen: list[NamedWorld], whole: bool, limit: int | None, mutant: str, console: Console, told: bool) -> Report:
    """Check with a line for each world, and on a terminal with how far the search is."""
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    from kvpoll.model_tests import check as checks
    from kvpoll.model_tests import explorer
    from kvpoll.model_tests.report import world_line
    from kvpoll.model_tests.verdicts import WorldReport

    width = max(len(world.name) for world in chosen)
    text = TextColumn("{task.description}  {task.fields[states]:,} states, {task.fields[frontier]:,} to go")
    live = Progress(SpinnerColumn(), text, TimeElapsedColumn(), console=console, transient=True)
    task = live.add_task("", total=None, states=0, frontier=0)

    def begin(world: NamedWorld) -> None:
        live.reset(task, description=world.name, states=0, frontier=0)

    def progress(far: explorer.Progress) -> None:
        live.update(task, states=far.states, frontier=far.frontier)

    def done(report: WorldReport) -> None:
        if told and not (report.partial and report.result.violation is None):
            console.print(world_line(report, width), markup=False)

    live.disable = not console.is_terminal
    with live:
        return checks.check(chosen, whole=whole, limit=limit, mutant=mutant, begin=begin, progress=progress, done=done)


def _write(found: Counterexample, form: Form, out: Path | None, quiet: bool) -> None:
    from kvpoll.model_tests.counterexample import to_json, to_text
    from kvpoll.model_tests.diagrams import to_mermaid, to_pytest

    forms = {Form.TEXT: to_text, Form.MERMAID: to_mermaid, Form.JSON: to_json, Form.PYTEST: to_pytest}
    text = forms[form](found)
    if out is None:
        if not quiet:
            typer.echo(f"\n{text}", nl=False)
        return
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise typer.BadParameter(f"cannot write {out}: {error.strerror}", param_hint="--out") from None
