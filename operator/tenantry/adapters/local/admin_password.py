"""The password of an engine's `admin`, taken over from the tenant's Secret whenever `admin` comes."""

from __future__ import annotations

import asyncio

from tenantry.model.resource import Ref
from tenantry.ports import EngineAdmin, Secrets

KEY = "password"
PURPOSE = "environment"


class AdminPassword:
    """Keeps one engine's `admin` at the password of its Secret, without asking the engine while the Secret stays."""

    def __init__(self, engine: EngineAdmin, secrets: Secrets, secret: Ref) -> None:
        self._engine = engine
        self._secrets = secrets
        self._secret = secret
        self._lock = asyncio.Lock()
        self._taken = ""

    async def refresh(self) -> None:
        """Takes over a password that changed. Without the Secret `admin` keeps the last one. Raises Invalid, Halt."""
        async with self._lock:
            place = (self._secret.namespace, self._secret.name, KEY, PURPOSE)
            seen = self._secrets.look(*place)
            if not seen.fingerprint or seen.fingerprint == self._taken:
                return
            if await self._engine_mark() != seen.fingerprint:
                await self._engine.set_password("admin", await self._secrets.reveal(*place))
            self._taken = seen.fingerprint

    async def _engine_mark(self) -> str:
        return next((one.fingerprint for one in await self._engine.identities() if one.username == "admin"), "")
