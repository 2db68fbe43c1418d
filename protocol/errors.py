"""The errors of kvpoll: yours, theirs, and a room's failure as an exception. Each carries its cause as data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import msgspec

from kvpoll.spec import CATALOGUE, Cause, Retry

__all__ = ["Detail", "Failure", "KVTransferError", "KvpollError", "LocalProtocolError", "RemoteProtocolError"]

Detail: TypeAlias = str | int


class Failure(msgspec.Struct, frozen=True):
    """Why a room failed: an entry of the catalogue, its named details, and whether the receiver may have succeeded."""

    cause: Cause
    details: tuple[tuple[str, Detail], ...] = ()
    in_doubt: bool = False

    @property
    def retry(self) -> Retry:
        """UNKNOWN whenever in doubt, whatever the catalogue says of the cause."""
        return Retry.UNKNOWN if self.in_doubt else CATALOGUE[self.cause].retry

    @property
    def status(self) -> int:
        """The HTTP status for the client: the one an engine gave for this request if there is one (B11)."""
        given = dict(self.details).get("status")
        return given if isinstance(given, int) and 400 <= given < 600 else CATALOGUE[self.cause].status

    def sentence(self) -> str:
        """What a person reads."""
        text = CATALOGUE[self.cause].text
        named = ", ".join(f"{name}={value}" for name, value in self.details if value != "")
        doubt = "; in doubt: the receiver may have succeeded, do not retry blindly" if self.in_doubt else ""
        return f"{self.cause.name}: {text}{f' ({named})' if named else ''}{doubt}"


class KvpollError(Exception):
    """Base of all; not raised itself."""

    def __init__(self, sentence: str, cause: Cause, details: Mapping[str, Detail] | None = None) -> None:
        if type(self) is KvpollError:
            raise TypeError("KvpollError is a base: raise LocalProtocolError, RemoteProtocolError or KVTransferError")
        super().__init__(sentence)
        self.cause = cause
        self.details: dict[str, Detail] = dict(details or {})


class LocalProtocolError(KvpollError):
    """You called at the wrong time or with a wrong argument. Nothing was changed."""

    def __init__(self, sentence: str, cause: Cause = Cause.INTERNAL, **details: Detail) -> None:
        super().__init__(sentence, cause, details)


class RemoteProtocolError(KvpollError):
    """The peer broke the protocol. ``cause`` is what to send back; ``tag`` names the field, ``expected`` what it takes."""

    def __init__(self, tag: str, expected: str, got: str = "", cause: Cause = Cause.PROTOCOL) -> None:
        super().__init__(
            f"{tag}: expected {expected}{f', got {got}' if got else ''}", cause, {"tag": tag, "expected": expected}
        )
        self.tag = tag
        self.expected = expected
        self.got = got

    def failure(self) -> Failure:
        return Failure(self.cause, (("tag", self.tag), ("expected", self.expected)))


class KVTransferError(KvpollError):
    """A room's failure, for an engine to raise: ``failure`` has cause, details, retry and the status for the client."""

    def __init__(self, room: int, failure: Failure) -> None:
        super().__init__(f"room {room}: {failure.sentence()}", failure.cause, dict(failure.details))
        self.room = room
        self.failure = failure
