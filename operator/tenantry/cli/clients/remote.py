"""Console over a control socket."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

import httpx
import orjson

from tenantry.cli.output.failing import Failure
from tenantry.hosts.console.codec import HALTED, RELEASE, UPLOAD, encoded, halt_from_json, other_release, result_of
from tenantry.hosts.console.protocol import STRICT, About, Approved, Console, KeptReport, PlanReport, SourceReport
from tenantry.kinds.environment.orphaned import HeldEngine
from tenantry.model.facts import Applied, BackupFacts, PackageFacts, Trust
from tenantry.model.resource import Document, Ref
from tenantry.ports import Event
from tenantry.rest.release import VERSION

TIMEOUT = httpx.Timeout(300.0, connect=5.0)
WATCHING = httpx.Timeout(None, connect=5.0)
LONG = frozenset({"apply_plan", "backup", "restore"})
"""Calls that end when their work does, however long it takes."""
CHUNK = 1 << 20
P = ParamSpec("P")
R = TypeVar("R")


class RemoteConsole:
    """hosts.console.Console over HTTP; see hosts/console/control.py."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    @classmethod
    def at(cls, socket: Path) -> RemoteConsole:
        """The console behind a socket. Nothing is sent yet."""
        # A socket has no certificate. Reading the authorities that httpx trusts would take 20 ms.
        transport = httpx.AsyncHTTPTransport(uds=str(socket), verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
        headers, base = {RELEASE: VERSION}, "http://tenantry"
        return cls(httpx.AsyncClient(transport=transport, base_url=base, headers=headers, timeout=TIMEOUT, trust_env=False))

    async def close(self) -> None:
        await self._client.aclose()

    async def about(self) -> About:
        return await self._call(Console.about)

    async def list(self, kind: str) -> Sequence[Document]:
        return await self._call(Console.list, kind)

    async def orphans(self) -> Sequence[HeldEngine]:
        return await self._call(Console.orphans)

    async def get(self, ref: Ref) -> Document:
        return await self._call(Console.get, ref)

    async def watch(self, kind: str) -> AsyncIterator[Event]:
        with _told():
            async with self._client.stream("GET", f"/watch/{kind}", timeout=WATCHING) as response:
                _refuse_other_release(response)
                async for line in response.aiter_lines():
                    event = orjson.loads(line)
                    if "halt" in event:
                        raise halt_from_json(event)
                    yield Event.of(event["type"], event["document"])
        raise Failure("the running platform has ended")

    async def apply(self, document: Document) -> Applied:
        return await self._call(Console.apply, document)

    async def patch(self, ref: Ref, patch: Document) -> Document:
        return await self._call(Console.patch, ref, patch)

    async def delete(self, ref: Ref) -> Document:
        return await self._call(Console.delete, ref)

    async def log(self, operation: str) -> str:
        return await self._call(Console.log, operation)

    async def source(self) -> SourceReport:
        return await self._call(Console.source)

    async def sync(self, source: str) -> SourceReport:
        return await self._call(Console.sync, source)

    async def plan(self, source: str, name: str) -> PlanReport:
        return await self._call(Console.plan, source, name)

    async def apply_plan(self, plan: Approved) -> Sequence[KeptReport]:
        return await self._call(Console.apply_plan, plan)

    async def approve(self, source: str) -> Sequence[str]:
        return await self._call(Console.approve, source)

    async def put_package(self, tenant: str, package: Path) -> PackageFacts:
        body = await self._request("POST", f"/{UPLOAD}", params={"tenant": tenant}, content=_chunks(package))
        return cast(PackageFacts, result_of(Console.put_package, body))

    async def find_package(self, tenant: str, sha256: str) -> PackageFacts | None:
        return await self._call(Console.find_package, tenant, sha256)

    async def copy_package(self, tenant: str, sha256: str, target: str) -> None:
        await self._call(Console.copy_package, tenant, sha256, target)

    async def backup(self, environment: Ref, target: str, recipients: Sequence[str] = ()) -> BackupFacts:
        return await self._call(Console.backup, environment, target, recipients)

    async def backups(self) -> Sequence[BackupFacts]:
        return await self._call(Console.backups)

    async def restore(self, archive: str, namespace: str, name: str, trust: Trust = STRICT) -> Sequence[Applied]:
        return await self._call(Console.restore, archive, namespace, name, trust)

    async def token(self, username: str, ttl: timedelta) -> str:
        return await self._call(Console.token, username, ttl)

    async def _call(
        self, method: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]], *arguments: P.args, **named: P.kwargs
    ) -> R:
        timeout = WATCHING if method.__name__ in LONG else TIMEOUT
        body = await self._request("POST", f"/{method.__name__}", content=encoded(arguments), timeout=timeout)
        return cast(R, result_of(method, body))

    async def _request(self, method: str, path: str, **options: Any) -> bytes:
        with _told():
            response = await self._client.request(method, path, **options)
        _refuse_other_release(response)
        if response.status_code == HALTED:
            raise halt_from_json(response.json())
        if response.is_error:
            raise Failure(f"the running platform answered {response.status_code} to {method} {path}; its log says why")
        return response.content


def _refuse_other_release(response: httpx.Response) -> None:
    """Raise Halt unless the platform has our release. Its own refusal says the same."""
    if (theirs := response.headers.get(RELEASE, "")) != VERSION:
        raise other_release(VERSION, theirs)


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except httpx.TransportError as error:
        raise Failure(f"the running platform ended: {str(error) or type(error).__name__}") from error


async def _chunks(package: Path) -> AsyncIterator[bytes]:
    with await asyncio.to_thread(package.open, "rb") as file:
        while chunk := await asyncio.to_thread(file.read, CHUNK):
            yield chunk
