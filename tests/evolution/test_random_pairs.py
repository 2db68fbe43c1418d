"""The comparison against practice, on random pairs of schemas: see :mod:`kvpoll.model_tests.schema_pairs`."""

from __future__ import annotations

import random

import pytest

from kvpoll.model_tests.schema_pairs import random_edits, random_schema, wrong_with
from kvpoll.protocol.evolution.compare import compare


def check(seed: int) -> int:
    """How many findings the pair of this seed has."""
    rng = random.Random(seed)
    old = random_schema(rng)
    new, edits = random_edits(rng, old)
    problem = wrong_with(old, new, rng)
    assert problem is None, f"seed {seed}: {problem}\n{edits}"
    return sum(finding.breaking for finding in compare(old, new))


def test_what_is_let_pass_arrives_and_what_is_not_goes_wrong() -> None:
    broken = [check(seed) > 0 for seed in range(400)]
    assert 40 < sum(broken) < 380, "both kinds of pairs were tried"


@pytest.mark.deep
@pytest.mark.timeout(3600)
def test_the_same_of_a_hundred_thousand_pairs() -> None:
    for seed in range(400, 100_400):
        check(seed)


def test_the_same_seed_makes_the_same_pair() -> None:
    one, two = (random_schema(random.Random(5)) for _ in range(2))
    assert one == two
    assert random_edits(random.Random(6), one) == random_edits(random.Random(6), two)
