"""Messages to bytes and back: msgpack maps from tag to value.

1. A frame that this version knows takes one pass in C. Anything else (a newer peer's tags, and every mistake) takes the
   slow path of :mod:`kvpoll.protocol.tags`, which knows the name of each field.
2. Unknown tags are kept byte for byte with their place, so that ``encode_with(d.message, d.unknown)`` loses nothing.
   Unknown critical tags and unknown kinds are refused: :class:`VersionError`.
3. Whatever arrives, :func:`decode` returns or raises :class:`RemoteProtocolError`, and allocates no more than a small
   multiple of the frame: the frame's length is checked first, a list's or map's announced length before its elements.
4. Closed enums (``PartKind``, ``KVPoll``) refuse unknown numbers: a part or a state that we cannot place must not be
   guessed. Open ones (``Cause``, ``Reason``) are plain numbers on the wire: :func:`cause_of` and :func:`reason_of` name
   those we know, so that a newer peer's ABORT still aborts and its refusal still refuses.
5. Of a known tag, or a key of a map, that is given twice the last one counts, wherever the frame is read. ``strict``
   refuses it instead; finding out costs an encoding of the message. An unknown tag given twice is always refused.
6. :func:`encode` and :func:`decode` are called for every message. What they do beside the C call is the frame limit, the
   translation of errors and the result; anything more belongs into :func:`encode_with` or the slow path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Union

import msgspec
from msgspec import UNSET, Struct, UnsetType, field

from kvpoll.protocol.errors import Detail, LocalProtocolError, RemoteProtocolError
from kvpoll.protocol.tags import Unknown, VersionError, decode_slowly, splice
from kvpoll.spec import Cause
from kvpoll.spec.wire import GREASE, KINDS, MAX_FRAME, Message, Reason

__all__ = [
    "Decoded",
    "Envelope",
    "Unknown",
    "VersionError",
    "cause_of",
    "decode",
    "encode",
    "encode_with",
    "fit_details",
    "peek",
    "reason_of",
]


class Decoded(Struct, frozen=True, gc=False):
    """A message and the tags in it that this version does not know."""

    message: Message
    unknown: tuple[Unknown, ...] = ()


class Envelope(Struct, frozen=True, kw_only=True, gc=False):
    """What an answer needs, read from a frame that may be otherwise unreadable. Any of it may be missing."""

    kind: int | UnsetType = field(name="0", default=UNSET)
    link: int | UnsetType = field(name="1", default=UNSET)
    source: int | UnsetType = field(name="2", default=UNSET)
    target: int | UnsetType = field(name="3", default=UNSET)
    source_rank: int = field(name="4", default=0)
    target_rank: int = field(name="5", default=0)
    room: int | UnsetType = field(name="6", default=UNSET)
    engine: int | UnsetType = field(name="7", default=UNSET)
    gen: int | UnsetType = field(name="8", default=UNSET)


_encode = msgspec.msgpack.Encoder().encode
_decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Union[KINDS])  # noqa: UP007  (built at run time)
_decode = _decoder.decode
_CAUSES = {int(cause): cause for cause in Cause}
_REASONS = {int(reason): reason for reason in Reason}
_peek = msgspec.msgpack.Decoder(Envelope).decode


def encode(message: Message) -> bytes:
    """The frame of a message. Raises ``LocalProtocolError`` for values that msgpack cannot hold and for a frame above
    ``MAX_FRAME``. Limits of single fields are the reader's to check."""
    try:
        frame = _encode(message)
    except (TypeError, ValueError, OverflowError, msgspec.MsgspecError) as error:
        raise LocalProtocolError(f"{type(message).__name__} cannot be encoded: {error}") from None
    if len(frame) > MAX_FRAME:
        raise _too_long(message, frame)
    return frame


def encode_with(
    message: Message, unknown: Sequence[Unknown] = (), *, grease: Callable[[int], bytes] | None = None
) -> bytes:
    """The frame of a message with tags that this version does not know.

    ``unknown``: tags of a :class:`Decoded` to write back to where they were. ``grease``: a source of random bytes
    (``n -> n bytes``); one meaningless tag is added, so that peers cannot learn to reject what they do not know.
    Raises as :func:`encode` does, and for unknown tags that have no place in this message.
    """
    frame = encode(message)
    if unknown or grease is not None:
        frame = splice(frame, [*unknown, *_grease(grease, unknown)], type(message).__name__)
    if len(frame) > MAX_FRAME:
        raise _too_long(message, frame)
    return frame


def decode(frame: bytes | memoryview, strict: bool = False) -> Decoded:
    """The message of a frame. Raises ``RemoteProtocolError`` only: ``tag`` is the name of the field in words
    ("Announce.fingerprint.tokens"), ``expected`` what it takes. ``strict``: see rule 5. (Not keyword-only: a call of a
    function with such costs more.)"""
    if len(frame) > MAX_FRAME:
        raise RemoteProtocolError("frame", f"at most {MAX_FRAME} bytes", str(len(frame)))
    try:
        message = _decode(frame)
    except (msgspec.DecodeError, RecursionError) as error:
        hint = str(error)
    else:
        # The encoding of a message is the shortest frame that means it, so a repeated tag shows in the length. (A peer
        # that writes defaults or long integers differs too, and is told apart on the slow path.)
        if not strict or len(_encode(message)) == len(frame):
            return Decoded(message)
        hint = ""
    return Decoded(*decode_slowly(bytes(frame), _decode, hint, strict))


def peek(frame: bytes | memoryview) -> Envelope | None:
    """The envelope of a frame that :func:`decode` refused, to address the refusal; ``None`` if even that is unreadable.
    Never raises."""
    if len(frame) > MAX_FRAME:
        return None
    try:
        return _peek(frame)
    except (msgspec.DecodeError, RecursionError):
        return None


def cause_of(number: int) -> Cause | None:
    """The cause of a ``FailureGroup``; ``None`` for one that only a newer version knows. Treat that as a failure with
    cause PEER_ABORTED (which every heard failure becomes), carrying the number as its detail "cause"."""
    return _CAUSES.get(number)


def reason_of(number: int) -> Reason | None:
    """The reason of a ``Refusal``; ``None`` for one that only a newer version knows. It is a refusal all the same: of
    the room if it names one, else of the pair."""
    return _REASONS.get(number)


def fit_details(details: Iterable[tuple[str, Detail]]) -> tuple[tuple[str, Detail], ...]:
    """Details cut to the limits of ``FailureGroup``: an ABORT must not be refused because an error text was long."""
    return tuple((name[:64], _fit(value)) for name, value in list(details)[:16])


def _too_long(message: Message, frame: bytes) -> LocalProtocolError:
    return LocalProtocolError(f"{type(message).__name__} takes {len(frame)} bytes, the limit is {MAX_FRAME}")


def _fit(value: Detail) -> Detail:
    if isinstance(value, int):
        return min(max(int(value), -(2**63)), 2**64 - 1)  # int(): a bool is not a number on the wire
    return value[:512].encode(errors="replace").decode()  # a lone surrogate, as in undecodable file names, is no UTF-8


def _grease(rng: Callable[[int], bytes] | None, unknown: Sequence[Unknown]) -> list[Unknown]:
    if rng is None:
        return []
    pick, size, *_ = rng(2)
    taken = {u.tag for u in unknown if not u.path}
    free = [tag for tag in GREASE if tag not in taken]
    return [Unknown((), free[pick % len(free)], _encode(rng(size % 16)))] if free else []
