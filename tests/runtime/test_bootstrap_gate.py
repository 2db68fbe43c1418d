"""What stands in front of every route: the shared secret and the size limit."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from kvpoll.runtime.bootstrap.registry import Registry
from kvpoll.runtime.bootstrap.server import create_app

TOKEN = "t" * 16
RANK: dict[str, Any] = {
    "engine_id": "engineA",
    "instance": "inst0",
    "control": "tcp://10.0.0.1:7000",
    "attn_tp_size": 2,
    "attn_tp_rank": 0,
    "page_size": 16,
    "kv_cache_dtype": "bfloat16",
    "token": TOKEN,
}
JSON = {"Content-Type": "application/json"}


def call(
    app: FastAPI, method: str, path: str, *, content: bytes | None = None, headers: dict[str, str] | None = None
) -> httpx.Response:
    async def go() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://bootstrap") as client:
            return await client.request(method, path, content=content, headers=headers)

    return asyncio.run(go())


@pytest.mark.parametrize(
    "given", [None, "", "Bearer", "Bearer wrong", "bearer s3cret", "Basic s3cret", "Bearer s3cret2", "s3cret"]
)
@pytest.mark.parametrize(
    ("method", "path"),
    [("PUT", "/v1/ranks"), ("GET", "/v1/ranks"), ("PUT", "/route"), ("GET", "/route"), ("GET", "/metrics"),
     ("GET", "/openapi.json"), ("GET", "/nothing"), ("GET", "/health/x")],
)  # fmt: skip
def test_without_the_right_secret_nothing_but_health_is_open(method: str, path: str, given: str | None) -> None:
    app = create_app(Registry(), secret="s3cret")
    answer = call(app, method, path, headers={} if given is None else {"Authorization": given})
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.json()["error"]["kind"] == "unauthorised"
    assert call(app, "GET", "/health").text == "OK"


def test_with_the_right_secret_everything_is_open() -> None:
    app = create_app(Registry(), secret="s3cret")
    header = {"Authorization": "Bearer s3cret"}
    assert call(app, "PUT", "/v1/ranks", content=json.dumps(RANK).encode(), headers=header | JSON).status_code == 200
    schema = call(app, "GET", "/openapi.json", headers=header).json()
    assert schema["paths"]["/v1/ranks"]["put"]["security"] == [{"HTTPBearer": []}]
    assert "security" not in schema["paths"]["/health"]["get"]


@pytest.mark.parametrize("secret", ["", "two words", "line\n", "ü"])
def test_a_secret_that_no_header_can_carry_is_refused(secret: str) -> None:
    with pytest.raises(ValueError, match="secret"):
        create_app(Registry(), secret=secret)


def test_a_body_of_exactly_the_limit_is_read_and_one_byte_more_is_413() -> None:
    app = create_app(Registry())
    raw = json.dumps(RANK).encode()
    assert call(app, "PUT", "/v1/ranks", content=raw.ljust(65536), headers=JSON).status_code == 200
    answer = call(app, "PUT", "/v1/ranks", content=raw.ljust(65537), headers=JSON)
    assert (answer.status_code, answer.json()["error"]["field"]) == (413, "body")


def test_an_endless_body_of_unknown_length_is_cut_off_at_the_limit() -> None:
    blocks = 0

    async def receive() -> dict[str, object]:
        nonlocal blocks
        blocks += 1
        return {"type": "http.request", "body": b" " * 4096, "more_body": True}

    sent: list[dict[str, Any]] = []

    async def send(message: Any) -> None:  # noqa: ANN401 (ASGI)
        sent.append(message)

    scope = {"type": "http", "method": "PUT", "path": "/v1/ranks", "query_string": b"", "headers": []}
    asyncio.run(create_app(Registry())(scope, receive, send))
    assert sent[0]["status"] == 413
    assert blocks == 65536 // 4096 + 1


def test_a_client_that_goes_away_in_the_middle_of_a_body_registers_nothing() -> None:
    app = create_app(Registry())
    messages: list[dict[str, object]] = [
        {"type": "http.request", "body": json.dumps(RANK).encode(), "more_body": True},
        {"type": "http.disconnect"},
    ]

    async def receive() -> dict[str, object]:
        return messages.pop(0)

    async def send(message: Any) -> None:  # noqa: ANN401 (ASGI)
        raise AssertionError(f"nobody is there to read {message}")

    headers = [(b"content-type", b"application/json")]
    scope = {"type": "http", "method": "PUT", "path": "/v1/ranks", "query_string": b"", "headers": headers}
    asyncio.run(app(scope, receive, send))
    assert call(app, "GET", "/v1/ranks").json() == []
