"""``kvpoll conformance``: does an engine's hand-off hold?

Exit status of ``run`` and ``trace``: 0 nothing is wrong, 1 something is, 2 it could not be found out. ``report`` and ``merge``
live in :mod:`.conformance_report`.
"""

from __future__ import annotations

import sys
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .conformance_report import merge, report
from .conformance_self import coverage, explore, marks, mutants

if TYPE_CHECKING:
    from kvpoll.model_tests.conformance.case import Case
    from kvpoll.model_tests.conformance.plug import Make
    from kvpoll.model_tests.conformance.result import CaseResult, Result

__all__ = ["conformance"]

conformance = typer.Typer(
    no_args_is_help=True, help="Hold an engine's hand-off to the requirements, through a small plug."
)

_REFERENCE = "kvpoll.model_tests.conformance.reference:make"
_ONLY = Annotated[
    list[str] | None,
    typer.Option("--run", help="Only cases like this: * is one part, ** many. Again for more.", show_default=False),
]
_SKIP = Annotated[list[str] | None, typer.Option("--skip", help="Not cases like this.", show_default=False)]
_LEVEL = Annotated[str, typer.Option(help="must: only cases that are about a MUST; all.")]
_SAMPLE = Annotated[
    int | None, typer.Option("--sample", help="At most so many cases of each subject.", min=1, show_default=False)
]
_OUT = Annotated[
    Path | None, typer.Option("--output", help="Write the result, as JSON, to this file.", show_default=False)
]


@conformance.command()
def run(
    impl: Annotated[str, typer.Option(help="The import plug: module:make or file.py:make.")] = _REFERENCE,
    process: Annotated[
        str | None, typer.Option(help="The process plug: a command line that speaks JSON lines.", show_default=False)
    ] = None,
    run: _ONLY = None,
    skip: _SKIP = None,
    level: _LEVEL = "all",
    sample: _SAMPLE = None,
    profile: Annotated[
        str | None,
        typer.Option(
            help="Judge this profile only: common or kvpoll. Left out: what the plug claims.", show_default=False
        ),
    ] = None,
    known_failing: Annotated[Path | None, typer.Option(help="Your file of known failures.", show_default=False)] = None,
    repeat: Annotated[
        int, typer.Option(help="Run each case so often; what does not always end alike is flaky.", min=1)
    ] = 1,
    timeout: Annotated[float, typer.Option(help="Seconds that a call may take.", min=0.1)] = 10.0,
    in_process: Annotated[
        bool, typer.Option("--in-process", help="Import the plug here: faster to debug, and a crash ends everything.")
    ] = False,
    traces: Annotated[str, typer.Option(help="all or none: keep what every case did, in the result.")] = "all",
    output: _OUT = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="Say every case.")] = False,
) -> None:
    """Run the suite. Without --impl and --process: against kvpoll's own reference."""
    from kvpoll.model_tests.conformance.calls import Gone
    from kvpoll.model_tests.conformance.cases import all_cases
    from kvpoll.model_tests.conformance.known import Known, KnownError
    from kvpoll.model_tests.conformance.load import LoadError
    from kvpoll.model_tests.conformance.run import run_suite

    try:
        make = _make(impl, process, timeout, in_process)
        known = None if known_failing is None else Known(known_failing.read_text(encoding="utf-8"), str(known_failing))
        cases = _selected(run, skip, level, sample)
        profiles = None if profile is None else frozenset({profile, "common"})
        result = run_suite(
            make, cases, every=[each.id for each in all_cases()], profiles=profiles, known=known, repeat=repeat,
            traces=traces != "none", progress=lambda found: _say(found, verbose), environment={"plug": process or impl},
        )  # fmt: skip
    except Gone as gone:
        raise _cannot(f"the implementation does not start: {gone.reason}") from None
    except (LoadError, KnownError, OSError, ValueError) as error:
        raise _cannot(str(error)) from None
    _finish(result, output)


@conformance.command(name="list")
def list_(
    run: _ONLY = None,
    skip: _SKIP = None,
    level: _LEVEL = "all",
    sample: _SAMPLE = None,
    requirements: Annotated[
        bool, typer.Option("--requirements", help="List requirements instead, with their cases.")
    ] = False,
) -> None:
    """The cases, or the requirements."""
    from collections import Counter

    from kvpoll.spec.requirements import REQUIREMENTS

    try:
        cases = _selected(run, skip, level, sample)
    except ValueError as error:
        raise _cannot(str(error)) from None
    if requirements:
        counts = Counter(id for each in cases for id in each.requirements)
        for wanted in REQUIREMENTS.values():
            typer.echo(
                f"{wanted.id:<13} {wanted.level.value:<6} {wanted.role.value:<7} {counts[wanted.id]:>5}  {wanted.text}"
            )
        return
    wide = max((len(each.id) for each in cases), default=0)
    for each in cases:
        typer.echo(f"{each.id:<{wide}}  {each.level.value:<6}  {each.title}")
    typer.echo(f"{len(cases)} cases", err=True)


@conformance.command()
def explain(name: Annotated[str, typer.Argument(help="A case id, or a requirement id.")]) -> None:
    """What a case does and judges, or what a requirement asks, where it comes from, and which cases judge it."""
    from kvpoll.model_tests.conformance.cases import all_cases, find
    from kvpoll.spec.requirements import REQUIREMENTS, SECTIONS, requirement

    try:
        if name.upper().startswith("KVX-"):
            wanted = requirement(name.upper())
            typer.echo(
                f"{wanted.id} ({wanted.level.value}, {wanted.role.value}, {SECTIONS[wanted.section]})\n\n{wanted.text}\n"
            )
            for title, words in (("Needs", wanted.needs), ("Rows", wanted.rows), ("Invariants", wanted.invariants)):
                if words:
                    typer.echo(f"{title}: {', '.join(words)}")
            cases = [each for each in all_cases() if wanted.id in each.requirements]
            own = [each for each in cases if wanted.id in each.about]
            typer.echo(f"Profile: {wanted.profile}. Judged by {len(cases)} cases, {len(own)} of them written for it.")
            for each in own[:20]:
                typer.echo(f"  {each.id}  {each.title}")
            return
        case = find(name)
    except KeyError as error:
        raise _cannot(str(error.args[0])) from None
    typer.echo(f"{case.id}: {case.title}\n")
    for line in case.lines():
        typer.echo(f"  {line}")
    typer.echo(f"\nNeeds: {', '.join(case.needs) or 'nothing'}. After: {case.prerequisite or 'nothing'}. Judges:")
    for id in case.requirements:
        typer.echo(f"  {id} ({REQUIREMENTS[id].level.value}) {REQUIREMENTS[id].text}")


@conformance.command(name="write-known-failing")
def write_known_failing(
    result: Annotated[Path, typer.Argument(help="What `run --output` wrote.")],
    output: Annotated[Path, typer.Option(help="The file to write.")],
    link: Annotated[str, typer.Option(help="Where it is tracked.")] = "-",
    days: Annotated[int, typer.Option(help="Days until its lines expire.", min=1)] = 90,
) -> None:
    """Write down how every case fails now, so that only what changes is news."""
    from kvpoll.model_tests.conformance.known import lines_for
    from kvpoll.model_tests.conformance.result import ResultError, read_result

    try:
        text = lines_for(read_result(result).cases, link, date.today() + timedelta(days=days))
        output.write_text(text, encoding="utf-8")
    except (ResultError, OSError) as error:
        raise _cannot(str(error)) from None
    typer.echo(f"written: {output}, {text.count(chr(10)) - 1} lines")


@conformance.command()
def prune(
    result: Annotated[Path, typer.Argument(help="What `run --output` wrote.")],
    known_failing: Annotated[Path, typer.Argument(help="Your file of known failures; it is changed.")],
) -> None:
    """Take out the lines that speak for no case, or only for cases that pass."""
    from kvpoll.model_tests.conformance.known import KnownError, pruned
    from kvpoll.model_tests.conformance.result import ResultError, read_result

    try:
        before = known_failing.read_text(encoding="utf-8")
        after = pruned(before, read_result(result).cases)
        known_failing.write_text(after, encoding="utf-8")
    except (ResultError, KnownError, OSError) as error:
        raise _cannot(str(error)) from None
    typer.echo(f"{known_failing}: {len(before.splitlines()) - len(after.splitlines())} lines taken out")


@conformance.command()
def trace(
    files: Annotated[list[Path], typer.Argument(help="Traces of all processes together (JSON lines).")],
    output: _OUT = None,
) -> None:
    """Judge recorded traces, requirement by requirement, with no plug at all."""
    from kvpoll.model_tests.conformance.replay import judge_traces

    try:
        result = judge_traces([(str(file), file.read_bytes()) for file in files])
    except OSError as error:
        raise _cannot(str(error)) from None
    for found in result.cases:
        _say(found, verbose=True)
    _finish(result, output)


for _command in (report, merge, mutants, coverage, explore, marks):
    conformance.command()(_command)


# -- helpers -----------------------------------------------------------------------------------------------------------------
def _make(impl: str, process: str | None, timeout: float, in_process: bool) -> Make:
    """What makes an adapter: in a process of its own, unless a person says otherwise."""
    import shlex

    from kvpoll.model_tests.conformance.load import load
    from kvpoll.model_tests.conformance.process import ProcessAdapter

    if process is None and in_process:
        return load(impl)
    argv = shlex.split(process) if process else [sys.executable, "-m", "kvpoll.model_tests.conformance.host", impl]
    return lambda: ProcessAdapter(argv, timeout)


def _selected(run: list[str] | None, skip: list[str] | None, level: str, most: int | None) -> list[Case]:
    from kvpoll.model_tests.conformance.cases import all_cases
    from kvpoll.model_tests.conformance.known import matcher
    from kvpoll.model_tests.conformance.run import must, sample

    if level not in ("all", "must"):
        raise ValueError(f"--level: expected must or all, got {level!r}")
    only, without = [matcher(each) for each in run or ["**"]], [matcher(each) for each in skip or []]
    found = [
        each
        for each in all_cases()
        if any(m.fullmatch(each.id) for m in only) and not any(m.fullmatch(each.id) for m in without)
    ]
    if not found:
        raise ValueError(f"--run, --skip: no case is like {', '.join(run or ['**'])}")
    found = must(found) if level == "must" else found
    return found if most is None else sample(found, most)


def _say(found: CaseResult, verbose: bool) -> None:
    from kvpoll.model_tests.conformance.result import BAD, Verdict

    if verbose or found.verdict in BAD or found.verdict is Verdict.NON_STRICT:
        typer.echo(f"{found.verdict.value:<13} {found.id}{found.reason and '  '}{found.reason}")


def _finish(result: Result, output: Path | None) -> None:
    from kvpoll.model_tests.conformance.result import write_result

    if output is not None:
        write_result(result, output)
    if result.refused:
        raise _cannot(result.refused)
    for problem in result.problems:
        typer.echo(problem)
    counts = ", ".join(f"{count} {verdict.value}" for verdict, count in result.counts.most_common())
    name = f"{result.implementation.name} {result.implementation.version}".strip()
    typer.echo(f"{name}: {counts} ({len(result.cases)} cases, {result.seconds:.1f} s, profile {result.profile})")
    raise typer.Exit(result.status)


def _cannot(reason: str) -> typer.Exit:
    typer.echo(f"kvpoll conformance: could not find out: {reason}", err=True)
    return typer.Exit(2)
