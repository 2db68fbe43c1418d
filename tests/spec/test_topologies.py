"""Whole engines against each other: which of their ranks the handshake lets meet, against plain arithmetic written here.

The predicate knows shares of a whole, not ranks: rank k of d owns [k/d, (k+1)/d) of the heads, and two ranks meet if their
shares overlap. It is written without looking at the mapping, and the plans of :mod:`kvpoll.protocol.plans` must agree too.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET
from msgspec.structs import replace

from kvpoll.protocol.handshake import Verdict, compare
from kvpoll.protocol.plans import Place, Shape, sources_of
from kvpoll.protocol.plans.heads import heads_of, slice_heads
from kvpoll.spec.support import Outcome
from kvpoll.spec.wire import Axis, Dcp, Heads, Layers, Page, Registration, Speculative

from ..protocol.wire_values import registration

LAYERS, PAGE, DIM, WIDTH = 12, 64, 16, 2
DRAFT = Speculative("EAGLE", 4, 1, 8192)


class Engine(NamedTuple):
    """``heads``: KV heads of the model; 0: MLA."""

    tp: int = 1
    pp: int = 1
    cp: int = 1
    dp: int = 1
    dcp: int = 1
    heads: int = 8
    draft: bool = False
    hybrid: bool = False
    room: bool = False
    interleave: int = 1

    @property
    def shape(self) -> Shape:
        return Shape(self.tp, self.pp, self.cp, self.dp, self.dcp)

    def places(self) -> Iterator[Place]:
        for tp, pp, cp, dp in product(*map(range, (self.tp, self.pp, self.cp, self.dp))):
            yield Place(tp, pp, cp, dp)

    def rank(self, role: str, place: Place) -> Registration:
        kv = max(1, self.heads // self.tp)
        rows = (2 * kv * DIM if self.heads else DIM) * WIDTH * PAGE
        cut = [i * LAYERS // self.pp for i in range(self.pp + 1)]
        return registration(
            role, layers=Layers(LAYERS, cut[place.pp], cut[place.pp + 1]), page=Page(PAGE, rows), heads=Heads(kv, DIM),
            mla=not self.heads, layout="kv,token,head,dim" if self.heads else "token,dim",
            tp=Axis(self.tp, place.tp), pp=Axis(self.pp, place.pp), cp=Axis(self.cp, place.cp), dp=Axis(self.dp, place.dp),
            dcp=Dcp(size=self.dcp, rank=place.tp % self.dcp, interleave=self.interleave) if self.dcp > 1 else UNSET,
            speculative=DRAFT if self.draft else UNSET, aux=UNSET,
            capabilities=("hybrid",) * self.hybrid + ("dp-room",) * self.room,
        )  # fmt: skip


def meet(prefill: Registration, decode: Registration) -> Verdict:
    there, here = compare(prefill, decode, role="prefill"), compare(decode, prefill, role="decode")
    assert set(here.refused) == set(there.refused)
    assert (here.plans, here.kv_heads) == (there.plans, there.kv_heads)
    for finding in here.findings:
        assert finding.outcome is not Outcome.REFUSED or (finding.field and finding.advice)
        assert (finding.outcome is Outcome.CONVERTED) == bool(finding.plan)
    return here


def overlap(j: int, p: int, k: int, d: int) -> bool:
    return max(Fraction(j, p), Fraction(k, d)) < min(Fraction(j + 1, p), Fraction(k + 1, d))


def divides(a: int, b: int) -> bool:
    return max(a, b) % min(a, b) == 0


def engine_fits(p: Engine, d: Engine) -> bool:
    """Can some rank of one meet some rank of the other? In words of the issue, not of the matrix."""
    same_tp = p.tp == d.tp
    dcp = {
        (False, False): True,
        (False, True): p.cp == 1 and d.interleave == 1 and not p.heads and not d.heads,
        (True, False): False,
        (True, True): p.dcp == d.dcp and same_tp and p.interleave == d.interleave,
    }[p.dcp > 1, d.dcp > 1]
    one_end = all(
        not (e.dcp > 1 and (e.heads or e.cp > 1)) and not (e.pp > 1 and e.draft) and e.tp % e.dcp == 0 for e in (p, d)
    )
    routed = p.dp == 1 or p.room or not d.room
    return (
        one_end and dcp and routed and divides(p.tp, d.tp) and (same_tp or not p.hybrid) and d.pp in (1, p.pp)
        and d.cp in (1, p.cp) and p.draft == d.draft and p.hybrid == d.hybrid and p.heads == d.heads
    )  # fmt: skip


def ranks_meet(p: Engine, j: Place, d: Engine, k: Place) -> bool:
    return (
        overlap(j.tp, p.tp, k.tp, d.tp) and (d.pp == 1 or j.pp == k.pp) and (d.cp == 1 or j.cp == k.cp)
        and (p.dcp == 1 or j.tp % p.dcp == k.tp % d.dcp)
    )  # fmt: skip


def plans_of(p: Engine, d: Engine) -> set[str]:
    named = set()
    if p.tp != d.tp:
        named |= {"tp-heads"} if p.heads else {"mla-replicas"}
        named |= {"head-copies"} if p.heads and p.heads < max(p.tp, d.tp) else set()
    named |= {"pp-layers"} if p.pp > d.pp else set()
    named |= {"cp-first"} if p.cp > d.cp else set()
    if d.dcp > p.dcp:
        named |= {"dcp-rows", "dcp-draft"} if d.draft else {"dcp-rows"}
    if p.dp > 1:
        named |= {"dp-room"} if p.room and d.room else {"dp-explicit"}
    return named


def check(p: Engine, d: Engine) -> int:
    """Every pair of ranks of the two engines; how many of them meet."""
    fits, met = engine_fits(p, d), 0
    for k in d.places():
        partners = set()
        for j in p.places():
            verdict = meet(p.rank("prefill", j), d.rank("decode", k))
            assert verdict.ok == (fits and ranks_meet(p, j, d, k)), (p, j, d, k, verdict.sentences)
            if verdict.ok:
                assert set(verdict.plans) == plans_of(p, d), (p, d)
                partners.add(j)
        if fits:
            sources = [
                sources_of(k, p.shape, d.shape, mla=not p.heads, kv_heads=p.heads or None, prefill_dp=replica)
                for replica in range(p.dp)
            ]
            assert {source.place for each in sources for source in each} == partners
        met += len(partners)
    assert bool(met) == fits
    return met


SIZES = (1, 2, 3, 4, 8)
HEADS = (0, 1, 2, 3, 4, 6, 8, 24)


@pytest.mark.parametrize("heads", HEADS)
def test_tensor_parallel_ranks_meet_where_their_shares_overlap(heads: int) -> None:
    """Only engines that can be: TP sizes that divide the KV heads, or are a multiple of them."""
    possible = [tp for tp in SIZES if not heads or divides(tp, heads)]
    met = [check(Engine(p, heads=heads), Engine(d, heads=heads)) for p, d in product(possible, possible)]
    assert any(met)


@pytest.mark.parametrize("heads", HEADS[1:])
def test_the_heads_that_the_handshake_infers_give_each_decode_rank_its_own_once(heads: int) -> None:
    """What it says of the model is enough for the plan: with it, the heads that arrive are those that the model would give."""
    possible = [tp for tp in SIZES if divides(tp, heads)]
    for p, d in product(possible, possible):
        if not divides(p, d):
            continue
        for k in range(d):
            arrived = {}
            for j in range(p):
                pair = Engine(p, heads=heads).rank("prefill", Place(j)), Engine(d, heads=heads).rank("decode", Place(k))
                if not (verdict := meet(*pair)).ok:
                    continue
                assert verdict.kv_heads is not None
                cut = slice_heads(kv_heads=verdict.kv_heads, src_tp=p, src_rank=j, dst_tp=d, dst_rank=k)
                held = heads_of(kv_heads=heads, tp=p, rank=j)
                for at in range(cut.count):
                    assert cut.dst_lo + at not in arrived, "no head arrives twice"
                    arrived[cut.dst_lo + at] = held[cut.src_lo + at]
            assert [arrived[at] for at in sorted(arrived)] == list(heads_of(kv_heads=heads, tp=d, rank=k))


@pytest.mark.parametrize("heads", [0, 8])
def test_stages_and_context_parallel_ranks_meet_all_to_one_or_one_to_one(heads: int) -> None:
    met = 0
    for p, d in product((1, 2, 3, 4), repeat=2):
        met += check(Engine(pp=p, heads=heads), Engine(pp=d, heads=heads))
        met += check(Engine(cp=p, heads=heads), Engine(cp=d, heads=heads))
        check(Engine(pp=p, heads=heads, draft=True), Engine(pp=d, heads=heads, draft=True))
    assert met


@pytest.mark.parametrize("heads", [0, 8])
def test_dense_rows_are_spread_and_spread_rows_stay_where_they_are(heads: int) -> None:
    met = 0
    for (p_tp, p_dcp), (d_tp, d_dcp) in product([(1, 1), (2, 1), (2, 2), (4, 1), (4, 2), (4, 4), (6, 3)], repeat=2):
        for draft in (False, True):
            p, d = Engine(p_tp, dcp=p_dcp, heads=heads, draft=draft), Engine(d_tp, dcp=d_dcp, heads=heads, draft=draft)
            if not heads or (divides(p_tp, heads) and divides(d_tp, heads)):
                met += check(p, d)
    assert met


@pytest.mark.parametrize(("p", "d"), list(product([(1, False), (1, True), (3, False), (3, True)], repeat=2)))
def test_a_replica_is_named_or_agreed_and_never_guessed(p: tuple[int, bool], d: tuple[int, bool]) -> None:
    check(Engine(dp=p[0], room=p[1]), Engine(dp=d[0], room=d[1]))


def test_a_replica_that_would_be_guessed_is_refused_by_name() -> None:
    asks = Engine(dp=2, room=True).rank("decode", Place(dp=1))
    verdict = meet(Engine(dp=2).rank("prefill", Place()), asks)
    assert verdict.refused == ("capabilities.dp-room",)
    assert "explicit at decode" in verdict.refusal()[1]
    assert meet(Engine(dp=1).rank("prefill", Place()), asks).ok


FIELDS = {
    "tp": ((2, 3), {"tp.size"}), "pp": ((1, 2), {"pp.size"}), "cp": ((1, 2), {"cp.size"}), "dcp": ((4, 2), {"dcp"}),
    "draft": ((False, True), {"speculative"}), "hybrid": ((False, True), {"capabilities.hybrid"}),
}  # fmt: skip


@pytest.mark.parametrize("axis", FIELDS)
def test_what_is_refused_is_named_and_nothing_else_is(axis: str) -> None:
    """Engines that do not fit refuse every pair of ranks by that alone, whatever rank asks."""
    (p, d), fields = FIELDS[axis]
    base = Engine(4, heads=0) if axis == "dcp" else Engine(heads=0)
    prefill, decode = base._replace(**{axis: p}), base._replace(**{axis: d})
    for j, k in product(prefill.places(), decode.places()):
        if axis == "dcp" and j != k:
            continue  # refused by another name too: these ranks do not meet
        assert set(meet(prefill.rank("prefill", j), decode.rank("decode", k)).refused) == fields


def engines() -> st.SearchStrategy[tuple[Engine, Engine]]:
    sizes = st.sampled_from((1, 1, 2, 4))
    one = st.builds(
        Engine, tp=sizes, pp=st.sampled_from((1, 1, 2)), cp=st.sampled_from((1, 1, 2)), dp=st.sampled_from((1, 1, 2)),
        dcp=st.sampled_from((1, 1, 2, 4)), heads=st.just(0), draft=st.booleans(), hybrid=st.booleans(), room=st.booleans(),
        interleave=st.sampled_from((1, 1, 1, 64)),
    )  # fmt: skip
    shared = st.tuples(st.sampled_from((0, 0, 1, 2, 8)), st.booleans(), st.booleans(), st.booleans())

    def alike(ends: tuple[Engine, Engine, tuple[int, bool, bool, bool]]) -> tuple[Engine, Engine]:
        p, d, (heads, same, draft, hybrid) = ends
        return tuple(  # type: ignore[return-value]
            e._replace(heads=heads, **({"draft": draft, "hybrid": hybrid and draft} if same else {})) for e in (p, d)
        )

    return st.tuples(one, one, shared).map(alike)


@settings(max_examples=120, deadline=None)
@given(ends=engines())
def test_axes_combine_and_each_decides_for_itself(ends: tuple[Engine, Engine]) -> None:
    p, d = ends
    if p.tp % p.dcp or d.tp % d.dcp:
        assert not meet(p.rank("prefill", Place()), d.rank("decode", Place())).ok
        return
    check(p, d)


@pytest.mark.parametrize(
    ("p", "d", "plans"),
    [
        (
            Engine(2, pp=2, dp=2, heads=0),
            Engine(4, dcp=4, heads=0),
            {"mla-replicas", "pp-layers", "dcp-rows", "dp-explicit"},
        ),
        (Engine(4, cp=2, heads=2, draft=True), Engine(1, heads=2, draft=True), {"tp-heads", "head-copies", "cp-first"}),
        (Engine(4, pp=2, heads=0, hybrid=True), Engine(4, dcp=2, heads=0, hybrid=True), {"pp-layers", "dcp-rows"}),
        (Engine(2, cp=2, heads=0, pp=2), Engine(2, cp=2, heads=0, pp=2), set()),
    ],
)
def test_several_conversions_work_together(p: Engine, d: Engine, plans: set[str]) -> None:
    """The sometimes-twin of the test above: pairs that fit although much differs."""
    assert check(p, d)
    assert plans_of(p, d) == plans


# Nothing raises --------------------------------------------------------------------------------------------------------
SMALL = st.integers(0, 9)
STRANGE_AXES = st.builds(Axis, SMALL, SMALL)
AXES = st.one_of(
    *[st.just(Axis(1, 0))] * 2, st.sampled_from([Axis(2, 0), Axis(2, 1), Axis(4, 1), Axis(4, 2)]), STRANGE_AXES
)
ROWS = st.one_of(
    *[st.sampled_from((1, 2, 4)).map(lambda kv: {"heads": Heads(kv, 1), "page": Page(1, 6 * kv)})] * 3,
    st.builds(lambda a, b, c, d: {"heads": Heads(a, b), "page": Page(c, d)}, SMALL, SMALL, SMALL, SMALL),
)
REST = st.fixed_dictionaries({
    "tp": AXES, "pp": AXES, "cp": AXES, "dp": AXES, "mla": st.booleans(),
    "layers": st.sampled_from([Layers(8, 0, 8)] * 3 + [Layers(8, 4, 8)]) | st.builds(Layers, SMALL, SMALL, SMALL),
    "dcp": st.just(UNSET) | st.builds(Dcp, size=st.sampled_from((1, 2, 4)), rank=st.sampled_from((0, 1)))
    | st.builds(Dcp, size=SMALL, rank=SMALL, interleave=SMALL),
    "speculative": st.sampled_from((UNSET, UNSET, DRAFT)), "layout": st.sampled_from(("head,token", "head,token", "", ",")),
    "capabilities": st.lists(st.sampled_from(("hybrid", "dp-room", "radix", "dp-room ")), max_size=2).map(tuple),
})  # fmt: skip
STRANGE = st.builds(lambda rows, rest: {**rows, **rest}, ROWS, REST)
NAMES = ["tp", "pp", "cp", "heads", "page", "layers", "dcp", "mla", "speculative", "layout", "capabilities"]


@settings(max_examples=400, deadline=None)
@given(ours=STRANGE, theirs=STRANGE, other=st.sets(st.sampled_from(NAMES), max_size=4))
def test_numbers_that_no_engine_has_are_refused_alike_and_raise_nothing(
    ours: dict[str, object], theirs: dict[str, object], other: set[str]
) -> None:
    theirs = ours | {name: theirs[name] for name in other}
    verdict = meet(registration("prefill", **ours), registration("decode", **theirs))
    assert verdict.ok == (not verdict.refused)
    if not verdict.ok:
        return
    sender, receiver = registration("prefill", **ours), registration("decode", **theirs)
    shapes = [
        Shape(e.tp.size, e.pp.size, e.cp.size, e.dp.size, 1 if e.dcp is UNSET else max(1, e.dcp.size))
        for e in (sender, receiver)
    ]
    j, k = (Place(e.tp.rank, e.pp.rank, e.cp.rank, e.dp.rank) for e in (sender, receiver))
    met = sources_of(k, *shapes, mla=receiver.mla, kv_heads=verdict.kv_heads, prefill_dp=j.dp)
    assert j in {source.place for source in met}, "what the handshake lets pass, the plan takes"


def test_a_page_that_holds_no_whole_heads_is_not_cut() -> None:
    one, two = Engine(1).rank("prefill", Place()), Engine(2).rank("decode", Place())
    assert meet(one, two).ok
    odd = meet(replace(one, page=Page(PAGE, 4098)), replace(two, page=Page(PAGE, 2049)))
    assert odd.refused == ("page.nbytes",)
