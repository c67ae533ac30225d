"""Opening of this host's engines, with the platform's keys and the admin password of the Secret."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from tenantry.adapters.admin_password import AdminPassword, Declared, in_secret
from tenantry.adapters.local.databases import Databases
from tenantry.adapters.local.folders import EngineRecord
from tenantry.adapters.local.hosting import OpenEngine
from tenantry.engine.sealing import TOKEN_KEY_FILE
from tenantry.oidc.tokens import ForeignTokens, foreign_tokens
from tenantry.packages.check import PackageLimits
from tenantry.ports import Secrets
from tenantry.rest.auth.throttle import Throttle
from tenantry.rest.auth.tokens import Verified
from tenantry.rest.fairness.lanes import Lanes, engine_sharing

if TYPE_CHECKING:
    from tenantry.engine.access import PlatformKeys
    from tenantry.engine.package_files import PackageOrigin
    from tenantry.engine.quota import EngineQuota


MOST_TOKENS = 4096
"""Tokens of all engines whose signature is not verified again, also after their engine was closed."""


class EngineOpener:
    """Opens engines for LocalHosting.

    facade_url: where the things declared in the engine of that environment are changed. public_url: of the host, where it is set.
    admin_of: finds the admin password of an engine; by default in its Secret. origin_of: has the packages of an engine by id.
    throttle: holds guesses back; by default one that counts in this process.
    """

    def __init__(
        self,
        secrets: Secrets,
        keys: PlatformKeys,
        facade_url: Callable[[str], str],
        databases: Databases | None = None,
        limits: PackageLimits | None = None,
        foreign: ForeignTokens | None = None,
        public_url: str = "",
        quota_of: Callable[[str], EngineQuota] | None = None,
        admin_of: Callable[[EngineRecord], Declared] | None = None,
        origin_of: Callable[[str], PackageOrigin] | None = None,
        throttle: Throttle | None = None,
    ) -> None:
        self._admin_of = admin_of or (lambda record: in_secret(secrets, record.admin_secret))
        self._databases = databases or Databases(secrets)
        self._keys = keys
        self._facade_url = facade_url
        self._public_url = public_url.rstrip("/")
        self._limits = limits
        self._quota_of = quota_of
        self._origin_of = origin_of
        # One for all: engines that trust the same issuer ask it once.
        self._foreign = foreign or foreign_tokens()
        # And an engine that is closed while it is idle keeps its counts of wrong passwords, and knows its tokens again.
        self._throttle = throttle or Throttle()
        self._verified = Verified(MOST_TOKENS)
        self._lanes = Lanes(engine_sharing(), "engines")
        self._imported = False

    async def __call__(self, record: EngineRecord, folder: Path) -> OpenEngine:
        await self._import()
        from tenantry.engine.access import KeyAtHand, Served
        from tenantry.engine.quota import EngineQuota
        from tenantry.engine.service import Engine

        id_ = record.ref.id
        lane = self._lanes.lane(record.ref.tenant_slug or record.ref.namespace, id_)
        quota = self._quota_of(id_) if self._quota_of is not None else EngineQuota()
        at_hand = KeyAtHand(folder / TOKEN_KEY_FILE)
        engine = await Engine.open(
            folder,
            database_url=await self._databases.url(record.spec),
            limits=self._limits,
            created_at=record.created_at,
            lane=lane,
            owner=id_,
            quota=quota,
            reach=self._databases.reach,
            origin=self._origin_of(id_) if self._origin_of is not None else None,
            beside=at_hand.read,
        )
        served = Served(
            engine=engine,
            key_file=folder / TOKEN_KEY_FILE,
            uid=id_,
            facade_url=self._facade_url(id_),
            platform=self._keys,
            refresh_admin=AdminPassword(engine, self._admin_of(record)).refresh,
            foreign=self._foreign,
            throttle=self._throttle,
            public_url=self._public_url_of(record),
            quota=quota,
            verified=self._verified if at_hand.is_named_by_itself else Verified(),
            key=at_hand.key,
        )
        return OpenEngine(served, engine.close, engine.live.end, lambda: engine.is_damaged)

    async def _import(self) -> None:
        """Import engines in a thread: the first one of a process takes 0.3 s. A platform starts without it."""
        if not self._imported:
            for module in ("tenantry.engine.service", "tenantry.engine.access"):
                await asyncio.to_thread(import_module, module)
            self._imported = True

    def _public_url_of(self, record: EngineRecord) -> str:
        if record.sent.url or not self._public_url:
            return record.sent.url
        return f"{self._public_url}/e/{record.ref.tenant_slug}/{record.ref.slug}"
