"""The process plug, by hand: what a program in any language does. Lines of JSON in, lines of JSON out.

Run it: ``kvpoll conformance run --process "python examples/conformance/process_plug.py" --run "handoff/**"``
"""

import base64
import json
import sys
import time

from toy_engine import PATIENCE, Engine, EngineError

SIZE = 32
ABOUT = {
    "name": "toy engine, by lines", "version": "1", "capabilities": ["push", "chunks", "abort", "clear", "memory"],
    "limits": {
        "react": 0.02, "abort": 0.1, "pairing": PATIENCE, "waiting": PATIENCE, "silence": None, "total": None, "late": 0.02
    },
    "page_bytes": SIZE,
}  # fmt: skip
engine = Engine(64, SIZE)


def fill(side, pages, data):
    data = base64.b64decode(data)
    for at, page in enumerate(pages):
        engine.memory[side][page * SIZE : (page + 1) * SIZE] = data[at * SIZE : (at + 1) * SIZE]


def read(side, pages):
    return base64.b64encode(b"".join(engine.memory[side][p * SIZE : (p + 1) * SIZE] for p in pages)).decode()


CALLS = {
    "about": lambda: ABOUT,
    "begin": lambda case, fresh: None,
    "create": lambda side, room, pages: engine.create(side, room, pages),
    "init": lambda side, room: None,
    "metadata": lambda room, pages: engine.destinations(room, pages),
    "send": lambda room, pages, last: engine.send(room, pages, last),
    "poll": lambda side, room: engine.state(side, room),
    "abort": lambda side, room: engine.fail(room, f"{side} gave up"),
    "clear": lambda side, room: engine.forget(side, room),
    "advance": lambda seconds: time.sleep(seconds),
    "fill": fill,
    "read": read,
}

for line in sys.stdin:
    request = json.loads(line)
    answer = {"id": request.pop("id")}
    call = request.pop("call")
    try:
        if call in CALLS:
            answer["value"] = CALLS[call](**request)
        else:
            answer["unsupported"] = call
    except EngineError as error:
        answer["refused"] = str(error)
    print(json.dumps(answer), flush=True)
