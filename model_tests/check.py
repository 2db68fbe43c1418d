"""Check worlds: search them one after the other, watch the rows, and judge."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import nullcontext, suppress
from time import perf_counter

from .breaking import broken
from .counterexample import tell
from .coverage import REACH, fired_by
from .explorer import Progress, explore
from .named import NamedWorld
from .tables import instead, watch
from .verdicts import Report, Verdict, WorldReport
from .worlds import WORLDS

__all__ = ["check", "check_world", "selection"]


def selection(deep: bool = False) -> list[NamedWorld]:
    """What CI checks, and with ``deep`` what it has no time for."""
    return [world for world in WORLDS.values() if deep or not world.deep]


def check_world(
    world: NamedWorld,
    *,
    limit: int | None = None,
    mutant: str = "",
    partial: bool = False,
    progress: Callable[[Progress], None] | None = None,
    stop: Callable[[], bool] | None = None,
) -> WorldReport:
    """Search one world, with a counterexample if there is one. ``limit`` replaces the world's own; ``mutant`` breaks a row
    for this search, in the words of :mod:`.breaking`. Raises ``ValueError`` for words that name no row."""
    with instead(broken(mutant)) if mutant else nullcontext(), watch() as rows:
        start, made = perf_counter(), world.make()
        result = explore(made, world.limit if limit is None else limit, progress=progress, stop=stop)
        seconds = perf_counter() - start
        found = None if result.violation is None else tell(world.name, made, result, mutant)
        return WorldReport(world, result, seconds, fired_by(rows), found, partial)


def check(
    worlds: Iterable[NamedWorld],
    *,
    whole: bool = False,
    limit: int | None = None,
    mutant: str = "",
    begin: Callable[[NamedWorld], None] | None = None,
    progress: Callable[[Progress], None] | None = None,
    stop: Callable[[], bool] | None = None,
    done: Callable[[WorldReport], None] | None = None,
) -> Report:
    """Search ``worlds`` in order. ``whole``: they are a selection of which rows and situations are judged, too; for that
    the worlds of :data:`.coverage.REACH` are searched in part. A ``mutant`` ends the check where it is refuted first.

    ``begin`` and ``done`` are called before and after each world. What is interrupted (``stop``, or Ctrl-C) ends the check;
    the report has what was found so far.
    """
    whole = whole and not mutant
    report, todo = Report(whole, mutant), [(world, False) for world in worlds]
    todo += [(world, True) for world in REACH] if whole else []
    with suppress(KeyboardInterrupt):  # in a search it is the search that ends
        while todo:
            world, partial = todo[0]
            if begin is not None:
                begin(world)
            found = check_world(
                world, limit=None if partial else limit, mutant=mutant, partial=partial, progress=progress, stop=stop
            )
            (report.reach if partial else report.worlds).append(found)
            cut = found.result.stopped in ("interrupted", "asked to")
            if not (cut and partial):
                todo.pop(0)
            if done is not None:
                done(found)
            if cut or (mutant and found.verdict is Verdict.REFUTED):
                break
    report.unsearched = [world for world, partial in todo if not mutant]
    return report
