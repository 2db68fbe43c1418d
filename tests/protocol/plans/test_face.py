"""Where the plans are found, and that finding the light ones loads no numpy."""

from __future__ import annotations

import subprocess
import sys

import pytest

import kvpoll
import kvpoll.protocol
from kvpoll.protocol import plans


def test_the_planner_is_one_object_under_all_its_names() -> None:
    assert kvpoll.plan_dcp_relayout is kvpoll.protocol.plan_dcp_relayout is plans.plan_dcp_relayout
    assert all(getattr(plans, name) is not None for name in plans.__all__)


def test_a_name_that_is_not_there_is_said_to_be_missing() -> None:
    for module in (kvpoll.protocol, plans):
        with pytest.raises(AttributeError, match="no_such_plan"):
            _ = module.no_such_plan  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "module",
    [
        "kvpoll",
        "kvpoll.protocol",
        "kvpoll.protocol.chunks",
        "kvpoll.protocol.plans.ranks",
        "kvpoll.protocol.plans.heads",
        "kvpoll.protocol.plans.layers",
    ],
)
def test_what_needs_no_numpy_loads_none(module: str) -> None:
    code = f"import sys, {module}; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd="/", check=False).returncode == 0
