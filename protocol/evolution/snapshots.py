"""Snapshot files: sealed with a digest, read and written as one canonical form."""

from __future__ import annotations

from msgspec.structs import replace

from kvpoll.protocol.schema_export import canonical, digest_of, load, to_json
from kvpoll.spec.schema import Snapshot

__all__ = ["canonical", "content_of", "digest_of", "load", "sealed", "to_json"]


def sealed(snapshot: Snapshot) -> Snapshot:
    """The snapshot with the digest that fits its content."""
    return replace(snapshot, digest=digest_of(snapshot))


def content_of(snapshot: Snapshot) -> bytes:
    """What two snapshots share when they say the same under two version numbers."""
    return canonical(replace(snapshot, version="", window=None))
