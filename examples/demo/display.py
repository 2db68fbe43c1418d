"""Progress: a live table on a terminal, a line now and then elsewhere, nothing for machines."""

from __future__ import annotations

from collections import Counter
from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from demo.router import Router

__all__ = ["Display"]

_STATES = ("Bootstrapping", "WaitingForInput", "Transferring", "Success", "Failed")
_STYLES = {"Success": "green", "Failed": "red", "Transferring": "cyan"}
_LINES = 8  #: about so many lines of progress where nothing can be drawn over


class Display:
    """A context manager; ``console`` none: silent."""

    def __init__(self, router: Router, console: Console | None) -> None:
        self._router, self._console = router, console
        self._phase, self._lines = "", 0
        live = console is not None and console.is_terminal
        self._live = Live(self, console=console, refresh_per_second=8, transient=True) if live else None

    def phase(self, text: str) -> None:
        """What happens now."""
        self._phase = text
        if self._live is None and self._console is not None:
            self._console.print(text, highlight=False)

    def update(self) -> None:
        """A room has moved."""
        rooms = self._router.rooms
        over = sum(bool(room.legs) and room.room not in self._router.live for room in rooms)
        line = over * _LINES // max(1, len(rooms))
        if self._live is None and self._console is not None and line > self._lines:
            self._lines = line
            failed = sum(any(leg.failure for leg in room.legs.values()) for room in rooms)
            self._console.print(f"  {over} of {len(rooms)} rooms are over, {failed} failed", highlight=False)

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self._live is not None:
            self._live.stop()

    def __rich__(self) -> RenderableType:
        rooms = self._router.rooms
        counts: dict[str, Counter[str]] = {name: Counter() for name in self._router.engines}
        over = 0
        for room in rooms:
            over += bool(room.legs) and room.room not in self._router.live
            for leg in list(room.legs.values()):
                if leg.given and leg.engine in counts:
                    counts[leg.engine][leg.state] += 1
        table = Table(box=None, pad_edge=False)
        table.add_column("engine")
        table.add_column("process")
        for state in _STATES:
            table.add_column(state, justify="right", style=_STYLES.get(state, ""))
        for name, view in list(self._router.engines.items()):
            numbers = (str(counts[name][state] or "") if name in counts else "" for state in _STATES)
            table.add_row(name, Text(view.status, style="red" if not view.runs else ""), *numbers)
        bar = Table.grid(padding=(0, 1))
        bar.add_row(ProgressBar(total=len(rooms), completed=over, width=40), f"{over} of {len(rooms)} rooms")
        return Group(Text(self._phase, style="bold"), table, bar)
