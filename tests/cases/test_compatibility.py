"""Cases F: pairs that cannot work are refused before the first byte, by name; pairs that can work are not refused."""

from __future__ import annotations

from itertools import permutations, product
from typing import Literal

import pytest
from msgspec import UNSET

from kvpoll.protocol.handshake import Verdict, compare
from kvpoll.protocol.links import Judgement
from kvpoll.protocol.outputs import OfferPart, OpenPeer, Submit
from kvpoll.runtime.bootstrap.models import RankEntry
from kvpoll.runtime.bootstrap.registry import Registry
from kvpoll.spec import KVPoll
from kvpoll.spec.support import Outcome
from kvpoll.spec.wire import (
    AuxField,
    AuxSchema,
    Axis,
    Dcp,
    Layers,
    Page,
    Registration,
    RoomMessage,
    Speculative,
    Versions,
)

from ..protocol.pair import TIMING, part, request
from ..protocol.wire_values import registration
from .frame import case
from .rooms import PUSH
from .shadow import Engine, Shadow, outcomes
from .stages import failed, live_until

Change = dict[str, object]


def pair(p: Change, d: Change, push: bool = True) -> Shadow:
    """Two processes that compare their registrations for real. ``p`` and ``d`` are what each says of itself."""
    world = Shadow(push)
    ends: dict[int, tuple[Literal["prefill", "decode"], Change]] = {
        world.p.config.engine: ("prefill", p),
        world.d.config.engine: ("decode", d),
    }

    def describe(engine: Engine) -> Registration:
        role, changes = ends.get(engine.config.engine, ("decode", {}))
        return registration(role, **{"engine": engine.config.engine, **changes})

    def judge(ours: Registration, theirs: Registration, initiator: bool) -> Judgement:
        verdict = compare(ours, theirs, role="decode" if initiator else "prefill")
        fields, text = verdict.refusal()
        return Judgement(fields, "fake", text)

    for engine in (world.p, world.d):
        engine.core.links.registration = lambda link, engine=engine: describe(engine)  # type: ignore[misc]
        engine.core.links.judge = judge
    return world


def verdict(p: Change, d: Change) -> Verdict:
    return compare(registration("decode", **d), registration("prefill", **p), role="decode")


def data(world: Shadow) -> list[object]:
    """What only a pair that fits may do: reach the data plane, or speak of a room."""
    done: list[object] = []
    for process in world.processes.values():
        done += [out for out in process.outputs if isinstance(out, OpenPeer | Submit | OfferPart)]
        done += [m for m in process.said if isinstance(m, RoomMessage)]
    return done


DRAFT = Speculative(algorithm="EAGLE", draft_tokens=4, topk=1, hidden_size=8192)
TP = [(6, 4), (4, 6), (8, 3), (3, 8)]
SPLIT = [(4, 1), (1, 4), (4, 2), (2, 4)]
WIDE: Change = {"mla": True, "speculative": UNSET, "tp": Axis(4, 0)}
#: Case, what prefill says, what decode says, the fields that are named.
REFUSED: list[tuple[str, Change, Change, set[str]]] = [
    *(("F08 tp", {"tp": Axis(p, 0)}, {"tp": Axis(d, 0)}, {"tp.size"}) for p, d in TP),
    # Sizes divide each other, but both ends claim the same heads of each rank: not one model.
    *(("F08 heads", {"tp": Axis(p, 0)}, {"tp": Axis(d, 0)}, {"heads.kv"}) for p, d in SPLIT),
    ("F09 tp of a latent cache", {"tp": Axis(6, 0), "mla": True}, {"tp": Axis(4, 0), "mla": True}, {"tp.size"}),
    ("F09 rank that is no partner", {"tp": Axis(2, 1), "mla": True}, {"tp": Axis(4, 1), "mla": True}, {"tp.rank"}),
    ("F09 stages", {"pp": Axis(2, 1), "speculative": UNSET}, {"pp": Axis(3, 1), "speculative": UNSET}, {"pp.size"}),
    ("F09 tokens of other ranks", {**WIDE, "dcp": Dcp(size=4, rank=0)}, {**WIDE, "dcp": Dcp(size=2, rank=0)}, {"dcp"}),
    ("F09 spread tokens", {**WIDE, "dcp": Dcp(size=4, rank=0)}, WIDE, {"dcp"}),
    ("F09 other rank", {"tp": Axis(4, 1)}, {"tp": Axis(4, 2)}, {"tp.rank"}),
    ("F10 dtype", {"kv_dtype": "bfloat16"}, {"kv_dtype": "float8_e4m3fn"}, {"kv_dtype"}),
    ("F10 item length", {"page": Page(64, 32768)}, {"page": Page(64, 16384)}, {"page.nbytes"}),
    (
        "F10 both",
        {"kv_dtype": "bfloat16"},
        {"kv_dtype": "float8_e4m3fn", "page": Page(64, 131072)},
        {"kv_dtype", "page.nbytes"},
    ),
    ("F17 axes", {"layout": "page,kv,head,token,dim"}, {"layout": "page,kv,token,head,dim"}, {"layout"}),
    (
        "F17 axes and tp",
        {"layout": "page,kv,head,token,dim", "tp": Axis(6, 3)},
        {"layout": "page,kv,token,head,dim"},
        {"layout", "tp.size"},
    ),
    ("F13 draft at decode", {"speculative": UNSET}, {"speculative": DRAFT}, {"speculative"}),
    ("F13 draft at prefill", {"speculative": DRAFT}, {"speculative": UNSET}, {"speculative"}),
    ("F13 another draft", {"speculative": DRAFT}, {"speculative": DRAFT._replace(draft_tokens=5)}, {"speculative"}),
    ("F13 draft layers", {"layers": Layers(80, 0, 80)}, {"layers": Layers(81, 0, 81)}, {"layers.total", "layers.stop"}),
    ("F14 weights", {"weights": "r1"}, {"weights": "r2"}, {"weights"}),
    ("F14 model", {"model": "a"}, {"model": "b"}, {"model"}),
    ("F15 versions", {"versions": Versions((1, 0), (1, 4))}, {"versions": Versions((2, 0), (2, 0))}, {"version"}),
]


@case("F08", "F09", "F10", "F13", "F14", "F15", "F17")
@PUSH
@pytest.mark.parametrize(("p", "d", "fields"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
@pytest.mark.parametrize("lost", ["", "Hello", "Refusal"])
def test_a_pair_that_cannot_work_is_refused_by_name_and_no_data_moves(
    push: bool, p: Change, d: Change, fields: set[str], lost: str
) -> None:
    """Rooms of that pair fail fast, with the fields; nothing else of either process is disturbed."""
    world = pair(p, d, push)
    s, r = world.both()
    r.metadata(aux=0)
    s.send_all(2)
    while lost and world.wire:
        if world.wire[0].kind == lost:
            world.drop()
            lost = ""
        else:
            world.deliver()
    assert not lost
    live_until(world, r, TIMING.hello)
    assert (r.state, r.cause) == (KVPoll.Failed, "HANDSHAKE_REFUSED")
    assert set(str(r.details["fields"]).split()) == fields
    assert all(field in str(r.details["why"]) for field in fields)
    assert not data(world)
    live_until(world, s, TIMING.pairing)
    assert failed(s) == "NO_ANNOUNCE"
    # A second room is refused too, and one of a pair that fits goes on.
    again = world.d.receiver(8)
    world.run()
    session = world.d.core.receiver(again.key)
    assert session is None or session.state is KVPoll.Failed
    world.d.core.links.registration = lambda link: registration("decode", engine=world.d.config.engine, **p)
    world.advance(2 * TIMING.hello)
    s2, r2 = world.both(9)
    r2.metadata()
    s2.send_all()
    world.run()
    assert outcomes(s2, r2) == ("Success", "Success")
    world.ends_idle()


# -- F08, F10: what passes the handshake moves as it was agreed ----------------------------------------------------------------
SIZES = [(1, 1, (0, 1)), (2, 3, (0, 2)), (4, 8, (0, 1)), (4, 16, (1, 3))]


@case("F08", "F09", "F10")
@PUSH
@pytest.mark.parametrize(("tokens", "nbytes", "layers"), SIZES)
@pytest.mark.parametrize(("n", "prefix"), [(1, 0), (8, 0), (9, 4), (16, 8), (16, 16)])
def test_whatever_a_pair_that_fits_plans_is_accepted_by_its_receiver(
    push: bool, tokens: int, nbytes: int, layers: tuple[int, int], n: int, prefix: int
) -> None:
    """Every prompt length, prefix and cut into chunks, for several geometries: nothing of it is refused later."""
    world = Shadow(push, page_size=tokens, page_nbytes=nbytes, layers=layers).linked()
    s, r = world.both(want=request(n, prefix))
    r.metadata()
    cuts = [stop for stop in range(prefix + 1, n) if stop % tokens == 0]
    stops = [*cuts[:: max(1, n // 4)], n]
    start = prefix
    for stop in stops if prefix < n else []:
        count = -(-stop // tokens) - start // tokens
        shape = (layers[1] - layers[0], count * nbytes)
        s.send(part(start, stop, layers, shape=shape), last=stop == n)
        start = stop
    if prefix == n:
        s.send(last=True)
    world.run()
    assert outcomes(s, r) == ("Success", "Success")
    world.ends_idle()


@case("F10")
@PUSH
@pytest.mark.parametrize("factor", [0.5, 2])
@pytest.mark.parametrize("page", [0, 3])
def test_a_part_that_would_land_across_other_pages_is_refused_before_it_is_called_whole(
    push: bool, factor: float, page: int
) -> None:
    """A sender that computes with another item length than it registered: caught by the bytes of each part."""
    world = Shadow(push, page_nbytes=8).linked()
    world.d.auto_commit = False
    s, r = world.both()
    r.metadata()
    for at in range(4):
        nbytes = int(8 * factor) if at == page else 8
        s.send(part(at, at + 1, shape=(1, nbytes)), last=at == 3)
    world.run()
    assert (r.cause, r.details["field"]) == ("PLAN_REFUSED", "part.shape")
    assert failed(s) == "PLAN_REFUSED"
    assert not r.ready
    world.ends_idle()


@case("F17")
@pytest.mark.parametrize("axes", list(permutations(("kv", "head", "token", "dim"))), ids=" ".join)
def test_ends_agree_on_where_an_element_lies_or_do_not_exchange_any(axes: tuple[str, ...]) -> None:
    """The order of axes is a field of its own: equal bytes and equal shapes do not make up for it."""
    layout = "page," + ",".join(axes)
    found = verdict({"layout": "page,kv,head,token,dim"}, {"layout": layout})
    assert set(found.refused) == (set() if layout == "page,kv,head,token,dim" else {"layout"})
    assert verdict({"layout": layout}, {"layout": layout}).ok


# -- F14, F15, F16: not more is refused than has to be ---------------------------------------------------------------------------
@case("F14", "F16")
@pytest.mark.parametrize(("p", "d"), [("", "r1"), ("r1", ""), ("", "")])
def test_weights_that_are_not_stated_are_taken_on_trust_and_that_is_said(p: str, d: str) -> None:
    found = verdict({"weights": p}, {"weights": d})
    assert found.ok
    assert any(sentence.startswith("weights: converted") for sentence in found.sentences)


@case("F15")
@PUSH
@pytest.mark.parametrize(
    ("p", "d"),
    list(product([Versions((1, 0), (1, 0)), Versions((1, 0), (2, 0)), Versions((2, 0), (2, 0))], repeat=2)),
    ids=str,
)
def test_in_a_rolling_update_exactly_the_pairs_with_a_common_version_exchange_data(
    push: bool, p: Versions, d: Versions
) -> None:
    common = max(p.low, d.low) <= min(p.high, d.high)
    world = pair({"versions": p}, {"versions": d}, push)
    s, r = world.both()
    r.metadata()
    s.send_all()
    live_until(world, r, TIMING.hello)
    assert (r.state is KVPoll.Success) == common
    assert bool(data(world)) == common
    if not common:
        assert (r.cause, r.details["fields"]) == ("HANDSHAKE_REFUSED", "version")
        s.abort()
    world.finish()
    world.advance(TIMING.pairing)
    assert world.d.idle() == world.p.idle() == {}


@case("F15")
def test_a_router_can_see_what_a_prefill_speaks_before_it_picks_a_pair() -> None:
    """What it needs to compare stands in the registry's answer: protocol version, transports, page size, KV dtype, sizes."""
    registry = Registry()
    shown = {
        "protocol": "1.0", "transports": ("zmq",), "page_size": 16, "kv_cache_dtype": "bfloat16", "attn_tp_size": 2, "pp_size": 1,
    }  # fmt: skip
    rank = {"engine_id": "e", "instance": "i", "control": "tcp://10.0.0.1:7000", "attn_tp_rank": 0}
    registry.register(RankEntry.model_validate(rank | shown), 0.0)
    (view,) = registry.lookup(0.0)
    assert {name: getattr(view, name) for name in shown} == shown


#: What one wrapper or release reports and another does not, and what does not hinder a hand-off.
HARMLESS: dict[str, tuple[Change, Change]] = {
    "a capability more": ({"capabilities": ("pull", "push", "wrapped")}, {}),
    "capabilities in another order": ({"capabilities": ("push", "pull")}, {}),
    "transports in another order": ({"transports": tuple(reversed(registration().transports))}, {}),
    "one transport only": ({"transports": registration().transports[:1]}, {}),
    "aux buffers in another order": (
        {"aux": AuxSchema.of([AuxField("a", "int32", (1,)), AuxField("b", "int32", (2,))])},
        {"aux": AuxSchema.of([AuxField("b", "int32", (2,)), AuxField("a", "int32", (1,))])},
    ),
    "an aux buffer more at prefill": (
        {"aux": AuxSchema.of([AuxField("a", "int32", (1,)), AuxField("b", "int32", (2,))])},
        {"aux": AuxSchema.of([AuxField("b", "int32", (2,))])},
    ),
    "experts": ({"ep_size": 8}, {"ep_size": 1}),
    "another replica": ({"dp": Axis(2, 1)}, {"dp": Axis(2, 0)}),
    "another engine": ({"engine": 1}, {"engine": 2}),
    "smaller plans": ({"max_parts": 8}, {}),
}


@case("F16")
@pytest.mark.parametrize("what", HARMLESS)
@pytest.mark.parametrize("swapped", [False, True])
def test_a_pair_that_can_work_is_not_refused_for_what_does_not_matter(what: str, swapped: bool) -> None:
    p, d = HARMLESS[what]
    if swapped and what != "an aux buffer more at prefill":
        p, d = d, p
    found = verdict(p, d)
    assert found.ok, found.sentences
    assert found.refusal() == ((), "")


@case("F16")
@pytest.mark.parametrize(("p", "d", "fields"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_a_refusal_names_the_fields_that_matter_and_no_other(p: Change, d: Change, fields: set[str]) -> None:
    for what, (more_p, more_d) in HARMLESS.items():
        found = verdict({**more_p, **p}, {**more_d, **d})
        assert set(found.refused) == fields, what
        named = [f for f in found.findings if f.outcome is Outcome.REFUSED]
        assert all(f.ours != f.theirs and f.why for f in named), what
