"""The format of a trace: one JSON object a line, of four kinds, told apart by one key.

=========  =====================================================================================================
``trace``  the head, first line of a process: version of this format, digest of the tables, engine, role, clocks
``event``  a step of a room's end (``role`` sender or receiver, ``no``) or of a link (``role`` link, ``link``)
``way``    a control message that left (``out``) or arrived (``in``)
``end``    the last line of a process that was closed in order: how many lines it wrote before
=========  =====================================================================================================

Every line has ``t`` (ms of a monotonic clock) and ``instance`` (hexadecimal, as ``link`` and ``engine`` are). Rules for
readers: keys that are not known are skipped; a head of another version makes every line of its instance unreadable.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cache

import msgspec

from kvpoll.spec import TABLES

from ..render.guard import guard_text, update_text

__all__ = ["LINKS", "VERSION", "Line", "TraceError", "decode", "decode_all", "split", "tables_digest"]

#: Version of the format. It changes when a key changes its meaning, not when one is added.
VERSION = 1
#: ``role`` of a link's steps.
LINKS = "link"


class TraceError(Exception):
    """A line that is none. ``reason`` says what was expected."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Line(msgspec.Struct, gc=False):
    """A line of any kind; what its kind does not have is at its default. Texts are as they stood there, unchecked."""

    t: int
    instance: str
    # a step
    role: str = ""
    no: int = 0
    event: str = ""  #: with its arguments: ``BIND is_push=True``
    before: str = msgspec.field(name="from", default="")
    after: str = msgspec.field(name="to", default="")
    effects: tuple[str, ...] = ()
    cause: str = ""  #: of a step that fails, and of the failure that an Abort or a Status tells of
    # a message
    way: str = ""
    link: str = ""
    kind: str = ""
    state: str = ""  #: of the end that says Status
    reason: str = ""  #: of a Refusal
    parts: int = 0  #: how many a message speaks of
    # the attempt, of either
    room: int | None = None
    engine: str = ""
    gen: int | None = None
    # the head
    trace: int = 0
    tables: str = ""
    process: str = ""
    unix: int = 0  #: ms since 1970 at ``t``
    clock: str = ""  #: lines with the same clock have comparable ``t``
    # the end
    end: int = 0


_DECODER = msgspec.json.Decoder(Line)


def decode(raw: bytes) -> Line:
    """One line. Raises :class:`TraceError`."""
    try:
        return _DECODER.decode(raw)
    except msgspec.ValidationError as error:
        raise TraceError(f"a line of a trace has other types: {error}") from None
    except msgspec.DecodeError as error:
        raise TraceError(f"expected one JSON object: {error}") from None
    except (UnicodeDecodeError, RecursionError) as error:
        raise TraceError(f"expected one JSON object in UTF-8: {error}") from None


def decode_all(data: bytes) -> list[Line] | None:
    """Whole lines at once, which is five times as fast; ``None`` if one of them is blank or wrong."""
    try:
        lines: list[Line] = _DECODER.decode_lines(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return lines if len(lines) == data.count(b"\n") + (not data.endswith(b"\n")) else None


def split(data: bytes) -> tuple[bytes, bytes]:
    """A piece of a file as (whole lines, the begun line behind them)."""
    at = data.rfind(b"\n") + 1
    return data[:at], data[at:]


@cache
def tables_digest() -> str:
    """Of everything that the tables decide; reasons and comments aside. 16 hexadecimal digits."""
    digest = hashlib.sha256()
    for part in _decisions():
        digest.update(part.encode())
        digest.update(b"\0")
    return digest.hexdigest()[:16]


def _decisions() -> Iterator[str]:
    for table in TABLES.values():
        yield repr((table.name, table.initial, sorted(state.name for state in table.terminal), table.broken))
        yield repr([(field.name, field.domain, field.initial) for field in table.fields])
        for row in table.rows:
            said = (row.state, row.event, row.verdict, row.next, row.effects, row.cause)
            yield repr((said, guard_text(row.guard), [update_text(update) for update in row.updates]))
