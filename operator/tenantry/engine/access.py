"""Who may do what at one engine: `admin`, the operator, and everybody else."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from joserfc.jwk import OKPKey
from starlette.requests import Request

from tenantry.engine.data.routes import DataEngine
from tenantry.engine.oidc.sign_in import ExternalSignIn, Federation
from tenantry.engine.oidc.tokens import ForeignTokens, claimed_issuer, foreign_tokens
from tenantry.engine.principal import Principal
from tenantry.model.facts import EngineIdentity
from tenantry.model.fields import is_engine_admin
from tenantry.model.verdicts import Forbidden, NotFound, Unauthorized
from tenantry.ports import EngineAdmin
from tenantry.rest.bodies import invalid
from tenantry.rest.disk import writing_to_disk
from tenantry.rest.sign_in import TOKEN_TTL, Basic, Bearer, credentials_of
from tenantry.rest.throttle import Throttle, address_of
from tenantry.rest.tokens import Claims, key_id, new_key, read_key, sign, verify, write_key

ISSUER = "tenantry-engine"
READS = frozenset({"GET", "HEAD"})


class ServedEngine(EngineAdmin, DataEngine, Federation, Protocol):
    """What the server asks of an engine beside its administration."""

    async def authenticate(self, username: str, password: str) -> EngineIdentity:
        """The identity with that password. Raises Unauthorized."""

    async def identity(self, id_: str) -> tuple[EngineIdentity, str]:
        """The identity with that id, and a stamp that changes with its password. Raises NotFound."""

    async def content(self, app: str) -> Path | None:
        """The folder of the static files of an installed app, or None."""


class PlatformKeys(Protocol):
    """The public keys of the platform."""

    def holds(self, kid: str) -> bool:
        """Whether a key of the platform has that id."""

    def verify(self, token: str, audience: str) -> Claims:
        """The claims of a token for that audience. Raises Unauthorized."""


async def _nothing() -> None:
    return None


@dataclass
class Served:
    """One engine as the server presents it.

    uid: the environment's id, `""` standalone. facade_url: where a managed engine's declared things are changed, `""` for a
    standalone engine. platform: whose tokens the operator signs in with. refresh_admin: called before `admin` is let in;
    it takes over the password that was declared meanwhile. foreign: verifies the tokens of external identity providers.
    throttle: holds guesses back, of all engines of the process. public_url: where browsers reach the engine, as it is declared;
    as each request says where empty.
    """

    engine: ServedEngine
    key_file: Path
    uid: str = ""
    facade_url: str = ""
    platform: PlatformKeys | None = None
    refresh_admin: Callable[[], Awaitable[None]] = _nothing
    foreign: ForeignTokens = field(default_factory=foreign_tokens)
    throttle: Throttle = field(default_factory=Throttle)
    public_url: str = ""
    _key: OKPKey | None = field(default=None, repr=False)

    async def principal(self, request: Request) -> Principal:
        """Who sends the request. Raises Unauthorized."""
        match credentials_of(request):
            case Basic(username, password):
                return _principal(await self.sign_in(username, password, address_of(request)))
            case Bearer(token):
                return await self._bearer(token)

    async def caller(self, request: Request) -> Principal:
        """Who sends the request; also whom an external identity provider vouches for. Raises Unauthorized, Forbidden.

        For what is not administration: that takes neither cookies nor the word of others.
        """
        if "authorization" not in request.headers:
            return await self.external.by_session(request)
        match credentials_of(request):
            case Bearer(token) if claimed_issuer(token) not in ("", ISSUER) and not self._of_platform(token):
                return await self.external.by_token(token)
        return await self.principal(request)

    @property
    def external(self) -> ExternalSignIn:
        """Sign-in through external identity providers."""
        return ExternalSignIn(self.engine, self.foreign, self._own_key, self.uid, self.public_url)

    async def sign_in(self, username: str, password: str, address: str) -> EngineIdentity:
        """The identity with that password. Raises Unauthorized; answers 429 to an address that guesses."""
        async with self.throttle.attempt(self.uid, username, address):
            if is_engine_admin(username):
                await self.refresh_admin()
            return await self.engine.authenticate(username, password)

    async def issue(self, identity: EngineIdentity) -> str:
        """A token of this engine for an identity."""
        _, stamp = await self.engine.identity(identity.id)
        claims = {"iss": ISSUER, "aud": self._audience, "sub": identity.id, "name": identity.username, "stamp": stamp}
        return sign(await self._own_key(), claims, TOKEN_TTL)

    @property
    def _audience(self) -> str:
        return f"engine:{self.uid}"

    async def _bearer(self, token: str) -> Principal:
        if self.platform and self._of_platform(token):
            claims = self.platform.verify(token, self._audience)
            return Principal(str(claims["sub"]), "operator", operator=True)
        key = await self._own_key()
        claims = verify(token, {str(key.kid): key}, ISSUER, self._audience)
        if is_engine_admin(str(claims.get("name"))):
            await self.refresh_admin()
        try:
            identity, stamp = await self.engine.identity(str(claims["sub"]))
        except NotFound:
            raise Unauthorized("the token has ended: its identity is gone") from None
        if stamp != claims.get("stamp"):
            raise Unauthorized("the token has ended: the password was changed")
        return _principal(identity)

    def _of_platform(self, token: str) -> bool:
        try:
            return self.platform is not None and self.platform.holds(key_id(token))
        except Unauthorized:  # it names no key
            return False

    async def _own_key(self) -> OKPKey:
        if self._key is None:
            self._key = await asyncio.to_thread(_load_or_create, self.key_file)
        return self._key


def _principal(identity: EngineIdentity) -> Principal:
    return Principal(identity.id, identity.username, roles=identity.roles)


def _load_or_create(path: Path) -> OKPKey:
    try:
        return read_key(path)
    except FileNotFoundError:
        with writing_to_disk():
            write_key(path, new_key())
        return read_key(path)


async def admin_of(served: Served, request: Request) -> EngineAdmin:
    """The engine, for a caller who may do this on /admin. Raises Unauthorized, Forbidden, Invalid (managed elsewhere)."""
    principal = await served.principal(request)
    if not principal.administers:
        raise Forbidden(f"{principal.username} does not administer this engine; admin does")
    if served.facade_url and not principal.operator and request.method not in READS:
        raise invalid("", f"this engine is managed; make the change at {served.facade_url}")
    return served.engine


async def operator_of(served: Served, request: Request) -> EngineAdmin:
    """The engine, for the operator, or for `admin` where no operator manages it. Raises Unauthorized, Forbidden."""
    principal = await served.principal(request)
    if principal.operator or (principal.administers and not served.facade_url):
        return served.engine
    raise Forbidden("only the platform's operator may ask this")


async def data_caller_of(served: Served, request: Request) -> tuple[ServedEngine, Principal]:
    """The engine, and who asks for rows. Raises Unauthorized, Forbidden for the platform, whose rows they are not."""
    principal = await served.caller(request)
    if principal.operator:
        raise Forbidden("the platform has no access to the rows of apps")
    return served.engine, principal
