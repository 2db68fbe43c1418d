"""The reports of the conformance suite, each read back by somebody else's reader."""

from __future__ import annotations

import json
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree as ET

import msgspec
import pytest
from msgspec.structs import replace

from kvpoll.model_tests.conformance.reports import FORMATS, Merged, merge, read_results, write_merged
from kvpoll.model_tests.conformance.reports.html_data import cells_of
from kvpoll.model_tests.conformance.reports.html_style import STYLE
from kvpoll.model_tests.conformance.reports.words import (
    MEANINGS,
    ORDER,
    findings,
    headline,
    sentence,
    verdict_for,
    worst,
)
from kvpoll.model_tests.conformance.result import (
    CaseResult,
    Implementation,
    Result,
    ResultError,
    TraceStep,
    Verdict,
    write_result,
)

from .made import made, one_case, requirements

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)>'\"&amp;|`@all\x1b[31m\x00\ud7ff￾ 𝄞 {title} [a](http://e.vil)"


@pytest.fixture(scope="module")
def several() -> Merged:
    return merge([made("one"), made("two", bad=1.0), made("three", bad=0.0)])


def evil() -> Merged:
    """Every text that somebody else wrote is hostile."""
    good = one_case(Verdict.FAIL)
    requirement = replace(
        good.requirements[0], id=EVIL, text=EVIL, section=EVIL, role=EVIL, profile=EVIL, needs=(EVIL,)
    )
    case = replace(
        good.cases[0], id=EVIL, title=EVIL, requirements=(EVIL,), broken=(EVIL,), reason=EVIL, link="javascript:alert(1)",
        role=EVIL, prerequisite=EVIL, trace=(TraceStep(EVIL, EVIL, EVIL, 1.0),),
    )  # fmt: skip
    cases = [replace(case, id=f"{EVIL}{n}", verdict=verdict) for n, verdict in enumerate(Verdict)]
    result = replace(
        good, implementation=Implementation(EVIL, EVIL, (EVIL,), (EVIL,)), profile=EVIL, started=EVIL, environment={EVIL: EVIL},
        requirements=(requirement,), cases=tuple(cases), problems=(EVIL,), refused=EVIL,
    )  # fmt: skip
    return merge([result])


class Page(HTMLParser):
    """What a browser would make of a page: its tags, its text, and the data of its script."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.attributes: list[tuple[str, str, str]] = []
        self.texts: list[str] = []
        self.open: list[str] = []
        self.cells: list[str] = []
        self.links: list[dict[str, str]] = []
        self.json = ""
        self._in_data = False
        self.feed(text)
        self.close()
        self.data = json.loads(self.json)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in ("meta", "input", "col"):
            self.open.append(tag)
        named = dict(attrs)
        self._in_data = named.get("id") == "data"
        if tag == "button" and "data-case" in named:
            self.links.append({name: value or "" for name, value in attrs})
        if tag == "button" and "cell" in (named.get("class") or "").split():
            self.cells.append(named.get("aria-label") or "")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, "tags are nested"
        self._in_data = False

    def handle_data(self, data: str) -> None:
        if self._in_data:
            self.json += data
        elif "script" not in self.open and "style" not in self.open:
            self.texts.append(data)


# -- JUnit -------------------------------------------------------------------------------------------------------------
JUNIT = {
    Verdict.PASS: None, Verdict.NON_STRICT: None, Verdict.UNSUPPORTED: "skipped", Verdict.BLOCKED: "skipped",
    Verdict.KNOWN_FAILING: "skipped", Verdict.FAIL: "failure", Verdict.STALE: "failure", Verdict.FLAKY: "failure",
    Verdict.CRASH: "error", Verdict.TIMEOUT: "error",
}  # fmt: skip


@pytest.mark.parametrize("verdict", Verdict)
def test_junit_says_a_verdict_in_its_own_words(verdict: Verdict) -> None:
    case = ET.fromstring(FORMATS["junit"](merge([one_case(verdict)]))).find("testsuite/testcase")
    assert case is not None
    kinds = [child.tag for child in case if child.tag in ("skipped", "failure", "error")]
    assert kinds == ([JUNIT[verdict]] if JUNIT[verdict] else [])
    told = dict(re.findall(r"\[\[PROPERTY\|(\w+)=(.*)\]\]", case.findtext("system-out") or ""))
    assert told.get("verdict", "pass") == verdict.value
    if kinds:
        message = case.find(kinds[0]).get("message")  # type: ignore[union-attr]
        assert "so it is" in (message or "")
        assert (message or "").startswith("known failing: ") is (verdict is Verdict.KNOWN_FAILING)


def test_junit_has_every_case_and_adds_up(several: Merged) -> None:
    root = ET.fromstring(FORMATS["junit"](several))
    totals: Counter[str] = Counter()
    for suite, result in zip(root.findall("testsuite"), several.results, strict=True):
        cases = suite.findall("testcase")
        assert [case.get("name") for case in cases] == [case.id for case in result.cases]
        for name, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            number = sum(case.find(tag) is not None for case in cases)
            assert suite.get(name) == str(number)
            totals[name] += number
        assert suite.get("tests") == str(len(cases))
        totals["tests"] += len(cases)
    del totals["skipped"]  # its schema has no such attribute at the top
    assert {name: root.get(name) for name in totals} == {name: str(number) for name, number in totals.items()}


# -- SARIF -------------------------------------------------------------------------------------------------------------
def test_sarif_has_a_rule_for_each_requirement_and_a_result_for_each_broken_one(several: Merged) -> None:
    document = json.loads(FORMATS["sarif"](several))
    assert (document["version"], len(document["runs"])) == ("2.1.0", 3)
    for run, result in zip(document["runs"], several.results, strict=True):
        rules = run["tool"]["driver"]["rules"]
        assert [rule["fullDescription"]["text"] for rule in rules[:-1]] == [r.text for r in result.requirements]
        levels = {r.id: r.level for r in result.requirements}
        assert all(rules[found["ruleIndex"]]["id"] == found["ruleId"] for found in run["results"])
        assert all(found["locations"][0]["logicalLocations"][0]["fullyQualifiedName"] for found in run["results"])
        told = {(f["locations"][0]["logicalLocations"][0]["name"], f["ruleId"]) for f in run["results"]}
        assert {(case.id, name) for case in result.cases for name in case.broken} <= told
        for found in run["results"]:
            verdict = found.get("properties", {}).get("verdict")
            if verdict == "non-strict":
                assert found["level"] == "warning" or levels[found["ruleId"]] == "MAY"
            assert ("suppressions" in found) is (verdict == "known-failing")


def test_sarif_tells_a_wrong_file_under_a_rule_of_its_own() -> None:
    result = replace(one_case(Verdict.STALE), problems=("line 3 matches nothing",))
    found = json.loads(FORMATS["sarif"](merge([result])))["runs"][0]["results"]
    assert [(f["ruleId"], f["level"]) for f in found] == [("KNOWN-FAILING-FILE", "error")] * 2


# -- HTML --------------------------------------------------------------------------------------------------------------
def test_the_page_has_every_case_and_a_cell_for_each_requirement_and_implementation(several: Merged) -> None:
    page = Page(FORMATS["html"](several))
    for run, result in zip(page.data["runs"], several.results, strict=True):
        rows = {page.data["cases"][row[0]][0]: page.data["verdicts"][row[1]]["name"] for row in run["rows"]}
        assert rows == {case.id: case.verdict.value for case in result.cases}
        for place, cell in enumerate(cells_of(result, several.requirements)):
            start = f"{result.implementation.name} 1.0, {several.requirements[place].id}: "
            label = [said for said in page.cells if said.startswith(start)]
            assert label == [f"{start}{cell[0][0].value} in " + label[0].rpartition(" in ")[2]] if cell else not label
    assert page.open == ["html"] or not page.open


def test_a_cell_shows_the_worst_verdict_and_of_how_many() -> None:
    good = one_case(Verdict.PASS)
    cases = tuple(
        replace(good.cases[0], id=f"a/b/{n}", verdict=v)
        for n, v in enumerate((Verdict.PASS, Verdict.BLOCKED, Verdict.FAIL))
    )
    page = Page(FORMATS["html"](merge([replace(good, cases=cases)])))
    assert page.cells == ["one 1, KVX-states-1: fail in 1 of 3 cases"]


def test_the_page_keeps_traces_of_what_did_not_pass_and_one_pass_for_each_requirement(several: Merged) -> None:
    page = Page(FORMATS["html"](several))
    for run, result in zip(page.data["runs"], several.results, strict=True):
        traced = [case for row, case in zip(run["rows"], result.cases, strict=True) if row[4] >= 0]
        wrong = {case.id for case in result.cases if case.trace and case.verdict is not Verdict.PASS}
        assert wrong <= {case.id for case in traced}
        passed = {r.id for r in several.requirements if any(c.verdict is Verdict.PASS for c in result.of(r.id))}
        assert passed <= {name for case in traced for name in case.requirements}
        assert sum(case.verdict is Verdict.PASS for case in traced) <= len(several.requirements)


def test_a_finding_opens_a_cell_that_has_its_case(several: Merged) -> None:
    page = Page(FORMATS["html"](several))
    assert len(page.links) == sum(len(findings(result)) for result in several.results)
    for link in page.links:
        result = several.results[int(link["data-run"])]
        case, requirement = result.cases[int(link["data-case"])], several.requirements[int(link["data-req"])]
        assert verdict_for(case, requirement) is case.verdict


def test_the_page_gives_back_a_trace_step_by_step() -> None:
    steps = (TraceStep("decode", "create", "room 1", 0.5), TraceStep("suite", "broken KVX-states-1", "so it is", 1.25))
    data = Page(FORMATS["html"](merge([one_case(Verdict.FAIL, trace=steps)]))).data
    flat = data["traces"][data["runs"][0]["rows"][0][4]]
    told = [(*(data["strings"][n] for n in flat[i : i + 3]), flat[i + 3] / 1000) for i in range(0, len(flat), 4)]
    assert told == [(step.who, step.what, step.detail, step.at) for step in steps]


def test_the_page_fetches_nothing_and_allows_only_its_own_script() -> None:
    for merged in (merge([made("one")]), evil()):
        page = Page(FORMATS["html"](merged))
        assert not [a for a in page.attributes if a[1] in ("src", "href", "style", "action") or a[1].startswith("on")]
        assert (page.tags["script"], page.tags["style"], page.tags["link"], page.tags["img"]) == (2, 1, 0, 0)
        policy = next(
            value for tag, name, value in page.attributes if tag == "meta" and value.startswith("default-src")
        )
        assert policy.startswith("default-src 'none'; style-src 'sha256-")
        assert "unsafe" not in policy


def test_a_large_page_stays_small_and_says_what_it_leaves_out() -> None:
    long = tuple(TraceStep("prefill", f"step {n}", f"{n:050}", float(n)) for n in range(200))
    base = made("big", count=80, cases=600, bad=1.0)
    cases = tuple(
        replace(case, trace=tuple(replace(s, detail=f"{case.id} {s.detail}") for s in long)) for case in base.cases
    )
    runs = [replace(base, cases=cases, implementation=Implementation(f"big {n}", "1")) for n in range(6)]
    text = FORMATS["html"](merge(runs))
    assert len(text.encode()) < 3_000_000
    rows = [row for run in Page(text).data["runs"] for row in run["rows"]]
    assert {row[4] == -2 for row in rows} == {True, False}
    worst_kept = min(row[1] for row in rows if row[4] == -2)
    assert all(row[4] >= 0 for row in rows if row[1] < worst_kept), "what is told first is what is wrong most"


def _light(colour: str) -> float:
    """How light a colour is to the eye, from 0 to 1 (the formula of WCAG)."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_every_verdict_can_be_read_in_light_and_dark() -> None:
    schemes = re.findall(r":root \{(.*?)\}", STYLE, re.DOTALL)[:2]
    for scheme in schemes:
        colours = dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6});", scheme))
        pairs = [(verdict.value, f"{verdict.value}-on") for verdict in Verdict]
        pairs += [("ground", name) for name in ("text", "quiet", "bad", "good", "focus")] + [
            ("raised", "quiet"),
            ("tip", "tip-text"),
        ]
        for ground, on in pairs:
            low, high = sorted((_light(colours[ground]), _light(colours[on])))
            assert (high + 0.05) / (low + 0.05) >= 4.5, (ground, on)


# -- text and Markdown -------------------------------------------------------------------------------------------------
def test_text_and_markdown_tell_one_defect_once_and_failures_first(several: Merged) -> None:
    for name in ("text", "markdown"):
        said = FORMATS[name](several)
        for result in several.results:
            assert result.implementation.name in said
        first, last = said.find("fail:" if name == "text" else "**fail**"), said.rfind("blocked")
        assert 0 <= first < last
    assert FORMATS["text"](merge([made("two", bad=1.0)])).count("poll(prefill, 1) did not come back") == 1
    assert len(FORMATS["markdown"](merge([made("big", count=80, cases=600, bad=1.0)]))) < 8000


def test_a_terminal_gets_no_sign_that_moves_it() -> None:
    said = FORMATS["text"](evil())
    assert not [c for c in said if c != "\n" and not c.isprintable()]


# -- every form --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", FORMATS)
def test_a_report_is_the_same_each_time(name: str, several: Merged) -> None:
    assert FORMATS[name](several) == FORMATS[name](merge([made("one"), made("two", bad=1.0), made("three", bad=0.0)]))


@pytest.mark.parametrize("name", FORMATS)
def test_a_run_without_cases_and_a_refused_one_are_told(name: str) -> None:
    empty = replace(made("none"), cases=(), requirements=())
    refused = replace(empty, implementation=Implementation("liar", "1"), refused="an unknown case passed")
    said = FORMATS[name](merge([empty, refused]))
    assert "none" in said
    assert "an unknown case passed" in said
    if name == "junit":
        assert [s.get("errors") for s in ET.fromstring(said).iter("testsuite")] == ["0", "1"]


def test_hostile_text_stays_text_in_every_form() -> None:
    merged = evil()
    page = Page(FORMATS["html"](merged))
    assert page.tags["img"] == 0
    assert any("<script>alert(1)</script>" in text for text in page.texts), "it is shown, as text"
    assert any("<script>alert(1)" in case[0] for case in page.data["cases"])
    root = ET.fromstring(FORMATS["junit"](merged))
    assert any("<script>" in (case.get("name") or "") for case in root.iter("testcase"))
    assert "<script>" in json.loads(FORMATS["sarif"](merged))["runs"][0]["results"][0]["ruleId"]
    markdown = FORMATS["markdown"](merged)
    assert not re.search(r"<(script|img)", markdown)
    assert "@all" not in re.sub(r"`[^`]*`", "", markdown), "outside of code nobody is called"
    rows = [line for line in markdown.splitlines() if line.startswith("|")]
    assert len({line.count("|") for line in rows[:3]}) == 1


# -- words -------------------------------------------------------------------------------------------------------------
def test_every_verdict_has_its_place_a_letter_of_its_own_and_a_meaning() -> None:
    assert set(ORDER) == set(Verdict) == set(MEANINGS)
    assert len({meaning.letter for meaning in MEANINGS.values()}) == len(Verdict)
    assert worst([]) is None
    assert worst([Verdict.PASS, Verdict.UNSUPPORTED]) is Verdict.PASS, "what is not declared counts against nobody"
    assert worst([Verdict.PASS, Verdict.BLOCKED]) is Verdict.BLOCKED


def test_a_requirement_is_not_blamed_for_what_a_case_broke_elsewhere() -> None:
    texts = requirements(4)  # the fourth is a SHOULD
    case = replace(
        one_case(Verdict.FAIL).cases[0], requirements=tuple(r.id for r in texts), broken=(texts[0].id, texts[3].id)
    )
    assert [verdict_for(case, r) for r in texts] == [Verdict.FAIL, Verdict.PASS, Verdict.PASS, Verdict.NON_STRICT]
    crash = replace(case, verdict=Verdict.CRASH, broken=())
    assert [verdict_for(crash, r) for r in texts] == [Verdict.CRASH, *[Verdict.BLOCKED] * 3]


@pytest.mark.parametrize(
    ("result", "said", "also"),
    [
        (one_case(Verdict.PASS), "All 1 judged MUST requirements held in these cases.", ""),
        (one_case(Verdict.FAIL), "1 of 1 judged MUST requirements did not hold.", ""),
        (one_case(Verdict.UNSUPPORTED), "No MUST requirement was judged.", "1 MUST not judged"),
        (
            one_case(Verdict.KNOWN_FAILING),
            "1 of 1 judged MUST requirements did not hold, as its known-failing file says.",
            "",
        ),
        (
            one_case(Verdict.STALE, found=Verdict.PASS),
            "All 1 judged MUST requirements held in these cases, but 1 stale.",
            "",
        ),
        (one_case(Verdict.STALE, found=Verdict.FAIL), "1 of 1 judged MUST requirements did not hold.", ""),
        (replace(one_case(Verdict.PASS), cases=()), "Not judged: no case was run.", ""),
        (replace(one_case(Verdict.PASS), cases=(), refused="so"), "Not judged: the run was refused.", ""),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_headline_claims_no_more_than_was_seen(result: Result, said: str, also: str) -> None:
    assert (headline(result), sentence(result)) == (said, also)


def test_cases_that_ended_alike_are_one_finding() -> None:
    good = one_case(Verdict.FAIL)
    cases = [replace(good.cases[0], id=f"a/b/{n}", reason=reason) for n, reason in enumerate(("x", "y", "y"))]
    found = findings(replace(good, cases=tuple(cases)))
    assert [(f.reason, len(f.cases)) for f in found] == [("y", 2), ("x", 1)]


# -- merging -----------------------------------------------------------------------------------------------------------
def test_merging_keeps_every_result_whole_and_can_go_on(tmp_path: Path) -> None:
    results = [made("one"), made("two"), made("three")]
    for number, result in enumerate(results):
        write_result(result, tmp_path / f"{number}.json")
    write_merged(read_results([tmp_path / "0.json", tmp_path / "1.json"]), tmp_path / "some.json")
    write_merged(read_results([tmp_path / "some.json", tmp_path / "2.json"]), tmp_path / "all.json")
    assert list(read_results([tmp_path / "all.json"]).results) == results


def test_the_status_of_several_is_the_worst() -> None:
    good, refused = (
        one_case(Verdict.PASS),
        replace(one_case(Verdict.PASS), refused="so", implementation=Implementation("b", "1")),
    )
    bad = replace(one_case(Verdict.FAIL), implementation=Implementation("c", "1"))
    assert [merge(each).status for each in ([good], [good, refused], [good, refused, bad])] == [0, 2, 1]


def _other(result: Result) -> dict[str, tuple[list[Result], str]]:
    case, texts = result.cases[0], result.requirements
    second = replace(result, implementation=Implementation("b", "1"))

    def with_case(changed: CaseResult) -> list[Result]:
        return [replace(result, cases=(changed,))]

    return {
        "none": ([], "results: expected 1 to 16"),
        "suite": ([result, replace(second, suite=replace(result.suite, name="x"))], "suite.name"),
        "version": ([result, replace(second, suite=replace(result.suite, version="9"))], "suite.version"),
        "twice": ([result, result], "implementation: expected each"),
        "words": (
            [result, replace(second, requirements=(replace(texts[0], text="else"),))],
            "requirements: expected KVX-states-1",
        ),
        "level": (with_case(replace(case, level="WILL")), "level: expected MUST, SHOULD, MAY, got 'WILL'"),
        "requirement level": ([replace(result, requirements=(replace(texts[0], level="X"),))], "level: expected"),
        "unknown": (
            with_case(replace(case, requirements=("KVX-no-1",))),
            "expected ids of this result, got 'KVX-no-1'",
        ),
        "broken": (with_case(replace(case, broken=("KVX-no-1",))), "expected ids of this result"),
        "case twice": ([replace(result, cases=(case, case))], "expected each id once"),
        "requirement twice": ([replace(result, requirements=texts * 2)], "expected each id once"),
    }


@pytest.mark.parametrize("what", _other(one_case(Verdict.FAIL)))
def test_what_cannot_be_compared_is_refused_by_the_name_of_the_field(what: str) -> None:
    results, says = _other(one_case(Verdict.FAIL))[what]
    with pytest.raises(ResultError, match=re.escape(says)):
        merge(results)


def test_a_file_of_another_schema_is_refused_and_named(tmp_path: Path) -> None:
    path, merged = tmp_path / "a.json", merge([one_case(Verdict.PASS)])
    for text, says in (
        ("{", "Input data was truncated"), ("{}", "schema"), ('{"schema": "x/1"}', "schema: expected"),
        ('{"schema": "kvpoll-conformance-result/2"}', "got kvpoll-conformance-result/2"),
        ('{"schema": "kvpoll-conformance-merged/2"}', "got kvpoll-conformance-merged/2"),
        ('{"schema": "kvpoll-conformance-result/1"}', "suite"), ('{"schema": "kvpoll-conformance-merged/1"}', "suite"),
        (_json(replace(merged, results=(replace(merged.results[0], schema="x/1"),))), "results: schema: expected"),
        (_json(replace(merged, suite=replace(merged.suite, version="9"))), "suite: expected"),
    ):  # fmt: skip
        path.write_text(text)
        with pytest.raises(ResultError, match=re.escape(says)) as caught:
            read_results([path])
        assert str(path) in str(caught.value)
    with pytest.raises(ResultError, match="cannot be read"):
        read_results([tmp_path / "none.json"])


def _json(merged: Merged) -> str:
    return msgspec.json.encode(merged).decode()
