"""The summary: one object for machines, and the same as tables for people."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import median, quantiles
from typing import Any, Literal

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from demo.faults import Fault
from demo.proof import Expected
from demo.router import Room, Router, Side
from demo.setting import PAGE_SIZE, Options

__all__ = ["show", "summarise"]

_SIDES: tuple[Side, ...] = ("prefill", "decode")
_SHOWN = 10  #: problems
#: The state that a phase is spent in -> what a person calls it.
_PHASES = {"Bootstrapping": "bootstrap", "WaitingForInput": "wait", "Transferring": "transfer"}


def summarise(
    options: Options, router: Router, fault: Fault, expected: Mapping[int, Expected], seconds: Mapping[str, float],
    extra: Sequence[str],
) -> dict[str, Any]:  # fmt: skip
    """Everything that there is to say. ``problems`` is empty when the run was good; ``extra`` are some found elsewhere."""
    rooms = [room for room in router.rooms if room.legs]
    answered = [room for room in rooms if room.tokens is not None]
    wrong = _wrong(answered, expected)
    problems = [*extra, *(f"{_who(room)}: {text}" for room, text in wrong), *_unended(rooms, router, fault)]
    problems += [*fault.problems(), *_engine_problems(router)]
    return {
        "ok": not problems,
        "problems": problems,
        "transport": options.transport,
        "fault": {"name": fault.title, "what": fault.did, "touched": sum(bool(r.touched) for r in rooms)}
        if options.fault or options.refused
        else None,
        "sizes": {"mla": options.mla, "prefill": options.prefill_shape._asdict(), "decode": options.decode_shape._asdict()},
        "rooms": {
            "given": len(rooms),
            "answered": len(answered),
            "failed": sum(room.tokens is None and _failed(room) for room in rooms),
            "lost": sum(room.tokens is None and not _failed(room) for room in rooms),
            "untouched": sum(not room.touched for room in rooms),
            "prompt_tokens": sum(len(room.prompt) for room in rooms),
            "lengths": sorted({len(room.prompt) for room in answered}),
            "on_page_borders": sum(len(room.prompt) % PAGE_SIZE == 0 for room in rooms),
            "orders": {order: sum(r.order == order for r in rooms) for order in dict.fromkeys(r.order for r in rooms)},
        },
        "parity": {
            "rooms": len(answered) - len(wrong),
            "tokens": sum(len(room.tokens or ()) for room in answered),
            "rows": sum(expected[room.index].rows for room in answered),
            "alone": sum(room.tokens == expected[room.index].alone for room in answered),
            "different": [{"room": room.room, "prompt": room.index, "where": text} for room, text in wrong],
        },
        "bytes": sum(room.nbytes for room in answered),
        "phases_ms": {side: _phases(answered, side) for side in _SIDES},
        "causes": _causes(rooms),
        "engines": [
            {
                "name": name, "pid": view.peer.pid, "end": view.status, "exit_status": view.exit_status,
                "not_idle": view.left or {}, "cut_off": view.cut_off,
            }
            for name, view in router.engines.items()
        ],
        "seconds": {name: round(value, 2) for name, value in seconds.items()},
    }  # fmt: skip


def _wrong(answered: Sequence[Room], expected: Mapping[int, Expected]) -> list[tuple[Room, str]]:
    found = []
    for room in answered:
        assert room.tokens is not None
        assert room.digests is not None
        where = expected[room.index].difference(room.tokens, room.digests)
        if where:
            found.append((room, where))
    return found


def _unended(rooms: Sequence[Room], router: Router, fault: Fault) -> list[str]:
    found = [f"{len(router.rooms) - len(rooms)} rooms were never given out"] if len(rooms) < len(router.rooms) else []
    for room in rooms:
        if room.touched:
            text = fault.problem(room)
        else:
            bad = [f"{side} {leg.state}: {(leg.failure or {}).get('sentence', 'no cause')}"
                   for side, leg in room.legs.items() if leg.state != "Success"]  # fmt: skip
            text = "; ".join(bad) or ("" if room.tokens is not None else "no tokens came")
        if text:
            found.append(f"{_who(room)}: {text}")
    return found


def _engine_problems(router: Router) -> list[str]:
    found = []
    for name, view in router.engines.items():
        if view.status in ("killed", "stopped"):
            continue
        if view.status == "closed" and view.left == {} and not view.cut_off and view.exit_status == 0:
            continue
        if view.status != "closed":
            found.append(f"{name} is {view.status}, not closed: {view.peer.last_words() or 'it said nothing'}")
        for what, sizes in (("was not idle at the end", view.left), ("cut off when it closed", view.cut_off)):
            if sizes:
                found.append(f"{name} {what}: {', '.join(f'{n} {size}' for n, size in sizes.items())}")
        if view.status == "closed" and view.exit_status != 0:
            found.append(f"{name} ended with status {view.exit_status}: {view.peer.last_words()}")
    return found


def _who(room: Room) -> str:
    return f"room {room.room} (prompt {room.index}, {len(room.prompt)} tokens)"


def _failed(room: Room) -> bool:
    return any(leg.failure for leg in room.legs.values())


def _phases(rooms: Sequence[Room], side: Side) -> dict[str, dict[str, float]]:
    """Median and 95th percentile of the milliseconds in each phase, over rooms that were answered."""
    spans: dict[str, list[float]] = {name: [] for name in _PHASES.values()}
    for room in rooms:
        if room.legs[side].state == "Success":
            for state, name in _PHASES.items():
                spans[name].append(room.legs[side].phases.get(state, 0.0))
    return {
        name: {"median": round(median(values), 1), "p95": round(_p95(values), 1)}
        for name, values in spans.items()
        if values
    }


def _p95(values: Sequence[float]) -> float:
    return quantiles(values, n=20, method="inclusive")[-1] if len(values) > 1 else values[0]


def _causes(rooms: Sequence[Room]) -> list[dict[str, Any]]:
    """One entry for each cause at each side, with a sentence of one of its rooms."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for room in rooms:
        for side, leg in room.legs.items():
            if leg.failure:
                found[side, leg.failure["cause"]].append(leg.failure | {"room": room.room})
    return [
        {
            "side": side, "cause": cause, "rooms": len(failures), "in_doubt": sum(f["in_doubt"] for f in failures),
            "statuses": sorted({f["status"] for f in failures}), "example": failures[0]["sentence"],
        }
        for (side, cause), failures in sorted(found.items())
    ]  # fmt: skip


def show(summary: Mapping[str, Any], console: Console) -> None:
    """For people."""
    console.print()
    _show_numbers(summary, console)
    if summary["causes"]:
        _show_causes(summary["causes"], console)
    _show_engines(summary["engines"], console)
    verdict: Literal["green", "red"] = "green" if summary["ok"] else "red"
    problems = summary["problems"]
    for problem in problems[:_SHOWN]:
        console.print(Text("problem: ", style="red").append(problem, style="default"))
    if len(problems) > _SHOWN:
        console.print(f"and {len(problems) - _SHOWN} more: --json has them all")
    console.print(f"[bold {verdict}]{_verdict(summary)}[/]", highlight=False)


def _show_numbers(summary: Mapping[str, Any], console: Console) -> None:
    rooms, parity, seconds = summary["rooms"], summary["parity"], summary["seconds"]
    lines = [
        ("rooms", f"{rooms['given']} given, {rooms['answered']} answered, {rooms['failed']} failed"
                  + (f", {rooms['lost']} lost with their engine; " if rooms["lost"] else "; ")
                  + ", ".join(f"{count} {order}" for order, count in rooms["orders"].items())),
        ("parity", f"{parity['rooms']} of {rooms['answered']} answers equal one engine's own: "
                   f"{parity['tokens']} tokens, {parity['rows']} KV rows, bit for bit"),
        ("moved", f"{summary['bytes'] / 1e6:.1f} MB of KV and aux data over {summary['transport']}"),
        ("time", f"{seconds['setup']:.1f} s set-up, {seconds['run']:.1f} s run, {seconds['end']:.1f} s end"),
    ]  # fmt: skip
    ends = {side: {name: size for name, size in summary["sizes"][side].items() if size > 1} for side in _SIDES}
    if any(ends.values()) or summary["sizes"]["mla"]:
        text = "; ".join(
            f"{side} {' '.join(f'{n} {s}' for n, s in ends[side].items()) or 'one rank'}" for side in _SIDES
        )
        lines.insert(0, ("sizes", f"{text}; {'latent rows' if summary['sizes']['mla'] else 'keys and values by head'}"))
        alone = f"{parity['alone']} of {rooms['answered']}"
        lines.insert(
            3, ("alone", f"{alone} have the tokens of an engine of decode's sizes that computed the prompt itself")
        )
    if summary["fault"]:
        lines.insert(0, ("fault", summary["fault"]["what"] or "did not happen"))
    table = Table.grid(padding=(0, 2))
    for name, text in lines:
        table.add_row(f"[bold]{name}[/]", text)
    console.print(table)
    if not any(summary["phases_ms"].values()):
        return
    phases = Table(title="time per phase of an answered room, ms", title_justify="left", title_style="bold")
    phases.add_column("at")
    for phase in _PHASES.values():
        phases.add_column(f"{phase}\nmedian", justify="right")
        phases.add_column("\np95", justify="right")
    for side, spans in summary["phases_ms"].items():
        if spans:
            phases.add_row(side, *(f"{span[key]:.1f}" for span in spans.values() for key in ("median", "p95")))
    console.print(phases)


def _show_causes(causes: Sequence[Mapping[str, Any]], console: Console) -> None:
    console.print("[bold]why rooms failed[/]")
    for entry in causes:
        statuses = ", ".join(str(status) for status in entry["statuses"])
        doubt = f", {entry['in_doubt']} of them in doubt" if entry["in_doubt"] else ""
        console.print(
            f"  {entry['side']:8} [red]{entry['cause']}[/]: {_count(entry['rooms'], 'room')}{doubt}, status {statuses}",
            highlight=False,
        )
        console.print(Padding(Text(entry["example"].removeprefix(f"{entry['cause']}: ")), (0, 0, 0, 11)))
    console.print()


def _show_engines(engines: Sequence[Mapping[str, Any]], console: Console) -> None:
    table = Table(title="processes at the end", title_justify="left", title_style="bold")
    for name in ("engine", "pid", "end", "leases, tables and queues"):
        table.add_column(name)
    for engine in engines:
        left = engine["not_idle"] | engine["cut_off"]
        idle = ", ".join(f"{name} {size}" for name, size in left.items()) or "[green]all idle[/]"
        table.add_row(engine["name"], str(engine["pid"]), engine["end"], idle if engine["end"] == "closed" else "")
    console.print(table)


def _verdict(summary: Mapping[str, Any]) -> str:
    if not summary["ok"]:
        return f"not good: {_count(len(summary['problems']), 'problem')}"
    if summary["fault"]:
        return (
            f"good: {summary['rooms']['untouched']} rooms that the fault did not touch were answered exactly, the other "
            f"{summary['fault']['touched']} ended as they should, and everybody who still runs is idle"
        )
    return "good: every token is right, and everybody is idle"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
