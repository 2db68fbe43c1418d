"""Engines that are wrong are found out, whatever is wrong with them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kvpoll.model_tests.conformance.cases import all_cases
from kvpoll.model_tests.conformance.mutation import Fate, Gate, rate, summary, wrong_engines
from kvpoll.model_tests.conformance.plug import About, Side
from kvpoll.model_tests.conformance.reference import Reference
from kvpoll.model_tests.conformance.run import run_suite, sample
from kvpoll.model_tests.conformance.wrong import WRONG


def test_every_engine_with_one_fault_is_found_out() -> None:
    found = wrong_engines(sample(all_cases(), 1))
    assert len(found) == len(WRONG) >= 40
    assert [each.name for each in found if each.fate is not Fate.KILLED] == []


def test_a_sample_of_wrong_rows_is_found_out() -> None:
    gate = Gate(most=20)
    some = ("handoff", "paths", "abort/decode", "limits")
    gate.prepare([each for each in all_cases() if each.id.startswith(some)])
    found = gate.run(much=120)
    assert rate(found) >= 0.90, summary(found)


@pytest.mark.deep
@pytest.mark.timeout(3600)
def test_nineteen_of_twenty_wrong_rows_are_found_out() -> None:
    gate = Gate()
    gate.prepare()
    found = gate.run()
    assert rate(found) >= 0.95, summary(found)


# -- plugs that lie ----------------------------------------------------------------------------------------------------
class Obliging(Reference):
    """Any fault is fine."""

    def fault(self, side: Side, room: int, name: str) -> None:
        """Done, of course."""


class Forgetful(Reference):
    """Memory is what you want it to be."""

    def read(self, side: Side, pages: Sequence[int]) -> bytes:
        return bytes(len(pages) * self.setting.page_bytes)


class Boasting(Reference):
    """It can do what nobody has heard of."""

    def about(self) -> About:
        about = super().about()
        return About(
            name=about.name, version=about.version, capabilities=about.capabilities | {"telepathy"}, clock="simulated"
        )


class Cheerful(Reference):
    """Everything is a Success."""

    def poll(self, side: Side, room: int) -> int:
        return 4


class Copying(Reference):
    """It shows prefill memory as decode memory, so that every comparison holds."""

    def read(self, side: Side, pages: Sequence[int]) -> bytes:
        return super().read(side, pages) if side == "prefill" else self._last

    def fill(self, side: Side, pages: Sequence[int], data: bytes) -> None:
        self._last = data
        super().fill(side, pages, data)


@pytest.mark.parametrize(
    ("plug", "says"),
    [
        (Obliging, "a fault that nobody knows must be unsupported"),
        (Forgetful, "does not hold what was written"),
        (Boasting, "capabilities: expected some of"),
    ],
)
def test_a_plug_that_lies_is_refused(plug: type[Reference], says: str) -> None:
    result = run_suite(plug, all_cases()[:5])
    assert says in result.refused
    assert result.status == 2
    assert result.cases == ()


@pytest.mark.parametrize("plug", [Cheerful, Copying])
def test_a_plug_that_says_what_one_wants_to_hear_gets_no_good_verdict(plug: type[Reference]) -> None:
    result = run_suite(plug, all_cases()[:40])
    assert result.status in (1, 2)
