"""The page that ``kvpoll trace show`` writes: one HTML file with everything in it, which fetches nothing.

What stands in a trace may be anybody's text. So it reaches the page as JSON in which no tag can begin, the script puts it
there as text nodes only, and a policy in the page allows this very script and style and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape

from kvpoll.protocol.render.page import data_json, html_page
from kvpoll.protocol.trace.sequence import sequence
from kvpoll.protocol.trace.story import End, Mark, RoomStory
from kvpoll.protocol.trace.survey import Survey
from kvpoll.spec import TERMINAL, KVPoll

from .trace_script import SCRIPT
from .trace_style import STYLE

__all__ = ["page"]

#: In the order in which a room goes through them; the style has a colour for each.
_STATES = (KVPoll.Bootstrapping, KVPoll.WaitingForInput, KVPoll.Transferring, KVPoll.Success, KVPoll.Failed)
_INDEX = {state.name: index for index, state in enumerate(_STATES)}
#: Steps of links that are listed.
_LINKS = 200


def page(survey: Survey, rooms: Sequence[RoomStory], began: int, files: Sequence[str], notes: Sequence[str]) -> str:
    """``began``: ms since 1970 of time 0. ``notes``: what a reader must know, one sentence each."""
    counts, total = survey.outcomes, len(survey.rooms)
    data = {
        "states": [state.name for state in _STATES],
        "terminal": [index for index, state in enumerate(_STATES) if state in TERMINAL],
        "total": {"rooms": total, **{name: counts[name] for name in ("success", "failed", "open")}},
        "causes": sorted(survey.causes.items(), key=lambda item: -item[1]),
        "span": max((room.stop for room in rooms), default=0),
        "rooms": [_room(room) for room in rooms],
    }
    about = f"{_count(len(files), 'file')}, {_count(len(survey.heads) or 1, 'process', 'processes')}"
    if any(head.unix for head in survey.heads.values()):
        about += f", from {datetime.fromtimestamp(began / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    body = _BODY.format(
        about=escape(about), files=escape(", ".join(files)[:500]), links=_links(survey, began),
        notes="".join(f'<p class="note">{escape(note)}</p>' for note in notes),
    )  # fmt: skip
    return html_page(f"{_count(total, 'room')} · kvpoll trace", STYLE, SCRIPT, body, data_json(data))


def _room(story: RoomStory) -> dict[str, object]:
    return {
        "id": str(story.room),  # 64 bits are more than a number of JavaScript holds
        "outcome": story.outcome, "causes": story.causes, "start": story.start, "stop": story.stop,
        "ends": [_end(end) for end in story.ends], "marks": [_mark(mark) for mark in story.marks],
        "leftOut": story.left_out, "mermaid": sequence(story),
    }  # fmt: skip


def _end(end: End) -> dict[str, object]:
    spans = [(t, _INDEX[state]) for t, state in end.spans if state in _INDEX]
    return {
        "who": end.who, "role": end.role, "no": end.no, "spans": spans, "stop": end.stop, "cause": end.cause, "cut": end.cut
    }  # fmt: skip


def _mark(mark: Mark) -> dict[str, object]:
    return {
        "t": mark.t, "end": mark.end, "what": mark.what, "name": mark.name, "after": mark.after, "effects": mark.effects,
        "cause": mark.cause, "parts": mark.parts, "other": mark.other, "lost": mark.lost,
    }  # fmt: skip


def _links(survey: Survey, began: int) -> str:
    if not survey.links:
        return ""
    offsets = survey.offsets()
    rows = []
    timed = sorted((note.t + offsets[note.instance] - began, number, note) for number, note in enumerate(survey.links))
    for ms, _, note in timed[:_LINKS]:
        cells = (f"{ms / 1000:.3f} s", note.who, note.link, f"{note.before} → {note.after} ({note.event})")
        rows.append("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>")
    more = len(survey.links) - _LINKS
    left = f'<p class="note">{more} more steps of links are not listed.</p>' if more > 0 else ""
    head = "".join(f'<th scope="col">{name}</th>' for name in ("at", "process", "link", "what happened"))
    return (
        f'<h2>Links</h2><table class="links"><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table>{left}'
    )


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"


_BODY = """<header><div class="wide">
<h1>Rooms of a trace</h1>
<p class="sub" title="{files}">{about}</p>
{notes}
<div class="totals" id="totals"></div>
</div></header>
<div class="bar"><div class="wide">
<div class="filters" role="search">
<label>Room <input id="find" type="search" placeholder="number" inputmode="numeric" autocomplete="off"></label>
<label>Outcome <select id="outcome"><option value="">any</option></select></label>
<label>Was in <select id="state"><option value="">any state</option></select></label>
<label>Cause <select id="cause"><option value="">any</option></select></label>
<label>Time <select id="axis-kind"><option value="own">since each room began</option>
<option value="log">since each room began, log scale</option><option value="clock">since the trace began</option>
<option value="fit">each room as wide as the page</option></select></label>
<span class="count" id="count" role="status"></span>
</div>
<div class="legend" id="legend"></div>
<div class="axis" id="axis" aria-hidden="true"></div>
</div></div>
<main class="wide">
<noscript><p class="none">The rooms are drawn by a script in this page; it is switched off.</p></noscript>
<div id="rooms"></div>
{links}
</main>
"""
