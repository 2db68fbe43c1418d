"""SGLang's own parsers, told by lines on standard input: ``[message, [frame as hex, ...]]``; in the environment of ``setup.sh``.

The answer is ``{"ok": {field: value}}`` with the names that the imported layouts use, without what the parser assumed because
no frame had it; or ``{"raised": "Type: text"}``; or ``{"raised": "it is dropped"}`` for a message that it logs and ignores.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Callable, Mapping

from side import load


def parsers() -> Mapping[str, Callable[[list[bytes]], object]]:
    from sglang.srt.disaggregation.common.conn import AbortAck, AbortNotification
    from sglang.srt.disaggregation.mooncake.conn import KVArgsRegisterInfo, MooncakeKVManager, TransferInfo

    def status(frames: list[bytes]) -> dict[str, object] | None:
        manager = MooncakeKVManager.__new__(
            MooncakeKVManager
        )  # the method needs nothing of it but the class's settings
        said = manager.parse_kv_status_message(frames)
        return None if said is None else dict(zip(("room", "status", "prefill_rank"), said, strict=False))

    def metadata(frames: list[bytes]) -> object:
        int(frames[7].decode("ascii"))  # the receiving thread reads this frame before it calls the parser
        return TransferInfo.from_zmq(frames)

    return {
        "metadata": metadata, "registration": KVArgsRegisterInfo.from_zmq, "status": status,
        "ABORT": AbortNotification.from_zmq, "ABORT_ACK": AbortAck.from_zmq,
    }  # fmt: skip


def values_of(parsed: object) -> dict[str, object]:
    """Field by field, without what equals its default."""
    if isinstance(parsed, dict):
        return parsed
    if dataclasses.is_dataclass(parsed):
        staging = getattr(parsed, "staging", None)  # a record of its own, of slots that have names of their own
        every = {
            field.name: (plain(getattr(parsed, field.name)), _default(field)) for field in dataclasses.fields(parsed)
        }
        found = {name: value for name, (value, default) in every.items() if value != default and name != "staging"}
        return {**found, "staging_slot_layer_ids": getattr(staging, "slot_layer_ids", [])}
    return {name: value for name in parsed.__struct_fields__ if (value := getattr(parsed, name)) is not None}


def _default(field: dataclasses.Field[object]) -> object:
    return field.default_factory() if field.default_factory is not dataclasses.MISSING else field.default


def plain(value: object) -> object:
    """As JSON has it: arrays are lists."""
    if hasattr(value, "tolist"):
        return value.tolist()
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


def main() -> None:
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    load()
    known = parsers()
    for line in sys.stdin:
        message, frames = json.loads(line)
        answer: dict[str, object]
        try:
            if message not in known:
                answer = {"unknown": message}
            elif (parsed := known[message]([bytes.fromhex(frame) for frame in frames])) is None:
                answer = {"raised": "it is dropped"}
            else:
                answer = {"ok": {name: plain(value) for name, value in values_of(parsed).items()}}
        except Exception as error:  # noqa: BLE001 - whatever the parser raises is an answer
            answer = {"raised": f"{type(error).__name__}: {error}"[:300]}
        out.write(json.dumps(answer, default=str) + "\n")
        out.flush()


if __name__ == "__main__":
    main()
