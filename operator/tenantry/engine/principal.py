"""The signed-in user of an engine."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from tenantry.engine.records import HeldIdentity
from tenantry.model.fields import is_engine_admin
from tenantry.model.verdicts import Unauthorized
from tenantry.rest.auth.passwords import is_remembered


class Unproven(Unauthorized):
    """A password that has to be checked in full, outside of a transaction."""

    def __init__(self) -> None:
        super().__init__("wrong username or password")


class IdentityGone(Unauthorized):
    """A token whose identity was deleted."""

    def __init__(self) -> None:
        super().__init__("the token is no longer valid: its identity was deleted")


class RowCaller(Protocol):
    """The sender of a request for rows."""

    @property
    def identity(self) -> tuple[str, str]:
        """The column and the value by which the transaction finds the identity; `""` for both if it is known."""

    def roles_of(self, held: HeldIdentity | None) -> Mapping[str, str]:
        """Return the roles by app. held: the identity that the transaction found.

        Raises Unauthorized, and Unproven when `proven` has to be asked first.
        """

    async def proven(self) -> RowCaller:
        """Return the caller after a full check of the password. Raises Unauthorized."""


@dataclass(frozen=True)
class Principal:
    """operator: the platform itself. foreign: signed in by an identity provider, whose names are not ours. roles: by app."""

    id: str
    username: str
    operator: bool = False
    foreign: bool = False
    roles: Mapping[str, str] = field(default_factory=dict)

    @property
    def administers(self) -> bool:
        return self.operator or (is_engine_admin(self.username) and not self.foreign)

    @property
    def identity(self) -> tuple[str, str]:
        """Nobody has to be found."""
        return "", ""

    def roles_of(self, held: HeldIdentity | None) -> Mapping[str, str]:
        """Return the roles that were found when the request came."""
        return self.roles

    async def proven(self) -> Principal:
        """Return the principal itself: it was verified when the request came."""
        return self


@dataclass(frozen=True)
class TokenHolder:
    """The holder of a token of this engine, whose identity is looked up in the transaction that serves the request.

    stamp: of the password with which the token was issued.
    """

    id: str
    stamp: str

    @property
    def identity(self) -> tuple[str, str]:
        """By its id."""
        return "id", self.id

    def roles_of(self, held: HeldIdentity | None) -> Mapping[str, str]:
        """Return the identity's roles. Raises Unauthorized for a token that has ended."""
        if held is None:
            raise IdentityGone
        self.require(held.stamp)
        return held.roles

    def require(self, stamp: str) -> None:
        """Raise Unauthorized if the password was changed since the token was issued. stamp: of the password now."""
        if stamp != self.stamp:
            raise Unauthorized("the token is no longer valid: the password was changed")

    async def proven(self) -> TokenHolder:
        """Return the holder itself: its token was verified."""
        return self


@dataclass(frozen=True)
class KnownPassword:
    """A user with a password that may have matched a short time ago. sign_in: checks it in full."""

    username: str
    password: str = field(repr=False)
    sign_in: Callable[[], Awaitable[Principal]] = field(repr=False)

    @property
    def identity(self) -> tuple[str, str]:
        """By its name, compared case-folded."""
        return "folded", self.username.casefold()

    def roles_of(self, held: HeldIdentity | None) -> Mapping[str, str]:
        """Return the user's roles. Raises Unproven unless this password matched the very hash that is stored."""
        if held is None or not is_remembered(held.hash, self.password):
            raise Unproven
        return held.roles

    async def proven(self) -> Principal:
        """Return the user after a full check."""
        return await self.sign_in()
