"""A page pool: a demonstration of the allocator that an engine has. kvpoll itself owns no pages."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from kvpoll.protocol.errors import LocalProtocolError

__all__ = ["PagePool"]


class PagePool:
    """Free pages, first in first out, with every page accounted for: a page is free or lent, never both, never neither."""

    def __init__(self, pages: int) -> None:
        self._free = deque(range(pages))
        self._lent: set[int] = set()
        self.pages = pages

    def allocate(self, count: int) -> list[int] | None:
        """``count`` pages, or ``None`` when there are not that many."""
        if count > len(self._free):
            return None
        pages = [self._free.popleft() for _ in range(count)]
        self._lent.update(pages)
        return pages

    def free(self, pages: Iterable[int]) -> None:
        """Give pages back. Raises, before anything is changed, for one that is not lent (ExactlyOnceFree)."""
        pages = list(pages)
        wrong = [page for page in pages if page not in self._lent]
        if wrong or len(set(pages)) != len(pages):
            raise LocalProtocolError(f"pages: expected lent pages, each once, got {wrong or pages}", field="pages")
        self._lent.difference_update(pages)
        self._free.extend(pages)

    @property
    def available(self) -> int:
        return len(self._free)

    @property
    def idle(self) -> bool:
        return not self._lent
