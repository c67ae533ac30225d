"""An engine with an app, and a real identity provider that signs in to it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from ipaddress import ip_network
from pathlib import Path
from typing import NamedTuple

import httpx
from starlette.types import ASGIApp, Receive, Scope, Send

from tenantry.engine.access import Served
from tenantry.engine.server import engine_app
from tenantry.engine.service import Engine
from tenantry.model.facts import EngineIdentityProvider, IdentityProviderSettings, Password
from tenantry.oidc.issuers import Issuers
from tenantry.oidc.tokens import ForeignTokens
from tenantry.packages.build import build
from tenantry.rest.outbound import Outbound, Rules
from tenantry.rest.uploads import Uploads
from tests.scenario.data_world import DATA, MANIFEST
from tests.scenario.identity_provider import IdentityProvider
from tests.scenario.serving import serving

LOOPBACK = Rules(http=True, networks=(ip_network("127.0.0.0/8"),))
CONTACTS = f"{DATA}/contacts"
ROOT = "/e/acme/dev"


class World(NamedTuple):
    """An engine, its URL, its provider, a clock that only `later` moves, the provider's process, and how it is served.

    `restart` opens the engine anew: `engine` and `served` are the ones of before.
    """

    engine: Engine
    url: str
    provider: EngineIdentityProvider
    later: Callable[[float], None]
    process: IdentityProvider
    served: Served
    restart: Callable[[], Awaitable[None]]

    async def edit(self, **changes: object) -> None:
        settings = replace(self.provider.settings, **changes)  # type: ignore[arg-type]
        await self.engine.edit_identity_provider(self.provider.id, settings, None)

    def browser(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(base_url=self.url)


@asynccontextmanager
async def sign_in_world(tmp_path: Path, database_url: str | None = None) -> AsyncIterator[World]:
    """Both processes, until the end of the block. database_url: of the engine's database; SQLite in its folder where None."""
    now = [0.0]

    def later(seconds: float) -> None:
        now[0] += seconds

    (tmp_path / "source" / "content").mkdir(parents=True)
    (tmp_path / "source" / "content" / "index.html").write_text("<title>CRM</title><h1>Contacts</h1>")
    (tmp_path / "source" / "app.yaml").write_text(MANIFEST)
    build(tmp_path / "source", tmp_path / "crm.tapp")
    (tmp_path / "incoming").mkdir()
    async with AsyncExitStack() as stack:
        process = IdentityProvider()
        await process.start()
        stack.push_async_callback(process.stop)
        engine = await Engine.open(tmp_path / "data", database_url=database_url)
        await engine.publish(tmp_path / "crm.tapp")
        roles = {"crm": "editor"}
        settings = IdentityProviderSettings("corp", process.url, "tenantry-dev", "openid profile email phone", True, True, roles)
        provider = await engine.add_identity_provider(settings, Password(clear="s3cret/+"))
        tokens = ForeignTokens(Issuers(Outbound(LOOPBACK), clock=lambda: now[0]))
        running, key = [engine], tmp_path / "data" / "key.jwk"
        served = [Served(engine, key, foreign=tokens)]

        async def restart() -> None:
            await running.pop().close()
            running.append(await Engine.open(tmp_path / "data", database_url=database_url))
            served[:] = [Served(running[0], key, foreign=tokens)]

        app = engine_app(lambda request: served[0], Uploads(tmp_path / "incoming"))
        url = await stack.enter_async_context(serving(_below(app)))
        yield World(engine, url, provider, later, process, served[0], restart)
        await running[0].close()


def _below(app: ASGIApp) -> ASGIApp:
    """The engine at the root, and once more below a path, as the engines of one machine are."""

    async def routed(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, "root_path": ROOT if scope["path"].startswith(ROOT) else ""}, receive, send)

    return routed
