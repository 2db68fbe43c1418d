"""``kvpoll docs``: the pages and blocks of the documentation that are made from the tables, so that they cannot lie.

To add a page, put it into ``GENERATED``: its path from the repository's root, and the function that makes its text. To
add a block inside a page that people write, put it into ``BLOCKS`` and its page into ``PAGES``; in the page it stands
between ``<!-- generated: NAME -->`` and ``<!-- end -->``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from kvpoll.protocol.evolution.history_page import history_page
from kvpoll.protocol.evolution.rules_page import rules_page
from kvpoll.protocol.render import Format, render, render_support
from kvpoll.protocol.render.markdown import grid
from kvpoll.protocol.wire_doc import wire_markdown
from kvpoll.spec import CATALOGUE, TABLES, CauseEntry, Table
from kvpoll.spec.case_sources import SOURCES
from kvpoll.spec.cases import CASES, Case
from kvpoll.spec.hazard_tests import HELD, OUTSIDE
from kvpoll.spec.hazards import HAZARDS
from kvpoll.spec.table import Verdict

from .export import MODELS
from .knobs import KNOBS

__all__ = ["BLOCKS", "GENERATED", "PAGES", "docs", "fill", "stale"]

_MADE_BY = "<!-- Made by `kvpoll docs --write` (or `make docs`) from the tables in spec/. Do not edit. -->\n\n"
_OPEN, _CLOSE, _END = "<!-- generated: ", " -->", "<!-- end -->"


def docs(
    write: Annotated[bool, typer.Option("--write", help="Write what is missing or out of date.")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Only say what is out of date; exit 1 if anything is.")
    ] = False,
    root: Annotated[Path, typer.Option(help="The root of a checkout.", file_okay=False, exists=True)] = Path(),
) -> None:
    """Make the generated documentation, or check that it is up to date."""
    if write == check:
        raise typer.BadParameter("give either --write or --check", param_hint="--write / --check")
    if not (root / "spec" / "table.py").is_file():
        raise typer.BadParameter(f"{root.resolve()} is not a checkout of kvpoll", param_hint="--root")
    try:
        found = stale(root)
    except ValueError as error:
        typer.echo(f"kvpoll: {error}", err=True)
        raise typer.Exit(1) from None
    for path, text in found.items():
        if write:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text, encoding="utf-8")
        typer.echo(f"{'written' if write else 'out of date'}: {path}")
    if check and found:
        typer.echo("run: kvpoll docs --write", err=True)
        raise typer.Exit(1)


def stale(root: Path) -> dict[str, str]:
    """Path -> text as it should be, for each file that is missing or differs. Raises ``ValueError`` for a page whose
    block is not closed or has a name that nothing makes."""
    wanted = {path: make() for path, make in GENERATED.items()}
    for page in PAGES:
        if (root / page).is_file():
            try:
                wanted[page] = fill((root / page).read_text(encoding="utf-8"), BLOCKS)
            except ValueError as error:
                raise ValueError(f"{page}: {error}") from None
    return {path: text for path, text in wanted.items() if _read(root / path) != text}


def fill(page: str, blocks: Mapping[str, Callable[[], str]]) -> str:
    """The page with the text between each pair of marks made anew; everything outside the marks is kept. Raises
    ``ValueError`` for a block that is not closed or that nothing makes."""
    before, *rest = page.split(_OPEN)
    parts = [before]
    for piece in rest:
        name, closed, body = piece.partition(_CLOSE)
        _, ended, after = body.partition(_END)
        if name not in blocks:
            raise ValueError(f"nothing makes the block {name.splitlines()[0]!r}; there are {', '.join(blocks)}")
        if not closed or not ended:
            raise ValueError(f"the block {name!r} is not closed by {_END}")
        parts.append(f"{_OPEN}{name}{_CLOSE}\n{blocks[name]()}{_END}{after}")
    return "".join(parts)


def _read(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.is_file() else None


def _diagram(table: Table) -> str:
    return f"```mermaid\n{render(table, Format.MERMAID)}```\n"


def _machine_page(table: Table) -> str:
    title, about, rest = render(table, Format.MARKDOWN).split("\n\n", 2)
    return f"{_MADE_BY}{title}\n\n{about}\n\n{_diagram(table)}\n{rest}"


def _failures_page() -> str:
    head = ("number", "cause", "found by", "the peer hears", "retry", "status", "details", "meaning")
    return (
        f"{_MADE_BY}# Failures\n\n"
        "Every way a room, a lease or a link can fail. The number goes over the wire and is never reused.\n"
        "*retry* is for the router: yes is safe, no cannot help, unknown means that the receiver may have succeeded.\n"
        "A failure in doubt says unknown whatever stands here. *status* is the HTTP status for the client.\n\n"
        f"{grid(head, [_cause_cells(e) for e in CATALOGUE.values()])}\n\n"
        "## Where they come from\n\n"
        "The rows of the tables that fail a room, by cause. A cause that is not listed is given by the code around\n"
        "the tables: before a room has a machine, or when a row that cannot happen did.\n\n"
        f"{grid(('cause', 'table', 'state', 'event'), _origins())}\n"
    )


def _hazards_page() -> str:
    rows = [(h.id, h.what, h.by, h.why, _held(h.id)) for h in HAZARDS]
    return (
        f"{_MADE_BY}# Hazards\n\n"
        "What went wrong in real engines, what stands against it here, why that is enough, and the tests that hold it. `Q` are\n"
        "SGLang's, `J` those of two JAX systems.\n\n"
        f"{grid(('id', 'what happened', 'what stands against it', 'why', 'held by'), rows)}\n"
    )


def _held(hazard: str) -> str:
    return _sentences(HELD[hazard]) if hazard in HELD else f"Outside: {OUTSIDE[hazard]}"


def cases_markdown() -> str:
    """The page of cases: what went wrong in real engines, and which tests replay it here."""
    rows = [(_reported(c.id), c.title, f"`{c.property}`" if c.property else "", _became(c)) for c in CASES]
    replayed = sum(bool(c.by) for c in CASES)
    others = (
        ""
        if replayed == len(CASES)
        else "The others are outside what this package does, for the reason that is given.\n"
    )
    return (
        f"{_MADE_BY}# Cases\n\n"
        "Failures that public trackers report of real engines. The tests named here, in `tests/cases/`, replay them step by\n"
        f"step: {replayed} of {len(CASES)}. The property is what rules a case out.\n{others}\n"
        f"{grid(('id', 'what went wrong', 'property', 'replayed by, or outside because'), rows)}\n"
    )


def _reported(case: str) -> str:
    repository, _, number = SOURCES[case].partition("#")
    return f"[{case}](https://github.com/{repository}/issues/{number})"


def _became(case: Case) -> str:
    """What became of a case: the tests that replay it, as the sentences that their names are, or why there are none."""
    if not case.by:
        return f"Outside: {case.outside}"
    return _sentences(case.by)


def _sentences(tests: tuple[str, ...]) -> str:
    """Tests as the sentences that their names are, each with its file."""
    names = (test.partition("::test_") for test in tests)
    return "<br>".join(f"{name.replace('_', ' ')} (`{file.rpartition('/')[2]}`)" for file, _, name in names)


def _cause_cells(entry: CauseEntry) -> tuple[str, ...]:
    return (
        str(entry.cause.value),
        f"`{entry.cause.name}`",
        entry.side.value,
        f"`{entry.told.name}`" if entry.told is not None else "nothing",
        entry.retry.value,
        str(entry.status),
        ", ".join(f"`{d}`" for d in entry.details),
        entry.text,
    )


def _origins() -> list[tuple[str, ...]]:
    """One line for each (cause, table, event), its states joined."""
    states: dict[tuple[int, str, str], list[str]] = {}
    for table in TABLES.values():
        for row in table.rows:
            if row.cause is not None and row.verdict is Verdict.FAIL:
                names = states.setdefault((row.cause.value, table.name, row.event.name), [])
                names += [row.state.name] if row.state.name not in names else []
    causes = {c.value: c.name for c in CATALOGUE}
    return [
        (f"`{causes[c]}`", t, ", ".join(names), f"`{e}`") for (c, t, e), names in sorted(states.items(), key=_number)
    ]


def _number(item: tuple[tuple[int, str, str], list[str]]) -> int:
    return item[0][0]


#: Whole files that are made: path from the root -> how.
GENERATED: dict[str, Callable[[], str]] = {
    **{f"docs/tables/{name}.md": partial(_machine_page, table) for name, table in TABLES.items()},
    "docs/cases.md": cases_markdown,
    **MODELS,
    "docs/failures.md": _failures_page,
    "docs/hazards.md": _hazards_page,
    "docs/schema-rules.md": rules_page,
    "docs/slot-history.md": history_page,
    "docs/support.md": lambda: _MADE_BY + render_support(Format.MARKDOWN),
    "docs/wire.md": wire_markdown,
}

#: Blocks that are made inside pages that people write: name -> how; the text ends with a newline.
BLOCKS: dict[str, Callable[[], str]] = {
    **{f"{name}-diagram": partial(_diagram, table) for name, table in TABLES.items()},
    **KNOBS,
}

#: Pages that have such blocks.
PAGES: list[str] = ["README.md", "docs/operations.md"]
