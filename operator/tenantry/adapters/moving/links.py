"""The operator's side of a move: commands to the place that an engine leaves, and the archive on its way to the other place."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import orjson

from tenantry.adapters.moving.leaving import BLOCK, Packed
from tenantry.adapters.moving.wire import SIGNER, TOKEN
from tenantry.adapters.pools.verdicts import parse_verdict
from tenantry.model.verdicts import Halt, Transient

SHORT = httpx.Timeout(30.0, connect=5.0)
LONG = httpx.Timeout(600.0, connect=5.0)
"""For an archive of a large engine."""


@dataclass(frozen=True)
class Link:
    """Commands about one engine at one place. url: before the name of a command; body: of each command.

    signed: makes the headers of each request, for a copy may last longer than a token.
    """

    client: httpx.AsyncClient
    url: str
    signed: Callable[[], Mapping[str, str]]
    body: Mapping[str, Any]
    id: str

    async def freeze(self) -> str:
        """Make the engine read-only, and return its token. Raises Halt."""
        return str((await self._call("freeze"))["token"])

    async def give(self, token: str) -> None:
        """Let the engine go: from now on it may run elsewhere. Raises Halt (MoveStale)."""
        await self._call("give", token=token)

    async def thaw(self, *, cancelled: bool) -> None:
        """Let the engine be written again. cancelled: it runs nowhere else, and will not. Raises Halt."""
        await self._call("thaw", cancelled=cancelled)

    async def look(self) -> str:
        """Return the state of an engine that comes into a pod of its own: `Reserved`, `Copied`, or `""` once it is served.

        Raises Halt.
        """
        return str((await self._call("look"))["coming"])

    async def take(self, token: str) -> None:
        """Serve an engine that came into a pod of its own, with the copy of that token. Raises Halt (MoveStale)."""
        await self._call("take", token=token)

    async def cancel(self) -> None:
        """Take no copy of the engine in its own pod any more. Raises a Waiting Halt (EngineThere) if it came."""
        await self._call("cancel")

    async def blocks(self) -> bytes:
        """Return what the old place must know of the copy that lies ready, to send only what changed. Raises Halt.

        It is `b""` if there is no copy, and from an earlier release, which takes whole archives.
        """
        try:
            answer = await self.client.post(f"{self.url}/blocks", headers=self.signed(), timeout=LONG)
        except httpx.HTTPError as error:
            raise self._broken(error) from error
        if answer.status_code == httpx.codes.OK:
            return answer.content
        refusal = self._refusal(answer.content)
        if refusal.verdict.reason == "Invalid":
            return b""
        raise refusal

    @asynccontextmanager
    async def pack(self, earlier: bytes = b"") -> AsyncIterator[Packed]:
        """An archive of the engine. earlier: the answer of `blocks` at the place that it goes to. Raises Halt."""
        asked = self.client.stream("POST", f"{self.url}/pack", content=earlier, headers=self.signed(), timeout=LONG)
        try:
            async with asked as answer:
                if answer.status_code != httpx.codes.OK:
                    raise self._refusal(await answer.aread())
                yield Packed(answer.headers[TOKEN], answer.headers[SIGNER], answer.aiter_raw(BLOCK))
        except (httpx.HTTPError, KeyError) as error:
            raise self._broken(error) from error

    async def receive(self, copy: Packed) -> None:
        """Lay a copy of the engine ready in its new place. Raises Halt."""
        headers = {**self.signed(), TOKEN: copy.token, SIGNER: copy.signer, "Content-Type": "application/x-tar"}
        try:
            answer = await self.client.post(f"{self.url}/receive", content=copy.blocks, headers=headers, timeout=LONG)
        except httpx.HTTPError as error:
            raise self._broken(error) from error
        if answer.status_code != httpx.codes.OK:
            raise self._refusal(answer.content)

    async def _call(self, verb: str, **told: Any) -> Mapping[str, Any]:
        content = orjson.dumps({**self.body, **told})
        try:
            answer = await self.client.post(f"{self.url}/{verb}", content=content, headers=self.signed(), timeout=SHORT)
        except httpx.HTTPError as error:
            raise self._broken(error) from error
        if answer.status_code != httpx.codes.OK:
            raise self._refusal(answer.content)
        value: Mapping[str, Any] = orjson.loads(answer.content)
        return value

    def _refusal(self, content: bytes) -> Halt:
        try:
            return parse_verdict(orjson.loads(content)["verdict"], self.id)
        except (KeyError, TypeError, ValueError) as error:
            told = f"{self.url} does not take part in moves: it may run an earlier release, or the other side went away"
            return Halt(Transient("MoveRefused", f"{told} ({type(error).__name__})"))

    def _broken(self, error: Exception) -> Halt:
        return Halt(Transient("MoveInterrupted", f"{self.url} does not answer: {str(error) or type(error).__name__}"))
