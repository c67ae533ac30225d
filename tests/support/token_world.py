"""A platform and an issuer of tokens that it does not trust."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from tenantry.engine.access import Served
from tenantry.engine.server import engine_app
from tenantry.engine.service import Engine
from tenantry.model.facts import EngineIdentityProvider, IdentityProviderSettings, Password
from tenantry.oidc.issuers import Issuers
from tenantry.oidc.tokens import ForeignTokens
from tenantry.packages.build import build
from tenantry.rest.outbound import Outbound
from tenantry.rest.uploads import Uploads
from tests.scenario.data_world import DATA, MANIFEST
from tests.scenario.serving import serving
from tests.security.forging import (
    CLIENT,
    FOREIGN,
    LOOPBACK,
    Issuer,
    published,
)


@dataclass
class World:
    """later: moves the clock of the engine's look-ups by seconds."""

    client: httpx.AsyncClient
    engine: Engine
    issuer: Issuer
    other: Issuer
    providers: list[EngineIdentityProvider]
    later: Callable[[float], None]
    claims: dict[str, Any] = field(default_factory=dict)

    async def status(self, token: str) -> int:
        return (await self.client.get(f"{DATA}/contacts", headers={b"Authorization": f"Bearer {token}".encode()})).status_code


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    now = [0.0]

    def later(seconds: float) -> None:
        now[0] += seconds

    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "app.yaml").write_text(MANIFEST)
    build(tmp_path / "source", tmp_path / "crm.tapp")
    (tmp_path / "incoming").mkdir()
    engine = await Engine.open(tmp_path / "data")
    await engine.publish(tmp_path / "crm.tapp")
    served = Served(engine, tmp_path / "key.jwk", foreign=ForeignTokens(Issuers(Outbound(LOOPBACK), clock=lambda: now[0])))
    issuer, other = Issuer(keys=published()), Issuer(keys=[FOREIGN.as_dict(private=False)])
    app = engine_app(lambda request: served, Uploads(tmp_path / "incoming"))
    async with serving(issuer.app()) as first, serving(other.app()) as second, serving(app) as url:
        issuer.url, other.url = first, second
        providers = [
            await engine.add_identity_provider(
                IdentityProviderSettings(name, at, CLIENT, auto_provision=True, default_roles={"crm": "reader"}), Password()
            )
            for name, at in (("first", first), ("second", second))
        ]
        async with httpx.AsyncClient(base_url=url, timeout=30) as client:
            yield World(client, engine, issuer, other, providers, later)
    await engine.close()
