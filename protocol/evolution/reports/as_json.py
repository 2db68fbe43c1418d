"""For machines: everything, in one versioned document."""

from __future__ import annotations

import msgspec

from kvpoll.protocol.evolution.report import Report

from .words import line_of

__all__ = ["as_json"]


def as_json(report: Report) -> str:
    pairs = [
        {
            "old": {"version": pair.old.snapshot.version, "path": pair.old.path, "digest": pair.old.snapshot.digest},
            "new": {"version": pair.new.snapshot.version, "path": pair.new.path, "digest": pair.new.snapshot.digest},
            "orders": pair.orders,
            "findings": [
                {**msgspec.to_builtins(f), "fails": report.counts(f), "line": line_of(pair, f)} for f in pair.findings
            ],
            "waived": msgspec.to_builtins(pair.waived),
        }
        for pair in report.pairs
    ]
    schema = report.pairs[0].new.snapshot.schema if report.pairs else ""
    document = {
        "format": report.format, "schema": schema, "verdict": report.verdict, "orders": report.orders, "pairs": pairs,
        "problems": report.problems,
    }  # fmt: skip
    return msgspec.json.format(msgspec.json.encode(document), indent=1).decode() + "\n"
