"""Proofs of the real tables and sessions: every named world is searched to its end, and ends as it must.

A proof is a search that saw everything. What ends a world may have is written out: an end that is missing would make the
proof vacuous, one that is too many would be a surprise.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kvpoll.model_tests.check import selection
from kvpoll.model_tests.counterexample import to_text
from kvpoll.model_tests.coverage import REACH
from kvpoll.model_tests.verdicts import Report, Verdict, WorldReport
from kvpoll.model_tests.worlds import WORLDS

Searched = Callable[[str], WorldReport]
QUICK = [world.name for world in selection()]


def explain(report: WorldReport) -> str:
    told = "" if report.counterexample is None else f"\n{to_text(report.counterexample)}"
    return f"{report.world.name}: {report.reason}{told}"


@pytest.mark.parametrize("name", QUICK)
def test_it_holds(name: str, searched: Searched) -> None:
    report = searched(name)
    assert report.verdict is Verdict.PROVED, explain(report)


@pytest.mark.deep
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", [name for name, world in WORLDS.items() if world.deep])
def test_it_holds_in_large_worlds_too(name: str, searched: Searched) -> None:
    report = searched(name)
    assert report.verdict is Verdict.PROVED, explain(report)


@pytest.mark.timeout(600)  # it searches what nobody asked for before
def test_no_invariant_is_vacuous_and_every_row_is_accounted_for(searched: Searched) -> None:
    report = Report(True)
    report.worlds = [searched(name) for name in QUICK]
    report.reach = [searched(world.name) for world in REACH]
    assert (report.failures, report.verdict) == ([], Verdict.PROVED)


def test_names_are_slugs_and_each_world_says_what_is_in_it() -> None:
    for name, world in WORLDS.items():
        assert name == world.name == "-".join(name.lower().split())
        assert world.about.endswith(".")
        assert world.ends
        assert world.faults
