"""Traces: the lines that a process writes, and what can be said about them afterwards. Pure: lines in, a verdict out.

* :mod:`.lines` is the format, for the writer (``kvpoll.runtime.trace``) and the readers.
* :class:`Checker` holds lines of one or many processes to the tables: ``kvpoll trace check``.
* :class:`Story` collects them by room, for people: ``kvpoll trace show``.
"""

from .check import Checker
from .lines import VERSION, Line, TraceError, split, tables_digest
from .verdict import Bad, Verdict

__all__ = [
    "VERSION", "Bad", "Checker", "Line", "TraceError", "Verdict",
    "split", "tables_digest",
]  # fmt: skip
