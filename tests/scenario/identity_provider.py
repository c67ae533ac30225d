"""A real identity provider: oidc-provider-mock, at a loopback port. It serves from threads of the test's process.

A process of its own takes a second to import it, for each of some thirty tests.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import httpx

from tests.support.ports import free_port

if TYPE_CHECKING:
    from werkzeug.serving import BaseWSGIServer

USERS = (
    {"sub": "ada", "preferred_username": "ada", "email": "ada@example.com", "groups": ["everyone", "crm:reader"]},
    {"sub": "impostor", "preferred_username": "admin"},
)


class IdentityProvider:
    """The provider; each of its starts has a key of its own."""

    def __init__(self, users: Sequence[Mapping[str, object]] = USERS) -> None:
        self.users = users
        self._port = free_port()
        self._server: BaseWSGIServer | None = None
        self.url = f"http://127.0.0.1:{self._port}"

    async def start(self) -> None:
        """Returns once it answers."""
        self._server = await asyncio.to_thread(_server_of, self.users, self._port)
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    async def stop(self) -> None:
        """Returns once nothing listens there any more."""
        assert self._server is not None
        await asyncio.to_thread(self._server.shutdown)
        self._server.server_close()


def _server_of(users: Sequence[Mapping[str, object]], port: int) -> BaseWSGIServer:
    # Few modules of tests want it, and it takes half a second.
    from oidc_provider_mock import User, app
    from werkzeug.middleware.proxy_fix import ProxyFix
    from werkzeug.serving import make_server

    os.environ["AUTHLIB_INSECURE_TRANSPORT"] = "1"
    known = [User(sub=str(user["sub"]), claims={name: user[name] for name in user if name != "sub"}) for user in users]
    # Behind a proxy, its issuer has the scheme that people use.
    return make_server("127.0.0.1", port, ProxyFix(app(user_claims=known)), threaded=True)


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
