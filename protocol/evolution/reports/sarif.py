"""SARIF 2.1.0, for code scanning: a result a finding, with its place in the snapshot file and the old place beside it."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from urllib.parse import quote

import msgspec

from kvpoll.protocol.evolution.findings import Finding
from kvpoll.protocol.evolution.report import Pair, Report, Source, Waived
from kvpoll.protocol.evolution.rules import rules

from .text import finding_text
from .words import line_of

__all__ = ["as_sarif"]

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS = {"error": "error", "warning": "warning", "info": "note"}


def as_sarif(report: Report) -> str:
    ids = list(rules())
    results = [_result(report, pair, finding, ids) for pair in report.pairs for finding in pair.findings]
    waived = [
        {**_result(report, pair, w.finding, ids), "suppressions": [_accepted(w)]}
        for pair in report.pairs
        for w in pair.waived
    ]
    driver = {
        "name": "kvpoll",
        "version": _version(),
        "rules": [
            {
                "id": rule.id,
                "name": "".join(part.title() for part in rule.id.split("_")),
                "shortDescription": {"text": rule.title},
                "fullDescription": {"text": rule.means},
                "help": {"text": rule.fix},
                "defaultConfiguration": {"level": _LEVELS[rule.severity]},
            }
            for rule in rules().values()
        ],
    }
    problems = [{"level": "error", "message": {"text": problem}} for problem in report.problems]
    run = {
        "tool": {"driver": driver},
        "results": results + waived,
        "invocations": [{"executionSuccessful": True, "toolExecutionNotifications": problems}],
        "columnKind": "unicodeCodePoints",
    }
    document = {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}
    return msgspec.json.format(msgspec.json.encode(document), indent=1).decode() + "\n"


def _result(report: Report, pair: Pair, finding: Finding, ids: list[str]) -> dict[str, object]:
    fails = report.counts(finding)
    result: dict[str, object] = {
        "ruleId": finding.rule,
        "ruleIndex": ids.index(finding.rule),
        "level": "error" if fails else _LEVELS["warning" if finding.breaking else finding.severity],
        "message": {"text": "\n".join(finding_text(finding, fails))},
        "locations": [_location(pair.new, line_of(pair, finding), finding.new or finding.says)],
        "relatedLocations": [
            {"id": 1, **_location(pair.old, line_of(pair, finding, new=False), finding.old or "the baseline")}
        ],
        "partialFingerprints": {
            "cause/v1": f"{finding.rule}:{finding.spec}.{finding.field}:{pair.old.snapshot.version}"
        },
        "properties": {"directions": finding.directions, "witnesses": msgspec.to_builtins(finding.witnesses)},
    }
    return result


def _accepted(waived: Waived) -> dict[str, str]:
    return {"kind": "external", "status": "accepted", "justification": waived.reason}


def _location(source: Source, line: int, says: str) -> dict[str, object]:
    return {
        "physicalLocation": {
            "artifactLocation": {"uri": _uri(source.path or f"{source.snapshot.schema}.json")},
            "region": {"startLine": line},
        },
        "message": {"text": says},
    }


def _uri(path: str) -> str:
    """A relative reference, or a file URI: SARIF takes no path that begins with a slash."""
    text = quote(path.replace("\\", "/"), safe="/:")
    return f"file://{text}" if text.startswith("/") else text


def _version() -> str:
    try:
        return version("kvpoll")
    except PackageNotFoundError:  # run from a tree that is not installed
        return "0"
