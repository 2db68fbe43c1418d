"""The README is true: its embedding example runs as it stands, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_embedding_example_runs_as_pasted(tmp_path: Path) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    block = text.split("<!-- embedding: begin -->")[1].split("<!-- embedding: end -->")[0]
    code = block.strip().removeprefix("```python").removesuffix("```")
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, timeout=60, check=False
    )
    assert run.returncode == 0, run.stderr
    assert "source pages" in run.stdout
    assert "destination pages" in run.stdout


def test_every_page_that_the_readme_links_to_exists() -> None:
    import re

    for target in re.findall(r"\]\(([^)#]+)", (ROOT / "README.md").read_text(encoding="utf-8")):
        assert (ROOT / target).exists(), target
