"""The wire as a page for people: tables from the snapshot, sentences from the struct definitions."""

from __future__ import annotations

import inspect
import re

from kvpoll.protocol.schema_export import snapshot
from kvpoll.protocol.shape import expects
from kvpoll.spec import wire
from kvpoll.spec.schema import EnumSpec, FieldSpec, MessageSpec

__all__ = ["wire_markdown"]

_RULES = """\
A frame is one msgpack map from tag to value. A tag is a number, written as a decimal text key, each once; tag 0 is the
kind. Order means nothing. Absent is not zero: `optional` fields may be absent, and for one with a default absent means
the default. Unknown tags are skipped, counted, and kept byte for byte by a relay; an unknown critical tag or kind is
refused with reason VERSION. A reader takes the last of a known tag that is given twice, and refuses an unknown one.

A row (a list of exactly so many named values) is all there or absent, and never changes.""".splitlines()


def wire_markdown() -> str:
    """``docs/wire.md``. Reads the source of :mod:`kvpoll.spec.wire` for its comments."""
    document = snapshot()
    notes = _notes(inspect.getsource(wire))
    envelope = range(document.ranges["envelope"][0], document.ranges["envelope"][1] + 1)
    lines = [
        "<!-- Made by `kvpoll docs --write` from spec/wire.py and spec/rows.py; edit those. -->",
        f"# The wire, version {document.version}",
        "",
        f"Digest of the schema: `{document.digest[:16]}` (whole in `spec/snapshots/`).",
        "",
        *_RULES,
        "",
        "| range | tags |",
        "|---|---|",
        *(f"| {name} | {low} to {high} |" for name, (low, high) in document.ranges.items()),
        "",
        "| limit | value |",
        "|---|---|",
        *(f"| {name} | {value} |" for name, value in document.limits.items()),
        "",
        "## Kinds",
        "",
        "| kind | name | sent by | envelope | meaning |",
        "|---|---|---|---|---|",
        *(_kind_row(m, envelope) for m in document.messages),
        "",
        "## Envelope",
        "",
        "Which kinds carry which field stands in the table above; a name in brackets may be absent.",
        "",
        *_table(_envelope(document.messages, envelope), notes, "Message"),
        "",
        "## Bodies",
        "",
    ]
    for message in document.messages:
        body = [f for f in message.fields if f.tag not in envelope]
        if body:
            lines += [f"### {message.name} ({message.number})", "", *_table(body, notes, message.name), ""]
    lines += ["## Groups", ""]
    for group in document.groups:
        lines += [f"### {group.name}", "", _meaning(group.name), "", *_table(group.fields, notes, group.name), ""]
    lines += ["## Enums", "", *(_enum_line(e) for e in document.enums)]
    return "\n".join(lines).rstrip() + "\n"


def _kind_row(message: MessageSpec, envelope: range) -> str:
    fields = [f for f in message.fields if f.tag in envelope]
    carried = ", ".join(f.name if f.presence == "required" else f"[{f.name}]" for f in fields)
    sent_by = " or ".join(message.sent_by)
    return f"| {message.number} | {message.name} | {sent_by} | {carried} | {_meaning(message.name)} |"


def _envelope(messages: tuple[MessageSpec, ...], envelope: range) -> list[FieldSpec]:
    """Each envelope tag once, as the first kind that requires it (or has it at all) declares it."""
    fields: dict[int, FieldSpec] = {}
    for message in messages:
        for field in message.fields:
            known = fields.get(field.tag)
            if field.tag in envelope and (known is None or known.presence != "required"):
                fields[field.tag] = field
    return [fields[tag] for tag in sorted(fields)]


def _table(fields: tuple[FieldSpec, ...] | list[FieldSpec], notes: dict[str, str], owner: str) -> list[str]:
    rows = [
        f"| {f.tag} | {f.name} | {expects(f.type)} | {_presence(f)} | {_note(notes, owner, f.name)} |" for f in fields
    ]
    return ["| tag | name | takes | presence | note |", "|---|---|---|---|---|", *rows]


def _note(notes: dict[str, str], owner: str, name: str) -> str:
    own = notes.get(f"{owner}.{name}", "")
    return own or (notes.get(f"RoomMessage.{name}", "") if owner == "Message" else "")


def _presence(field: FieldSpec) -> str:
    if field.presence != "default":
        return field.presence
    return f"default {field.default if field.default not in ('', []) else 'empty'}"


def _meaning(name: str) -> str:
    text = inspect.getdoc(getattr(wire, name)) or ""
    return " ".join(text.split())


def _enum_line(enum: EnumSpec) -> str:
    numbers = ", ".join(f"{name} {value}" for name, value in enum.values.items())
    states = f" States of the {enum.machine} machine." if enum.machine else ""
    return f"* **{enum.name}**: {numbers}.{states}"


def _notes(source: str) -> dict[str, str]:
    """``#:`` comments of fields, by "Struct.field"."""
    notes, owner = {}, ""
    for line in source.splitlines():
        if found := re.match(r"class (\w+)\(", line):
            owner = found[1]
        elif found := re.match(r"    (\w+): .*#: (.*)$", line):
            notes[f"{owner}.{found[1]}"] = found[2]
    return notes
