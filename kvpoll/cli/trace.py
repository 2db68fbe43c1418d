"""``kvpoll trace``: hold traces to the tables (``check``), and look at them (``show``)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, NoReturn

import typer

if TYPE_CHECKING:
    from kvpoll.protocol.trace import Bad, Verdict
    from kvpoll.protocol.trace.lines import Line
    from kvpoll.protocol.trace.survey import Survey

__all__ = ["trace"]

trace = typer.Typer(no_args_is_help=True, help="Check the traces of processes against the tables, and look at them.")

_PIECE = 1 << 18
#: A longer line is none that kvpoll wrote.
_LINE = 1 << 22
_Files = Annotated[
    list[Path],
    typer.Argument(metavar="FILE...", help="Trace files; a folder stands for its *.jsonl; - is standard input."),
]


@trace.command()
def check(
    files: _Files,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
    all_: Annotated[bool, typer.Option("--all", help="Say more than one bad line (at most 100).")] = False,
) -> None:
    """Is every line possible? Exit status 0: yes; 1: a line is not, and the first one is named with what was legal there;
    2: could not check. Give the files of all processes together: then their ends are compared too."""
    import gc

    from kvpoll.protocol.trace import Checker

    gc.disable()  # a million small values and no cycle worth collecting: half of the time would go there
    checker = Checker()
    for name, pieces in _opened(files):
        checker.file(name)
        number = 1
        for data, last in pieces:
            number = checker.feed(data, number, last)
    verdict = checker.verdict()
    if json:
        import msgspec

        typer.echo(
            msgspec.json.encode({"ok": verdict.status == 0, "status": verdict.status, **_fields(verdict)}).decode()
        )
    else:
        _print(verdict, all_)
    raise typer.Exit(verdict.status)


@trace.command()
def show(
    files: _Files,
    out: Annotated[Path, typer.Option(help="The page to write.", dir_okay=False)] = Path("trace.html"),
    room: Annotated[list[int] | None, typer.Option(help="Only this room (may be given again).", min=0)] = None,
    mermaid: Annotated[
        bool, typer.Option("--mermaid", help="Print Mermaid sequence diagrams instead of writing a page.")
    ] = False,
    limit: Annotated[int, typer.Option(help="Rooms in the page; failed ones come first.", min=1, max=20_000)] = 1000,
) -> None:
    """Draw the rooms as a timeline: one HTML page that needs nothing else. Exit status 2: there is no room to draw."""
    from kvpoll.protocol.trace.sequence import sequence
    from kvpoll.protocol.trace.story import Story
    from kvpoll.protocol.trace.survey import Survey

    if any(str(file) == "-" for file in files):
        raise typer.BadParameter("a page needs two readings: give files", param_hint="FILE")
    survey, skipped = Survey(), 0
    for lines, bad in _lines(files):
        survey.take(lines)
        skipped += bad
    if not survey.rooms:
        _refuse("these files name no room")
    unknown = [number for number in room or () if number not in survey.rooms]
    if unknown:
        _refuse(f"these files name no room {', '.join(map(str, unknown))}")
    story = Story(survey, room or survey.choose(limit))
    for lines, _ in _lines(files):
        story.take(lines)
    rooms = story.rooms()
    if mermaid:
        typer.echo("\n".join(sequence(each) for each in rooms), nl=False)
        return
    from .trace_page import page

    names = [name for name, _ in _opened(files)]
    notes = list(_notes(survey, skipped))
    if len(rooms) < len(survey.rooms):
        chosen = "as asked for" if room else "first those that failed or are not over"
        notes.append(f"{len(rooms):,} of {len(survey.rooms):,} rooms are in this page: {chosen}.")
    try:
        out.write_text(page(survey, rooms, story.began, names, notes), encoding="utf-8")
    except OSError as error:
        _refuse(f"cannot write {out}: {error.strerror}")
    typer.echo(f"{out}: {len(rooms)} of {len(survey.rooms)} rooms")


# -- reading -----------------------------------------------------------------------------------------------------------------
def _opened(files: list[Path]) -> Iterator[tuple[str, Iterator[tuple[bytes, bool]]]]:
    """Each file's name and its pieces. Leaves with status 2 at the first that cannot be read."""
    for file in _expanded(files):
        if str(file) == "-":
            yield "standard input", _pieces(sys.stdin.buffer)
            continue
        try:
            with file.open("rb") as source:
                yield str(file), _pieces(source)
        except OSError as error:
            _refuse(f"cannot read {file}: {error.strerror}")


def _expanded(files: list[Path]) -> Iterator[Path]:
    for file in files:
        if file.is_dir():
            inside = sorted(file.glob("*.jsonl"))
            if not inside:
                _refuse(f"there is no *.jsonl in {file}")
            yield from inside
        else:
            yield file


def _pieces(source: BinaryIO) -> Iterator[tuple[bytes, bool]]:
    """Whole lines, and at the end what is left of one."""
    from kvpoll.protocol.trace import split

    rest = b""
    while piece := source.read(_PIECE):
        whole, rest = split(rest + piece)
        if len(rest) > _LINE:
            _refuse(f"no line ends within {_LINE} bytes: this is no trace")
        if whole:
            yield whole, False
    yield rest, True


def _lines(files: list[Path]) -> Iterator[tuple[list[Line], int]]:
    """What can be decoded, and how many lines cannot."""
    from kvpoll.protocol.trace.lines import TraceError, decode, decode_all

    for _, pieces in _opened(files):
        for data, _last in pieces:
            lines, bad = decode_all(data), 0
            if lines is None:
                lines = []
                for raw in data.splitlines():
                    try:
                        if raw.strip():
                            lines.append(decode(raw))
                    except TraceError:
                        bad += 1
            yield lines, bad


# -- saying --------------------------------------------------------------------------------------------------------------------
def _print(verdict: Verdict, all_: bool) -> None:
    for bad in verdict.bad if all_ else verdict.bad[:1]:
        _print_bad(bad)
    shown = len(verdict.bad) if all_ else min(1, len(verdict.bad))
    if verdict.bad_lines > shown:
        typer.echo(f"and {verdict.bad_lines - shown} more bad lines{'' if all_ else ' (--all says up to 100)'}")
    for note in verdict.notes:
        typer.echo(f"note: {note}")
    typer.echo(
        f"{verdict.lines} lines: {verdict.steps} steps of {verdict.machines} machines in {verdict.rooms} rooms, "
        f"{verdict.messages} messages, {verdict.processes} processes: "
        + ("every line can be" if not verdict.status else "not good" if verdict.status == 1 else "not checked")
    )


def _print_bad(bad: Bad) -> None:
    typer.echo(f"{bad.file}:{bad.line}: {f'{bad.who}: ' if bad.who else ''}{bad.says}")
    for name, texts in (
        ("was at", (bad.at,)),
        ("the line", (bad.got,)),
        ("the table", bad.expected),
        ("legal", bad.legal),
    ):
        for index, text in enumerate(texts):
            if text:
                typer.echo(f"  {name if not index else '':<10} {text}")


def _fields(verdict: Verdict) -> dict[str, object]:
    import msgspec

    return msgspec.structs.asdict(verdict)


def _notes(survey: Survey, skipped: int) -> Iterator[str]:
    if skipped:
        yield f"{skipped} lines could not be read; kvpoll trace check says which."
    if survey.unread:
        yield f"{survey.unread} processes wrote another version of the format; what is drawn of them may be wrong."
    if len({head.clock for head in survey.heads.values()}) > 1:
        yield "The processes have different clocks; their times are put together by the wall clocks of their machines."


def _refuse(sentence: str) -> NoReturn:
    typer.echo(f"kvpoll: {sentence}", err=True)
    raise typer.Exit(2)
