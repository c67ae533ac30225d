"""The databases on servers that environments of this host declare, each by the URL in a Secret of its tenant."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tenantry.adapters.database_url import checked
from tenantry.model.facts import EngineSpec
from tenantry.ports import Secrets
from tenantry.rest.outbound import Rules, address_of

if TYPE_CHECKING:
    from tenantry.engine.sql.server_session import Reach

FOR_KIND = "environment"
PORT = 5432


class Databases:
    """Finds the URLs of databases. rules: which addresses their servers may have beside public ones."""

    kept_by_owner = True
    """True for databases that outlive their engines: those of tenants, which nobody but their owner drops."""

    def __init__(self, secrets: Secrets, rules: Rules | None = None) -> None:
        self._secrets = secrets
        self._reach: Reach = partial(address_of, rules=rules or Rules())
        self.reach: Reach | None = self._reach

    def mark(self, spec: EngineSpec) -> str:
        """Return a mark that differs between two URLs; `""` for SQLite, and while there is no Secret."""
        if not spec.database_secret:
            return ""
        return self._secrets.look(spec.ref.namespace, spec.database_secret, spec.database_key, FOR_KIND).fingerprint

    async def url(self, spec: EngineSpec) -> str | None:
        """Return the URL, None for SQLite. Raises a Stalled Halt (DatabaseUrlRefused), a Waiting Halt (the Secret)."""
        if not spec.database_secret:
            return None
        return await self._revealed(spec.ref.namespace, spec.database_secret, spec.database_key)

    async def pinned(self, spec: EngineSpec) -> str | None:
        """Return the same for programs that look names up by themselves: with the checked address. Raises Halt."""
        if not spec.database_secret:
            return None
        return await self.pinned_url(spec.ref.namespace, spec.database_secret, spec.database_key)

    async def pinned_url(self, namespace: str, secret: str, key: str) -> str:
        """Return the URL in that Secret, with the checked address. Raises Halt."""
        url = await self._revealed(namespace, secret, key)
        parts = urlsplit(url)
        address = await asyncio.to_thread(self._reach, parts.hostname or "", parts.port or PORT)
        return f"{url}{'&' if parts.query else '?'}hostaddr={address}"

    async def _revealed(self, namespace: str, secret: str, key: str) -> str:
        return checked((await self._secrets.reveal(namespace, secret, key, FOR_KIND)).clear)
