"""The explorer on a machine that is not ours, and its guide: what the page shows is what the example is, and what it prints."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLE, GUIDE = ROOT / "examples" / "explore_h11.py", ROOT / "docs" / "explorer.md"
pytest.importorskip("h11")


@pytest.fixture(scope="module")
def printed() -> str:
    if not version("h11").startswith("0.16."):
        pytest.skip(f"the finding is of h11 0.16, and this is {version('h11')}")
    run = subprocess.run([sys.executable, str(EXAMPLE)], capture_output=True, text=True, check=True)
    return run.stdout


def blocks(language: str) -> list[str]:
    text = GUIDE.read_text(encoding="utf-8")
    return [part.partition("```")[0] for part in text.split(f"```{language}\n")[1:]]


def test_an_unhandled_error_is_found_two_events_deep(printed: str) -> None:
    assert printed.splitlines()[1:4] == [
        "  1 ('server', 'Response')",
        "  2 ('client', 'Request')",
        "  TotalHandlers: AttributeError: 'tuple' object has no attribute '__name__'",
    ]


def test_what_is_left_is_explored_to_its_end(printed: str) -> None:
    last = printed.splitlines()[-1]
    assert last.startswith("every connection can end: ")
    assert last.endswith(" PROVED")


def test_the_guide_prints_what_the_example_prints(printed: str) -> None:
    assert printed in blocks("text")


def test_the_guide_quotes_the_example() -> None:
    quotes = [block for block in blocks("python") if block.startswith("class ")]
    assert len(quotes) == 1
    assert quotes[0] in EXAMPLE.read_text(encoding="utf-8")
