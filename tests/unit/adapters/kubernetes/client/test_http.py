"""Requests that are sent again, those that are not, and the caller's answer."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from tenantry.adapters.kubernetes.client.credentials import TOKEN_LASTS_S, Credentials, ServerAccess, in_cluster
from tenantry.adapters.kubernetes.client.http import TRIES
from tenantry.model.verdicts import Conflict, Halt, Transient, Unauthorized
from tests.unit.adapters.kubernetes.scripted import Lost, Say, client_of, refused, serving

AGAIN = {
    "too many requests, for a write": ("POST", refused(429, "TooManyRequests", retry_after=0)),
    "too many requests without a time, for a write": ("PATCH", refused(429, "TooManyRequests")),
    "unavailable with a time, for a write": ("POST", refused(503, "ServiceUnavailable", retry_after=0)),
    "unavailable without a time, for a read": ("GET", refused(503, "ServiceUnavailable")),
    "an internal error, for a read": ("GET", refused(500, "InternalError")),
    "an answer that was lost, for a read": ("GET", Lost()),
}
ONCE = {
    "unavailable without a time, for a write": ("POST", refused(503, "ServiceUnavailable"), "ServiceUnavailable"),
    "an internal error, for a write": ("PATCH", refused(500, "InternalError"), "InternalError"),
    "an answer that was lost, for a write": ("PATCH", Lost(), "AnswerLost"),
    "a refusal, for a read": ("GET", refused(404, "NotFound"), "NotFound"),
}


@pytest.mark.parametrize(("method", "first"), AGAIN.values(), ids=AGAIN)
async def test_it_is_sent_again(method: str, first: Say) -> None:
    async with serving(first, Say(body={"kind": "Tenant"})) as server, client_of(server.url) as client:
        assert await client.request(method, "/apis", body={} if method != "GET" else None) == {"kind": "Tenant"}
    assert server.methods == [method, method]


@pytest.mark.parametrize(("method", "answer", "reason"), ONCE.values(), ids=ONCE)
async def test_it_is_sent_once(method: str, answer: Say, reason: str) -> None:
    async with serving(answer) as server, client_of(server.url) as client:
        with pytest.raises(Halt) as halted:
            await client.request(method, "/apis", body={} if method != "GET" else None)
    assert halted.value.verdict.reason == reason
    assert len(server.asked) == 1


@pytest.mark.slow
async def test_tries_come_to_an_end() -> None:
    async with serving(refused(429, "TooManyRequests", retry_after=0)) as server, client_of(server.url) as client:
        with pytest.raises(Halt) as halted:
            await client.request("POST", "/apis", body={})
    assert halted.value.verdict == Transient("TooManyRequests", "TooManyRequests")
    assert len(server.asked) == TRIES


@pytest.mark.slow
async def test_a_server_that_is_not_there_is_a_passing_trouble() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        async with client_of(f"http://127.0.0.1:{taken.getsockname()[1]}") as client:
            with pytest.raises(Halt) as halted:
                await client.request("POST", "/apis", body={})
    assert isinstance(halted.value.verdict, Transient)
    assert halted.value.verdict.reason == "Unreachable"


async def test_a_conflict_is_told_as_one() -> None:
    async with serving(refused(409, "Conflict")) as server, client_of(server.url) as client:
        with pytest.raises(Conflict):
            await client.request("PATCH", "/apis", body=[])


@pytest.mark.parametrize("body", [b"<html>", [1]], ids=["a page", "a list"])
async def test_what_is_no_api_server_is_told(body: Any) -> None:
    async with serving(Say(body=body)) as server, client_of(server.url) as client:
        with pytest.raises(Halt, match="is this an API server"):
            await client.request("GET", "/apis")


# Credentials


async def test_a_refused_token_is_read_again() -> None:
    async with serving(refused(401, "Unauthorized"), Say()) as server, client_of(server.url, ["old", "new"]) as client:
        assert await client.request("POST", "/apis", body={}) == {}
    assert [request.headers["Authorization"] for request in server.asked] == ["Bearer old", "Bearer new"]


async def test_a_token_that_stays_refused_is_told() -> None:
    async with serving(refused(401, "Unauthorized")) as server, client_of(server.url) as client:
        with pytest.raises(Unauthorized):
            await client.request("GET", "/apis")
    assert len(server.asked) == 2


async def test_credentials_that_are_refused_again_and_again_are_not_read_each_time() -> None:
    read: list[ServerAccess] = []

    def asked() -> ServerAccess:
        read.append(ServerAccess("http://server"))
        return read[-1]

    credentials = Credentials(asked, pause=60.0)
    access = await credentials.access()
    assert await credentials.renew(access) is access
    assert len(read) == 1


async def test_a_token_is_read_again_when_it_is_old() -> None:
    tokens = iter(("first", "second"))
    credentials = Credentials(lambda: ServerAccess("http://server", next(tokens)), lasts=0.0)
    assert [(await credentials.access()).authorization for _ in range(2)] == ["first", "second"]


async def test_a_pod_without_its_token_is_told_where_it_should_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "::1")
    with pytest.raises(Halt, match="ServiceAccount") as halted:
        await in_cluster(tmp_path).access()
    assert halted.value.verdict.reason == "CredentialsUnreadable"
    assert TOKEN_LASTS_S < 600


# Streams


async def test_a_line_may_be_as_long_as_the_largest_object() -> None:
    line = b'{"type": "ADDED", "object": "' + b"x" * 1_500_000 + b'"}\n'
    chunks = tuple(line[at : at + 100_000] for at in range(0, len(line), 100_000))
    async with serving(Say(chunks=(*chunks, b'{"type": "cut of'))) as server, client_of(server.url) as client:
        changes = [change async for change in client.stream("/apis", {"watch": "1"})]
    assert [len(change["object"]) for change in changes] == [1_500_000]


async def test_headers_go_with_every_request_and_share_the_connections() -> None:
    async with serving(Say()) as server, client_of(server.url) as client:
        other = client.with_headers({"Impersonate-User": "system:serviceaccount:t:tenantry-viewer"})
        await other.request("GET", "/apis")
        await client.request("GET", "/apis")
    assert [request.headers.get("Impersonate-User", "") for request in server.asked] == [
        "system:serviceaccount:t:tenantry-viewer",
        "",
    ]
