"""How a host is written in an address: IPv6 in brackets, everything else as it is."""

from __future__ import annotations

__all__ = ["bracketed", "host_port"]


def bracketed(host: str) -> str:
    """``host``, in brackets if it is an IPv6 address that has none."""
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def host_port(host: str, port: int | str) -> str:
    """``host:port``, as addresses and URLs have it."""
    return f"{bracketed(host)}:{port}"
