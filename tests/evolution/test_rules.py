"""Every rule on every fixture: it speaks where it should, nowhere else without being told, and shows what goes wrong."""

from __future__ import annotations

import re

import pytest
from msgspec.structs import replace

from kvpoll.protocol.evolution.compare import compare
from kvpoll.protocol.evolution.findings import Finding
from kvpoll.protocol.evolution.rules import Fixture, base, rules
from kvpoll.protocol.evolution.trial import Trial

POSITIVE = [(rule.id, fixture) for rule in rules().values() for fixture in rule.positive]
NEGATIVE = [(rule.id, fixture) for rule in rules().values() for fixture in rule.negative]
#: Shown by a file whose digest is wrong, which no edit makes: see below.
BY_HAND = {"BASELINE_EDITED"}


def ids(pair: tuple[str, Fixture]) -> str:
    return re.sub(r"\W+", "-", f"{pair[0]}: {pair[1].says}")


def found_in(fixture: Fixture) -> list[Finding]:
    return compare(*fixture.pair())


@pytest.mark.parametrize(("rule", "fixture"), POSITIVE, ids=map(ids, POSITIVE))
def test_a_rule_speaks_where_it_should_and_nothing_else_does(rule: str, fixture: Fixture) -> None:
    findings = found_in(fixture)
    assert {f.rule for f in findings} == {rule}, [f.says for f in findings]
    assert len(findings) == 1, "one cause is one finding"
    finding = findings[0]
    assert finding.severity == rules()[rule].severity
    assert set(finding.directions) <= set(rules()[rule].directions)
    if finding.severity != "info":
        assert finding.witnesses
        assert finding.directions
    assert finding.fix
    assert finding.old or finding.new


@pytest.mark.parametrize(("rule", "fixture"), NEGATIVE, ids=map(ids, NEGATIVE))
def test_a_rule_is_silent_where_it_should_be(rule: str, fixture: Fixture) -> None:
    assert rule not in {f.rule for f in found_in(fixture)}


@pytest.mark.parametrize(("rule", "fixture"), POSITIVE, ids=map(ids, POSITIVE))
def test_every_witness_of_bytes_goes_wrong_when_it_is_replayed(rule: str, fixture: Fixture) -> None:
    old, new = fixture.pair()
    trial = Trial(old, new)
    for finding in compare(old, new):
        for witness in finding.witnesses:
            if witness.kind in ("refused", "misread") and " " not in witness.frame and finding.rule[:4] != "SLOT":
                assert trial.replays(witness), witness


def test_every_rule_has_fixtures_of_both_kinds_and_a_text() -> None:
    assert len(rules()) >= 30
    for rule in rules().values():
        assert rule.title
        assert rule.means
        assert rule.fix
        if rule.id not in BY_HAND:
            assert rule.positive, rule.id
            assert rule.negative, rule.id


def test_an_edited_baseline_is_found() -> None:
    edited = replace(base(), capabilities=("resume", "drain"))
    assert [f.rule for f in compare(edited, edited)] == ["BASELINE_EDITED", "BASELINE_EDITED"]
    assert compare(base(), base()) == []


def test_two_schemas_cannot_be_compared() -> None:
    with pytest.raises(ValueError, match="schema: expected two versions of one"):
        compare(base(), replace(base(), schema="another"))
