"""Layer entries of two pools: which destination entry belongs to which source entry, and whether their tokens are as wide.

An entry is one buffer of a pool (a layer's latent rows, its keys, its values, a draft layer). A pipeline stage has the
entries of its own layers, a decode rank may have those of the model. DCP moves rows inside entries and PP picks entries, so
the two maps are independent, and one pairing serves every DCP rank.

Stricter than the released code, because each of these leads to wrong layers without an error there: entry counts that differ
without layer ids, an entry of the destination that nobody fills, and a width difference that rounds away.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from .checks import fault, whole

__all__ = ["dcp_token_nbytes", "needs_dcp_relayout", "pair_entries"]


def pair_entries(
    *, src_layer_ids: Sequence[int], dst_layer_ids: Sequence[int], n_src: int, n_dst: int
) -> tuple[int, ...]:
    """The destination entry of each source entry; by global layer id, repeated ids occurrence by occurrence.

    ``n_src``, ``n_dst``: entries of each pool. Without ids at both ends, entry i is entry i, if the counts are equal or the
    source has none. Raises :class:`~kvpoll.protocol.errors.LocalProtocolError`, with the field, for ids at one end only, for
    a number of ids that is not the number of entries, and for a layer that the destination lacks or has more or fewer
    entries of.
    """
    whole("n_src", n_src)
    whole("n_dst", n_dst)
    src, dst = _ids("src_layer_ids", src_layer_ids), _ids("dst_layer_ids", dst_layer_ids)
    if not src and not dst:
        if n_src not in (0, n_dst):
            raise fault("src_layer_ids", f"layer ids, because {n_src} entries meet {n_dst}", "none")
        return tuple(range(n_src))
    for field, ids, count in (("src_layer_ids", src, n_src), ("dst_layer_ids", dst, n_dst)):
        if len(ids) != count:
            raise fault(field, f"one layer id for each of {count} entries", len(ids))
    places: dict[int, list[int]] = defaultdict(list)
    for entry, layer in enumerate(dst):
        places[layer].append(entry)
    for layer, count in Counter(src).items():
        if len(places.get(layer, ())) != count:
            raise fault("dst_layer_ids", f"{count} entries of layer {layer}", len(places.get(layer, ())))
    taken: Counter[int] = Counter()
    paired = []
    for layer in src:
        paired.append(places[layer][taken[layer]])
        taken[layer] += 1
    return tuple(paired)


def needs_dcp_relayout(
    *, src_dcp_size: int, src_dcp_rank: int, dst_dcp_size: int, dst_dcp_rank: int, mla: bool
) -> bool:
    """Whether rows must be spread over ranks (1 to n), or go as they are (n to the same n, same rank).

    ``mla``: latent or hybrid pools. Raises :class:`~kvpoll.protocol.errors.LocalProtocolError` for every other pair.
    """
    whole("src_dcp_size", src_dcp_size, 1)
    whole("dst_dcp_size", dst_dcp_size, 1)
    whole("src_dcp_rank", src_dcp_rank, 0, src_dcp_size - 1)
    whole("dst_dcp_rank", dst_dcp_rank, 0, dst_dcp_size - 1)
    if src_dcp_size == dst_dcp_size:
        if src_dcp_rank != dst_dcp_rank:
            raise fault("dst_dcp_rank", f"{src_dcp_rank}, the rank of the source", dst_dcp_rank)
        return False
    if src_dcp_size != 1:
        raise fault("dst_dcp_size", f"{src_dcp_size}, as the source has", dst_dcp_size)
    if not mla:
        raise fault("dst_dcp_size", "1 for a pool with KV heads: only latent rows are spread over ranks", dst_dcp_size)
    return True


def dcp_token_nbytes(
    *,
    physical_page_size: int,
    dcp_size: int,
    src_page_nbytes: Sequence[int],
    dst_page_nbytes: Sequence[int | None],
    n_draft: int = 0,
) -> tuple[int, ...]:
    """Bytes of one token row in each source entry, after the paired destination entries were found to have the same.

    ``src_page_nbytes``: bytes of one page of each source entry. ``dst_page_nbytes``: of the entry that it goes to; None where
    the peer does not say. ``n_draft``: how many of the last entries are the draft model's, whose destination pages hold
    ``dcp_size`` times the rows. Raises :class:`~kvpoll.protocol.errors.LocalProtocolError`, with the field, for counts that
    differ, pages that are no whole number of rows, and rows of different widths.
    """
    size, ranks = whole("physical_page_size", physical_page_size, 1), whole("dcp_size", dcp_size, 1)
    if len(dst_page_nbytes) != len(src_page_nbytes):
        raise fault("dst_page_nbytes", f"{len(src_page_nbytes)} entries, as the source has", len(dst_page_nbytes))
    targets = len(src_page_nbytes) - whole("n_draft", n_draft, 0, len(src_page_nbytes))
    widths = []
    for entry, (src, dst) in enumerate(zip(src_page_nbytes, dst_page_nbytes, strict=True)):
        width = _width(f"src_page_nbytes[{entry}]", src, size)
        if dst is not None:
            field = f"dst_page_nbytes[{entry}]"
            rows = size * ranks if entry >= targets else size
            if (there := _width(field, dst, rows)) != width:
                raise fault(field, f"{rows * width} ({rows} rows of {width} bytes)", f"{dst} (rows of {there} bytes)")
        widths.append(width)
    return tuple(widths)


def _ids(field: str, ids: Sequence[int]) -> tuple[int, ...]:
    return tuple(whole(f"{field}[{i}]", layer) for i, layer in enumerate(ids))


def _width(field: str, nbytes: int, rows: int) -> int:
    whole(field, nbytes, 1)
    if nbytes % rows:
        raise fault(field, f"a multiple of {rows} rows", nbytes)
    return nbytes // rows
