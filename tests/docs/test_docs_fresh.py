"""Generated documentation is what the tables say now, and the helper keeps the rest of a page as people wrote it."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from kvpoll.cli.app import cli
from kvpoll.cli.docs import BLOCKS, GENERATED, PAGES, fill, stale
from kvpoll.spec import CATALOGUE, TABLES

ROOT = Path(__file__).parents[2]
RUN = CliRunner()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Enough of a checkout for the command to work in."""
    (tmp_path / "spec").mkdir()
    (tmp_path / "spec" / "table.py").touch()
    return tmp_path


def test_every_generated_page_and_block_is_up_to_date() -> None:
    assert list(stale(ROOT)) == [], "run: kvpoll docs --write"


@pytest.mark.parametrize("path", GENERATED)
def test_a_generated_page_begins_by_saying_what_makes_it(path: str) -> None:
    lines = GENERATED[path]().splitlines()
    if path.endswith(".md"):
        assert lines[0].startswith("<!-- Made by `kvpoll docs --write`")
        assert lines[0].endswith("-->")
    else:  # a model: its first lines are what its checker wants, with a comment among them
        assert any("Made by `kvpoll docs --write`" in line for line in lines[:3])


def test_there_is_a_page_for_each_table_with_its_diagram() -> None:
    for name in TABLES:
        assert BLOCKS[f"{name}-diagram"]() in GENERATED[f"docs/tables/{name}.md"]()


def test_no_page_is_left_over_from_a_table_that_is_gone() -> None:
    assert {f"docs/tables/{p.name}" for p in (ROOT / "docs" / "tables").glob("*.md")} <= set(GENERATED)


def test_the_catalogue_page_has_every_cause_and_where_each_failing_row_stands() -> None:
    page = GENERATED["docs/failures.md"]()
    listed, origins = page.split("## Where they come from")
    for cause in CATALOGUE:
        assert f"| {cause.value} | `{cause.name}` |" in listed
    for table in TABLES.values():
        for row in table.rows:
            if row.verdict.value == "fail" and row.cause is not None:
                lines = [x for x in origins.splitlines() if x.startswith(f"| `{row.cause.name}` | {table.name} |")]
                assert any(row.state.name in x and f"`{row.event.name}`" in x for x in lines), row


def test_write_makes_everything_and_check_is_then_content(checkout: Path) -> None:
    missing = RUN.invoke(cli, ["docs", "--check", "--root", str(checkout)])
    assert missing.exit_code == 1
    assert all(f"out of date: {path}\n" in missing.output for path in GENERATED)
    assert RUN.invoke(cli, ["docs", "--write", "--root", str(checkout)]).exit_code == 0
    made = [p for p in checkout.rglob("*") if p.suffix in {".md", ".tla", ".pml"}]
    assert {str(p.relative_to(checkout)) for p in made} == set(GENERATED)
    assert RUN.invoke(cli, ["docs", "--check", "--root", str(checkout)]).output == ""


def test_check_finds_one_changed_letter_and_changes_nothing(checkout: Path) -> None:
    RUN.invoke(cli, ["docs", "--write", "--root", str(checkout)])
    page = checkout / "docs" / "failures.md"
    changed = page.read_text(encoding="utf-8").replace("Failures", "failures")
    page.write_text(changed, encoding="utf-8")
    result = RUN.invoke(cli, ["docs", "--check", "--root", str(checkout)])
    assert (result.exit_code, result.stdout) == (1, "out of date: docs/failures.md\n")
    assert page.read_text(encoding="utf-8") == changed


def test_a_block_is_filled_and_the_words_around_it_are_kept() -> None:
    page = "# Title\n\n<!-- generated: x -->\nold\n<!-- end -->\nword\n<!-- generated: y --><!-- end -->\nlast"
    filled = fill(page, {"x": lambda: "new x\n", "y": lambda: "new y\n"})
    new_x = "<!-- generated: x -->\nnew x\n<!-- end -->"
    assert filled == f"# Title\n\n{new_x}\nword\n{new_x.replace('x', 'y')}\nlast"
    assert fill(filled, {"x": lambda: "new x\n", "y": lambda: "new y\n"}) == filled


def test_a_page_without_blocks_is_left_alone() -> None:
    assert fill("nothing here <!-- end --> but words\n", {}) == "nothing here <!-- end --> but words\n"


@pytest.mark.parametrize(
    ("page", "said"),
    [
        ("<!-- generated: nobody -->\n<!-- end -->", "nobody"),
        ("<!-- generated: x -->\nnever closed", "not closed"),
        ("<!-- generated: x -->\n<!-- generated: x -->\n<!-- end -->", "not closed"),
    ],
    ids=["unknown", "open", "nested"],
)
def test_a_block_that_cannot_be_filled_is_an_error_that_names_it(page: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        fill(page, {"x": lambda: "x\n"})


def test_a_readme_with_a_broken_block_is_reported_with_its_name_and_not_written(checkout: Path) -> None:
    (checkout / PAGES[0]).write_text("<!-- generated: sender-diagram -->", encoding="utf-8")
    result = RUN.invoke(cli, ["docs", "--write", "--root", str(checkout)])
    assert result.exit_code == 1
    assert PAGES[0] in result.output
    assert (checkout / PAGES[0]).read_text(encoding="utf-8") == "<!-- generated: sender-diagram -->"


def test_the_readme_gets_its_diagrams(checkout: Path) -> None:
    readme = checkout / "README.md"
    readme.write_text("a\n<!-- generated: sender-diagram -->\n<!-- end -->\nb\n", encoding="utf-8")
    RUN.invoke(cli, ["docs", "--write", "--root", str(checkout)])
    made = readme.read_text(encoding="utf-8")
    assert made == f"a\n<!-- generated: sender-diagram -->\n{BLOCKS['sender-diagram']()}<!-- end -->\nb\n"
    assert "stateDiagram-v2" in made
