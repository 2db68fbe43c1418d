"""The list of hazards is whole: each of the numbered ones, once, with something that stands against it."""

from kvpoll.spec.hazards import HAZARDS


def test_every_numbered_hazard_is_listed_once() -> None:
    expected = [f"Q{n:02d}" for n in range(1, 57)] + [f"J{n:02d}" for n in range(1, 29)]
    assert [h.id for h in HAZARDS] == expected


def test_each_says_what_stands_against_it_and_why() -> None:
    assert all(h.what and h.by and h.why for h in HAZARDS)
