"""The support matrix, cell by cell: for each one a pair that reaches it, and what becomes of that pair, written down again."""

from __future__ import annotations

from collections import Counter
from json import loads
from pathlib import Path
from typing import TypeAlias

import pytest
from msgspec import UNSET
from typer.testing import CliRunner

from kvpoll.cli.app import cli
from kvpoll.protocol import handshake
from kvpoll.protocol.handshake import Verdict, compare
from kvpoll.protocol.render import Format, render_support
from kvpoll.spec.support import (
    BOUNDS,
    CAPABILITIES,
    COMBINATIONS,
    MATRIX,
    PLANS,
    SUPPORT,
    Attention,
    Cell,
    Entry,
    Kind,
    Outcome,
    Relation,
    decide,
)
from kvpoll.spec.wire import (
    ALONE,
    AuxField,
    AuxSchema,
    Axis,
    Dcp,
    Heads,
    Layers,
    Page,
    Registration,
    Speculative,
    Staging,
    Versions,
)

from ..protocol.wire_values import deadlines, registration

Change: TypeAlias = dict[str, object]


def end(role: str, changes: Change) -> Registration:
    """A rank of an engine without any parallelism: 8 layers, pages of 64 tokens, 8 heads of 128 values of 2 bytes."""
    plain: Change = {
        "tp": ALONE, "speculative": UNSET, "aux": UNSET, "capabilities": (), "layers": Layers(8, 0, 8),
        "page": Page(64, 262144), "heads": Heads(8, 128), "layout": "kv,token,head,dim",
    }  # fmt: skip
    return registration(role, **{**plain, **changes})


def meet(p: Change, d: Change) -> Verdict:
    """Both ends compare, and find the same."""
    sender, receiver = end("prefill", p), end("decode", d)
    there, here = compare(sender, receiver, role="prefill"), compare(receiver, sender, role="decode")
    assert (set(here.refused), here.plans, here.kv_heads) == (set(there.refused), there.plans, there.kv_heads)
    return here


def tp(size: int, rank: int = 0, heads: int = 8, nbytes: int = 0) -> Change:
    return {"tp": Axis(size, rank), "heads": Heads(heads, 128), "page": Page(64, nbytes or 32768 * heads)}


def has(*names: str) -> Change:
    return {"capabilities": names}


def aux(*fields: tuple[str, str]) -> Change:
    return {"aux": AuxSchema.of(AuxField(name, dtype, (1,)) for name, dtype in fields)}


def ring(nbytes: int) -> Change:
    return {"staging": Staging(buffer_nbytes=nbytes, grid_tokens=1)}


def spread(size: int, rank: int = 0, tp: int = 4, interleave: int = 1) -> Change:
    return MLA | {"tp": Axis(tp, rank), "dcp": Dcp(size=size, rank=rank % size, interleave=interleave)}


MLA: Change = {"mla": True, "heads": Heads(1, 576), "page": Page(64, 73728)}
MLA4: Change = MLA | {"tp": Axis(4, 0)}
DRAFT: Change = {"speculative": Speculative("EAGLE", 4, 1, 8192)}
OTHER: Change = {"speculative": Speculative("EAGLE", 5, 1, 8192)}
HYBRID = has("hybrid")
PP2: Change = {"pp": Axis(2, 1), "layers": Layers(8, 4, 8)}
DP: Change = {"dp": Axis(4, 3)}
#: "=": fits; "!": refused; a name: converted by that plan.
_ROWS: dict[str, dict[str, tuple[Change, Change, str]]] = {
    "tp.size": {
        "EQUAL HEADS": (tp(2, 1), tp(2, 1), "="), "EQUAL MLA": (MLA4, MLA4, "="), "EQUAL HYBRID": (HYBRID, HYBRID, "="),
        "WIDER HEADS": (tp(2, 1), tp(4, 3, 4), "tp-heads"), "WIDER MLA": (MLA, MLA4, "mla-replicas"),
        "WIDER HYBRID": (HYBRID, HYBRID | tp(2, 0, 4), "!"), "NARROWER HEADS": (tp(4, 3, 2), tp(2, 1, 4), "tp-heads"),
        "NARROWER MLA": (MLA4, MLA, "mla-replicas"), "NARROWER HYBRID": (HYBRID | tp(2, 0, 4), HYBRID, "!"),
        "INDIVISIBLE HEADS": (tp(2), tp(3), "!"), "INDIVISIBLE MLA": (MLA4, MLA | {"tp": Axis(6, 0)}, "!"),
        "INDIVISIBLE HYBRID": (HYBRID | tp(2), HYBRID | tp(3), "!"),
    },
    "tp.rank": {
        "EQUAL": (tp(2, 1), tp(2, 1), "="), "PARTNERS": (tp(2, 1), tp(4, 2, 4), "="), "STRANGERS": (tp(2, 0), tp(2, 1), "!"),
        "MOOT": (tp(2, 0), tp(3, 0), "="),
    },
    "pp.size": {
        "EQUAL": (PP2, PP2, "="), "MANY_TO_ONE": (PP2, {}, "pp-layers"), "ONE_TO_MANY": ({}, PP2, "!"),
        "MANY_TO_OTHER": ({"pp": Axis(4, 0)}, PP2, "!"),
    },
    "pp.rank": {
        "EQUAL": (PP2, PP2, "="), "PARTNERS": (PP2, {}, "="), "STRANGERS": (PP2, PP2 | {"pp": Axis(2, 0)}, "!"),
        "MOOT": ({}, PP2, "="),
    },
    "layers.total": {"EQUAL": ({}, {}, "="), "DIFFERENT": ({"layers": Layers(9, 0, 8)}, {}, "!")},
    "layers.start": {
        "EQUAL": ({}, {}, "="), "WITHIN": (PP2, {}, "pp-layers"), "DIFFERENT": ({}, {"layers": Layers(8, 4, 8)}, "!"),
        "MOOT": ({}, PP2, "="),
    },
    "layers.stop": {
        "EQUAL": ({}, {}, "="), "WITHIN": ({"pp": Axis(2, 0), "layers": Layers(8, 0, 4)}, {}, "pp-layers"),
        "DIFFERENT": ({"layers": Layers(8, 0, 4)}, {}, "!"), "MOOT": ({}, PP2, "="),
    },
    "cp.size": {
        "EQUAL": ({"cp": Axis(2, 1)}, {"cp": Axis(2, 1)}, "="), "MANY_TO_ONE": ({"cp": Axis(2, 1)}, {}, "cp-first"),
        "ONE_TO_MANY": ({}, {"cp": Axis(2, 0)}, "!"), "MANY_TO_OTHER": ({"cp": Axis(4, 0)}, {"cp": Axis(2, 0)}, "!"),
    },
    "cp.rank": {
        "EQUAL": ({"cp": Axis(2, 1)}, {"cp": Axis(2, 1)}, "="), "PARTNERS": ({"cp": Axis(2, 1)}, {}, "="),
        "STRANGERS": ({"cp": Axis(2, 1)}, {"cp": Axis(2, 0)}, "!"), "MOOT": ({}, {"cp": Axis(2, 0)}, "="),
    },
    "dp.size": {"EQUAL": (DP, DP, "="), "DIFFERENT": (DP, {}, "any-replica")},
    "dp.rank": {"EQUAL": (DP, DP, "="), "DIFFERENT": (DP, {}, "any-replica")},
    "capabilities.dp-room": {
        "MOOT": ({}, DP | has("dp-room"), "="), "NEITHER": (DP, {}, "dp-explicit"),
        "EQUAL": (DP | has("dp-room"), has("dp-room"), "dp-room"), "SENDER_ONLY": (DP | has("dp-room"), {}, "dp-explicit"),
        "RECEIVER_ONLY": (DP, has("dp-room"), "!"),
    },
    "dcp": {
        "NEITHER": (MLA, MLA, "="), "EQUAL": (spread(2, 1), spread(2, 1), "="), "ONE_TO_MANY MLA": (MLA4, spread(4), "dcp-rows"),
        "ONE_TO_MANY HYBRID": (HYBRID | MLA4, HYBRID | spread(4), "dcp-rows"),
        "ONE_TO_MANY HEADS": (tp(2), tp(2) | {"dcp": Dcp(size=2, rank=0)}, "!"),
        "UNDER_CP": (MLA4 | {"cp": Axis(2, 0)}, spread(4), "!"), "INTERLEAVED": (MLA4, spread(4, interleave=64), "!"),
        "MANY_TO_ONE": (spread(4), MLA4, "!"), "MANY_TO_OTHER": (spread(4), spread(2), "!"),
        "STRANGERS": (spread(4, 1), spread(4, 2), "!"), "DIFFERENT": (spread(4), spread(4, interleave=2), "!"),
        "UNDER_TP": (spread(2), spread(2, tp=8), "!"),
    },
    "page.size": {"EQUAL": ({}, {}, "="), "DIFFERENT": ({}, {"page": Page(32, 262144)}, "!")},
    "page.nbytes": {
        "EQUAL": ({}, {}, "="), "PROPORTIONAL": ({}, tp(2, 0, 4), "tp-heads"), "DIFFERENT": ({}, tp(2, 0, 4, 131073), "!"),
        "UNEVEN": (tp(1, 0, 8, 262148), tp(2, 0, 4, 131074), "!"), "MOOT": ({}, tp(3), "="),
    },
    "heads.kv": {
        "EQUAL": ({}, {}, "="), "SLICED": (tp(4, 0, 2), {}, "tp-heads"), "COPIED": (tp(2, 0, 1), tp(8, 3, 1), "head-copies"),
        "DIFFERENT": ({}, tp(1, 0, 4), "!"), "UNTILED": (tp(2, 0, 4), tp(1, 0, 4), "!"), "MOOT": (tp(2), tp(3), "="),
    },
    "heads.dim": {"EQUAL": ({}, {}, "="), "DIFFERENT": ({}, {"heads": Heads(8, 64)}, "!")},
    "mla": {"EQUAL": (MLA, MLA, "="), "DIFFERENT": (MLA, MLA | {"mla": False}, "!")},
    "capabilities.hybrid": {
        "NEITHER": ({}, {}, "="), "EQUAL": (HYBRID, HYBRID, "="), "SENDER_ONLY": (HYBRID, {}, "!"),
        "RECEIVER_ONLY": ({}, HYBRID, "!"),
    },
    "kv_dtype": {"EQUAL": ({}, {}, "="), "DIFFERENT": ({}, {"kv_dtype": "float8_e4m3fn"}, "!")},
    "layout": {
        "EQUAL": ({"layout": "x"}, {"layout": "x"}, "="), "DIFFERENT": ({"layout": "x"}, {}, "!"),
        "UNNAMED": ({"layout": "kv,token,x,dim"}, tp(2, 1, 4) | {"layout": "kv,token,x,dim"}, "!"),
    },
    "ep_size": {"EQUAL": ({}, {}, "="), "DIFFERENT": ({"ep_size": 8}, {}, "indifferent")},
    "speculative": {
        "NEITHER": ({}, {}, "="), "EQUAL": (DRAFT, DRAFT, "="), "REPLICATED": (MLA4 | DRAFT, spread(4) | DRAFT, "dcp-draft"),
        "SENDER_ONLY": (DRAFT, {}, "!"), "RECEIVER_ONLY": ({}, DRAFT, "!"), "DIFFERENT": (DRAFT, OTHER, "!"),
    },
    "capabilities.radix": {
        "NEITHER": ({}, {}, "="), "SENDER_ONLY": (has("radix"), {}, "="), "RECEIVER_ONLY": ({}, has("radix"), "suffix"),
        "EQUAL": (has("radix"), has("radix"), "suffix"),
    },
    "role": {"HOLDS": ({}, {}, "="), "BROKEN": ({}, {"role": "prefill"}, "!")},
    "version": {"HOLDS": ({}, {}, "="), "BROKEN": ({}, {"versions": Versions((2, 0), (2, 0))}, "!")},
    "capabilities": {"EQUAL": ({}, has("radix"), "="), "DIFFERENT": ({}, has("push"), "common")},
    "model": {"EQUAL": ({}, {}, "="), "DIFFERENT": ({}, {"model": "other"}, "!")},
    "weights": {
        "EQUAL": ({}, {}, "="), "SENDER_ONLY": ({}, {"weights": ""}, "trust"), "RECEIVER_ONLY": ({"weights": ""}, {}, "trust"),
        "NEITHER": ({"weights": ""}, {"weights": ""}, "trust"), "DIFFERENT": ({}, {"weights": "r2"}, "!"),
    },
    "digests": {
        "EQUAL": ({}, {}, "="), "SENDER_ONLY": ({}, {"digests": False}, "no-reuse"),
        "RECEIVER_ONLY": ({"digests": False}, {}, "no-reuse"), "NEITHER": ({"digests": False}, {"digests": False}, "no-reuse"),
    },
    "max_parts": {"EQUAL": ({}, {}, "="), "DIFFERENT": ({}, {"max_parts": 8}, "smaller")},
    "transports": {"HOLDS": ({}, {}, "="), "BROKEN": ({}, {"transports": ()}, "!")},
    "aux": {
        "NEITHER": ({}, {}, "="), "EQUAL": (aux(("a", "i4")), aux(("a", "i4")), "="),
        "DIFFERENT": (aux(("a", "i4"), ("b", "i4")), aux(("a", "i4")), "common"), "SENDER_ONLY": (aux(("a", "i4")), {}, "unsent"),
        "ELSEWHERE": (PP2 | {"pp": Axis(2, 0)}, aux(("a", "i4")), "="), "RECEIVER_ONLY": (PP2, aux(("a", "i4")), "!"),
    },
    "staging": {
        "NEITHER": ({}, {}, "="), "EQUAL": (ring(1), ring(1), "="), "DIFFERENT": (ring(1), ring(2), "unused"),
        "SENDER_ONLY": (ring(1), {}, "unused"), "RECEIVER_ONLY": ({}, ring(1), "unused"),
    },
    "deadlines.total": {"HOLDS": ({}, {}, "="), "BROKEN": ({}, {"deadlines": deadlines(total=670_001)}, "!")},
    "deadlines.resend": {"HOLDS": ({}, {}, "="), "BROKEN": ({}, {"deadlines": deadlines(resend=0)}, "!")},
    **{f"deadlines.{name}": {"HOLDS": ({}, {}, "="), "BROKEN": ({}, {"deadlines": deadlines(**{name: 3_999})}, "!")}
       for name in ("pairing", "silence", "lost", "conclude")},
}  # fmt: skip
#: Of one aux field, by its name.
_AUX: dict[str, tuple[Change, Change, str]] = {
    "EQUAL": (aux(("a", "i4")), aux(("a", "i4")), "="),
    "DIFFERENT": (aux(("a", "i4")), aux(("a", "i8")), "!"),
    "SENDER_ONLY": (aux(("a", "i4"), ("b", "i4")), aux(("b", "i4")), "unsent"),
    "RECEIVER_ONLY": (aux(("b", "i4")), aux(("a", "i4"), ("b", "i4")), "!"),
    "ELSEWHERE": (aux(("b", "i4")) | PP2 | {"pp": Axis(2, 0)}, aux(("a", "i4"), ("b", "i4")), "="),
}
STAGE: Change = {"pp": Axis(2, 0), "layers": Layers(8, 0, 5)}
A = aux(("a", "i4"))
#: Other ways into the same cells.
_MORE: list[tuple[str, str, Change, Change, str]] = [
    ("layers.start", "DIFFERENT", STAGE, {"layers": Layers(8, 2, 8)}, "!"),
    ("layers.start", "DIFFERENT", {"layers": Layers(8, 4, 8)}, {}, "!"),
    ("layers.stop", "DIFFERENT", STAGE, {"layers": Layers(8, 0, 4)}, "!"),
    (
        "layers.stop",
        "DIFFERENT",
        {"layers": Layers(8, 0, 4)},
        {},
        "!",
    ),  # within, but of no stage: the rest would be missing
    ("heads.kv", "COPIED", tp(1, 0, 2), tp(4, 3, 1), "head-copies"),
    ("heads.kv", "COPIED", tp(8, 4, 1), tp(2, 1, 2), "head-copies"),
    ("heads.kv", "UNTILED", tp(2, 0, 6), tp(8, 0, 1), "!"),  # 12 heads on 8 ranks
    ("heads.kv", "UNTILED", tp(1, 0, 8), tp(2, 0, 8), "!"),
    ("layout", "UNNAMED", {"layout": "head,head"}, tp(2, 1, 4) | {"layout": "head,head"}, "!"),
    ("layout", "UNNAMED", MLA4 | {"layout": "dim"}, spread(4) | {"layout": "dim"}, "!"),
    (
        "layout",
        "EQUAL",
        tp(2, 0, 1) | {"layout": "x"},
        tp(8, 1, 1) | {"layout": "x"},
        "=",
    ),  # whole copies: nothing is cut
    ("page.nbytes", "EQUAL", tp(2, 0, 1), tp(8, 1, 1), "="),
    ("page.nbytes", "DIFFERENT", tp(2, 0, 1), tp(8, 1, 1, 16384), "!"),
    ("page.nbytes", "UNEVEN", MLA4 | {"page": Page(64, 73729)}, spread(4) | {"page": Page(64, 73729)}, "!"),
    ("page.nbytes", "EQUAL", MLA4 | {"page": Page(64, 73729)}, MLA4 | {"page": Page(64, 73729)}, "="),
    ("aux", "ELSEWHERE", tp(2, 1, 4), A, "="),
    ("aux", "RECEIVER_ONLY", tp(2, 0, 4), A, "!"),
    ("aux", "ELSEWHERE", {"cp": Axis(2, 1)}, A, "="),
    ("aux", "RECEIVER_ONLY", {"cp": Axis(2, 0)}, A, "!"),
    ("aux", "RECEIVER_ONLY", {"cp": Axis(2, 1)}, A | {"cp": Axis(2, 1)}, "!"),
    ("aux", "RECEIVER_ONLY", tp(2), A | tp(3), "!"),
]
CASES = (
    _MORE
    + [(field, how, *case) for field, cases in _ROWS.items() for how, case in cases.items()]
    + [("aux.field", how, *case) for how, case in _AUX.items()]
)


#: Relations that are refused of equal values too: what is wrong is another value, or the same one at both ends.
ALIKE = {"BROKEN", "UNDER_TP", "UNEVEN", "UNNAMED"}


@pytest.mark.parametrize(("field", "how", "p", "d", "expected"), CASES, ids=[f"{case[0]} {case[1]}" for case in CASES])
def test_every_cell_is_reached_by_a_pair_and_decides_as_written_here(
    monkeypatch: pytest.MonkeyPatch, field: str, how: str, p: Change, d: Change, expected: str
) -> None:
    asked: list[tuple[str, Relation, Attention]] = []

    def asking(field: str, relation: Relation, attention: Attention) -> Entry:
        asked.append((field, relation, attention))
        return decide(field, relation, attention)

    monkeypatch.setattr(handshake, "decide", asking)
    verdict = meet(p, d)
    relation, _, attention = how.partition(" ")
    wanted = [key for key in asked if key[0] == field and key[1] is Relation[relation]]
    assert wanted
    assert not attention or {key[2] for key in wanted} == {Attention[attention]}
    name = "aux.a" if field == "aux.field" else field
    found = [f for f in verdict.findings if f.field == name]
    said = {"=": (Outcome.EQUAL, ""), "!": (Outcome.REFUSED, "")}.get(expected, (Outcome.CONVERTED, expected))
    assert said in [(f.outcome, f.plan) for f in found]
    assert (name in verdict.refused) == (expected == "!")
    if expected == "!":
        (refused,) = [f for f in found if f.outcome is Outcome.REFUSED]
        assert refused.advice
        assert verdict.refusal()[1].count(refused.field)
        assert refused.ours != refused.theirs or relation in ALIKE
    elif expected != "=":
        assert (expected in verdict.plans) == (PLANS[expected].kind is not Kind.TERMS)


def test_no_cell_is_without_such_a_pair() -> None:
    written = {(field, *how.split(" ")) for field, how, *_ in CASES}
    for cell in MATRIX:
        if cell.attention == tuple(Attention):
            assert any(key[:2] == (cell.field, cell.relation.name) for key in written), cell
        else:
            assert all((cell.field, cell.relation.name, a.name) in written for a in cell.attention), cell
    assert {(field, Relation[relation]) for field, relation, *_ in written} <= {(c.field, c.relation) for c in MATRIX}


# The table itself -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("cell", MATRIX, ids=lambda c: f"{c.field} {c.relation.name} {len(c.attention)}")
def test_a_conversion_names_its_plan_and_a_refusal_says_what_to_do(cell: Cell) -> None:
    entry = cell.entry
    assert entry.why
    assert (entry.plan in PLANS) == (entry.outcome is Outcome.CONVERTED)
    assert bool(entry.plan) == (entry.outcome is Outcome.CONVERTED)
    assert bool(entry.advice) == (entry.outcome is Outcome.REFUSED)
    assert cell.relation not in (Relation.EQUAL, Relation.HOLDS, Relation.MOOT) or entry.outcome is not Outcome.REFUSED


def test_every_relation_of_a_field_is_decided_for_every_kind_of_attention_once() -> None:
    keys = Counter((cell.field, cell.relation, a) for cell in MATRIX for a in cell.attention)
    assert set(keys.values()) == {1}
    for field, relations in SUPPORT.items():
        assert all(set(entries) == set(Attention) for entries in relations.values()), field


def test_every_plan_is_used_and_every_capability_is_a_field() -> None:
    assert {cell.entry.plan for cell in MATRIX} - {""} == set(PLANS)
    assert {f"capabilities.{name}" for name in CAPABILITIES} == {f for f in SUPPORT if f.startswith("capabilities.")}


def test_what_the_matrix_does_not_know_is_not_decided() -> None:
    with pytest.raises(KeyError):
        decide("tp.size", Relation.WITHIN)


def test_only_the_handshake_and_what_asks_about_one_end_read_it() -> None:
    """Whatever else decided about pairs would decide otherwise one day. (The renderer prints it.)"""
    root = Path(__file__).parents[2]
    rooms = ("protocol", "runtime", "kernels", "model_tests", "kvpoll/cli")
    sources = [path for room in rooms for path in (root / room).rglob("*.py")]
    readers = {
        p.relative_to(root).as_posix() for p in sources if "kvpoll.spec.support" in p.read_text(encoding="utf-8")
    }
    asking = {"handshake", "one_end", "topology", "render/support"}
    assert readers - {"runtime/config.py"} == {f"protocol/{name}.py" for name in asking}, (
        "runtime/config.py names it only"
    )


# Printed --------------------------------------------------------------------------------------------------------------
RUN = CliRunner()


@pytest.mark.parametrize("format", ["text", "markdown", "json"])
def test_the_matrix_is_printed_whole(format: str) -> None:
    result = RUN.invoke(cli, ["tables", "support", "--format", format])
    assert (result.exit_code, result.stdout) == (0, render_support(format))
    lines = result.stdout.splitlines()
    for cell in MATRIX:
        wanted = (cell.field, cell.entry.why, cell.entry.plan, cell.entry.advice)
        assert any(all(word in line for word in wanted) for line in lines), cell
    for rule in (*COMBINATIONS, *BOUNDS):
        assert any(rule.field in line for line in lines), rule
    assert all(any(plan.about in line for line in lines) for plan in PLANS.values())


def test_as_json_it_can_be_read_back() -> None:
    told = loads(render_support(Format.JSON))
    cells = [
        Cell(
            row["field"], Relation[row["relation"]],
            Entry(Outcome[row["outcome"]], row["why"], row["plan"] or "", row["advice"] or ""),
            tuple(Attention[name] for name in row["attention"]),
        )
        for row in told["cells"]
    ]  # fmt: skip
    assert tuple(cells) == MATRIX
    assert told["format"] == "kvpoll-support/1"
    assert [row["name"] for row in told["plans"]] == list(PLANS)
    assert len(told["bounds"]) == len(BOUNDS)


@pytest.mark.parametrize("format", ["dot", "mermaid"])
def test_it_is_no_graph_and_says_so(format: str) -> None:
    result = RUN.invoke(cli, ["tables", "support", "--format", format], env={"COLUMNS": "200"})
    assert result.exit_code == 2
    assert "text, markdown, json" in result.output
