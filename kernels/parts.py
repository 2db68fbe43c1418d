"""Which part of a page a kernel moves, in the axes that the pool's arrays have. Hashable: it is compiled into the kernel."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvpoll.kernels.layout import PoolLayout
from kvpoll.kernels.limits import head_axis, token_axis
from kvpoll.kernels.rows import RowLayout

if TYPE_CHECKING:
    import jax


@dataclass(frozen=True, slots=True)
class Part:
    """Pages, or tokens (`tokens` of them on `axis`; an id is `page * tokens + slot`), or the range `lo:hi` of `axis`."""

    page_shape: tuple[int, ...]
    axis: int = 0
    tokens: int = 0
    lo: int = 0
    hi: int = 0

    @classmethod
    def pages(cls, pool: PoolLayout) -> "Part":
        return cls(pool.page_shape)

    @classmethod
    def tokens_of(cls, pool: PoolLayout, layout: RowLayout) -> "Part":
        """ValueError if the pages have no axis of tokens (`limits.tpu_tokens` says so before)."""
        axis = token_axis(pool, layout)
        if axis is None:
            raise ValueError(f"pool: expected an axis of {layout.page_size} tokens, got pages of {pool.page_shape}")
        return cls(pool.page_shape, axis, tokens=layout.page_size)

    @classmethod
    def heads_of(cls, pool: PoolLayout, layout: RowLayout, lo: int, hi: int) -> "Part":
        """ValueError if the pages have no axis of heads (`limits.tpu_heads` says so before)."""
        place = head_axis(pool, layout)
        if place is None:
            raise ValueError(f"pool: expected an axis of {layout.heads} heads, got pages of {pool.page_shape}")
        axis, group = place
        return cls(pool.page_shape, axis, lo=lo // group, hi=hi // group)

    @property
    def unit(self) -> tuple[int, ...]:
        """The shape of one part."""
        before, after = self.page_shape[: self.axis], self.page_shape[self.axis + 1 :]
        if self.tokens:
            return (*before, *after)
        return (*before, self.hi - self.lo, *after) if self.hi else self.page_shape

    def at(self, id_: "jax.Array") -> tuple["jax.Array | slice", ...]:
        """Where in a layer `[pages, ...]` the part of this id is. The id must not be negative."""
        every = (slice(None),) * self.axis
        if self.tokens:
            from jax import lax

            size = id_.dtype.type(self.tokens)
            # Not `//` and `%`: they round for negative ids too, and Mosaic does not lower that without a device.
            return (lax.div(id_, size), *every, lax.rem(id_, size))
        return (id_, *every, slice(self.lo, self.hi)) if self.hi else (id_,)
