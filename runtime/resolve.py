"""Finding a prefill rank: from a bootstrap address to a control address, on a thread of its own.

HTTP never runs on the engine's or the control thread (Q44, G11). An answer is kept for a moment, so that a thousand rooms
ask once; a failed one is asked for again while its link is still greeting.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Empty, Full, Queue
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

from .bootstrap.models import BootstrapError, RankFilter

__all__ = ["RankAddress", "Resolver"]


class RankAddress(NamedTuple):
    """A prefill rank at a bootstrap service; as text it is the address of a link."""

    host: str
    port: int
    dp_rank: int
    tp_rank: int
    pp_rank: int
    cp_rank: int
    namespace: str = ""

    def text(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"bootstrap://{host}:{self.port}/{self.namespace}?dp={self.dp_rank}&tp={self.tp_rank}&pp={self.pp_rank}&cp={self.cp_rank}"

    @classmethod
    def parse(cls, text: str) -> RankAddress:
        split = urlsplit(text)
        query = {name: int(values[0]) for name, values in parse_qs(split.query).items()}
        return cls(
            split.hostname or "",
            split.port or 0,
            query["dp"],
            query["tp"],
            query["pp"],
            query["cp"],
            split.path.strip("/"),
        )


class Resolver:
    """Asks bootstrap services. ``found(link, address)`` and ``failed(link, reason)`` are called on its thread."""

    def __init__(
        self, secret: str | None, found: Callable[[int, str], None], failed: Callable[[int, str], None], limit: int = 1024,
        retry: float = 0.2,
    ) -> None:  # fmt: skip
        self._secret = secret
        self._found, self._failed = found, failed
        self._queue: Queue[tuple[int, RankAddress]] = Queue(limit)
        self._stop = threading.Event()
        self._live: set[int] = set()
        self._retry = retry
        self._thread = threading.Thread(target=self._run, name="kvpoll-resolve", daemon=True)
        self._thread.start()

    def ask(self, link: int, address: RankAddress) -> None:
        """Find an address for ``link``; asked again until found or :meth:`forget`."""
        self._live.add(link)
        try:
            self._queue.put_nowait((link, address))
        except Full:
            self._live.discard(link)
            self._failed(link, "too many look-ups are waiting")

    def forget(self, link: int) -> None:
        self._live.discard(link)

    def close(self, timeout: float = 6.0) -> None:
        self._stop.set()
        self._thread.join(timeout)

    def _run(self) -> None:
        again: list[tuple[int, RankAddress]] = []
        while not self._stop.is_set():
            try:
                jobs = [self._queue.get(timeout=self._retry)]
            except Empty:
                jobs, again = again, []
            for link, address in jobs:
                if link in self._live and not self._stop.is_set() and not self._resolve(link, address):
                    again.append((link, address))

    def _resolve(self, link: int, address: RankAddress) -> bool:
        from .bootstrap.client import BootstrapClient

        host = f"[{address.host}]" if ":" in address.host else address.host
        url = f"http://{host}:{address.port}"
        client = BootstrapClient(url, self._secret, timeout=2.0)
        try:
            where = RankFilter(
                bootstrap=address.namespace, dp=address.dp_rank, tp=address.tp_rank, pp=address.pp_rank, cp=address.cp_rank
            )  # fmt: skip
            ranks = client.ranks(where)
        except BootstrapError as error:
            self._failed(link, f"{url}: {error}")
            return False
        finally:
            client.close()
        if not ranks:
            self._failed(
                link, f"{url}: no live prefill rank dp={address.dp_rank} tp={address.tp_rank} pp={address.pp_rank}"
            )
            return False
        self._live.discard(link)
        self._found(link, ranks[0].control)
        return True
