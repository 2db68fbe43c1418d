"""Every world is searched once in a run of the tests, whoever asks for it first."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from kvpoll.model_tests.check import check_world
from kvpoll.model_tests.coverage import REACH
from kvpoll.model_tests.verdicts import WorldReport
from kvpoll.model_tests.worlds import WORLDS

_PARTIAL = {world.name: world for world in REACH}


@pytest.fixture(scope="session")
def searched() -> Callable[[str], WorldReport]:
    """The report of a world by its name, also of one of ``REACH``."""

    @cache
    def search(name: str) -> WorldReport:
        return check_world(_PARTIAL.get(name) or WORLDS[name], partial=name in _PARTIAL)

    return search
