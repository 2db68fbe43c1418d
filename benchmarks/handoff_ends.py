"""What both processes of the hand-off benchmark share: the pool, the managers, and the bare transports to compare with.

A bare transport is what somebody would write who needs no protocol: one call for one array, in the same process, between
the same gather and scatter. The bare calls get every advantage: their staging buffer is warm, aligned, and used again.
"""

from __future__ import annotations

import ctypes
import shutil
import tempfile
from dataclasses import dataclass
from time import monotonic_ns
from typing import TYPE_CHECKING, Protocol, cast

import numpy as np
import numpy.typing as npt
import zmq

from kvpoll.kernels import gather_pages
from kvpoll.runtime import EngineSpec, KVManager, ManagerConfig, Request
from kvpoll.runtime.transports.base import PayloadSpec
from kvpoll.runtime.transports.memory import BufferPool

if TYPE_CHECKING:
    from kvpoll.runtime.transports.jax_servers import NativeConnection

__all__ = [
    "PATIENCE_S", "SMALL", "SOCKETS", "Bare", "Geometry", "Rows", "bare_of", "manager", "now", "pool_of", "request_of", "stage",
]  # fmt: skip

Rows = npt.NDArray[np.uint16]
PATIENCE_S = 30.0  #: a wait that takes longer means that the benchmark is broken


@dataclass(frozen=True, slots=True)
class Geometry:
    """A pool: ``layers`` arrays of shape [pages, tokens, words], uint16."""

    layers: int
    pages: int
    tokens: int = 16
    words: int = 1024

    @property
    def page_nbytes(self) -> int:
        """Of one page of one layer."""
        return self.tokens * self.words * 2

    def pages_for(self, nbytes: int) -> int:
        return nbytes // (self.page_nbytes * self.layers)

    def engine(self) -> EngineSpec:
        return EngineSpec(
            page_size=self.tokens, layers=self.layers, kv_dtype="uint16", layout="token,word", page_nbytes=self.page_nbytes,
            kv_heads=1, head_dim=self.words,
        )  # fmt: skip

    def chosen(self, pages: int, end: str) -> npt.NDArray[np.int32]:
        """Which pages an end uses for a hand-off: scattered over the pool, the same in both processes."""
        order = np.random.default_rng(list(end.encode())).permutation(self.pages)
        return order[:pages].astype(np.int32)


#: One page of 4 KiB over all layers: for what a room costs when there is next to nothing to move.
SMALL = Geometry(layers=2, pages=4, tokens=16, words=64)


def pool_of(shape: Geometry, fill: bool) -> list[Rows]:
    """A numpy pool, touched; with ``fill`` the content that both processes can work out."""
    dims = (shape.pages, shape.tokens, shape.words)
    if not fill:
        return [np.full(dims, 1, np.uint16) for _ in range(shape.layers)]
    return [np.random.default_rng(i).integers(0, 1 << 16, dims, np.uint16) for i in range(shape.layers)]


#: zmq as it is between two hosts that look like one: everything goes through the socket.
SOCKETS = "zmq, sockets"


def manager(role: str, transport: str, shape: Geometry) -> KVManager:
    name = transport.partition(",")[0]
    options = {name: {"use_shared": 0}} if transport == SOCKETS else {}
    return KVManager(
        ManagerConfig.model_validate(
            {
                "role": role,
                "engine": shape.engine(),
                "transports": (name,),
                "transport_options": options,
                "bootstrap": "none",
            }
        )
    )


def request_of(room: int, shape: Geometry, pages: int) -> Request:
    return Request(pages * shape.tokens, 0, room.to_bytes(8, "big"))


def stage(buffers: BufferPool, pool: list[Rows], pages: npt.NDArray[np.int32]) -> Rows:
    """Gather into a warm, aligned buffer."""
    words = pool[0][0].size
    out = buffers.lend(len(pool) * len(pages) * words * 2).view(np.uint16).reshape(len(pool), len(pages), words)
    return cast(Rows, gather_pages(pool, pages, out=out))


class Bare(Protocol):
    """One array from the prefill to the decode process."""

    def offer(self) -> dict[str, str]:
        """Prefill: what the decode process needs to know. Or decode, for a transport in which it listens."""

    def connect(self, offered: dict[str, str]) -> None: ...

    def send(self, rows: Rows) -> int:
        """Prefill: returns the key to receive it under, 0 where none is needed."""

    def receive(self, key: int, shape: tuple[int, ...]) -> Rows:
        """Decode: the array, whole."""

    def finish(self, key: int) -> None:
        """Prefill: it was received; let go of it."""

    def close(self) -> None: ...


class BareZmq:
    """One frame from a DEALER to a ROUTER over ipc, no copy at either end, and an answer."""

    def __init__(self) -> None:
        self._context = zmq.Context()
        self._folder = ""
        self._socket: zmq.Socket[bytes] | None = None

    def offer(self) -> dict[str, str]:
        """By the decode process: it binds."""
        self._folder = tempfile.mkdtemp(prefix="kvpoll-bench-")
        self._socket = self._context.socket(zmq.ROUTER)
        self._socket.rcvtimeo = round(PATIENCE_S * 1000)
        self._socket.bind(f"ipc://{self._folder}/bare")
        return {"endpoint": f"ipc://{self._folder}/bare"}

    def connect(self, offered: dict[str, str]) -> None:
        self._socket = self._context.socket(zmq.DEALER)
        self._socket.rcvtimeo = round(PATIENCE_S * 1000)
        self._socket.connect(offered["endpoint"])

    def send(self, rows: Rows) -> int:
        assert self._socket is not None
        self._socket.send(rows.reshape(-1).view(np.uint8).data, copy=False)
        return 0

    def receive(self, key: int, shape: tuple[int, ...]) -> Rows:
        assert self._socket is not None
        source, frame = self._socket.recv_multipart(copy=False)
        self._socket.send_multipart([source.bytes, b"ok"])
        return np.frombuffer(frame.buffer, np.uint8).view(np.uint16).reshape(shape)

    def finish(self, key: int) -> None:
        assert self._socket is not None
        self._socket.recv()

    def close(self) -> None:
        self._context.destroy(linger=0)
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)


class BareJax:
    """``await_pull`` and ``pull`` of jax.experimental.transfer, with the transport's own settings. The array is offered
    where it lies; the key goes over a pipe, for the library has no way of its own."""

    def __init__(self) -> None:
        import jax
        from jax.experimental import transfer

        from kvpoll.runtime.transports.jax_payload import pull_specs

        self._specs = pull_specs
        self._jax = jax
        self._device = jax.devices()[0]
        self._server = transfer.start_transfer_server(
            self._device.client, "127.0.0.1:0", ["127.0.0.1:0"], 8, 4 << 20, supports_pinned_allocator=False,
            use_raw_buffers=False,
        )  # fmt: skip
        self._connection: NativeConnection | None = None
        self._key = 1 << 62

    def offer(self) -> dict[str, str]:
        return {"endpoint": self._server.address()}

    def connect(self, offered: dict[str, str]) -> None:
        self._connection = self._server.connect(offered["endpoint"])

    def send(self, rows: Rows) -> int:
        array = self._jax.device_put(rows, self._device, may_alias=True)
        self._key += 1
        self._server.await_pull(self._key, [array])
        return self._key

    def receive(self, key: int, shape: tuple[int, ...]) -> Rows:
        assert self._connection is not None
        (array,) = self._connection.pull(key, [self._specs(PayloadSpec(shape, "uint16"), self._device)[0]])
        array.block_until_ready()
        return np.asarray(array)

    def finish(self, key: int) -> None:
        """A fetched key leaves the native table by itself."""

    def close(self) -> None:
        """The server ends with the process: dropping it earlier may wait for ever (see ``jax_servers``)."""
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._server))


def bare_of(transport: str) -> Bare:
    return BareJax() if transport == "jax" else BareZmq()


def now() -> int:
    """Nanoseconds on the clock that all processes of a Linux host share."""
    return monotonic_ns()
