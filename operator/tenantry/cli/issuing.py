"""Tokens of the facade, for the master of the state folder."""

from __future__ import annotations

import difflib
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import cast

from tenantry.adapters.store.secrets import StoreSecrets
from tenantry.api.authentication import Authenticator
from tenantry.bootstrap.embedded import Platform
from tenantry.bootstrap.seat import now
from tenantry.kinds.user.spec import User
from tenantry.model.resource import SYSTEM_NAMESPACE
from tenantry.model.verdicts import NotFound


def issuer(platform: Platform) -> Callable[[str, timedelta], Awaitable[str]]:
    """hosts.console.Tokens of a platform of this process."""
    secrets = StoreSecrets(platform.writing, platform.cache.document, platform.ports.fingerprint_key)
    authenticator = Authenticator(platform.keys, platform.cache, secrets, now)

    async def issue(username: str, ttl: timedelta) -> str:
        return authenticator.issue(_holder(platform, username), ttl)

    return issue


def _holder(platform: Platform, username: str) -> User:
    """The User who holds that name. Raises NotFound."""
    users = [cast(User, each) for each in platform.cache.resources(User.KIND, SYSTEM_NAMESPACE)]
    named = [user for user in users if user.spec.username.casefold() == username.casefold()]
    if named:
        return min(named, key=lambda user: (not user.status.claimed, str(user.metadata.creation_timestamp), user.metadata.uid))
    near = difflib.get_close_matches(username, [user.spec.username for user in users], n=1)
    raise NotFound(f"there is no user {username}" + (f"; did you mean {near[0]}?" if near else ""))
