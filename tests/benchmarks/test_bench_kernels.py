"""The benchmark of the kernels runs, says something that can be true, and notices wrong bytes. No time is asserted."""

from __future__ import annotations

from math import isfinite

import numpy as np
import pytest

from benchmarks import kernels


def test_page_moves_have_targets_and_parts_of_pages_are_reported() -> None:
    results = kernels.run(quick=True)
    assert len({r.name for r in results}) == len(results)
    assert all(r.ratio is not None and isfinite(r.ratio) and r.ratio > 0 for r in results)
    assert [r.target for r in results[:5]] == [0.8, 0.8, 0.6, 0.6, 0.6]
    assert {r.target for r in results[5:]} == {None}
    assert {r.name.split(",", 1)[0] for r in results[5:]} == {"gather", "scatter", "relayout for DCP 1:2"}


def test_wrong_bytes_break_the_benchmark(monkeypatch: pytest.MonkeyPatch) -> None:
    real = kernels.scatter_pages
    monkeypatch.setattr(kernels, "scatter_pages", lambda pool, ids, rows: real(pool, ids, np.zeros_like(rows)))
    with pytest.raises(RuntimeError, match="wrong bytes after scatter"):
        kernels.run(quick=True)
