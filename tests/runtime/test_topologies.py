"""Ranks that are shaped differently hand over real bytes: every row ends where it belongs, at every rank."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from _pytest.mark import ParameterSet

from kvpoll.protocol.errors import LocalProtocolError
from kvpoll.protocol.plans import Place, Shape
from kvpoll.runtime import KVReceiver, KVSender, Request
from kvpoll.spec import KVPoll
from tests.runtime.engines import eventually
from tests.runtime.ranks import Model, Rank, engines

HEADS, MLA = Model(), Model(mla=True)
#: name, model, prefill, decode
PAIRS = [
    ("tp-2-to-1", HEADS, Shape(tp=2), Shape()),
    ("tp-1-to-2", HEADS, Shape(), Shape(tp=2)),
    ("tp-4-to-2", HEADS, Shape(tp=4), Shape(tp=2)),
    ("tp-2-to-2", HEADS, Shape(tp=2), Shape(tp=2)),
    ("pp-2-to-1", HEADS, Shape(pp=2), Shape()),
    ("pp-2-to-2", HEADS, Shape(pp=2), Shape(pp=2)),
    ("tp-2-to-1-pp-2-to-1", HEADS, Shape(tp=2, pp=2), Shape()),
    ("tp-1-to-2-pp-2-to-1", HEADS, Shape(pp=2), Shape(tp=2)),
    ("cp-2-to-1", HEADS, Shape(cp=2), Shape()),
    ("mla-tp-4-to-2", MLA, Shape(tp=4), Shape(tp=2)),
    ("mla-tp-1-to-2", MLA, Shape(), Shape(tp=2)),
    ("dcp-1-to-4", MLA, Shape(), Shape(tp=4, dcp=4)),
    ("dcp-1-to-2-of-tp-4", MLA, Shape(), Shape(tp=4, dcp=2)),
    ("dcp-2-to-2", MLA, Shape(tp=2, dcp=2), Shape(tp=2, dcp=2)),
    ("dcp-1-to-2-pp-2-to-1-tp-4-to-2", MLA, Shape(tp=4, pp=2), Shape(tp=2, dcp=2)),
]


#: Over jax as well; the others take minutes there on a busy machine.
OVER_JAX = {"tp-2-to-1", "pp-2-to-1", "dcp-1-to-4"}


def _runs() -> Iterator[ParameterSet]:
    for name, *shapes in PAIRS:
        yield pytest.param(*shapes, "zmq", id=f"{name}-zmq")
        yield pytest.param(*shapes, "jax", id=f"{name}-jax", marks=[] if name in OVER_JAX else pytest.mark.deep)


@pytest.mark.parametrize(("model", "prefill", "decode", "transport"), list(_runs()))
def test_every_row_ends_where_it_belongs_at_every_rank(
    model: Model, prefill: Shape, decode: Shape, transport: str
) -> None:
    with engines(model, prefill, decode, transport) as both:
        for gen, tokens in enumerate((1, 4, 7, 33), 1):
            both.hand_over(gen, tokens, chunk=2)


@pytest.mark.parametrize(
    ("model", "prefill", "decode", "prefix"),
    [
        (HEADS, Shape(tp=2), Shape(), 8),
        (HEADS, Shape(), Shape(tp=2), 6),
        (MLA, Shape(), Shape(tp=2, dcp=2), 16),
        (HEADS, Shape(pp=2), Shape(), 22),
    ],
    ids=["tp-2-to-1", "tp-1-to-2-within-a-page", "dcp-1-to-2", "everything-is-there"],
)
def test_what_decode_holds_already_is_not_moved(model: Model, prefill: Shape, decode: Shape, prefix: int) -> None:
    request = Request(22, prefix, b"prefix")
    truth = model.truth(22)
    with engines(model, prefill, decode) as both:
        both.receive(1, request, 1)
        both.send(1, request, truth, chunk=1)
        both.commit()
        both.states(KVPoll.Success)
        assert [rank.differs(truth, request) for rank in both.d if rank.differs(truth, request)] == []


def test_a_prefix_within_a_page_of_all_dcp_ranks_is_refused_by_name() -> None:
    with engines(MLA, Shape(), Shape(tp=2, dcp=2)) as both, pytest.raises(LocalProtocolError, match=r"prefix: .* 8 "):
        both.receive(1, Request(22, 4, b"prefix"), 1)


@pytest.mark.parametrize("side", ["prefill", "decode"])
def test_one_rank_that_gives_up_ends_the_room_at_every_rank(side: str) -> None:
    request = Request(9, 0, b"abort")
    with engines(HEADS, Shape(tp=2), Shape()) if side == "prefill" else engines(HEADS, Shape(), Shape(tp=2)) as both:
        both.receive(1, request, 1)
        if side == "decode":
            both.d[1].handle.abort("no client any more")
            both.send(1, request, HEADS.truth(9), chunk=9)
        else:
            both.send(1, request, HEADS.truth(9), chunk=9)
            both.p[1].handle.abort("no memory any more")
        both.states(KVPoll.Failed)
        both.returned([*both.p, *both.d])


def test_pools_of_jax_take_heads_and_rows_like_pools_of_numpy() -> None:
    jax = pytest.importorskip("jax")
    for model, prefill, decode in ((HEADS, Shape(tp=2), Shape()), (MLA, Shape(), Shape(tp=2, dcp=2))):
        request, truth = Request(9, 0, b"jax"), model.truth(9)
        with engines(model, prefill, decode) as both:
            for rank in both.d:
                rank.pool = [jax.device_put(layer) for layer in rank.pool]
            both.receive(1, request, 1)
            both.send(1, request, truth, chunk=2)
            both.commit()
            both.states(KVPoll.Success)
            assert [rank.differs(truth, request) for rank in both.d if rank.differs(truth, request)] == []


def test_a_decode_that_expects_another_shape_is_told_so_by_name() -> None:
    request = Request(9, 0, b"shape")
    with engines(HEADS, Shape(tp=2), Shape()) as both:
        (rank,) = both.d
        rank.handle = KVReceiver(rank.manager, "127.0.0.1", 1, 1, request, address=both.p[0].manager.address)
        rank.handle.init()
        assert eventually(rank.manager, lambda: rank.handle.poll() is KVPoll.Failed)
        error = rank.handle.failure_exception()
        assert error is not None
        assert error.details["fields"] == "senders"
        assert "2 sender ranks" in str(error)


def test_a_leg_for_another_number_of_receiver_ranks_is_refused_by_name() -> None:
    request = Request(9, 0, b"ranks")
    with engines(HEADS, Shape(), Shape(tp=2)) as both:
        sender = KVSender(both.p[0].manager, 1, request, dest_tp_ranks=[0])
        both.receive(1, request, 1)
        assert eventually(both.p[0].manager, lambda: sender.poll() is KVPoll.Failed)
        error = sender.failure_exception()
        assert error is not None
        assert (error.details["field"], error.details["expected"]) == ("ranks", 2)


def test_an_unsupported_decode_is_refused_while_a_supported_one_goes_on() -> None:
    request, truth = Request(9, 0, b"both"), HEADS.truth(9)
    with engines(HEADS, Shape(tp=2), Shape()) as both:
        odd = Rank("decode", Model(page=8), Shape(), Place(), "zmq", 99)
        try:
            odd.handle = KVReceiver(
                odd.manager, "127.0.0.1", 1, 2, request, address=both.addresses(both.d[0]), prefill=both.prefill
            )
            odd.handle.init()
            both.receive(1, request, 1)
            both.send(1, request, truth, chunk=2)
            both.commit()
            both.states(KVPoll.Success)
            assert eventually(odd.manager, lambda: odd.handle.poll() is KVPoll.Failed)
            error = odd.handle.failure_exception()
            assert error is not None
            assert "page.size" in str(error.details["fields"])
        finally:
            odd.manager.close()


def test_aux_data_is_asked_for_only_where_a_prefill_rank_brings_it() -> None:
    request = Request(9, 0, b"aux")
    with engines(HEADS, Shape(pp=2), Shape(pp=2)) as both:
        first = both.announce(both.d[0], 1, request, 1)
        with pytest.raises(LocalProtocolError, match="aux_index: expected none"):
            first.send_metadata(both.d[0].pages(request), both.d[0].aux.allocate())
        sender = KVSender(both.p[0].manager, 1, request)
        with pytest.raises(LocalProtocolError, match=r"aux_index: .*pp_rank 1"):
            sender.init(aux_index=both.p[0].aux.allocate())


def test_the_replica_is_named_or_follows_from_the_room_and_is_never_guessed() -> None:
    engine = HEADS.spec(Shape(), Place()).model_copy(update={"dp_routing": "room"})
    rank = Rank("decode", HEADS, Shape(), Place(), "zmq", 99, engine)
    try:
        asked = KVReceiver(rank.manager, "127.0.0.1", 9, 7, Request(9), prefill=Shape(dp=4))
        asked.init()
        (link,) = rank.manager.call(lambda core: list(core.links.table.values()))
        assert "dp=3&" in link.address
    finally:
        rank.manager.close()
    rank = Rank("decode", HEADS, Shape(), Place(), "zmq", 99)
    try:
        asked = KVReceiver(rank.manager, "127.0.0.1", 9, 7, Request(9), prefill=Shape(dp=4))
        with pytest.raises(LocalProtocolError, match="prefill_dp_rank: expected one of 4"):
            asked.init()
    finally:
        rank.manager.close()
