"""A whole platform behind the facade, for tests: real store, runtime and engines, without a socket."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
from prometheus_client.exposition import generate_latest

from tenantry.adapters.store.memory import MemoryStore
from tenantry.api.app import create_app
from tenantry.bootstrap.embedded import Platform
from tenantry.kinds.admission import Admission
from tenantry.model.resource import API_VERSION, CREDENTIAL_LABEL, SYSTEM_NAMESPACE

PASSWORD = "a long password"
BASE = "http://platform"


@dataclass
class World:
    """The platform, and clients of it by user."""

    platform: Platform
    http: httpx.AsyncClient
    tokens: dict[str, str]

    async def __call__(self, user: str, method: str, path: str, **options: Any) -> httpx.Response:
        """A request of that user; `""` sends none of its own credentials."""
        headers = dict(options.pop("headers", {}))
        if user:
            headers["Authorization"] = f"Bearer {await self.token(user)}"
        url = (
            path
            if path == "/" or path.startswith(("/engines", "/healthz", "/.well", "/readyz", "/docs", "/open"))
            else f"/api/v1{path}"
        )
        return await self.http.request(method, url, headers=headers, **options)

    async def token(self, user: str) -> str:
        if user not in self.tokens:
            form = {"username": user, "password": PASSWORD}
            answer = await self.http.post("/api/v1/auth/token", data=form)
            assert answer.status_code == 200, answer.text
            self.tokens[user] = answer.json()["access_token"]
        return self.tokens[user]

    async def tenant(self, slug: str) -> str:
        """A tenant with an ADMIN `<slug>-admin` and a VIEWER `<slug>-viewer`; its id."""
        made = await self("root", "POST", "/tenants", json={"name": slug.upper(), "slug": slug})
        assert made.status_code == 201, made.text
        for role in ("ADMIN", "VIEWER"):
            body = {"username": f"{slug}-{role.lower()}", "password": PASSWORD, "tenantId": made.json()["id"], "type": role}
            user = await self("root", "POST", "/users", json=body)
            assert user.status_code == 201, user.text
        return str(made.json()["id"])

    async def environment(self, tenant_slug: str, slug: str, wait: bool = True) -> dict[str, Any]:
        """An environment of a tenant in region `here`, READY."""
        headers = {"Prefer": "wait=60"} if wait else {}
        body = {"name": slug.upper(), "slug": slug, "region": "here"}
        made = await self(f"{tenant_slug}-admin", "POST", "/environments", json=body, headers=headers)
        assert made.status_code == 202, made.text
        answer: dict[str, Any] = made.json()
        return answer


async def declare(
    platform: Platform, kind: str, name: str, spec: Mapping[str, Any], namespace: str = "", **metadata: Any
) -> None:
    """Creates an object as kubectl would."""
    where = {"namespace": namespace} if namespace else {}
    document = {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name, **where, **metadata}, "spec": dict(spec)}
    await platform.state.writing.create(document)


async def declare_user(platform: Platform, username: str, role: str, tenant: str = "") -> None:
    """A User with its password in a Secret, in clear, as a person would write it."""
    data = {"password": base64.b64encode(PASSWORD.encode()).decode()}
    metadata = {"name": f"{username}-password", "namespace": SYSTEM_NAMESPACE, "labels": {CREDENTIAL_LABEL: "user"}}
    await platform.state.writing.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data})
    spec = {"username": username, "role": role, "passwordSecretRef": {"name": f"{username}-password"}}
    await declare(platform, "User", username, spec | ({"tenant": tenant} if tenant else {}), SYSTEM_NAMESPACE)


@asynccontextmanager
async def world_in(state: Path, *, durable: bool = False, **changes: Any) -> AsyncIterator[World]:
    """A running platform with a SUPERUSER `root` and a region `here`. durable: on SQLite; changes: of the facade."""
    platform = await Platform.open(state, BASE, None if durable else MemoryStore(Admission()))
    app = create_app(replace(platform.facade, **changes))
    await platform.start()
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url=BASE, timeout=60) as http:
        try:
            await declare(platform, "Region", "here", {"displayName": "Here"})
            await declare_user(platform, "root", "SUPERUSER")
            yield World(platform, http, {})
        finally:
            await platform.close()


def numbers(world: World) -> str:
    """Return the answer of the platform at its address of metrics."""
    return generate_latest(world.platform.numbers()).decode()


SHORT_WAIT: dict[str, Any] = {"engine_wait": timedelta(seconds=3)}
