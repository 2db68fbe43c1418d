"""Cases B: what travels beside the KV data: whose it is, and that both ends mean the same by it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

import pytest
from msgspec import UNSET

from kvpoll.protocol.errors import LocalProtocolError
from kvpoll.protocol.handshake import compare
from kvpoll.protocol.records import LeaseKind
from kvpoll.runtime import AuxBuffer, AuxSlots, EngineSpec, KVManager, KVReceiver, Request
from kvpoll.runtime.aux_slots import AuxAnswer, aux_frame
from kvpoll.spec import KVPoll
from kvpoll.spec.wire import AuxField, AuxSchema, Fingerprint, PartKind, Registration, Speculative

from ..protocol.pair import part
from ..protocol.wire_values import registration
from ..runtime import engines
from .frame import case
from .rooms import PATIENT, PUSH, another
from .shadow import Shadow, outcomes

A = Fingerprint(tokens=4, digest=b"a")
B = Fingerprint(tokens=4, digest=b"b")


# -- aux slots -----------------------------------------------------------------------------------------------------------
@case("B02")
@PUSH
@pytest.mark.parametrize("order", list(permutations(["abort", "kv", "aux"])), ids=" ".join)
def test_an_aux_slot_is_nobody_elses_while_its_data_may_still_come(push: bool, order: tuple[str, ...]) -> None:
    world = Shadow(push, direct=True, timing=PATIENT).linked()
    world.d.auto_commit = False
    s, r = world.both()
    r.metadata(aux=3)
    world.run()
    world.hold()
    s.send(part(0, 4), part(0, 0, kind=PartKind.AUX, shape=(8,)), last=True)
    world.run()
    kinds = {world.mover.ops[op].submit.part.kind.name.lower(): op for op in world.mover.ops}
    slot = world.d.cell(r, LeaseKind.AUX)
    other = None
    for event in order:
        if event == "abort":
            r.abort("client went away")
            world.run()
            other = another(world)
            assert world.d.cell(other[1], LeaseKind.AUX) is not slot or set(order[:2]) == {"kv", "aux"}
        else:
            world.mover.end_op("done", kinds[event])
        world.run()
    assert other is not None
    world.d.auto_commit = True
    other[0].send(part(0, 4), part(0, 0, kind=PartKind.AUX, shape=(8,)), last=True)
    world.finish()
    assert outcomes(s, r, *other) == ("Failed", "Failed", "Success", "Success")
    world.ends_idle()


@case("B02", "B03")
@pytest.mark.parametrize("room", [0, 1, 2**64 - 1])
@pytest.mark.parametrize("before", [(1, B), (0, B), (5, A)], ids=["another request", "room 0", "the same request"])
def test_a_slot_is_empty_right_or_wrong_and_never_mistaken(room: int, before: tuple[int, Fingerprint]) -> None:
    slots = AuxSlots(1, 32)
    owner, request = before
    slot = slots.allocate()
    assert slot is not None
    slots.write(slot, owner, request, b"of the one before")
    assert slots.read(slot, owner, request) == (AuxAnswer.RIGHT, b"of the one before")
    slots.free(slot)
    assert slots.allocate() == slot
    assert slots.read(slot, room, A) == (AuxAnswer.EMPTY, b""), "polled before anything arrived"
    slots.put(slot, aux_frame(owner, request, b"late"))
    assert slots.read(slot, room, A) == (AuxAnswer.WRONG, b"") or before == (room, A)
    slots.put(slot, aux_frame(room, A, b"mine"))
    assert slots.read(slot, room, A) == (AuxAnswer.RIGHT, b"mine")


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[engines.Engine, engines.Engine]]:
    """Two engines with four aux slots each."""
    monkeypatch.setattr(engines, "SLOTS", 4)
    with engines.pair("inproc") as both:
        yield both
        for engine in both:
            engine.becomes_idle()


@case("B02", "B03")
def test_a_small_pool_of_slots_serves_many_rooms_and_none_sees_anothers(
    few: tuple[engines.Engine, engines.Engine],
) -> None:
    """Waves of four rooms; one of each wave ends early, and its slots go to the next wave at once."""
    p, d = few
    for wave in range(8):
        rooms = [engines.Room(p, d, 4 * wave + at, aux=b"token of %d" % (4 * wave + at)) for at in range(4)]
        for room in rooms:
            room.decode()
            if room.slots[1] is not None:
                answer, _ = d.aux.read(room.slots[1], room.no, room.request.fingerprint())
                assert answer is AuxAnswer.EMPTY
        for room in rooms:
            room.prefill(1)
        rooms[wave % 4].receiver.abort("client went away")
        for room in rooms:
            if room is not rooms[wave % 4]:
                room.arrives()
                room.commit()
                assert room.ends() == (KVPoll.Success, KVPoll.Success)
                room.check()
        rooms[wave % 4].ends()
        for engine in few:
            engine.becomes_idle()


# -- one schema for both ends --------------------------------------------------------------------------------------------
def _fields(*fields: AuxField) -> dict[str, object]:
    return {"aux": AuxSchema.of(fields)}


HIDDEN = AuxField("hidden_states", "bfloat16", (1, 4096))
TOPK = AuxField("topk_index", "int32", (1, 8))
DRAFT = Speculative(algorithm="EAGLE", draft_tokens=4, topk=1, hidden_size=4096)
SCHEMAS: dict[str, tuple[dict[str, object], dict[str, object], str]] = {
    "hidden states of another width": (
        _fields(HIDDEN), _fields(AuxField("hidden_states", "bfloat16", (1, 8192))), "aux.hidden_states",
    ),
    "another dtype": (_fields(HIDDEN), _fields(AuxField("hidden_states", "float32", (1, 4096))), "aux.hidden_states"),
    "another rank": (_fields(HIDDEN), _fields(AuxField("hidden_states", "bfloat16", (4096,))), "aux.hidden_states"),
    "a field that is not sent": (_fields(HIDDEN), _fields(HIDDEN, TOPK), "aux.topk_index"),
    "no sidecar at all": ({"aux": UNSET}, _fields(TOPK), "aux"),
    "another name": (_fields(TOPK), _fields(AuxField("topk", "int32", (1, 8))), "aux.topk"),
    "only the decode side drafts": ({"speculative": UNSET}, {"speculative": DRAFT}, "speculative"),
    "only the prefill side drafts": ({"speculative": DRAFT}, {"speculative": UNSET}, "speculative"),
    "hidden states of the target model": (
        {"speculative": DRAFT._replace(hidden_size=8192)}, {"speculative": DRAFT}, "speculative",
    ),
    "another method": ({"speculative": DRAFT._replace(algorithm="NGRAM")}, {"speculative": DRAFT}, "speculative"),
    "other top-k values": ({"speculative": DRAFT._replace(topk=8)}, {"speculative": DRAFT}, "speculative"),
}  # fmt: skip


def _ends(name: str) -> tuple[Registration, Registration, str]:
    sends, takes, field = SCHEMAS[name]
    return registration("prefill", **sends), registration("decode", **takes), field


@case("B15")
@pytest.mark.parametrize("name", SCHEMAS)
def test_a_sidecar_that_the_two_ends_do_not_mean_alike_is_refused_by_its_name(name: str) -> None:
    sender, receiver, field = _ends(name)
    for verdict in (compare(sender, receiver, role="prefill"), compare(receiver, sender, role="decode")):
        assert not verdict.ok
        assert field in verdict.refused
        assert set(verdict.refused) <= {field, "aux", *(f for f in verdict.refused if f.startswith("aux."))}


@case("B15")
def test_fields_are_met_by_name_whatever_their_order() -> None:
    sender = registration("prefill", **_fields(HIDDEN, TOPK))
    receiver = registration("decode", **_fields(TOPK, HIDDEN))
    verdict = compare(receiver, sender, role="decode")
    assert verdict.ok
    assert set(verdict.aux_fields) == {"hidden_states", "topk_index"}


@case("B15")
def test_an_engine_whose_sidecar_differs_is_refused_before_any_data_and_others_go_on() -> None:
    odd = EngineSpec.model_validate(
        engines.SPEC.model_dump() | {"aux": (AuxBuffer(name="first_token", dtype="int32", shape=(2,)),)}
    )
    with engines.pair("inproc") as (p, d), KVManager(engines.config("decode", "inproc", engine=odd)) as stranger:
        receiver = KVReceiver(stranger, "", 0, 2, Request.of([1]), address=p.manager.address)
        receiver.init()
        assert stranger.wait(lambda: receiver.poll() is KVPoll.Failed, engines.PATIENCE)
        assert engines.cause(receiver) == "HANDSHAKE_REFUSED"
        assert "aux.first_token" in str(engines.detail(receiver, "fields"))
        engines.Room(p, d, 3).run()


# -- numbers of one kind are not numbers of another ------------------------------------------------------------------------
@case("B16")
def test_a_number_is_only_taken_for_the_pool_it_belongs_to() -> None:
    with engines.pair("inproc") as (p, d):
        room = engines.Room(p, d, 4)
        room.receiver.init()
        room.target = d.allocate(room.request)
        page = engines.SLOTS + 1
        with pytest.raises(LocalProtocolError, match="aux_index: expected a slot that is lent") as caught:
            room.receiver.send_metadata(room.target, page)
        assert caught.value.details["field"] == "aux_index"
        room.slots[1] = d.aux.allocate()
        room.receiver.send_metadata(room.target, room.slots[1])
        room.prefill()
        room.arrives()
        room.commit()
        room.ends()
        room.check()
        for engine in (p, d):
            engine.becomes_idle()
