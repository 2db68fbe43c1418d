"""Which version two ends speak: what their windows say, what the handshake decides, and that an upgrade never ends half-open."""

from __future__ import annotations

from collections.abc import Hashable
from itertools import combinations_with_replacement, product

import msgspec
import pytest

from kvpoll.model_tests.check import check_world
from kvpoll.model_tests.explorer import explore
from kvpoll.model_tests.upgrade_world import UPGRADE_WORLDS, WAYS, Release, UpgradeWorld
from kvpoll.model_tests.verdicts import Verdict
from kvpoll.protocol.codec import decode, encode
from kvpoll.protocol.evolution.changed_version import meets, version_of
from kvpoll.protocol.evolution.dialect import Dialect
from kvpoll.protocol.handshake import compare
from kvpoll.protocol.links import Judgement, Links
from kvpoll.spec.schema import Snapshot
from kvpoll.spec.wire import Deadlines, Heads, Hello, Layers, Page, Registration, TransportOffer, Versions

from .futures import ALONE, LINE, PROGRESS, RELEASED

VERSIONS = [(1, 0), (1, 1), (1, 2), (2, 0)]
WINDOWS = list(combinations_with_replacement(VERSIONS, 2))


def registration(role: str, window: tuple[tuple[int, int], tuple[int, int]], *capabilities: str) -> Registration:
    """Two of these fit, but for their windows."""
    return Registration(
        versions=Versions(*window), capabilities=capabilities, role=role, engine=1, model="m", weights="", layers=Layers(1, 0, 1),
        page=Page(1, 1), kv_dtype="uint8", layout="l", heads=Heads(1, 1), transports=(TransportOffer("t", {}),),
        deadlines=Deadlines(30_000, 60_000, 900_000 if role == "prefill" else 600_000, 1_000, 15_000, 30_000),
    )  # fmt: skip


def window_of(snapshot: Snapshot) -> tuple[tuple[int, int], tuple[int, int]]:
    low, high = (version_of(v) for v in snapshot.window or (snapshot.version, snapshot.version))
    return (low[0], low[1]), (high[0], high[1])


# Windows ----------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("sends", "takes"), list(product(WINDOWS, repeat=2)))
def test_two_windows_decide_the_version_and_both_ends_decide_alike(
    sends: tuple[tuple[int, int], tuple[int, int]], takes: tuple[tuple[int, int], tuple[int, int]]
) -> None:
    prefill, decode_ = registration("prefill", sends), registration("decode", takes)
    here, there = compare(prefill, decode_, role="prefill"), compare(decode_, prefill, role="decode")
    both = [v for v in VERSIONS if sends[0] <= v <= sends[1] and takes[0] <= v <= takes[1]]
    assert here.version == there.version == (max(both) if both else None)
    assert here.refused == there.refused == (() if both else ("version",))


@pytest.mark.parametrize(("one", "other"), list(product(LINE, repeat=2)), ids="-".join)
def test_the_handshake_and_the_schemas_agree_on_who_can_talk(one: str, other: str) -> None:
    a, b = LINE[one], LINE[other]
    found = compare(registration("prefill", window_of(a)), registration("decode", window_of(b)), role="prefill")
    assert found.ok == meets(a, b)
    if found.ok:
        assert found.version == min(window_of(a)[1], window_of(b)[1]), "the highest that both speak"


def test_what_only_one_end_can_is_not_used_and_is_no_reason_to_refuse() -> None:
    old, new = LINE["1.0"], LINE["1.4"]
    kinds = {m.name for m in new.messages} - {m.name for m in old.messages}
    assert kinds == {PROGRESS}
    for a, b, usable in ((old, new, ()), (new, old, ()), (new, new, ("progress",))):
        one = registration("prefill", window_of(a), *a.capabilities)
        other = registration("decode", window_of(b), *b.capabilities)
        found = compare(one, other, role="prefill")
        assert (found.ok, found.capabilities) == (True, usable)


@pytest.mark.parametrize("step", ALONE)
def test_the_hello_of_a_later_version_is_read_and_judged_by_today_s(step: str) -> None:
    """The whole way: a registration with what today's version has never heard of, through its codec, into its handshake."""
    later = ALONE[step]
    decode_, prefill = (
        registration("decode", window_of(later), *later.capabilities),
        registration("prefill", window_of(RELEASED)),
    )
    hello = msgspec.msgpack.decode(encode(Hello(link=1, source=2, registration=decode_)))
    dialect = Dialect(later)
    if "compression" in {f.name for f in dialect.groups["Registration"].fields}:
        hello["16"]["104"] = {"1": "zstd", "2": 65536}
    frame = msgspec.msgpack.encode(hello)
    assert dialect.read(frame)[0] == "Hello"
    taken = decode(frame)
    assert isinstance(taken.message, Hello)
    assert bool(taken.unknown) == (step == "a group")
    found = compare(prefill, taken.message.registration, role="prefill")
    assert found.refused == (() if meets(RELEASED, later) else ("version",))


# Upgrades ---------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("world", UPGRADE_WORLDS, ids=lambda world: world.name)
def test_either_side_is_upgraded_in_either_order_and_nothing_stays_half_open(world: object) -> None:
    found = check_world(world)  # type: ignore[arg-type]
    assert (found.verdict, found.reason) == (Verdict.PROVED, "")


FIRST, NEXT = Release((1, 0), (1, 0)), Release((1, 1), (1, 1))


def test_an_end_that_takes_whatever_it_is_offered_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    judge = Links._judge

    def forgiving(self: Links, record: object, theirs: Registration) -> None:
        self.judge = lambda ours, theirs, first: Judgement((), "t")
        judge(self, record, theirs)  # type: ignore[arg-type]

    monkeypatch.setattr(Links, "_judge", forgiving)
    result = explore(UpgradeWorld((FIRST, NEXT)))
    assert result.violation is not None
    assert result.violation.invariant == "HandshakeSound"
    assert "upgrade" in [action[0] for action in result.trace if isinstance(action, tuple)]


def test_a_refusal_that_names_something_else_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvpoll.protocol.handshake.Verdict.refusal", lambda self: (("layout",) * (not self.ok), ""))
    result = explore(UpgradeWorld((FIRST, NEXT)))
    assert result.violation is not None
    assert "names ('layout',)" in result.violation.sentence


def test_an_end_that_never_learns_that_its_peer_was_replaced_stays_half_open() -> None:
    class Deaf(UpgradeWorld):
        def actions(self) -> list[Hashable]:
            return [a for a in super().actions() if not (isinstance(a, tuple) and a[0] == "fire")]

    result = explore(Deaf((FIRST, FIRST), ways=WAYS[1:]))
    assert result.violation is not None
    assert result.violation.invariant == "HandshakeSound"
    assert result.doomed >= 0
