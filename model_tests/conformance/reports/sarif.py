"""SARIF 2.1.0: a run an implementation, a rule a requirement, a result each requirement that a case saw broken.

An engine under test has no source file here, so places are logical: the implementation and the case. What a known-failing
file accepts is there, suppressed. What was not judged is no result; the run says how many such cases there were.
"""

from __future__ import annotations

import msgspec

from ..result import BAD, CaseResult, RequirementText, Result, Verdict
from .merge import Merged
from .text import step_line
from .words import MEANINGS, headline, name_of, verdict_for

__all__ = ["as_sarif"]

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS = {"MUST": "error", "SHOULD": "warning", "MAY": "note"}
#: Steps of a trace, the last ones.
_STEPS = 24
#: The rule for what an engine's own file says wrongly.
_FILE_RULE = "KNOWN-FAILING-FILE"
_SHOWN = (BAD | {Verdict.NON_STRICT, Verdict.KNOWN_FAILING}) - {Verdict.STALE}


def as_sarif(merged: Merged) -> str:
    document = {"$schema": _SCHEMA, "version": "2.1.0", "runs": [_run(merged, result) for result in merged.results]}
    return msgspec.json.format(msgspec.json.encode(document), indent=1).decode() + "\n"


def _run(merged: Merged, result: Result) -> dict[str, object]:
    index = {requirement.id: number for number, requirement in enumerate(result.requirements)}
    rules = [_rule(requirement) for requirement in result.requirements]
    rules.append(
        {
            "id": _FILE_RULE,
            "shortDescription": {"text": "The known-failing file says what is so"},
            "fullDescription": {"text": MEANINGS[Verdict.STALE].says},
            "defaultConfiguration": {"level": "error"},
        }
    )
    found: list[dict[str, object]] = []
    for case in result.cases:
        if case.verdict in _SHOWN:
            named = case.broken or case.requirements[:1]
            found += [_broken(result, case, result.requirements[index[name]], index[name]) for name in named]
        elif case.verdict is Verdict.STALE:
            found.append(_of_file(result, case.reason or "stale", case.id, len(index)))
    found += [_of_file(result, problem, "", len(index)) for problem in result.problems]
    run: dict[str, object] = {
        "tool": {"driver": {"name": merged.suite.name, "version": merged.suite.version, "rules": rules}},
        "automationDetails": {"id": f"{name_of(result).replace('/', '-')}/{result.profile.replace('/', '-')}"},
        "results": found,
        "columnKind": "unicodeCodePoints",
        "properties": {
            "headline": headline(result),
            "counts": {verdict.value: result.counts[verdict] for verdict in Verdict},
            "environment": dict(sorted(result.environment.items())),
        },
    }
    invocation: dict[str, object] = {"executionSuccessful": not result.refused}
    if result.refused:
        invocation["toolExecutionNotifications"] = [{"level": "error", "message": {"text": result.refused}}]
    run["invocations"] = [invocation]
    return run


def _rule(requirement: RequirementText) -> dict[str, object]:
    return {
        "id": requirement.id,
        "shortDescription": {"text": f"{requirement.level}, {requirement.role}, {requirement.section}"},
        "fullDescription": {"text": requirement.text},
        "defaultConfiguration": {"level": _LEVELS[requirement.level]},
        "properties": {"tags": [requirement.level, requirement.role, requirement.profile, *requirement.needs]},
    }


def _broken(result: Result, case: CaseResult, requirement: RequirementText, index: int) -> dict[str, object]:
    verdict = verdict_for(case, requirement)
    made: dict[str, object] = {
        "ruleId": requirement.id,
        "ruleIndex": index,
        "level": "error" if verdict in BAD else _LEVELS[requirement.level],
        "message": {"text": f"{case.reason or verdict.value}\nCase: {case.title or case.id}"},
        "locations": [_place(result, case.id)],
        "partialFingerprints": {"case/v1": f"{result.implementation.name}:{case.id}:{requirement.id}"},
        "properties": {"verdict": verdict.value, "trace": [step_line(step) for step in case.trace[-_STEPS:]]},
    }
    if case.verdict is Verdict.KNOWN_FAILING:
        made["suppressions"] = [
            {"kind": "external", "status": "accepted", "justification": case.link or case.reason or "listed"}
        ]
    return made


def _of_file(result: Result, says: str, case: str, index: int) -> dict[str, object]:
    return {
        "ruleId": _FILE_RULE,
        "ruleIndex": index,
        "level": "error",
        "message": {"text": says},
        "locations": [_place(result, case)],
        "partialFingerprints": {"case/v1": f"{result.implementation.name}:{case or says}:{_FILE_RULE}"},
    }


def _place(result: Result, case: str) -> dict[str, object]:
    name = name_of(result)
    told = {"name": case or name, "fullyQualifiedName": f"{name}/{case}" if case else name}
    return {"logicalLocations": [told | {"kind": "test" if case else "implementation"}]}
