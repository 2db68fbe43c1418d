"""How a process describes itself: to its peers in the handshake, and to the bootstrap service."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from kvpoll.spec.wire import VERSION, Registration, TransportOffer

from .config import ManagerConfig

if TYPE_CHECKING:
    from .bootstrap.client import BootstrapClient, RegistrationThread
    from .bootstrap.server import KVBootstrapServer

__all__ = ["Announcer", "registration_of"]


def registration_of(config: ManagerConfig, engine_id: int, transports: Sequence[TransportOffer]) -> Registration:
    """The registration of this process on one link."""
    deadlines = config.durations.deadlines(config.role)
    return config.engine.describe(config.role, engine_id, transports, deadlines, config.limits.parts)


class Announcer:
    """Keeps a prefill process registered: at its own embedded service, or at the one the configuration names."""

    def __init__(
        self, config: ManagerConfig, address: str, instance: int, engine_id: int, transports: Sequence[str]
    ) -> None:
        self._server: KVBootstrapServer | None = None
        self._client: BootstrapClient | None = None
        self._thread: RegistrationThread | None = None
        self.at: tuple[str, int] | None = None
        if config.bootstrap == "none":
            return
        # FastAPI, uvicorn and httpx load here only: a process without a registry does not need them.
        from .bootstrap.client import BootstrapClient, RegistrationThread
        from .bootstrap.models import RegisterRequest

        engine = config.engine
        request = RegisterRequest.model_validate(
            {
                "bootstrap": config.namespace, "engine_id": f"{engine_id:x}", "instance": f"{instance:x}", "control": address,
                "transports": transports, "protocol": f"{VERSION[0]}.{VERSION[1]}",
                "attn_tp_size": engine.tp_size, "attn_tp_rank": engine.tp_rank, "attn_cp_size": engine.cp_size,
                "attn_cp_rank": engine.cp_rank,  # data parallel: one axis here, the system's there
                "pp_size": engine.pp_size, "pp_rank": engine.pp_rank, "system_dp_size": engine.dp_size,
                "system_dp_rank": engine.dp_rank, "page_size": engine.page_size, "kv_cache_dtype": engine.kv_dtype,
            }
        )  # fmt: skip
        secret = None if config.secret is None else config.secret.get_secret_value()
        url = config.bootstrap
        if url == "embedded":
            from .bootstrap.server import KVBootstrapServer

            self._server = KVBootstrapServer(config.host, config.bootstrap_port, secret=secret)
            self._server.start()
            url = self._server.url
        split = urlsplit(url)
        host = config.advertise or split.hostname or "" if self._server is not None else split.hostname or ""
        self.at = (host, split.port or 80)
        self._client = BootstrapClient(url, secret)
        self._thread = RegistrationThread(self._client, [request])
        self._thread.start()

    def wait(self, timeout: float) -> bool:
        """Wait until the registration is held."""
        return self._thread is None or self._thread.wait_registered(timeout)

    def close(self) -> None:
        if self._thread is not None:
            self._thread.stop()
        if self._client is not None:
            self._client.close()
        if self._server is not None:
            self._server.stop()
