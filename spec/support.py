"""The support matrix of version 1.0: what may meet what, as data. Nothing else decides about a pair of ends.

:data:`MATRIX` is for a pair: a field of the registration, the relation of its two values and the kind of attention give one
:class:`Cell`. :data:`COMBINATIONS` and :data:`BOUNDS` are for one end: features that exclude each other, and numbers that
cannot be. The handshake asks all of it, the configuration check what concerns one end; both decide nothing by themselves,
so an operator can rely on this page (``kvpoll tables support``).

Outcomes: EQUAL (fits as it is, or nothing to compare), CONVERTED (different, and the plan that is named makes up for it),
REFUSED (``why`` is the cause, ``advice`` what to change).
"""

from __future__ import annotations

from collections.abc import Mapping

from .support_terms import RESENDS, TERMS
from .support_topology import TOPOLOGY
from .support_words import (
    Attention,
    Bound,
    Cell,
    Combination,
    Entry,
    Feature,
    Kind,
    Outcome,
    Plan,
    Relation,
    Section,
)

__all__ = [
    "BOUNDS", "CAPABILITIES", "COMBINATIONS", "MATRIX", "PLANS", "RESENDS", "SECTIONS", "SUPPORT", "UNCOMPARED", "Attention",
    "Bound", "Cell", "Combination", "Entry", "Feature", "Kind", "Outcome", "Plan", "Relation", "Section", "decide",
]  # fmt: skip

SECTIONS: tuple[Section, ...] = (*TOPOLOGY, *TERMS)

#: Every cell, in the order of the page.
MATRIX: tuple[Cell, ...] = tuple(cell for section in SECTIONS for cell in section.cells)

# fmt: off
#: How different ends work together, by name. Plans over rows are made by kvpoll.protocol.plans.
PLANS: Mapping[str, Plan] = {plan.name: plan for plan in (
    Plan("tp-heads", Kind.ROWS, "KV heads are cut or joined between tensor parallel ranks, in order"),
    Plan("head-copies", Kind.ROWS, "a head that several ranks hold goes to each reader once, from the first of them"),
    Plan("mla-replicas", Kind.ROWS, "latent rows go whole to every reader; of several senders the first carries them"),
    Plan("pp-layers", Kind.ROWS, "each pipeline stage sends its own layers, by their global numbers"),
    Plan("cp-first", Kind.ROWS, "context parallel rank 0 sends, the other ranks close an empty plan"),
    Plan("dcp-rows", Kind.ROWS, "token t goes to decode rank t modulo size, as row t // size"),
    Plan("dcp-draft", Kind.ROWS, "draft rows go whole to every decode context parallel rank"),
    Plan("suffix", Kind.ROWS, "only the tokens after the prefix that decode holds are sent; each request says how many it holds"),
    Plan("dp-explicit", Kind.ROUTE, "each request names its prefill replica"),
    Plan("dp-room", Kind.ROUTE, "the prefill replica is the room modulo the number of replicas, unless a request names it"),
    Plan("any-replica", Kind.TERMS, "every replica holds whole requests"),
    Plan("indifferent", Kind.TERMS, "the difference concerns no KV data"),
    Plan("trust", Kind.TERMS, "taken on trust"),
    Plan("common", Kind.TERMS, "what both ends have is used"),
    Plan("smaller", Kind.TERMS, "the smaller limit counts"),
    Plan("no-reuse", Kind.TERMS, "room ids are not used a second time"),
    Plan("unsent", Kind.TERMS, "left out by the sender"),
    Plan("unused", Kind.TERMS, "left unused by both ends"),
)}

#: Names in ``capabilities`` that the matrix decides about; of every other one both ends use what both have.
CAPABILITIES: Mapping[str, str] = {
    "dp-room": "prefill places a room on replica room modulo dp size; decode finds it so when a request names none",
    "hybrid": "holds state (sliding window, linear attention, index) beside the KV rows",
    "radix": "keeps prefixes of earlier requests (radix cache); without it, every request starts empty (chunk cache)",
}

#: Everything not named here combines: TP, PP, CP, DP and EP choose ranks, DCP chooses token rows, pages and chunks choose
#: token ranges, and none of them looks at another's choice.
COMBINATIONS: tuple[Combination, ...] = (
    Combination(Feature.DCP, Feature.HEADS, "decode context parallel pools hold latent rows; no engine shards KV heads so",
                "use decode context parallel size 1"),
    Combination(Feature.DCP, Feature.CP, "token rows cannot be spread twice", "use context parallel size 1"),
    Combination(Feature.PP, Feature.SPECULATIVE, "the draft starts from hidden states that only the last stage has",
                "use pipeline size 1, or switch speculative decoding off"),
)
# fmt: on

#: Checked for both registrations by both ends, so that both name the same field.
BOUNDS: tuple[Bound, ...] = (
    Bound("page.size", "at least", 1),
    Bound("page.nbytes", "at least", 1),
    Bound("heads.kv", "at least", 1),
    Bound("heads.dim", "at least", 1),
    Bound("max_parts", "at least", 1),
    Bound("layers.start", "below", "layers.stop"),
    Bound("layers.stop", "at most", "layers.total"),
    *(
        bound
        for axis in ("tp", "pp", "cp", "dp")
        for bound in (Bound(f"{axis}.size", "at least", 1), Bound(f"{axis}.rank", "below", f"{axis}.size"))
    ),
    Bound("ep_size", "at least", 1),
    Bound("dcp.size", "at least", 1),
    Bound("dcp.size", "a divisor of", "tp.size"),
    Bound("dcp.rank", "below", "dcp.size"),
    Bound("dcp.rank", "tp.rank modulo", "dcp.size"),
    Bound("dcp.interleave", "at least", 1),
)

#: Fields of a registration that are no property of the pair, and why; every other one is in the matrix.
UNCOMPARED: Mapping[str, str] = {
    "engine": "an identity: two ends of one pair never share it",
    "versions": "compared as version",
    **dict.fromkeys(
        ("layers", "page", "heads", "tp", "pp", "cp", "dp", "deadlines"), "a row: its values are compared one by one"
    ),
}


def _by_field() -> dict[str, dict[Relation, dict[Attention, Entry]]]:
    found: dict[str, dict[Relation, dict[Attention, Entry]]] = {}
    for cell in MATRIX:
        entries = found.setdefault(cell.field, {}).setdefault(cell.relation, {})
        for attention in cell.attention:
            if attention in entries:
                raise ValueError(f"{cell.field}, {cell.relation.name}, {attention.name}: decided twice")
            entries[attention] = cell.entry
    return found


#: The same cells by field, relation and attention.
SUPPORT: Mapping[str, Mapping[Relation, Mapping[Attention, Entry]]] = _by_field()


def decide(field: str, relation: Relation, attention: Attention = Attention.HEADS) -> Entry:
    """The cell of a field. ``attention``: prefill's. Raises ``KeyError`` for what the matrix does not know."""
    return SUPPORT[field][relation][attention]
