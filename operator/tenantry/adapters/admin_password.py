"""The password of an engine's `admin`, taken over from where it is declared whenever `admin` comes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from tenantry.model.facts import Password
from tenantry.model.resource import Ref
from tenantry.model.verdicts import Halt, Waiting
from tenantry.ports import Secrets

if TYPE_CHECKING:
    from tenantry.engine.service import Engine

KEY = "password"
PURPOSE = "environment"
Declared = Callable[[], Awaitable[Password | None]]
"""The password as it is declared now, None where it is not declared any more."""


class AdminPassword:
    """Keeps one engine's `admin` at the password that is declared."""

    def __init__(self, engine: Engine, declared: Declared) -> None:
        self._engine = engine
        self._declared = declared
        self._taken: str | None = None

    async def refresh(self) -> None:
        """Takes over a password that changed; without one `admin` keeps what it has. Raises Invalid, Halt."""
        password = await self._declared()
        if password is not None and password.fingerprint != self._taken:
            await self._engine.set_admin_password(password)
            self._taken = password.fingerprint


def in_secret(secrets: Secrets, secret: Ref) -> Declared:
    """The password in a tenant's Secret."""

    async def declared() -> Password | None:
        try:
            return await secrets.reveal(secret.namespace, secret.name, KEY, PURPOSE)
        except Halt as halt:
            if isinstance(halt.verdict, Waiting):
                return None
            raise

    return declared
