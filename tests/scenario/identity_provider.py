"""A real identity provider in a process of its own: oidc-provider-mock, at a loopback port."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import httpx

from tests.support.ports import free_port
from tests.support.waiting import eventually

USERS = (
    {"sub": "ada", "preferred_username": "ada", "email": "ada@example.com", "groups": ["everyone", "crm:reader"]},
    {"sub": "impostor", "preferred_username": "admin"},
)


class IdentityProvider:
    """The provider; each of its processes has a key of its own."""

    def __init__(self, users: Sequence[Mapping[str, object]] = USERS) -> None:
        self.users = users
        self._port = free_port()
        self._process: asyncio.subprocess.Process | None = None
        self._errors: asyncio.Task[str]
        self.url = f"http://127.0.0.1:{self._port}"

    async def start(self) -> None:
        """Returns once it answers."""
        users = [word for user in self.users for word in ("--user-claims", json.dumps(user))]
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "oidc_provider_mock", "--port", str(self._port), *users,
            stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        self._errors = asyncio.create_task(_last_of(self._process.stderr))
        async with httpx.AsyncClient() as client:
            await eventually(lambda: self._is_ready(client))

    async def _is_ready(self, client: httpx.AsyncClient) -> bool:
        assert self._process is not None
        assert self._process.returncode is None, await self._errors
        return await _answers(client, self.url)

    async def stop(self) -> None:
        """Ends its process."""
        assert self._process is not None
        self._process.terminate()
        await asyncio.gather(self._process.wait(), self._errors)


async def _last_of(errors: asyncio.StreamReader | None) -> str:
    """The end of what a process writes, read as it comes: a full pipe would stop it."""
    assert errors is not None
    last = b""
    while part := await errors.read(4096):
        last = (last + part)[-2000:]
    return last.decode("utf-8", "replace")


async def _answers(client: httpx.AsyncClient, url: str) -> bool:
    try:
        return (await client.get(f"{url}/.well-known/openid-configuration")).status_code == 200
    except httpx.TransportError:
        return False


async def authorized(location: str, sub: str) -> str:
    """The URL to which the provider sends the browser once `sub` has signed in there."""
    async with httpx.AsyncClient() as browser:
        answer = await browser.post(location, data={"sub": sub})
        assert answer.status_code == 302, answer.text
        target: str = answer.headers["location"]
        return target


@asynccontextmanager
async def provider_of(*users: Mapping[str, object]) -> AsyncIterator[IdentityProvider]:
    """A running provider that knows those users."""
    provider = IdentityProvider(users)
    await provider.start()
    try:
        yield provider
    finally:
        await provider.stop()


def trusting(url: str, folder: Path) -> dict[str, str]:
    """Settings of a platform to whose console the issuer signs people in. folder: for the client's secret."""
    secret = folder / "client-secret"
    secret.write_text("s3cret/+\n")
    issuer = {"issuer": url, "audience": "tenantry", "client_id": "console", "client_secret": str(secret), "name": "Example"}
    return {
        "TENANTRY_ISSUERS": json.dumps([issuer]),
        "TENANTRY_OUTBOUND__HTTP": "true",
        "TENANTRY_OUTBOUND__NETWORKS": "127.0.0.0/8",
    }
