from toy_engine import PATIENCE, Engine

from kvpoll.model_tests.conformance.plug import About, Limits, Plain

_LIMITS = Limits(react=0.02, abort=0.1, pairing=PATIENCE, waiting=PATIENCE, silence=None, total=None, late=0.02)
_CAN = frozenset({"push", "chunks", "abort", "clear", "memory"})


class Toy(Plain):
    def __init__(self):
        self.engine, self.size = Engine(64, 32), 32
        self.create, self.metadata = self.engine.create, self.engine.destinations
        self.send, self.poll, self.clear, self.close = (
            self.engine.send,
            self.engine.state,
            self.engine.forget,
            self.engine.stop,
        )

    def about(self):
        return About(name="toy engine", version="1", capabilities=_CAN, limits=_LIMITS, page_bytes=self.size)

    def abort(self, side, room):
        self.engine.fail(room, f"{side} gave up")

    def fill(self, side, pages, data):
        for at, page in enumerate(pages):
            self.engine.memory[side][page * self.size : (page + 1) * self.size] = data[
                at * self.size : (at + 1) * self.size
            ]

    def read(self, side, pages):
        return b"".join(self.engine.memory[side][page * self.size : (page + 1) * self.size] for page in pages)
