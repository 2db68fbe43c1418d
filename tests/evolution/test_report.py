"""A whole check: baselines, waivers, upgrade orders, and the report in every form."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import msgspec
import pytest

from kvpoll.protocol.evolution.edit import Edit, edited
from kvpoll.protocol.evolution.findings import Order
from kvpoll.protocol.evolution.report import Report, Source, check
from kvpoll.protocol.evolution.reports import FORMATS
from kvpoll.protocol.evolution.reports.github import MOST
from kvpoll.protocol.evolution.reports.words import line_of
from kvpoll.protocol.evolution.rules import base, rules
from kvpoll.protocol.evolution.snapshots import to_json
from kvpoll.protocol.evolution.waivers import Waiver, read_waivers

NEXT = Edit(op="set-snapshot", to={"version": "1.1", "window": ("1.0", "1.1")})
WIDER = Edit(op="set-type", at="Register.tp_rank", to={"max": 2**32 - 1})  # a receiver's message; old readers are hurt
GONE = Edit(op="drop-field", at="Register.layers")
SHOUT = Edit(op="rename-field", at="Register.layers", other="levels")


def fresh(name: str, tag: int) -> dict[str, object]:
    return {"name": name, "tag": tag, "type": {"type": "bool"}, "presence": "optional"}


def source(*edits: Edit) -> Source:
    snapshot = edited(base(), edits)
    return Source(snapshot=snapshot, path=f"schemas/v{snapshot.version}.json", text=to_json(snapshot))


def report(*edits: Edit, waivers: tuple[Waiver, ...] = (), strict: bool = False, order: Order | None = None) -> Report:
    return check(source(NEXT, *edits), [source()], waivers, "2026-12-01", strict=strict, order=order)


def waiver(
    rule: str = "FIELD_DELETED_UNRESERVED", at: str = "Register.layers", expires: str = "2027-01-31", since: str = ""
) -> Waiver:
    return Waiver(rule=rule, at=at, reason="nobody sends it", expires=expires, since=since)


def test_the_same_schema_under_a_new_version_is_fine() -> None:
    found = report()
    assert (found.verdict, found.orders) == ("fine", ("sender-first", "receiver-first"))


def test_every_baseline_is_compared() -> None:
    middle = source(
        NEXT,
        Edit(
            op="add-field", at="Query", to={"name": "hops", "tag": 17, "type": {"type": "bool"}, "presence": "optional"}
        ),
    )
    newest = edited(
        middle.snapshot,
        [
            Edit(op="set-snapshot", to={"version": "1.2", "window": ("1.0", "1.2")}),
            Edit(op="drop-field", at="Query.hops"),
        ],
    )
    found = check(Source(snapshot=newest), [source(), middle])
    assert [[f.rule for f in pair.findings] for pair in found.pairs] == [[], ["FIELD_DELETED_UNRESERVED"]]


@pytest.mark.parametrize(
    ("edit", "orders"),
    [
        (WIDER, ("sender-first",)),  # receivers write it: the side that reads it, the senders, goes first
        (Edit(op="set-type", at="Register.tp_rank", to={"max": 255}), ("receiver-first",)),
        (Edit(op="set-enum", at="enum Kind", to={"values": {"KV": 0, "STATE": 1, "AUX": 2, "MORE": 3}}), ()),
        (Edit(op="add-field", at="Status", to={**fresh("must", 950), "critical": True}), ("receiver-first",)),
        (Edit(op="swap-tags", at="Register.tp_rank", other="tp_size"), ()),
    ],
)
def test_the_upgrade_order_follows_from_who_writes_and_who_is_hurt(edit: Edit, orders: tuple[str, ...]) -> None:
    found = report(edit)
    assert found.verdict == "breaking"
    assert found.orders == orders


def test_a_promised_order_lets_pass_what_only_the_other_one_meets() -> None:
    assert report(WIDER, order="sender-first").verdict == "fine"
    assert report(WIDER, order="receiver-first").verdict == "breaking"


def test_a_warning_fails_only_when_asked_to() -> None:
    assert [f.rule for f in report(SHOUT).pairs[0].findings] == ["FIELD_RENAMED"]
    assert report(SHOUT).verdict == "fine"
    assert report(SHOUT, strict=True).verdict == "breaking"


# Waivers.


def test_a_waiver_lets_one_finding_through_and_keeps_its_reason() -> None:
    found = report(GONE, WIDER, waivers=(waiver(),))
    assert [f.rule for f in found.pairs[0].findings] == ["INT_WIDENED"]
    assert [(w.finding.rule, w.reason) for w in found.pairs[0].waived] == [
        ("FIELD_DELETED_UNRESERVED", "nobody sends it")
    ]
    assert report(GONE, waivers=(waiver(),)).verdict == "fine"
    assert report(GONE, waivers=(waiver(),)).orders == report(GONE).orders, "what is waived is as true as before"


def test_a_waiver_that_is_over_lets_nothing_through_and_says_so() -> None:
    found = report(GONE, waivers=(waiver(expires="2026-11-30"),))
    assert found.verdict == "breaking"
    assert found.problems == ("waiver of FIELD_DELETED_UNRESERVED at Register.layers: it ran out on 2026-11-30",)
    assert report(GONE, waivers=(waiver(expires="2026-12-01"),)).verdict == "fine", "its last day counts"


@pytest.mark.parametrize("stale", [waiver(at="Register.digest"), waiver(rule="TAG_REUSED"), waiver(since="0.9")])
def test_a_waiver_that_lets_nothing_through_is_an_error(stale: Waiver) -> None:
    found = report(waivers=(stale,))
    assert found.verdict == "breaking"
    assert "nothing is found there any more" in found.problems[0]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[[waiver]]\nrule = 'TAG_REUSED'\nat = 'A'\nexpires = '2027-01-01'\n", "reason"),
        ("[[waiver]]\nrule = 'TAG_REUSED'\nat = 'A'\nreason = 'we know it'\n", "expires"),
        ("[[waiver]]\nrule = 'TAG_REUSED'\nat = 'A'\nreason = 'we know it'\nexpires = '2027-02-30'\n", "a day like"),
        (
            "[[waiver]]\nrule = 'TAG_REUSED'\nat = 'A'\nreason = 'because'\nexpires = '2027-01-01'\n",
            "expected a sentence",
        ),
        (
            "[[waiver]]\nrule = 'NO_RULE'\nat = 'A'\nreason = 'we know it'\nexpires = '2027-01-01'\n",
            "rule: expected one of",
        ),
        (
            "[[waiver]]\nrule = 'TAG_REUSED'\nat = 'A'\nreason = 'we know it'\nexpires = '2027-01-01'\nwho = 'me'\n",
            "who",
        ),
        (2 * "[[waiver]]\nrule = 'TAG_REUSED'\nat = 'A'\nreason = 'we know it'\nexpires = '2027-01-01'\n", "twice"),
        ("[[waiver]", "waivers:"),
    ],
)
def test_a_waiver_without_what_it_needs_is_refused(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        read_waivers(text)


def test_a_file_of_waivers_is_read() -> None:
    text = "[[waiver]]\nrule = 'TAG_REUSED'\nat = 'Register.a'\nreason = 'two words'\nexpires = '2027-01-01'\nissue = '#7'\n"
    (found,) = read_waivers(text)
    assert (found.rule, found.at, found.issue) == ("TAG_REUSED", "Register.a", "#7")


# Forms.


@pytest.fixture(scope="module")
def mixed() -> Report:
    return report(GONE, WIDER, SHOUT_ELSEWHERE, waivers=(waiver(), waiver(at="Register.digest")))


SHOUT_ELSEWHERE = Edit(op="rename-field", at="Query.room", other="chamber")


@pytest.mark.parametrize("form", FORMATS)
def test_every_form_names_rule_place_and_verdict(mixed: Report, form: str) -> None:
    said = FORMATS[form](mixed)
    assert "INT_WIDENED" in said
    assert "tp_rank" in said
    assert "FIELD_RENAMED" in said
    assert "Register.digest" in said, "a stale waiver is said in every form"


def test_json_carries_the_bytes_and_the_lines(mixed: Report) -> None:
    document = msgspec.json.decode(FORMATS["json"](mixed))
    assert document["format"] == "kvpoll-schema-report/1"
    assert document["verdict"] == "breaking"
    (pair,) = document["pairs"]
    wider = next(f for f in pair["findings"] if f["rule"] == "INT_WIDENED")
    assert bytes.fromhex(wider["witnesses"][0]["frame"])
    assert wider["fails"] is True
    assert [w["reason"] for w in pair["waived"]] == ["nobody sends it"]


def test_junit_counts_what_it_holds(mixed: Report) -> None:
    root = ET.fromstring(FORMATS["junit"](mixed))
    assert root.get("failures") == str(len(root.findall(".//failure"))) == "2"
    assert root.get("tests") == str(len(root.findall(".//testcase")))
    assert ET.fromstring(FORMATS["junit"](report())).get("failures") == "0"


def test_sarif_has_a_rule_and_a_line_for_every_result(mixed: Report) -> None:
    document = msgspec.json.decode(FORMATS["sarif"](mixed))
    (run,) = document["runs"]
    assert document["version"] == "2.1.0"
    names = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert names == list(rules())
    assert run["tool"]["driver"]["version"]
    for result in run["results"]:
        assert names[result["ruleIndex"]] == result["ruleId"]
        assert result["locations"][0]["physicalLocation"]["region"]["startLine"] > 1
        assert result["level"] in ("error", "warning", "note")
    assert len([r for r in run["results"] if "suppressions" in r]) == 1


def test_a_finding_is_placed_on_its_line(mixed: Report) -> None:
    (pair,) = mixed.pairs
    finding = next(f for f in pair.findings if f.rule == "INT_WIDENED")
    lines = pair.new.text.splitlines()
    at = line_of(pair, finding) - 1
    assert '"name": "tp_rank"' in "".join(lines[at : at + 8])
    assert lines[at].strip() == "{"


def test_github_shows_ten_of_a_kind_and_says_how_many_more() -> None:
    many = [Edit(op="drop-field", at=f"Register.{f.name}") for f in base().messages[0].fields]
    lines = [line for line in FORMATS["github"](report(*many)).splitlines() if line.startswith("::error")]
    assert len(lines) == MOST
    assert "3 more" in lines[-1]
    assert all("\n" not in line for line in lines)


def test_github_escapes_what_would_end_a_command() -> None:
    evil = edited(base(), [NEXT, GONE])
    found = check(Source(snapshot=evil, path="a,b:c%.json", text=to_json(evil)), [source()])
    line = FORMATS["github"](found).splitlines()[0]
    assert "file=a%2Cb%3Ac%25.json," in line
    assert "%0A" in line


def test_markdown_keeps_its_table_whole() -> None:
    rows = [line for line in FORMATS["markdown"](report(GONE, WIDER)).splitlines() if line.startswith("| ")]
    assert len({line.count("|") for line in rows}) == 1


def test_sarif_names_a_file_by_a_reference_that_viewers_take(mixed: Report) -> None:
    (pair,) = mixed.pairs
    for path, uri in (("a b/new.json", "a%20b/new.json"), ("/tmp/new.json", "file:///tmp/new.json")):
        new = msgspec.structs.replace(pair.new, path=path)
        placed = msgspec.structs.replace(mixed, pairs=(msgspec.structs.replace(pair, new=new),))
        results = msgspec.json.decode(FORMATS["sarif"](placed))["runs"][0]["results"]
        assert {r["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for r in results} == {uri}
