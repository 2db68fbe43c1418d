"""A room's story as a Mermaid sequence diagram: text that code hosts and many editors draw."""

from __future__ import annotations

from .story import Mark, RoomStory

__all__ = ["sequence"]

#: Lines of one diagram; beyond that nobody reads it, and renderers refuse.
LIMIT = 300


def sequence(story: RoomStory) -> str:
    """Messages as arrows (``-x`` lost, ``-)`` to or from a process that was not traced), changes of state as notes."""
    lines = ["sequenceDiagram", f"    title Room {story.room}: {_safe(story.outcome)}"]
    for index, end in enumerate(story.ends):
        number = f" {end.no}" if end.role != "no end" else ""
        lines.append(f"    participant E{index} as {_safe(f'{end.role}{number} of {end.who}')}")
    told = [text for mark in story.marks if (text := _statement(story, mark))]
    if _strange(story):
        lines.append("    participant X as not traced")
    lines += [f"    {text}" for text in told[:LIMIT]]
    if len(told) > LIMIT or story.left_out:
        lines.append(f"    Note over E0: {len(told) - min(len(told), LIMIT) + story.left_out} more are left out")
    return "\n".join(lines) + "\n"


def _statement(story: RoomStory, mark: Mark) -> str:
    here = f"E{mark.end}"
    match mark.what:
        case "step":
            if not mark.after:
                return ""
            cause = f" ({mark.cause})" if mark.cause else ""
            return f"Note over {here}: {_safe(f'{mark.name} → {mark.after}{cause}')}"
        case "out" if mark.other >= 0:
            return f"{here}->>E{story.marks[mark.other].end}: {_label(mark)}"
        case "out" if mark.lost:
            others = [index for index, end in enumerate(story.ends) if end.role != story.ends[mark.end].role]
            return f"{here}-xE{others[0]}: {_label(mark)}" if others else f"{here}-)X: {_label(mark)}"
        case "out":
            return f"{here}-)X: {_label(mark)}"
        case _ if mark.other < 0:
            return f"X-){here}: {_label(mark)}"
    return ""


def _strange(story: RoomStory) -> bool:
    return any("X" in (_statement(story, mark).split(":")[0]) for mark in story.marks)


def _label(mark: Mark) -> str:
    said = [text for text in (mark.after, mark.cause, _parts(mark.parts)) if text]
    return _safe(f"{mark.name}{f' ({chr(44).join(said)})' if said else ''}")


def _parts(count: int) -> str:
    return "" if not count else "1 part" if count == 1 else f"{count} parts"


def _safe(text: str) -> str:
    """What a trace says is text, whatever it says: no statement, no markup, no line of its own."""
    plain = "".join(sign if sign.isprintable() and sign not in "<>\"'`\\" else " " for sign in text[:200])
    return plain.translate(_SIGNS)


_SIGNS = str.maketrans({"#": "#35;", ";": "#59;", "%": "#37;", "{": "#123;", "}": "#125;"})
