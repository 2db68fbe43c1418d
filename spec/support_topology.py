"""The cells about topology: sizes and ranks of each axis, and what they make of layers, heads, pages and layouts.

The rank mapping behind PARTNERS, with p and d the TP sizes of prefill and decode: d >= p, decode rank k meets prefill rank
k // (d // p); d < p, it meets the p // d ranks from k * (p // d) on. A decode of one stage meets all stages, one of N stages
its own; CP likewise. Decode context parallel ranks are carved out of the TP ranks: rank tp.rank modulo dcp.size.
"""

from __future__ import annotations

from .support_words import ANY, Attention, Cell, Entry, Relation, Section, convert, fits, refuse

__all__ = ["TOPOLOGY"]

_HEADS, _MLA, _HYBRID = (Attention.HEADS,), (Attention.MLA,), (Attention.HYBRID,)
_LATENT = (Attention.MLA, Attention.HYBRID)
_R = Relation

_STATE = refuse(
    "nothing says how the state beside the KV rows is divided among ranks", "use equal tensor parallel sizes"
)
_COPIES = "every TP rank holds the same latent rows: each reader takes them whole, and of several senders the first"
_STRANGER = "the rank mapping sends nothing between these two ranks"
_SUBRANGE = "layers have global numbers: the decode rank takes the stage's own"
_GEOMETRY = "a page would land across other pages, or be read with other strides"


def _partner(axis: str) -> Entry:
    return refuse(_STRANGER, f"connect each decode rank to the {axis} ranks that the mapping names, and to no other")


def _ranks(axis: str, size: str) -> tuple[Cell, ...]:
    return (
        Cell(f"{axis}.rank", _R.EQUAL, fits("the ranks meet")),
        Cell(f"{axis}.rank", _R.PARTNERS, fits("the ranks meet, by the rank mapping")),
        Cell(f"{axis}.rank", _R.STRANGERS, _partner(size)),
        Cell(f"{axis}.rank", _R.MOOT, fits(f"not compared: {axis} is refused")),
    )


# fmt: off
_TP = (
    Cell("tp.size", _R.EQUAL, fits()),
    Cell("tp.size", _R.WIDER, convert(
        "tp-heads", "each decode rank takes its own heads from the one prefill rank that has them"), _HEADS),
    Cell("tp.size", _R.WIDER, convert("mla-replicas", _COPIES), _MLA),
    Cell("tp.size", _R.WIDER, _STATE, _HYBRID),
    Cell("tp.size", _R.NARROWER, convert("tp-heads", "each decode rank joins the heads of several prefill ranks"), _HEADS),
    Cell("tp.size", _R.NARROWER, convert("mla-replicas", _COPIES), _MLA),
    Cell("tp.size", _R.NARROWER, _STATE, _HYBRID),
    Cell("tp.size", _R.INDIVISIBLE, refuse(
        "some ranks would have no partner, or one that does not exist",
        "choose tensor parallel sizes of which one divides the other")),
    *_ranks("tp", "tensor parallel"),
)

_PP = (
    Cell("pp.size", _R.EQUAL, fits("stage to stage")),
    Cell("pp.size", _R.MANY_TO_ONE, convert("pp-layers", "a decode rank reads from all stages, from each its own layers")),
    Cell("pp.size", _R.ONE_TO_MANY, refuse(
        "decode stages do not share out the layers of one prefill rank",
        "use pipeline size 1 at decode, or the same one at both ends")),
    Cell("pp.size", _R.MANY_TO_OTHER, refuse(
        "stages of unequal pipelines do not hold the same layers",
        "use pipeline size 1 at decode, or the same one at both ends")),
    *_ranks("pp", "pipeline"),
    Cell("layers.total", _R.EQUAL, fits()),
    Cell("layers.total", _R.DIFFERENT, refuse(
        "the two models do not have equally many layers", "load the same model, with the same draft layers, at both ends")),
    *(cell for edge in ("start", "stop") for cell in (
        Cell(f"layers.{edge}", _R.EQUAL, fits()),
        Cell(f"layers.{edge}", _R.WITHIN, convert("pp-layers", _SUBRANGE)),
        Cell(f"layers.{edge}", _R.DIFFERENT, refuse(
            "the prefill rank has layers that the decode rank does not have, or has not all of them",
            "give both ends the same layers, or a prefill stage some of the decode rank's")),
        Cell(f"layers.{edge}", _R.MOOT, fits("not compared: pp is refused")),
    )),
)

_CP = (
    Cell("cp.size", _R.EQUAL, fits("rank to rank")),
    Cell("cp.size", _R.MANY_TO_ONE, convert("cp-first", "all ranks are met, rank 0 carries the data, the others an empty plan")),
    Cell("cp.size", _R.ONE_TO_MANY, refuse(
        "prefill rows are not shared out over context parallel decode ranks",
        "use context parallel size 1 at decode; to spread tokens there, use decode context parallelism")),
    Cell("cp.size", _R.MANY_TO_OTHER, refuse(
        "token rows would have to be shared out anew", "use context parallel size 1 at decode, or the same one at both ends")),
    *_ranks("cp", "context parallel"),
)

_DP = (
    Cell("dp.size", _R.EQUAL, fits()),
    Cell("dp.size", _R.DIFFERENT, convert("any-replica", "every replica holds whole requests: any can serve any")),
    Cell("dp.rank", _R.EQUAL, fits()),
    Cell("dp.rank", _R.DIFFERENT, convert("any-replica", "every replica holds whole requests: any can serve any")),
    Cell("capabilities.dp-room", _R.MOOT, fits("prefill has one replica: there is nothing to choose")),
    Cell("capabilities.dp-room", _R.NEITHER, convert("dp-explicit", "each request names its prefill replica")),
    Cell("capabilities.dp-room", _R.EQUAL, convert(
        "dp-room", "the replica is the room modulo prefill's dp size, unless a request names another")),
    Cell("capabilities.dp-room", _R.SENDER_ONLY, convert(
        "dp-explicit", "decode names the replica in each request, as prefill's router does")),
    Cell("capabilities.dp-room", _R.RECEIVER_ONLY, refuse(
        "decode takes the room modulo the number of replicas, and prefill does not say that it places rooms so",
        "set dp_routing to room at prefill too, or to explicit at decode and name the replica in each request")),
)

_DCP = (
    Cell("dcp", _R.NEITHER, fits("1 to 1: whole rows at both ends")),
    Cell("dcp", _R.EQUAL, fits("N to N: rank to rank, each its own rows")),
    Cell("dcp", _R.ONE_TO_MANY, convert("dcp-rows", "each decode rank takes the tokens that it owns, row by row"), _LATENT),
    Cell("dcp", _R.ONE_TO_MANY, refuse(
        "only latent rows are shared out token by token; no engine shards KV heads so",
        "use decode context parallel size 1 for a model with KV heads"), _HEADS),
    Cell("dcp", _R.UNDER_CP, refuse(
        "rows of context parallel prefill ranks are not shared out a second time",
        "use context parallel size 1 at prefill, or decode context parallel size 1 at decode")),
    Cell("dcp", _R.INTERLEAVED, refuse(
        "rows are shared out token by token only, in turn: interleave 1", "use interleave 1 at decode")),
    Cell("dcp", _R.MANY_TO_ONE, refuse(
        "rows that are spread over prefill ranks are not gathered into whole pages",
        "use decode context parallel size 1 at prefill, or the same one at both ends")),
    Cell("dcp", _R.MANY_TO_OTHER, refuse(
        "rows that are spread over N ranks are not spread anew over M",
        "use decode context parallel size 1 at prefill, or the same one at both ends")),
    Cell("dcp", _R.STRANGERS, refuse(
        "ranks that own other tokens have nothing for each other", "connect the ranks with equal decode context parallel ranks")),
    Cell("dcp", _R.DIFFERENT, refuse(
        "the two ends share out tokens in pieces of another length", "use the same interleave at both ends")),
    Cell("dcp", _R.UNDER_TP, refuse(
        "ranks that meet by the TP mapping would own other tokens",
        "use equal tensor parallel sizes, or decode context parallel size 1 at prefill")),
)

_ROWS = (
    Cell("page.size", _R.EQUAL, fits()),
    Cell("page.size", _R.DIFFERENT, refuse(
        "pages would have to be cut or joined, and that is not done",
        "start both ends with the same page size (with DCP: tokens of one physical page)")),
    Cell("page.nbytes", _R.EQUAL, fits()),
    Cell("page.nbytes", _R.PROPORTIONAL, convert("tp-heads", "bytes of a page are in the ratio of the heads")),
    Cell("page.nbytes", _R.DIFFERENT, refuse(_GEOMETRY, "start both ends with the same bytes for each head and token of a page")),
    Cell("page.nbytes", _R.UNEVEN, refuse(
        "a page does not divide into equal heads or token rows, and the plan cuts it there",
        "state the bytes of a page without padding")),
    Cell("page.nbytes", _R.MOOT, fits("not compared: tp or heads is refused")),
    Cell("heads.kv", _R.EQUAL, fits()),
    Cell("heads.kv", _R.SLICED, convert("tp-heads", "each rank has its share of the heads, in order")),
    Cell("heads.kv", _R.COPIED, convert("head-copies", "neighbouring ranks hold the same head: each reader gets it, once")),
    Cell("heads.kv", _R.DIFFERENT, refuse(_GEOMETRY, "load the same model at both ends")),
    Cell("heads.kv", _R.UNTILED, refuse(
        "the heads of the ranks do not add up to the same model: a rank has KV heads / TP size of them, and at least 1",
        "load the same model, and use TP sizes that divide its KV heads or are a multiple of them")),
    Cell("heads.kv", _R.MOOT, fits("not compared: tp is refused")),
    Cell("heads.dim", _R.EQUAL, fits()),
    Cell("heads.dim", _R.DIFFERENT, refuse(_GEOMETRY, "load the same model at both ends")),
    Cell("mla", _R.EQUAL, fits()),
    Cell("mla", _R.DIFFERENT, refuse(
        "rows of latents and rows of heads hold other things", "start both ends with the same attention")),
    Cell("capabilities.hybrid", _R.NEITHER, fits("KV rows only")),
    Cell("capabilities.hybrid", _R.EQUAL, fits("state travels beside the KV rows, whole")),
    Cell("capabilities.hybrid", _R.SENDER_ONLY, refuse(
        "one end holds state beside the KV rows, the other does not", "start both ends with the same kind of cache")),
    Cell("capabilities.hybrid", _R.RECEIVER_ONLY, refuse(
        "one end holds state beside the KV rows, the other does not", "start both ends with the same kind of cache")),
    Cell("kv_dtype", _R.EQUAL, fits()),
    Cell("kv_dtype", _R.DIFFERENT, refuse("KV data is moved as it is, not converted", "start both ends with the same KV dtype")),
    Cell("layout", _R.EQUAL, fits()),
    Cell("layout", _R.DIFFERENT, refuse(
        "axes would have to be transposed, and that is not done", "use the same layout at both ends")),
    Cell("layout", _R.UNNAMED, refuse(
        "pages are cut along an axis that the layout does not name exactly once",
        "name the axes of a page, like kv,token,head,dim: heads are cut along head, DCP rows along token"), ANY),
)
# fmt: on

TOPOLOGY: tuple[Section, ...] = (
    Section("Tensor parallelism", _TP),
    Section("Pipeline parallelism and layers", _PP),
    Section("Context parallelism", _CP),
    Section("Data parallelism and routing", _DP),
    Section("Decode context parallelism", _DCP),
    Section("Rows: pages, heads, dtype, layout", _ROWS),
)
