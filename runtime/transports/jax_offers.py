"""What the sender offers: our own table of registered keys, since the native one can't be queried.

A key leaves the table with :meth:`Offers.forget` only. Host memory that the native layer reads in place is tracked
apart from the keys: it may still be read after its key was withdrawn, when a fetch had begun.
"""

from __future__ import annotations

import gc
import weakref
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

import jax
from jaxlib import _jax

from kvpoll.runtime.transports.base import Payload
from kvpoll.runtime.transports.jax_payload import check_key, make_label, put_on_device, spec_of
from kvpoll.runtime.transports.jax_servers import Server

__all__ = ["Offers"]


@dataclass(slots=True)
class _Offer:
    link: str
    server: Server
    withdrawn: bool = False


class Offers:
    """Not thread-safe: the caller holds its lock."""

    def __init__(self, device: jax.Device, max_offers: int) -> None:
        self._device = device
        self._max_offers = max_offers
        self._offers: dict[int, _Offer] = {}
        self._lent: defaultdict[str, list[weakref.ref[object]]] = defaultdict(list)

    def offer(self, link: str, server: Server, key: int, payload: Payload) -> None:
        check_key(key)
        if key in self._offers:
            # A second registration would replace the first without a word, and a puller would get the wrong payload.
            raise ValueError(f"key: {key} is offered already, or not forgotten yet")
        if len(self._offers) >= self._max_offers:
            raise ValueError(f"key: {self._max_offers} offers are the limit")
        array, trace = put_on_device(payload, self._device)
        label = jax.device_put(make_label(key, spec_of(payload)), self._device, may_alias=True)
        server.register(key, [array, label])
        self._offers[key] = _Offer(link, server)
        if trace is not None:
            self._lent[link].append(trace)

    def withdraw(self, key: int) -> None:
        offer = self._offers.get(key)
        if offer is not None and not offer.withdrawn:
            offer.server.fail_pullers(key)
            offer.withdrawn = True

    def forget(self, key: int) -> None:
        offer = self._offers.pop(key, None)
        if offer is not None:
            offer.server.erase(key)

    def drop_link(self, link: str) -> None:
        """Withdraw and forget all of a link. A puller that waits fails; one that comes later meets no server."""
        for key in [key for key, offer in self._offers.items() if offer.link == link]:
            self.withdraw(key)
            self.forget(key)

    def lent(self, link: str) -> int:
        """Payloads of the link in host memory that the native layer may still read."""
        self.sweep()
        return len(self._lent.get(link, ()))

    def sweep(self) -> None:
        """Let go of the payloads that the native layer has let go of. Nothing else does while the process is quiet."""
        if self._lent:
            _drop_native_references()
            for link in list(self._lent):
                alive = [trace for trace in self._lent[link] if trace() is not None]
                if alive:
                    self._lent[link] = alive
                else:
                    del self._lent[link]

    def gauges(self) -> dict[str, int]:
        self.sweep()
        withdrawn = sum(offer.withdrawn for offer in self._offers.values())
        return {
            "offers": len(self._offers) - withdrawn,
            "offers_withdrawn": withdrawn,
            "payloads_lent": sum(map(len, self._lent.values())),
        }


#: The native layer queues the Python references that it gives up; this call empties the queue. Without it, a full
#: collection does the same through the callback that jax installs.
_drop_native_references: Callable[[], object] = getattr(_jax, "collect_garbage", gc.collect)
