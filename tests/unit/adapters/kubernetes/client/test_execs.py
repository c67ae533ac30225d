"""Commands in containers: what goes in and out over the WebSocket, and how they end."""

from __future__ import annotations

import io
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import WSMsgType, web

from tenantry.adapters.kubernetes.client.execs import CHUNK, PROTOCOL, Container, execute
from tenantry.model.verdicts import Forbidden, Halt, Stalled, Transient
from tests.unit.adapters.kubernetes.scripted import client_of

ENGINE = Container("env-1", "engine-0", "engine")
SUCCESS = b"\x03" + json.dumps({"status": "Success"}).encode()
Play = Callable[[web.WebSocketResponse], Awaitable[None]]


def failed(code: int, message: str = "command terminated") -> bytes:
    causes = [{"reason": "ExitCode", "message": str(code)}]
    status = {"status": "Failure", "reason": "NonZeroExitCode", "message": message, "details": {"causes": causes}}
    return b"\x03" + json.dumps(status).encode()


@asynccontextmanager
async def pod(play: Play, protocol: str = PROTOCOL) -> AsyncIterator[tuple[str, list[web.Request]]]:
    """An API server whose only pod runs any command by `play`. Yields its URL, and what it was asked."""
    asked = []

    async def answer(request: web.Request) -> web.StreamResponse:
        asked.append(request)
        if request.headers["Accept"] != "*/*":
            return web.Response(status=406)
        socket = web.WebSocketResponse(protocols=(protocol,))
        await socket.prepare(request)
        await play(socket)
        await socket.close()
        return socket

    application = web.Application()
    application.router.add_get("/api/v1/namespaces/env-1/pods/engine-0/exec", answer)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}", asked
    finally:
        await runner.cleanup()


def telling(*messages: bytes) -> Play:
    async def play(socket: web.WebSocketResponse) -> None:
        for message in messages:
            await socket.send_bytes(message)

    return play


async def run(play: Play, given: bytes | None = None, protocol: str = PROTOCOL) -> bytes:
    """The output of the command."""
    told = io.BytesIO()
    async with pod(play, protocol) as (url, _), client_of(url) as client:
        await execute(client, ENGINE, ("tenantry", "engine"), io.BytesIO(given) if given is not None else None, told)
    return told.getvalue()


async def test_standard_output_comes_whole_and_in_order() -> None:
    chunks = [bytes([each]) * CHUNK for each in range(64)]
    assert await run(telling(b"\x01", *(b"\x01" + each for each in chunks), b"\x02a warning", SUCCESS)) == b"".join(chunks)


async def test_the_request_names_the_container_and_each_word_of_the_command() -> None:
    async with pod(telling(SUCCESS)) as (url, asked), client_of(url) as client:
        await execute(client, ENGINE, ("tenantry", "engine", "--data", "/a b"))
    query = asked[0].query
    assert query.getall("command") == ["tenantry", "engine", "--data", "/a b"]
    assert (query["container"], "stdin" in query, asked[0].headers["Authorization"]) == ("engine", False, "Bearer one")


async def test_standard_input_goes_in_and_comes_to_its_end() -> None:
    content = bytes(range(256)) * 1000

    async def echo(socket: web.WebSocketResponse) -> None:
        async for message in socket:
            if message.data == b"\xff\x00":
                await socket.send_bytes(SUCCESS)
                return
            assert (message.type, message.data[0], len(message.data) <= CHUNK + 1) == (WSMsgType.BINARY, 0, True)
            await socket.send_bytes(b"\x01" + message.data[1:])

    assert await run(echo, content) == content


async def test_a_command_that_ends_before_it_has_read_all_tells_how_it_ended() -> None:
    with pytest.raises(Halt) as ended:
        await run(telling(b"\x02it is not empty", failed(2)), bytes(8 << 20))
    assert isinstance(ended.value.verdict, Stalled)
    assert ended.value.verdict.message == "in engine-0 of env-1: it is not empty"


@pytest.mark.parametrize(
    ("messages", "told"),
    [
        pytest.param((b"\x02no ", b"\x02engine\n", failed(1)), "no engine", id="by its standard error"),
        pytest.param((failed(126, "no such program"),), "no such program", id="without one, by the API server"),
    ],
)
async def test_a_command_that_fails_tells_why(messages: tuple[bytes, ...], told: str) -> None:
    with pytest.raises(Halt) as ended:
        await run(telling(*messages))
    assert (ended.value.verdict.reason, ended.value.verdict.message) == ("CommandFailed", f"in engine-0 of env-1: {told}")


@pytest.mark.parametrize(
    "messages",
    [pytest.param((), id="at once"), pytest.param((b"\x01half of it",), id="amid the output")],
)
async def test_a_connection_that_ends_before_the_command_does_is_no_success(messages: tuple[bytes, ...]) -> None:
    async def lose(socket: web.WebSocketResponse) -> None:
        await telling(*messages)(socket)
        transport = socket._req.transport if socket._req is not None else None
        assert transport is not None
        transport.abort()

    for play in (lose, telling(*messages)):
        with pytest.raises(Halt) as ended:
            await run(play)
        assert isinstance(ended.value.verdict, Transient)
        assert ended.value.verdict.reason == "ExecInterrupted"


async def test_who_may_not_is_told_so() -> None:
    async def refuse(request: web.Request) -> web.Response:
        return web.json_response({"message": "no"}, status=403)

    application = web.Application()
    application.router.add_get("/{path:.*}", refuse)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        async with client_of(f"http://127.0.0.1:{runner.addresses[0][1]}") as client:
            with pytest.raises(Forbidden) as refused:
                await execute(client, ENGINE, ("true",))
    finally:
        await runner.cleanup()
    assert "/pods/engine-0/exec: the API server answered 403" in refused.value.verdict.message


async def test_a_server_of_another_protocol_is_told() -> None:
    with pytest.raises(Halt) as ended:
        await run(telling(SUCCESS), protocol="v4.channel.k8s.io")
    assert "does not speak v5.channel.k8s.io" in ended.value.verdict.message
