"""How two ends of the pull transport describe themselves, and when they can't work together.

Nothing of this is compared below us, and some of it is fatal: four transports on the sender and one on the receiver end
the receiver's process, another transfer size fails each pull, and the wire has no version of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version

from kvpoll.runtime.transports.base import Descriptor
from kvpoll.runtime.transports.jax_payload import LAYOUT
from kvpoll.runtime.transports.jax_servers import Server, parse_address
from kvpoll.runtime.transports.jax_sockets import Endpoint

__all__ = ["bulk_ends", "describe", "differences"]

_EQUAL = ("transport", "layout", "jax", "transports", "transfer_size")


def describe(server: Server, *, transfer_size: int, instance: str) -> Descriptor:
    """``address`` is the control port, ``bulk_ports`` are on its host, ``instance`` names this transport."""
    return {
        "transport": "jax",
        "layout": LAYOUT,
        "jax": version("jaxlib"),
        "transports": len(server.bulk),
        "transfer_size": transfer_size,
        "address": server.address,
        "bulk_ports": ",".join(str(port) for _, port in server.bulk),
        "instance": instance,
    }


def differences(ours: Descriptor, theirs: Descriptor) -> Sequence[str]:
    """Names of the fields of ``theirs`` that differ from ours where they must not, or that can't be read."""
    names = [name for name in _EQUAL if ours.get(name) != theirs.get(name) or type(theirs.get(name)) is bool]
    for name, read in (("address", _address), ("bulk_ports", bulk_ends), ("instance", _instance)):
        try:
            read(theirs)
        except ValueError:
            names.append(name)
    return names


def bulk_ends(theirs: Descriptor) -> frozenset[Endpoint]:
    """The ends of the peer's bulk sockets; ``ValueError`` when they aren't as many as ``transports`` says."""
    host, _ = _address(theirs)
    ports = str(theirs.get("bulk_ports", "")).split(",", maxsplit=64)
    ends = {parse_address(f"[{host}]:{port}") for port in ports}
    if len(ends) != theirs.get("transports"):
        raise ValueError(f"bulk_ports: expected {theirs.get('transports')} ports, got {len(ends)}")
    return frozenset(ends)


def _address(theirs: Descriptor) -> Endpoint:
    return parse_address(str(theirs.get("address", "")))


def _instance(theirs: Descriptor) -> str:
    instance = theirs.get("instance")
    if not isinstance(instance, str) or not 0 < len(instance) <= 64:
        raise ValueError("instance: expected 1 to 64 characters")
    return instance
