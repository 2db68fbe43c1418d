"""A receiver in a process of its own: exposes the given keys, tells its descriptor, and waits to be ended."""

import json
import sys

from kvpoll.runtime.transports.base import Exposure
from kvpoll.runtime.transports.zmq_push import ZmqPushTransport

if __name__ == "__main__":
    link, max_bytes, *keys = sys.argv[1:]
    transport = ZmqPushTransport()
    transport.start(lambda: None)
    for key in keys:
        transport.expose(Exposure(link, int(key), int(max_bytes), 1))
    print(json.dumps(dict(transport.descriptor(link))), flush=True)
    sys.stdin.read()
    transport.close()
