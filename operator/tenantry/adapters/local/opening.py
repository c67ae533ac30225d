"""How an engine of this host is opened: with the platform's keys, and with the admin password of its Secret."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tenantry.adapters.admin_password import AdminPassword, in_secret
from tenantry.adapters.local.folders import EngineRecord
from tenantry.adapters.local.hosting import OpenEngine
from tenantry.engine.access import PlatformKeys, Served
from tenantry.engine.lanes import Lanes, engine_sharing
from tenantry.engine.oidc.tokens import ForeignTokens, foreign_tokens
from tenantry.engine.packages.check import Limits
from tenantry.engine.service import Engine
from tenantry.ports import Secrets
from tenantry.rest.throttle import Throttle


class EngineOpener:
    """Opens engines for LocalHosting.

    facade_url: where the things declared in the engine of that environment are changed. public_url: of the host, where it is set.
    """

    def __init__(
        self,
        secrets: Secrets,
        keys: PlatformKeys,
        facade_url: Callable[[str], str],
        limits: Limits | None = None,
        foreign: ForeignTokens | None = None,
        public_url: str = "",
    ) -> None:
        self._secrets = secrets
        self._keys = keys
        self._facade_url = facade_url
        self._public_url = public_url.rstrip("/")
        self._limits = limits
        # One for all: engines that trust the same issuer ask it once.
        self._foreign = foreign or foreign_tokens()
        # And an engine that is closed while it is idle forgets nobody's guesses.
        self._throttle = Throttle()
        self._lanes = Lanes(engine_sharing(), "engines")

    async def __call__(self, record: EngineRecord, folder: Path) -> OpenEngine:
        lane = self._lanes.lane(record.ref.tenant_slug or record.ref.namespace, record.ref.id)
        id_ = record.ref.id
        engine = await Engine.open(folder, limits=self._limits, created_at=record.created_at, lane=lane, owner=id_)
        served = Served(
            engine=engine,
            key_file=folder / "token-key.jwk",
            uid=record.ref.id,
            facade_url=self._facade_url(record.ref.id),
            platform=self._keys,
            refresh_admin=AdminPassword(engine, in_secret(self._secrets, record.admin_secret)).refresh,
            foreign=self._foreign,
            throttle=self._throttle,
            public_url=f"{self._public_url}/e/{record.ref.tenant_slug}/{record.ref.slug}" if self._public_url else "",
        )
        return OpenEngine(served, engine.close)
