"""The handshake: what fits, what is converted, what is refused, and that both ends agree about it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from kvpoll.protocol.codec import decode, encode
from kvpoll.protocol.handshake import Verdict, compare
from kvpoll.protocol.shape import shape_of
from kvpoll.spec.schema import TupleOf
from kvpoll.spec.support import BOUNDS, COMBINATIONS, SUPPORT, UNCOMPARED, Bound, Combination, Feature, Outcome
from kvpoll.spec.wire import (
    AuxField,
    AuxSchema,
    Axis,
    Dcp,
    Heads,
    Layers,
    Page,
    Refusal,
    Registration,
    Speculative,
    Staging,
    TransportOffer,
    Versions,
)

from .wire_values import deadlines, of_struct, registration

OTHER: dict[str, Literal["prefill", "decode"]] = {"prefill": "decode", "decode": "prefill"}


def meet(sender: Registration, receiver: Registration) -> Verdict:
    """Both ends compare; they must refuse the same fields. Returns the receiver's verdict."""
    theirs = compare(sender, receiver, role="prefill")
    ours = compare(receiver, sender, role="decode")
    assert set(ours.refused) == set(theirs.refused)
    assert (ours.ok, ours.version, ours.transport) == (theirs.ok, theirs.version, theirs.transport)
    assert (ours.capabilities, ours.room_reuse) == (theirs.capabilities, theirs.room_reuse)
    assert (ours.aux_fields, ours.max_parts) == (theirs.aux_fields, theirs.max_parts)
    assert (ours.plans, ours.kv_heads) == (theirs.plans, theirs.kv_heads)
    return ours


def pair(both: dict[str, object] | None = None, **receiver: object) -> Verdict:
    """A pair that fits but for what the receiver changes."""
    return meet(registration("prefill", **(both or {})), registration("decode", **{**(both or {}), **receiver}))


def outcome(verdict: Verdict, field: str) -> Outcome:
    (found,) = [f for f in verdict.findings if f.field == field]
    assert found.why
    return found.outcome


def test_equal_ends_fit() -> None:
    verdict = pair()
    assert verdict.ok
    assert verdict.refusal() == ((), "")
    assert (verdict.version, verdict.transport) == ((1, 0), "jax")
    assert verdict.capabilities == ("pull", "push")
    assert verdict.room_reuse
    assert len(verdict.aux_fields) == 12
    assert verdict.sentences == ()


REFUSED: list[tuple[str, dict[str, object]]] = [
    ("model", {"model": "another"}),
    ("weights", {"weights": "another"}),
    ("page.size", {"page": Page(16, 262144)}),
    ("layers.total", {"layers": Layers(81, 0, 80)}),
    ("layers.start", {"layers": Layers(80, 40, 80)}),
    ("layers.stop", {"layers": Layers(80, 0, 40)}),
    ("kv_dtype", {"kv_dtype": "float8_e4m3fn"}),
    ("layout", {"layout": "page,kv,token,head,dim"}),
    ("page.nbytes", {"page": Page(64, 131072)}),
    ("heads.kv", {"heads": Heads(4, 128)}),
    ("heads.dim", {"heads": Heads(8, 64)}),
    ("mla", {"mla": True}),
    ("heads.kv", {"tp": Axis(4, 1)}),
    ("heads.kv", {"tp": Axis(16, 6)}),
    ("tp.size", {"tp": Axis(6, 3)}),
    ("tp.rank", {"tp": Axis(8, 4)}),
    ("tp.rank", {"tp": Axis(16, 8), "heads": Heads(4, 128), "page": Page(64, 131072)}),
    ("page.nbytes", {"tp": Axis(16, 6), "heads": Heads(4, 128)}),
    ("pp.size", {"pp": Axis(2, 0), "speculative": UNSET}),
    ("cp.size", {"cp": Axis(2, 0)}),
    ("role", {"role": "prefill"}),
    ("role", {"role": "other"}),
    ("transports", {"transports": ()}),
    ("speculative", {"speculative": UNSET}),
    ("speculative", {"speculative": Speculative(algorithm="EAGLE", draft_tokens=5, topk=1, hidden_size=8192)}),
    ("version", {"versions": Versions((2, 0), (2, 1))}),
    ("version", {"versions": Versions((1, 1), (1, 9))}),
    ("deadlines.resend", {"deadlines": deadlines(resend=0)}),
    ("deadlines.silence", {"deadlines": deadlines(silence=3_999)}),
    ("deadlines.pairing", {"deadlines": deadlines(pairing=3_999)}),
    ("deadlines.lost", {"deadlines": deadlines(lost=3_999)}),
    ("deadlines.conclude", {"deadlines": deadlines(conclude=3_999)}),
    ("deadlines.total", {"deadlines": deadlines(total=670_001)}),
]


@pytest.mark.parametrize(("field", "change"), REFUSED)
def test_a_pair_that_cannot_work_is_refused_by_the_name_of_the_field(field: str, change: dict[str, object]) -> None:
    verdict = pair({"speculative": UNSET} if field == "pp.size" else {}, **change)
    assert not verdict.ok
    assert verdict.refused == (field,)
    assert outcome(verdict, field) is Outcome.REFUSED
    fields, text = verdict.refusal()
    assert fields == (field,)
    assert text.startswith(f"{field}: refused (ours ")


CONVERTED: list[tuple[str, dict[str, object]]] = [
    ("weights", {"weights": ""}),
    ("capabilities", {"capabilities": ("push", "later")}),
    ("dp.rank", {"dp": Axis(2, 0)}),
    ("dp.size", {"dp": Axis(4, 1)}),
    ("tp.size", {"tp": Axis(16, 6), "heads": Heads(4, 128), "page": Page(64, 131072)}),
    ("tp.size", {"tp": Axis(4, 1), "heads": Heads(16, 128), "page": Page(64, 524288)}),
    ("ep_size", {"ep_size": 4}),
    ("max_parts", {"max_parts": 17}),
    ("digests", {"digests": False}),
    ("aux", {"aux": UNSET}),
    ("staging", {"staging": Staging(buffer_nbytes=1, grid_tokens=2)}),
]


@pytest.mark.parametrize(("field", "change"), CONVERTED)
def test_a_difference_that_works_out_says_how(field: str, change: dict[str, object]) -> None:
    verdict = pair({"dp": Axis(2, 1)}, **change)
    assert verdict.ok
    assert outcome(verdict, field) is Outcome.CONVERTED
    (found,) = [f for f in verdict.findings if f.field == field]
    assert found.plan
    assert any(s.startswith(f"{field}: converted by {found.plan} (ours ") for s in verdict.sentences)


def test_without_a_digest_at_either_end_rooms_are_not_reused() -> None:
    assert not pair(digests=False).room_reuse
    assert not pair({"digests": False}).room_reuse
    assert outcome(pair({"digests": False}), "digests") is Outcome.CONVERTED


def test_neither_end_states_its_weights() -> None:
    assert outcome(pair({"weights": ""}), "weights") is Outcome.CONVERTED


@pytest.mark.parametrize(
    ("ours", "theirs", "common"),
    [
        (((1, 0), (1, 3)), ((1, 2), (1, 9)), (1, 3)),
        (((1, 0), (2, 4)), ((1, 0), (1, 7)), (1, 7)),
        (((1, 0), (2, 4)), ((2, 0), (3, 0)), (2, 4)),
        (((1, 0), (1, 1)), ((1, 2), (1, 3)), None),
        (((1, 3), (1, 0)), ((1, 0), (1, 3)), None),
    ],
)
def test_the_highest_common_version_is_spoken(
    ours: tuple[tuple[int, int], tuple[int, int]],
    theirs: tuple[tuple[int, int], tuple[int, int]],
    common: tuple[int, int] | None,
) -> None:
    sender = registration("prefill", versions=Versions(*ours))
    verdict = meet(sender, registration("decode", versions=Versions(*theirs)))
    assert verdict.version == common
    assert ("version" in verdict.refused) == (common is None)


# Transports -----------------------------------------------------------------------------------------------------------
def offers(*names: str) -> tuple[TransportOffer, ...]:
    return tuple(TransportOffer(name=n, descriptor={"size": len(n)}) for n in names)


@pytest.mark.parametrize(
    ("sender", "receiver", "preference", "chosen"),
    [
        (("jax", "zmq"), ("zmq", "jax"), (), "zmq"),
        (("jax", "zmq"), ("zmq", "jax"), ("jax",), "jax"),
        (("jax",), ("zmq", "jax"), ("zmq", "jax"), "jax"),
        (("jax",), ("zmq",), (), None),
    ],
)
def test_the_receiver_picks_from_what_both_offer(
    sender: Sequence[str], receiver: Sequence[str], preference: Sequence[str], chosen: str | None
) -> None:
    one, other = registration("prefill", transports=offers(*sender)), registration(transports=offers(*receiver))
    verdict = compare(other, one, role="decode", preference=preference)
    assert verdict.transport == chosen
    if not preference:
        assert compare(one, other, role="prefill").transport == chosen


def test_a_transport_whose_descriptors_do_not_fit_is_passed_over_and_named() -> None:
    sender, receiver = registration("prefill"), registration("decode")

    def jax_differs(ours: TransportOffer, theirs: TransportOffer) -> Sequence[str]:
        return ["transfer_nbytes"] if ours.name == "jax" else []

    def all_differ(ours: TransportOffer, theirs: TransportOffer) -> Sequence[str]:
        return ["transfer_nbytes"]

    assert compare(receiver, sender, role="decode", mismatch=jax_differs).transport == "zmq"
    verdict = compare(receiver, sender, role="decode", mismatch=all_differ)
    assert verdict.refused == ("transports",)
    assert "jax: transfer_nbytes differ" in verdict.sentences[0]
    assert "zmq: transfer_nbytes differ" in verdict.sentences[0]


# Aux ------------------------------------------------------------------------------------------------------------------
def aux(*fields: tuple[str, str, tuple[int, ...]]) -> AuxSchema:
    return AuxSchema.of(AuxField(*field) for field in fields)


A, B, C = ("a", "int32", (1,)), ("b", "int32", (1, 16)), ("c", "float32", ())


@pytest.mark.parametrize(
    ("sends", "takes", "refused", "both"),
    [
        (aux(A, B), aux(B, A), (), ("b", "a")),
        (aux(A, B, C), aux(C, A), (), ("c", "a")),
        (aux(A), aux(A, B), ("aux.b",), ("a",)),
        (aux(A, B), aux(A, ("b", "int64", (1, 16))), ("aux.b",), ("a", "b")),
        (aux(A, B), aux(A, ("b", "int32", (16, 1))), ("aux.b",), ("a", "b")),
        (UNSET, aux(A), ("aux",), ()),
        (UNSET, aux(), (), ()),
        (aux(A, A), aux(A), ("aux.a",), ("a",)),
    ],
)
def test_aux_fields_pair_by_name_and_never_by_place(
    sends: AuxSchema, takes: AuxSchema, refused: tuple[str, ...], both: tuple[str, ...]
) -> None:
    verdict = meet(registration("prefill", aux=sends), registration(aux=takes))
    assert (verdict.refused, verdict.aux_fields) == (refused, both)


@pytest.mark.parametrize(
    ("change", "refused"),
    [
        ({"dtypes": ("int32",)}, "aux.dtypes"),
        ({"shapes": ((1,), (1, 16), ())}, "aux.shapes"),
        ({"shapes": ()}, "aux.shapes"),
        ({"names": ("a",)}, "aux.dtypes"),
    ],
)
@pytest.mark.parametrize("both", [False, True])
def test_aux_columns_of_different_lengths_are_refused_by_name(
    change: dict[str, object], refused: str, both: bool
) -> None:
    broken = msgspec.structs.replace(aux(A, B), **change)
    verdict = meet(registration("prefill", aux=broken if both else aux(A, B)), registration(aux=broken))
    assert refused in verdict.refused
    assert any("aux.names" in sentence for sentence in verdict.sentences)


# One end --------------------------------------------------------------------------------------------------------------
IMPOSSIBLE: dict[str, dict[str, object]] = {
    "page.size": {"page": Page(0, 1)},
    "page.nbytes": {"page": Page(1, 0)},
    "heads.kv": {"heads": Heads(0, 128)},
    "heads.dim": {"heads": Heads(8, 0)},
    "max_parts": {"max_parts": 0},
    "layers.start": {"layers": Layers(80, 80, 80)},
    "layers.stop": {"layers": Layers(80, 0, 81)},
    "tp.size": {"tp": Axis(0, 0)},
    "tp.rank": {"tp": Axis(8, 8)},
    "pp.size": {"pp": Axis(0, 0)},
    "pp.rank": {"pp": Axis(1, 1)},
    "cp.size": {"cp": Axis(0, 0)},
    "cp.rank": {"cp": Axis(1, 1)},
    "dp.size": {"dp": Axis(0, 0)},
    "dp.rank": {"dp": Axis(1, 1)},
    "ep_size": {"ep_size": 0},
    "dcp.size": {"dcp": Dcp(size=0, rank=0)},
    "dcp.rank": {"dcp": Dcp(size=8, rank=8)},
    "dcp.interleave": {"dcp": Dcp(size=2, rank=0, interleave=0)},
}


#: Bounds of which another bound of the same field has its case above.
SECOND: dict[tuple[str, str], dict[str, object]] = {
    ("dcp.size", "a divisor of"): {"dcp": Dcp(size=3, rank=0)},
    ("dcp.rank", "tp.rank modulo"): {"dcp": Dcp(size=4, rank=2)},
}


@pytest.mark.parametrize("bound", BOUNDS, ids=lambda b: f"{b.field} {b.how}")
def test_an_impossible_registration_is_refused_even_if_both_ends_send_it(bound: Bound) -> None:
    change = SECOND.get((bound.field, bound.how), IMPOSSIBLE[bound.field])
    found = [
        f for f in pair({"mla": True, **change}).findings if f.field == bound.field and f.outcome is Outcome.REFUSED
    ]
    assert any(f.why.startswith(f"must be {bound.how} {bound.other}") for f in found)
    assert all(f.advice for f in found)


@pytest.mark.parametrize("combination", COMBINATIONS, ids=lambda c: f"{c.first.name}+{c.second.name}")
def test_features_that_exclude_each_other_are_refused(combination: Combination) -> None:
    change: dict[Feature, dict[str, object]] = {
        Feature.DCP: {"dcp": Dcp(size=2, rank=1)},
        Feature.HEADS: {"mla": False},
        Feature.CP: {"cp": Axis(2, 0)},
        Feature.PP: {"pp": Axis(2, 0)},
        Feature.SPECULATIVE: {"speculative": registration().speculative},
    }
    first, second = combination.first, combination.second
    base = {"mla": True, "speculative": UNSET}
    verdict = pair({**base, **change[first], **change[second]})
    assert verdict.refused == (f"{first.name}+{second.name}".lower(),)
    assert combination.advice in verdict.refusal()[1]
    assert all(pair({**base, **change[alone]}).ok for alone in (first, second)), "one of the two is fine"


def test_a_dense_prefill_rank_serves_each_decode_context_parallel_rank_and_equal_ones_meet() -> None:
    mla = {"mla": True, "speculative": UNSET}
    assert pair({**mla, "dcp": Dcp(size=2, rank=1)}).plans == ()
    assert pair({**mla, "dcp": Dcp(size=2, rank=1)}).ok
    assert pair(mla, dcp=Dcp(size=2, rank=1)).plans == ("dcp-rows",)
    assert pair({"mla": True}, dcp=Dcp(size=2, rank=1)).plans == ("dcp-rows", "dcp-draft")
    assert pair(mla, dcp=Dcp(size=1, rank=0)).ok
    assert pair({**mla, "dcp": Dcp(size=4, rank=3)}, dcp=Dcp(size=2, rank=1)).refused == ("dcp",)
    assert pair({**mla, "dcp": Dcp(size=2, rank=1)}, dcp=UNSET).refused == ("dcp",)


# Both ends, and anything from the wire --------------------------------------------------------------------------------
FIELDS = [f.name for f in shape_of(Registration).fields.values()]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data())
def test_both_ends_refuse_the_same_fields(data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from(FIELDS), max_size=4, unique=True))
    strange = data.draw(of_struct(Registration))
    receiver = registration("decode", **{name: getattr(strange, name) for name in names})
    sender = registration(
        "prefill", **({} if data.draw(st.booleans()) else {n: getattr(strange, n) for n in names[:2]})
    )
    verdict = meet(sender, receiver)
    assert verdict.ok == (not verdict.refused)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(one=of_struct(Registration), other=of_struct(Registration), role=st.sampled_from(["prefill", "decode"]))
def test_any_two_registrations_get_a_verdict_that_fits_into_a_refusal(
    one: Registration, other: Registration, role: Literal["prefill", "decode"]
) -> None:
    ours, theirs = compare(one, other, role=role), compare(other, one, role=OTHER[role])
    assert set(ours.refused) == set(theirs.refused)
    fields, text = ours.refusal()
    message = Refusal(link=1, source=2, reason=1, fields=fields, text=text)
    assert decode(encode(message)).message == message


def test_a_registration_refuses_nothing_of_its_mirror() -> None:
    """The sometimes-twin of the symmetry test: it also meets pairs that fit."""
    mirror = msgspec.structs.replace(registration("prefill"), engine=1)
    assert meet(mirror, registration("decode")).ok


# The matrix -----------------------------------------------------------------------------------------------------------
def test_every_field_of_a_registration_is_decided() -> None:
    assert set(FIELDS) - set(UNCOMPARED) <= set(SUPPORT)
    assert set(UNCOMPARED) <= set(FIELDS)
    rows = {f.name: f.takes.names for f in shape_of(Registration).fields.values() if isinstance(f.takes, TupleOf)}
    compared = {
        f"{row}.{name}" for row, names in rows.items() if row not in ("versions", "speculative") for name in names
    }
    stated = {name for name in SUPPORT if name.startswith("capabilities.")}
    assert {name for name in SUPPORT if "." in name} == compared | stated | {"aux.field"}
    assert {row for row in rows if row not in SUPPORT} <= set(UNCOMPARED)


def test_every_bound_has_a_case() -> None:
    assert set(IMPOSSIBLE) == {bound.field for bound in BOUNDS}
