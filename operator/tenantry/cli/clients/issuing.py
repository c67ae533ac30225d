"""Tokens of the facade, for the master of the state folder."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING, cast

from tenantry.adapters.store.secrets import StoreSecrets
from tenantry.bootstrap.embedded import Platform
from tenantry.kinds.user.spec import User
from tenantry.model.resource import SYSTEM_NAMESPACE
from tenantry.model.verdicts import NotFound
from tenantry.model.wording import did_you_mean
from tenantry.runtime.clock import now

if TYPE_CHECKING:
    from tenantry.api.auth.authentication import Authenticator

_PREFIXES = ("", "user", SYSTEM_NAMESPACE, f"user/{SYSTEM_NAMESPACE}")
"""The beginnings of a name of a User object, as messages and `get -o name` write it."""


def issuer(platform: Platform) -> Callable[[str, timedelta], Awaitable[str]]:
    """hosts.console.Tokens of a platform of this process."""
    secrets = StoreSecrets(platform.state.writing, platform.state.cache.document, platform.ports.fingerprint_key)

    @cache
    def authenticator() -> Authenticator:
        from tenantry.api.auth.authentication import Authenticator  # with the facade, which `up` imports after its first answer

        return Authenticator(platform.state.keys, platform.state.cache, secrets, now)

    async def issue(username: str, ttl: timedelta) -> str:
        return authenticator().issue(_holder(platform, username), ttl)

    return issue


def _holder(platform: Platform, username: str) -> User:
    """The User who holds that name. Raises NotFound."""
    users = [cast(User, each) for each in platform.state.cache.resources(User.KIND, SYSTEM_NAMESPACE)]
    named = [user for user in users if user.spec.username.casefold() == username.casefold()]
    if named:
        return min(named, key=lambda user: (not user.status.claimed, str(user.metadata.creation_timestamp), user.metadata.uid))
    raise NotFound(f"there is no user {username}{hint_for(username, users)}")


def hint_for(username: str, users: Sequence[User]) -> str:
    """Return what follows a username that nobody has, or `""`: the one of the User object that was named, or the nearest.

    It may name any user. Only the master of the state folder reads it, who may have a token of each of them.
    """
    prefix, _, name = username.rpartition("/")
    if prefix.casefold() in _PREFIXES:
        for user in users:
            if user.metadata.name == name:
                return f"; user/{name} has the username {user.spec.username}: write --user {user.spec.username}"
    return did_you_mean(username, [user.spec.username for user in users])
