"""The suite under pytest: ``pytest --pyargs kvpoll.model_tests --kvpoll-impl my_engine.adapter:make``.

The entry point ``pytest11`` names this module, so every pytest run loads it: it imports nothing but pytest until
``--kvpoll-impl`` or ``--kvpoll-process`` is given.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .case import Case
    from .known import Known
    from .plug import Make
    from .run import Runner

__all__ = ["known_failing", "kvpoll_known", "kvpoll_runner", "make_of", "pytest_addoption", "selected"]


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("kvpoll conformance")
    group.addoption("--kvpoll-impl", metavar="MODULE:MAKE", help="Hold this adapter to kvpoll's conformance suite.")
    group.addoption("--kvpoll-process", metavar="COMMAND", help="The same, for a program that speaks JSON lines.")
    group.addoption(
        "--kvpoll-isolated",
        action="store_true",
        help="Import the adapter in a process of its own: a crash is a verdict.",
    )
    group.addoption("--kvpoll-level", choices=("all", "must"), default="all", help="must: only cases about a MUST.")
    group.addoption("--kvpoll-known-failing", metavar="FILE", help="Your file of known failures.")


def make_of(config: pytest.Config) -> Make | None:
    """What makes the adapter under test; ``None`` without one."""
    impl, process = config.getoption("--kvpoll-impl"), config.getoption("--kvpoll-process")
    if not impl and not process:
        return None
    from .load import load
    from .process import ProcessAdapter

    if process:
        argv = shlex.split(str(process))
    elif config.getoption("--kvpoll-isolated"):
        argv = [sys.executable, "-m", "kvpoll.model_tests.conformance.host", str(impl)]
    else:
        return load(str(impl))
    return lambda: ProcessAdapter(argv)


def selected(config: pytest.Config) -> list[Case]:
    """The cases to run; none without an adapter."""
    if make_of(config) is None:
        return []
    from .cases import all_cases
    from .run import must

    return must(all_cases()) if config.getoption("--kvpoll-level") == "must" else list(all_cases())


def known_failing(config: pytest.Config) -> Known | None:
    """The implementer's file."""
    from .known import Known

    file = config.getoption("--kvpoll-known-failing")
    return None if not file else Known(Path(str(file)).read_text(encoding="utf-8"), str(file))


@pytest.fixture(scope="session")
def kvpoll_runner(pytestconfig: pytest.Config) -> Iterator[Runner]:
    """The implementation under test; ends the session with status 2 when its plug cannot be believed."""
    from .calls import Gone
    from .run import Runner

    make = make_of(pytestconfig)
    assert make is not None
    try:
        under_test = Runner(make)
    except Gone as gone:
        pytest.exit(f"kvpoll conformance: it does not start: {gone.reason}", returncode=2)
    with under_test:
        refused = under_test.refused()
        if refused:
            pytest.exit(f"kvpoll conformance: refused: {refused}", returncode=2)
        yield under_test


@pytest.fixture(scope="session")
def kvpoll_known(pytestconfig: pytest.Config) -> Known | None:
    """The implementer's file of known failures, if there is one."""
    return known_failing(pytestconfig)
