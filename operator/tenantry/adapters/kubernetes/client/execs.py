"""Commands in containers, over the WebSocket that the API server opens for them: what goes in and out streams."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, BinaryIO, NamedTuple

import aiohttp
import orjson

from tenantry.adapters.kubernetes.client.http import Client
from tenantry.adapters.kubernetes.client.objects import path_of
from tenantry.model.verdicts import Halt, Stalled, Transient

PROTOCOL = "v5.channel.k8s.io"
"""The first that can end what goes in; API servers have it since 1.30."""
CHUNK = 32 << 10
LARGEST_ERRORS = 16 << 10
"""Bytes of standard error that are kept: the last."""
_STDIN, _STDOUT, _STDERR, _ENDED, _CLOSE = 0, 1, 2, 3, 255


class Container(NamedTuple):
    """The container in which a command runs."""

    namespace: str
    pod: str
    name: str


async def execute(
    client: Client, where: Container, command: Sequence[str], given: BinaryIO | None = None, told: BinaryIO | None = None
) -> None:
    """Run a command to its end. given: its standard input; `told`: receives its standard output, which is otherwise dropped.

    Raises the Halts of Client.channel. Raises a Stalled one (CommandFailed) with the end of its standard error if the exit code
    is not 0. Raises a Transient one (ExecInterrupted) if the connection is lost first: the exit code is then unknown.
    """
    query = [("container", where.name), ("stdout", "true"), ("stderr", "true"), *(("command", each) for each in command)]
    if given is not None:
        query.append(("stdin", "true"))
    path = path_of("v1", "Pod", where.namespace, where.pod) + "/exec"
    async with client.channel(path, query, PROTOCOL) as socket:
        giving = asyncio.create_task(_give(socket, given)) if given is not None else None
        try:
            status, errors = await _hear(socket, told)
        finally:
            if giving is not None:
                giving.cancel()
                with suppress(asyncio.CancelledError, aiohttp.ClientError, OSError):
                    await giving
    if status is None:
        raise Halt(Transient("ExecInterrupted", f"the connection to {where.pod} in {where.namespace} was lost; try again"))
    if status.get("status") != "Success":
        reason = errors.decode(errors="replace").strip() or status.get("message") or "no reason was given"
        raise Halt(Stalled("CommandFailed", f"in {where.pod} of {where.namespace}: {reason}", "Operator"))


async def _give(socket: aiohttp.ClientWebSocketResponse, given: BinaryIO) -> None:
    while chunk := await asyncio.to_thread(given.read, CHUNK):
        await socket.send_bytes(bytes((_STDIN,)) + chunk)
    await socket.send_bytes(bytes((_CLOSE, _STDIN)))


async def _hear(socket: aiohttp.ClientWebSocketResponse, told: BinaryIO | None) -> tuple[dict[str, Any] | None, bytes]:
    """Return the exit status of the command, None if it was not received, and the end of its standard error."""
    errors = b""
    with suppress(aiohttp.ClientError):
        async for message in socket:
            if message.type is not aiohttp.WSMsgType.BINARY or not message.data:
                continue
            channel, content = message.data[0], message.data[1:]
            if channel == _STDOUT and told is not None:
                await asyncio.to_thread(told.write, content)
            elif channel == _STDERR:
                errors = (errors + content)[-LARGEST_ERRORS:]
            elif channel == _ENDED:
                return orjson.loads(content), errors
    return None, errors
