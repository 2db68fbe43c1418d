"""For CI servers: a suite a baseline, a case a finding; a baseline without one is a passed case."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from kvpoll.protocol.evolution.report import Report

from .text import finding_text

__all__ = ["as_junit"]


def as_junit(report: Report) -> str:
    root = ET.Element("testsuites", name="kvpoll schema check")
    total = failures = 0
    for pair in report.pairs:
        suite = ET.SubElement(root, "testsuite", name=f"{pair.old.label} -> {pair.new.snapshot.version}")
        failed = [f for f in pair.findings if report.counts(f)]
        cases = max(1, len(pair.findings))
        suite.set("tests", str(cases))
        suite.set("failures", str(len(failed)))
        suite.set("errors", "0")
        total, failures = total + cases, failures + len(failed)
        for finding in pair.findings:
            name = f"{finding.rule} {finding.spec}{'.' + finding.field if finding.field else ''}"
            case = ET.SubElement(suite, "testcase", classname=pair.new.snapshot.schema, name=name)
            text = _printable("\n".join(finding_text(finding, report.counts(finding))))
            if report.counts(finding):
                ET.SubElement(case, "failure", type=finding.rule, message=_printable(finding.says)).text = text
            else:
                ET.SubElement(case, "system-out").text = text
        if not pair.findings:
            ET.SubElement(suite, "testcase", classname=pair.new.snapshot.schema, name="compatible")
    if report.problems:
        suite = ET.SubElement(root, "testsuite", name="waivers", tests=str(len(report.problems)), errors="0")
        suite.set("failures", str(len(report.problems)))
        total, failures = total + len(report.problems), failures + len(report.problems)
        for problem in report.problems:
            case = ET.SubElement(suite, "testcase", classname="waivers", name=problem)
            ET.SubElement(case, "failure", type="WAIVER", message=problem).text = problem
    root.set("tests", str(total))
    root.set("failures", str(failures))
    root.set("errors", "0")
    ET.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _printable(text: str) -> str:
    """Without what XML cannot hold."""
    return "".join(c if c in "\t\n" or ord(c) >= 32 else "?" for c in text)
