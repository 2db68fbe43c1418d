"""What lies inside a page: where its tokens and heads are, and which ids may address them.

`RowLayout` reads the layout string of the handshake ("kv,token,head,dim", "token,kv,head,dim", "token,latent", a leading
"page," is allowed) together with the sizes. All copies of token rows and head ranges are arithmetic over it:

* a **token row** is one token of one layer: `words_per_token` words, the axes of the page without "token", in order. In the
  page it is `segments` runs of words (2 where "kv" stands before "token", else 1). Flat id: `page * page_size + slot`.
* a **head range** `lo:hi` of a page is itself a page of the same layout with `hi - lo` heads: what a rank with fewer heads
  would hold. So gathered head ranges are ordinary rows for that rank.

Words are the unsigned words of `gather_pages`: as wide as the dtype, and at most 4 bytes.

The functions over it:

    slice_heads(rows, lo, hi, layout)              [layers, pages, words]        -> [layers, pages, words of the range]
    take_rows(rows, token_rows, layout)            [layers, pages, words]        -> [layers, n, words_per_token]
    gather_heads(pool, pages, lo, hi, layout)      straight from a pool, same result as slice_heads(gather_pages(...))
    gather_rows(pool, token_rows, layout)          straight from a pool, ids address the pool's pages
    scatter_heads(pool, pages, rows, lo, hi, layout) -> layers       the inverse of gather_heads, other heads stay
    scatter_rows(pool, token_rows, rows, layout, skip=False) -> layers   the inverse of gather_rows, other tokens stay
    relayout_dcp(source, target, src_rows, dst_rows, layout) -> layers   token rows of one pool to token rows of another
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np
import numpy.typing as npt

from kvpoll.kernels.layout import Rows

Words = npt.NDArray[np.unsignedinteger]
Ids = Sequence[int] | npt.NDArray[np.integer]
_INNER = ("dim", "latent", "word")
_KNOWN = ("kv", "token", "head", *_INNER)


@dataclass(frozen=True, slots=True)
class RowLayout:
    """The axes of one page of one layer, outermost first, and their sizes; the last one counts words."""

    axes: tuple[str, ...]
    sizes: tuple[int, ...]

    @classmethod
    def parse(cls, layout: str, *, page_size: int, words_per_page: int, heads: int = 1) -> "RowLayout":
        """From the layout string and what the handshake says beside it. `words_per_page` is the last axis of gathered rows.

        Raises ValueError naming the argument: an axis unknown, twice, or missing ("token" and a last one of "dim",
        "latent", "word"), heads without a "head" axis, sizes that do not divide the page.
        """
        axes = tuple(name.strip() for name in layout.split(","))
        axes = axes[1:] if axes[0] == "page" else axes
        if len(set(axes)) != len(axes) or not set(axes) <= set(_KNOWN) or axes[-1] not in _INNER or "token" not in axes:
            raise ValueError(
                f"layout: expected axes among {','.join(_KNOWN)}, each once, ending in a row, got {layout!r}"
            )
        if sum(name in _INNER for name in axes) != 1:
            raise ValueError(f"layout: expected one of {', '.join(_INNER)}, as the last axis, got {layout!r}")
        for name, value in (("page_size", page_size), ("words_per_page", words_per_page), ("heads", heads)):
            if value < 1:
                raise ValueError(f"{name}: expected at least 1, got {value}")
        if heads != 1 and "head" not in axes:
            raise ValueError(f"heads: expected 1, as layout {layout!r} has no head axis, got {heads}")
        sizes = {"kv": 2, "token": page_size, "head": heads}
        outer = prod(sizes[name] for name in axes[:-1])
        if words_per_page % outer:
            raise ValueError(f"words_per_page: expected a multiple of {outer} (of {layout!r}), got {words_per_page}")
        return cls(axes, (*(sizes[name] for name in axes[:-1]), words_per_page // outer))

    @property
    def page_size(self) -> int:
        """Tokens of a page."""
        return self.sizes[self.token_axis]

    @property
    def heads(self) -> int:
        """Heads of a page; 1 for a layout without a head axis."""
        return self.sizes[self.axes.index("head")] if "head" in self.axes else 1

    @property
    def token_axis(self) -> int:
        return self.axes.index("token")

    @property
    def words_per_page(self) -> int:
        return prod(self.sizes)

    @property
    def words_per_token(self) -> int:
        return self.words_per_page // self.page_size

    @property
    def segments(self) -> int:
        """Runs of words that one token has within a page."""
        return prod(self.sizes[: self.token_axis])

    def head_axis(self) -> int:
        """Raises ValueError for a layout whose pages have no heads to cut (MLA: every rank holds everything)."""
        if "head" not in self.axes:
            raise ValueError(f"layout: expected a head axis, got {','.join(self.axes)}")
        return self.axes.index("head")

    def with_heads(self, heads: int) -> "RowLayout":
        """The same layout for a page of so many heads."""
        axis = self.head_axis()
        return replace(self, sizes=(*self.sizes[:axis], heads, *self.sizes[axis + 1 :]))

    def head_range(self, lo: int, hi: int) -> "RowLayout":
        """The layout of the range `lo:hi`. Raises ValueError unless 0 <= lo < hi <= heads."""
        self.head_axis()
        if not 0 <= lo < hi <= self.heads:
            raise ValueError(f"lo, hi: expected 0 <= lo < hi <= {self.heads}, got {lo}, {hi}")
        return self.with_heads(hi - lo)

    def check_words(self, name: str, words: int) -> None:
        """ValueError unless pages of `name` have the words that this layout describes."""
        if words != self.words_per_page:
            raise ValueError(f"{name}: expected {self.words_per_page} words a page, as layout says, got {words}")


def checked_ids(name: str, ids: Ids, limit: int, *, skip: bool = False, unique: bool = True) -> npt.NDArray[np.intp]:
    """The ids as an array, maybe empty, once each is in 0..limit-1; ValueError names the first that is not.

    With `skip`, -1 is let through; other negative ids never are: numpy and Pallas would count them from the end. With
    `unique`, an id listed twice is refused (not -1): two copies to one place have no order on a device.
    """
    array = np.asarray(ids)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise ValueError(f"{name}: expected a flat sequence of integers, got shape {array.shape} of {array.dtype}")
    outside = (array < (-1 if skip else 0)) | (array >= limit)
    if outside.any():
        at = int(np.flatnonzero(outside)[0])
        allowed = f"0..{limit - 1}" + (", or -1 to skip," if skip else "")
        raise ValueError(f"{name}: id {array[at]} at {at} is outside {allowed}")
    found: npt.NDArray[np.intp] = array.astype(np.intp)
    if unique:
        _check_unique(name, found)
    return found


def dense_rows(name: str, rows: Rows, layout: RowLayout) -> Words:
    """Gathered pages as a numpy array. ValueError unless that is what `rows` is, for pages of this layout."""
    dense: Words = np.asarray(rows)
    if dense.ndim != 3 or dense.dtype.kind != "u" or not dense.flags.c_contiguous:
        got = f"{dense.shape} of {dense.dtype}"
        raise ValueError(f"{name}: expected contiguous unsigned words [layers, pages, words], got {got}")
    layout.check_words(name, dense.shape[2])
    return dense


def check_row_shape(name: str, rows: Rows, expected: tuple[int, ...], word: np.dtype[np.unsignedinteger]) -> None:
    """ValueError unless `rows` has this shape and dtype."""
    if tuple(rows.shape) != expected or np.dtype(rows.dtype) != word:
        raise ValueError(f"{name}: expected shape {expected} of {word}, got {tuple(rows.shape)} of {rows.dtype}")


def out_rows(out: Words | None, shape: tuple[int, int, int], word: np.dtype[np.unsignedinteger]) -> Words:
    """`out`, or a new array. ValueError unless it is a writable, contiguous array of this shape and dtype."""
    if out is None:
        return np.empty(shape, word)
    check_row_shape("out", out, shape, word)
    if not (isinstance(out, np.ndarray) and out.flags.c_contiguous and out.flags.writeable):
        raise ValueError("out: expected a writable, C-contiguous numpy array")
    return out


def _check_unique(name: str, ids: npt.NDArray[np.intp]) -> None:
    if (ids[1:] > ids[:-1]).all():  # ascending, as plans mostly are: no need to sort
        return
    ordered = np.sort(ids)
    repeated = (ordered[1:] == ordered[:-1]) & (ordered[1:] >= 0)
    if repeated.any():
        raise ValueError(f"{name}: id {ordered[1:][repeated][0]} is listed more than once")
