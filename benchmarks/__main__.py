"""``python -m benchmarks``: every benchmark, one table. Exits 0 whatever the numbers are, unless a benchmark breaks."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from traceback import print_exc

from . import codec, explore, handoff, interpreter, kernels, plans, poll, relayout, schema, trace
from .result import Bare, Result

__all__ = ["BENCHMARKS", "main"]


def _codec(quick: bool) -> list[Result]:
    """The codec's results in the words of the others."""
    results = codec.run(rounds=2, calls=50) if quick else codec.run()
    return [_as_result(each) for each in results]


def _as_result(of: codec.Result) -> Result:
    says = f"minimum over rounds, ours {'/' if of.unit == 'x' else '-'} slots"
    bare = (Bare("ours median", of.ours_median_ns, "ns"), Bare("slots median", of.slots_median_ns, "ns"))
    return Result(of.name, of.value, of.target, unit=of.unit, says=says, bare=bare)


BENCHMARKS: dict[str, Callable[[bool], list[Result]]] = {
    "interpreter": interpreter.run,
    "codec": _codec,
    "handoff": handoff.run,
    "poll": poll.run,
    "trace": trace.run,
    "explore": explore.run,
    "schema": schema.run,
    "kernels": kernels.run,
    "plans": plans.run,
    "relayout": relayout.run,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what was asked for; 1 when a benchmark broke, with its traceback on standard error."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", choices=BENCHMARKS, action="append", help="run this one (may be given again)")
    parser.add_argument("--quick", action="store_true", help="few rounds: shows that it runs, numbers mean little")
    parser.add_argument("--json", action="store_true", help="one JSON object with every number, instead of the table")
    chosen = parser.parse_args(arguments)
    results: dict[str, list[Result]] = {}
    broken: list[str] = []
    for name in chosen.only or BENCHMARKS:
        if not chosen.json and sys.stderr.isatty():
            print(f"{name} ...", file=sys.stderr)
        try:
            results[name] = BENCHMARKS[name](chosen.quick)
        except Exception:  # noqa: BLE001 - the others still run, and the exit status says that one did not
            print_exc()
            broken.append(name)
    if chosen.json:
        rows = {name: [r.as_dict() for r in of] for name, of in results.items()}
        print(json.dumps({"quick": chosen.quick, "results": rows, "broken": broken}, indent=2))
    else:
        _show(results, chosen.quick)
    return 1 if broken else 0


_HEAD = ("benchmark", "what", "ratio", "target", "", "bare (not comparable between runs)")


def _lines(results: dict[str, list[Result]]) -> Iterator[tuple[str, ...]]:
    for name, of in results.items():
        for r in of:
            ratio = "" if r.ratio is None else f"{r.ratio:.2f} {r.unit}"
            target = "" if r.target is None else f"{'>=' if r.at_least else '<='} {r.target:g} {r.unit}"
            met = {None: "", True: "met", False: "missed"}[r.met]
            yield name, r.name, ratio, target, met, ", ".join(bare.text() for bare in r.bare)


def _show(results: dict[str, list[Result]], quick: bool) -> None:
    note = "Ratios are against a baseline in the same run, in interleaved rounds." + (
        " Quick: these numbers mean little." if quick else ""
    )
    try:
        from rich.console import Console
        from rich.table import Table
    except ImportError:
        rows = [_HEAD, *_lines(results)]
        widths = [max(len(row[i]) for row in rows) for i in range(len(_HEAD))]
        for row in rows:
            print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
        print(note)
        return
    table = Table(*_HEAD, caption=note)
    for line in _lines(results):
        style = {"missed": "bold red", "met": "green"}.get(line[4], "")
        table.add_row(*line[:4], f"[{style}]{line[4]}[/]" if style else "", f"[dim]{line[5]}[/]")
    console = Console()
    if not console.is_terminal:
        console.width = 180
    console.print(table)


if __name__ == "__main__":
    sys.exit(main())
