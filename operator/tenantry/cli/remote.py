"""Console over a control socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import orjson

from tenantry.cli.failing import Failure
from tenantry.hosts.console import About, Applied, Approved, KeptBack, PlanReport, SourceReport
from tenantry.hosts.control import HALTED, halt_from_json
from tenantry.model.facts import BackupFacts, PackageFacts
from tenantry.model.resource import Document, Ref
from tenantry.ports import Event
from tenantry.runtime.planned import Step

TIMEOUT = httpx.Timeout(300.0, connect=5.0)
WATCHING = httpx.Timeout(None, connect=5.0)
CHUNK = 1 << 20


class RemoteConsole:
    """hosts.console.Console over HTTP; see hosts/control.py."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    @classmethod
    def at(cls, socket: Path) -> RemoteConsole:
        """The console behind a socket. Nothing is sent yet."""
        transport = httpx.AsyncHTTPTransport(uds=str(socket))
        return cls(httpx.AsyncClient(transport=transport, base_url="http://tenantry", timeout=TIMEOUT, trust_env=False))

    async def close(self) -> None:
        await self._client.aclose()

    async def about(self) -> About:
        body = await self._call("GET", "/about")
        return About(**{**body, "faults": tuple(body["faults"])})

    async def list(self, kind: str) -> Sequence[Document]:
        documents: list[Document] = await self._call("GET", f"/objects/{kind}")
        return documents

    async def get(self, ref: Ref) -> Document:
        document: Document = await self._call("GET", "/object", params=ref._asdict())
        return document

    async def watch(self, kind: str) -> AsyncIterator[Event]:
        with _told():
            async with self._client.stream("GET", f"/watch/{kind}", timeout=WATCHING) as response:
                async for line in response.aiter_lines():
                    event = orjson.loads(line)
                    if "halt" in event:
                        raise halt_from_json(event)
                    yield Event.of(event["type"], event["document"])
        raise Failure("the running platform has ended")

    async def apply(self, document: Document) -> Applied:
        applied = await self._call("POST", "/objects", content=orjson.dumps(document))
        return Applied(Ref(*applied["ref"]), applied["outcome"])

    async def patch(self, ref: Ref, patch: Document) -> Document:
        document: Document = await self._call("PATCH", "/object", params=ref._asdict(), content=orjson.dumps(patch))
        return document

    async def delete(self, ref: Ref) -> Document:
        document: Document = await self._call("DELETE", "/object", params=ref._asdict())
        return document

    async def log(self, operation: str) -> str:
        return (await self._request("GET", f"/logs/{operation}")).text

    async def source(self) -> SourceReport:
        return _report(await self._call("GET", "/source"))

    async def sync(self, source: str) -> SourceReport:
        return _report(await self._call("POST", f"/sources/{source}/sync"))

    async def plan(self, source: str, name: str) -> PlanReport:
        body = await self._call("POST", "/plan", content=orjson.dumps({"source": source, "name": name}))
        verdicts = tuple((each[0], each[1], each[2]) for each in body["verdicts"])
        kept = tuple(KeptBack(*each) for each in body["kept"])
        steps = tuple(Step(*each) for each in body["steps"])
        return PlanReport(tuple(body["changes"]), verdicts, body["digest"], tuple(body["problems"]), kept, steps)

    async def apply_plan(self, plan: Approved) -> Sequence[KeptBack]:
        kept = await self._call("POST", "/planned", content=orjson.dumps([*plan]), timeout=WATCHING)
        return tuple(KeptBack(**each) for each in kept)

    async def approve(self, source: str) -> Sequence[str]:
        approved: list[str] = await self._call("POST", f"/sources/{source}/approval")
        return approved

    async def put_package(self, tenant: str, package: Path) -> PackageFacts:
        return _facts(await self._call("POST", "/packages", params={"tenant": tenant}, content=_chunks(package)))

    async def find_package(self, tenant: str, sha256: str) -> PackageFacts | None:
        facts = await self._call("GET", f"/packages/{sha256}", params={"tenant": tenant})
        return _facts(facts) if facts else None

    async def copy_package(self, tenant: str, sha256: str, target: str) -> None:
        await self._call("POST", f"/packages/{sha256}/copy", content=orjson.dumps({"tenant": tenant, "target": target}))

    async def backup(self, environment: Ref, target: str) -> BackupFacts:
        body = orjson.dumps({"environment": [*environment], "target": target})
        return BackupFacts(**await self._call("POST", "/backups", content=body, timeout=WATCHING))

    async def backups(self) -> Sequence[BackupFacts]:
        return tuple(BackupFacts(**each) for each in await self._call("GET", "/backups"))

    async def restore(self, archive: str, namespace: str, name: str) -> Sequence[Applied]:
        body = orjson.dumps({"archive": archive, "namespace": namespace, "name": name})
        restored = await self._call("POST", "/restores", content=body, timeout=WATCHING)
        return tuple(Applied(Ref(*each["ref"]), each["outcome"]) for each in restored)

    async def token(self, username: str, ttl: timedelta) -> str:
        body = {"username": username, "ttl_s": ttl.total_seconds()}
        return str(await self._call("POST", "/token", content=orjson.dumps(body)))

    async def _call(self, method: str, path: str, **options: Any) -> Any:
        return orjson.loads((await self._request(method, path, **options)).content)

    async def _request(self, method: str, path: str, **options: Any) -> httpx.Response:
        with _told():
            response = await self._client.request(method, path, **options)
        if response.status_code == HALTED:
            raise halt_from_json(response.json())
        if response.is_error:
            raise Failure(f"the running platform answered {response.status_code} to {method} {path}; its log says why")
        return response


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except httpx.TransportError as error:
        raise Failure(f"the running platform went away: {error or type(error).__name__}") from error


def _report(body: dict[str, Any]) -> SourceReport:
    waiting = tuple((each[0], each[1]) for each in body["waiting"])
    kept = tuple(KeptBack(*each) for each in body["kept"])
    return SourceReport(
        **{**body, "problems": tuple(body["problems"]), "kept": kept, "waiting": waiting, "exposed": tuple(body["exposed"])}
    )


def _facts(body: dict[str, Any]) -> PackageFacts:
    return PackageFacts(**{**body, "roles": tuple(body["roles"])})


async def _chunks(package: Path) -> AsyncIterator[bytes]:
    with await asyncio.to_thread(package.open, "rb") as file:
        while chunk := await asyncio.to_thread(file.read, CHUNK):
            yield chunk
