"""Package bytes and logs that the api keeps, as the operator reaches them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import orjson

from tenantry.adapters.fetched import FetchedPackages
from tenantry.model.facts import PackageFacts
from tenantry.model.quotas import QuotaReached
from tenantry.model.verdicts import Halt, Invalid, NotFound, Problem, Transient
from tenantry.packages.check import sha256_of
from tenantry.rest.auth.tokens import TokenSigner
from tenantry.rest.blobs import AUDIENCE, LOGS, PACKAGES, QUOTA, SHARED

TOKEN_TTL = timedelta(minutes=5)
TIMEOUT = httpx.Timeout(30.0, connect=5.0)
CHUNK = 1 << 20


class RemoteBlobs:
    """ports.Packages and ports.OperationLogs over the api's internal routes. `scratch`: a folder of ours; it exists."""

    def __init__(
        self, base_url: str, signer: TokenSigner, scratch: Path, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        self._signer = signer
        self._fetched = FetchedPackages(scratch)
        self._client = httpx.AsyncClient(base_url=base_url, timeout=TIMEOUT, transport=transport, trust_env=False)

    async def aclose(self) -> None:
        """Closes the connections."""
        await self._client.aclose()

    async def inspect(self, tenant: str, sha256: str) -> PackageFacts | None:
        try:
            answer = await self._send("GET", f"{_package(tenant, sha256)}/facts")
        except NotFound:
            return None
        return _facts(answer)

    async def put(self, tenant: str, package: Path, checked: PackageFacts | None = None) -> PackageFacts:
        sha256 = checked.sha256 if checked else await asyncio.to_thread(sha256_of, package)
        return _facts(await self._send("PUT", _package(tenant, sha256), content=_chunks(package)))

    async def fetch(self, tenant: str, sha256: str) -> Path:
        """Asked for at the api each time, for a tenant may have lost it; its bytes come over once."""
        if await self.inspect(tenant, sha256) is None:
            raise NotFound(f"package {sha256} is not stored for {tenant or 'all tenants'}")
        found = await self._fetched.find(sha256)
        return found or await self._fetched.take(sha256, self._bytes(_package(tenant, sha256)))

    async def remove(self, tenant: str, sha256: str) -> None:
        await self._send("DELETE", _package(tenant, sha256))

    async def remove_all(self, tenant: str) -> None:
        await self._send("DELETE", f"{PACKAGES}/{quote(tenant or SHARED)}")

    async def append(self, operation: str, before: str, added: str) -> None:
        await self._send("POST", f"{LOGS}/{quote(operation)}", content=orjson.dumps({"before": before, "added": added}))

    async def read(self, operation: str) -> str | None:
        try:
            return (await self._send("GET", f"{LOGS}/{quote(operation)}")).text
        except NotFound:
            return None

    async def forget(self, operation: str) -> None:
        """Removes a log. Idempotent."""
        await self._send("DELETE", f"{LOGS}/{quote(operation)}")

    async def _send(self, method: str, path: str, content: Any = None) -> httpx.Response:
        try:
            answer = await self._client.request(method, path, content=content, headers=self._headers())
        except httpx.TransportError as error:
            raise _unreachable(error) from error
        _check(answer)
        return answer

    async def _bytes(self, path: str) -> AsyncIterator[bytes]:
        try:
            async with self._client.stream("GET", path, headers=self._headers()) as answer:
                if answer.status_code >= 400:
                    await answer.aread()
                    _check(answer)
                async for chunk in answer.aiter_bytes(CHUNK):
                    yield chunk
        except httpx.TransportError as error:
            raise _unreachable(error) from error

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._signer.sign({'sub': 'operator', 'aud': AUDIENCE}, TOKEN_TTL)}"}


class RemoteLogs:
    """ports.OperationLogs over RemoteBlobs."""

    def __init__(self, blobs: RemoteBlobs) -> None:
        self.append = blobs.append
        self.read = blobs.read
        self.remove = blobs.forget


def _package(tenant: str, sha256: str) -> str:
    return f"{PACKAGES}/{quote(tenant or SHARED)}/{quote(sha256)}"


def _facts(answer: httpx.Response) -> PackageFacts:
    value = answer.json()
    return PackageFacts(**value | {"roles": tuple(value["roles"])})


async def _chunks(path: Path) -> AsyncIterator[bytes]:
    with path.open("rb") as file:
        while chunk := await asyncio.to_thread(file.read, CHUNK):
            yield chunk


def _check(answer: httpx.Response) -> None:
    """Raises NotFound, Invalid, or a Transient Halt for everything that the api may do better at next time."""
    if answer.status_code < 400:
        return
    try:
        told = str(answer.json()["error"])
    except (ValueError, KeyError, TypeError):
        told = f"the api answered {answer.status_code}"
    if answer.status_code == 404:
        raise NotFound(told)
    if quota := answer.headers.get(QUOTA):
        raise QuotaReached(quota, told)
    if answer.status_code in (400, 413):
        raise Invalid((Problem("package", told),))
    raise Halt(Transient("ApiUnavailable", told))


def _unreachable(error: httpx.TransportError) -> Halt:
    return Halt(Transient("ApiUnreachable", f"the api keeps packages and logs, and is not reached: {error}"))
