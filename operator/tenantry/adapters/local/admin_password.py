"""The password of an engine's `admin`, taken over from the tenant's Secret whenever `admin` comes."""

from __future__ import annotations

from tenantry.engine.service import Engine
from tenantry.model.resource import Ref
from tenantry.model.verdicts import Halt, Waiting
from tenantry.ports import Secrets

KEY = "password"
PURPOSE = "environment"


class AdminPassword:
    """Keeps one engine's `admin` at the password of its Secret."""

    def __init__(self, engine: Engine, secrets: Secrets, secret: Ref) -> None:
        self._engine = engine
        self._secrets = secrets
        self._secret = secret
        self._taken: str | None = None

    async def refresh(self) -> None:
        """Takes over a password that changed; without its Secret `admin` keeps the one it has. Raises Invalid, Halt."""
        try:
            password = await self._secrets.reveal(self._secret.namespace, self._secret.name, KEY, PURPOSE)
        except Halt as halt:
            if isinstance(halt.verdict, Waiting):
                return
            raise
        if password.fingerprint != self._taken:
            await self._engine.set_admin_password(password)
            self._taken = password.fingerprint
