"""Each row of the tables fires in some world, or stands in KNOWN_IDLE with the reason why none of these worlds reaches it.

A row that nothing fires is a claim that nothing tests. The searches are cut short: this is about reach, not about proof.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kvpoll.model_tests.coverage import (
    KNOWN_IDLE,
    REACH,
    RowReport,
    Standing,
    fired_by,
    judge_rows,
    row_name,
    stale,
)
from kvpoll.model_tests.explorer import explore
from kvpoll.model_tests.pair import PairWorld
from kvpoll.model_tests.setting import Setting
from kvpoll.model_tests.tables import RULES, watch
from kvpoll.model_tests.verdicts import WorldReport
from kvpoll.spec.table import Verdict

pytestmark = pytest.mark.timeout(300)  # one fixture does all the work


@pytest.fixture(scope="module")
def rows(searched: Callable[[str], WorldReport]) -> list[RowReport]:
    reports = [searched(world.name) for world in REACH]
    assert [report.reason for report in reports if report.result.violation is not None] == []
    return judge_rows((report.world.name, report.fired) for report in reports)


def test_every_row_fires_or_is_known_not_to(rows: list[RowReport]) -> None:
    assert [f"{row_name(r.table, r.row)}: {r.why}" for r in rows if r.standing is Standing.UNCOVERED] == []


def test_what_is_known_not_to_fire_does_not(rows: list[RowReport]) -> None:
    assert stale(rows) == []


def test_no_row_fires_that_its_table_calls_impossible(rows: list[RowReport]) -> None:
    assert [row_name(r.table, r.row) for r in rows if r.standing is Standing.ALIVE] == []


def test_every_row_of_every_table_is_judged(rows: list[RowReport]) -> None:
    assert [(r.table, r.row) for r in rows] == [(n, row) for n, rules in RULES.items() for row in rules.table.rows]
    assert {r.standing for r in rows if r.row.verdict is Verdict.NEVER} == {Standing.DEAD}


def test_without_a_world_nothing_fires_and_what_nobody_explains_is_uncovered(monkeypatch: pytest.MonkeyPatch) -> None:
    for why in list(KNOWN_IDLE):
        monkeypatch.delitem(KNOWN_IDLE, why)
    standings = {r.standing for r in judge_rows([])}
    assert standings == {Standing.UNCOVERED, Standing.REFUSES, Standing.DEAD}
    assert any(r.bad for r in judge_rows([]))


def test_a_name_that_fits_no_row_is_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KNOWN_IDLE, "nobody knows", "sender Nowhere SEND")
    assert "sender Nowhere SEND" in stale(judge_rows([]))


def test_a_row_is_credited_to_the_world_that_fired_it() -> None:
    with watch() as seen:
        explore(PairWorld(Setting(True, eager=True)), 500)
        fired = fired_by(seen)
    assert {r.why for r in judge_rows([("small", fired)]) if r.standing is Standing.FIRED} == {"in small"}
