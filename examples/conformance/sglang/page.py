"""``docs/conformance/sglang.md``: what the committed runs against SGLang found, and how we read it; and ``sglang.html`` beside
it: the same runs as a matrix of requirements, with the trace of every case that did not hold.

    python examples/conformance/sglang/page.py --write

Numbers come from the documents beside the page, words from ``readings.md``. Without ``--write`` it says whether the page is up
to date, by its exit status.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from kvpoll.model_tests.conformance.reports import FORMATS, merge
from kvpoll.model_tests.conformance.result import CaseResult, Result, Verdict, read_result

__all__ = ["broken", "matrix", "page", "readings", "results"]

HERE = Path(__file__).resolve().parent
FOLDER = HERE.parents[2] / "docs" / "conformance"
PAGE = FOLDER / "sglang.md"
MATRIX = FOLDER / "sglang.html"
_ORDER = (
    Verdict.PASS, Verdict.NON_STRICT, Verdict.FAIL, Verdict.CRASH, Verdict.TIMEOUT, Verdict.KNOWN_FAILING, Verdict.STALE,
    Verdict.FLAKY, Verdict.BLOCKED, Verdict.UNSUPPORTED,
)  # fmt: skip
_LEVELS = ("MUST", "SHOULD", "MAY")
_HEAD = """\
<!-- Made by `python examples/conformance/sglang/page.py --write` from the documents beside it. Do not edit. -->
# SGLang 0.5.23 under the conformance suite

"""
_AGAIN = """\
[sglang.html](sglang.html) has the same runs as a matrix, with the trace of every case that did not hold (open it in a browser).

## Run it again

```
make conformance-sglang
```

builds an environment of its own (about 3 GB, no GPU), runs the suite against SGLang, and writes the documents that this page is
made of. With NIXL and with Mooncake it runs the cases that depend on what moves the data; control messages are the same code with
every mover. Cases that race with SGLang's threads on purpose (`races.txt`) may end otherwise from run to run, and a busy machine
moves them. One case by itself, with its trace:

```
kvpoll conformance run --impl examples/conformance/sglang/adapter.py:copy --run CASE
```

"""


def results() -> dict[str, Result]:
    """The committed documents, by what comes after the version in their names."""
    return {
        path.stem.removeprefix("sglang-0.5.23-"): read_result(path)
        for path in sorted(FOLDER.glob("sglang-0.5.23-*.json"))
    }


def broken(cases: Iterable[CaseResult]) -> dict[str, list[CaseResult]]:
    """Requirement -> the cases in which it did not hold."""
    found: dict[str, list[CaseResult]] = {}
    for case in cases:
        for id in case.broken:
            found.setdefault(id, []).append(case)
    return found


def page(runs: dict[str, Result]) -> str:
    """The whole page."""
    said = readings()
    return (_HEAD + said["ABOUT"] + "\n\n" + _counts(runs) + _AGAIN + "".join(_found(runs, said))).rstrip() + "\n"


def matrix(runs: dict[str, Result]) -> str:
    """The runs of the suite itself side by side, for a browser. Frames of other releases are another suite."""
    return FORMATS["html"](merge([run for name, run in runs.items() if name != "wire"]))


def _counts(runs: dict[str, Result]) -> str:
    used = [verdict for verdict in _ORDER if any(run.counts[verdict] for run in runs.values())]
    lines = [
        "## What was found",
        "",
        _row(["run", *(verdict.value for verdict in used), "seconds"]),
        _rule(len(used) + 2),
    ]
    for name, run in runs.items():
        lines.append(
            _row([_WHAT.get(name, name), *(str(run.counts[verdict]) for verdict in used), f"{run.seconds:.0f}"])
        )
    return "\n".join(lines) + "\n\n"


_WHAT = {
    "copy": "`copy`: a mover in our hands that copies between the processes",
    "nixl": "`nixl`: NIXL over UCX, TCP",
    "mooncake": "`mooncake`: Mooncake over TCP",
    "wire": "`wire`: peers of other releases",
}


def readings() -> dict[str, str]:
    """Heading -> text, of the file of readings."""
    parts = (HERE / "readings.md").read_text(encoding="utf-8").split("\n## ")[1:]
    return {part.split("\n", 1)[0]: part.split("\n", 1)[1].strip() for part in parts}


def _found(runs: dict[str, Result], said: dict[str, str]) -> Iterable[str]:
    texts = {each.id: each for run in runs.values() for each in run.requirements}
    each_run = {name: broken(run.cases) for name, run in runs.items()}
    ids = sorted(
        {id for found in each_run.values() for id in found},
        key=lambda id: (_LEVELS.index(texts[id].level), *_parts(id)),
    )
    yield "## Requirement by requirement\n\nOf the cases that judge it, those in which it did not hold.\n\n"
    for id in ids:
        yield f"### {id} ({texts[id].level})\n\n> {texts[id].text}\n\n"
        for name, run in runs.items():
            cases = each_run[name].get(id, [])
            if cases:
                one = _shortest(cases)
                yield f"* `{name}`: {len(cases)} of {len(run.of(id))}, for instance `{one.id}`: {_said(one)}\n"
        yield f"\n{said[id]}\n\n"


def _shortest(cases: Sequence[CaseResult]) -> CaseResult:
    """The one that says it most simply: the fewest requirements broken, the fewest steps."""
    return min(cases, key=lambda case: (len(case.broken), len(case.trace), case.id))


def _said(case: CaseResult) -> str:
    """In one line, without what differs from run to run."""
    return case.reason.split(": ", 1)[-1].split(";")[0][:160]


def _parts(id: str) -> tuple[str, int]:
    _, section, number = id.split("-")
    return section, int(number)


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _rule(columns: int) -> str:
    return "|---" + "|--:" * (columns - 1) + "|"


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--write", action="store_true", help="write the page")
    runs = results()
    made = {PAGE: page(runs), MATRIX: matrix(runs)}
    if arguments.parse_args().write:
        for path, text in made.items():
            path.write_text(text, encoding="utf-8")
    return 0 if all(path.is_file() and path.read_text(encoding="utf-8") == text for path, text in made.items()) else 1


if __name__ == "__main__":
    sys.exit(main())
