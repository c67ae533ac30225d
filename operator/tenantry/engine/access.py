"""Rights at one engine: `admin`, the operator, and everybody else."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol

from joserfc.jwk import OKPKey
from starlette.requests import Request
from starlette.types import Scope

from tenantry.engine.data.counting import BY_OPERATOR
from tenantry.engine.data.signing import DataEngine, Sender
from tenantry.engine.oidc.sign_in import ExternalSignIn, Federation
from tenantry.engine.principal import IdentityGone, KnownPassword, Principal, RowCaller, TokenHolder
from tenantry.engine.quota import EngineQuota
from tenantry.model.facts import EngineIdentity
from tenantry.model.fields import is_engine_admin
from tenantry.model.quotas import QuotaReached
from tenantry.model.verdicts import Forbidden, NotFound, Unauthorized
from tenantry.oidc.tokens import ForeignTokens, claimed_issuer, foreign_tokens
from tenantry.ports import EngineAdmin
from tenantry.rest.auth.sign_in import TOKEN_TTL, Basic, Bearer, credentials_of
from tenantry.rest.auth.throttle import Throttle, address_of
from tenantry.rest.auth.tokens import Claims, Verified, holds, key_id, new_key, read_key, sign, write_key
from tenantry.rest.bodies import invalid
from tenantry.rest.disk import writing_to_disk

ISSUER = "tenantry-engine"
READS = frozenset({"GET", "HEAD"})
MOST_HOLDERS = 256
"""Holders of tokens that one engine knows by their credentials, as they were sent."""
_COUNTED = "tenantry.counted"
"""In the scope of a request that its engine's quota has counted: its refusal, or None."""


class ServedEngine(EngineAdmin, DataEngine, Federation, Protocol):
    """The server's view of an engine, besides its administration."""

    async def authenticate(self, username: str, password: str) -> tuple[EngineIdentity, str]:
        """The identity with that password, and its stamp as `identity` has it. Raises Unauthorized."""

    async def identity(self, id_: str) -> tuple[EngineIdentity, str]:
        """The identity with that id, and a stamp that changes with its password. Raises NotFound."""

    async def check_whole(self) -> None:
        """Raises a Halt if a request found the database damaged."""

    async def content(self, app: str) -> Path | None:
        """The folder of the static files of an installed app, or None."""


class PlatformKeys(Protocol):
    """The public keys of the platform."""

    def holds(self, kid: str) -> bool:
        """Return True if a key of the platform has that id."""

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
    throttle: holds guesses back, of all engines of the process. verified: knows tokens whose signature was verified, also of
    engines that are closed. public_url: where browsers reach the engine, as it is declared; as each request says where empty.
    quota: its limits. key: that of key_file, if it was read.
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
    quota: EngineQuota = field(default_factory=EngineQuota)
    verified: Verified = field(default_factory=Verified, repr=False)
    key: OKPKey | None = field(default=None, repr=False)
    _keying: asyncio.Lock = field(default_factory=asyncio.Lock, repr=False)
    _holders: dict[bytes, tuple[Claims, TokenHolder]] = field(default_factory=dict, repr=False)

    async def principal(self, request: Request) -> Principal:
        """Return the sender of the request. Raises Unauthorized."""
        match credentials_of(request):
            case Basic(username, password):
                return await self._by_password(username, password, address_of(request))
            case Bearer(token):
                return await self._bearer(token)

    async def caller(self, request: Request) -> Principal:
        """Return the sender of the request; users of an external identity provider count too. Raises Unauthorized, Forbidden.

        Non-admin routes only: /admin accepts neither cookies nor tokens of other issuers.
        """
        if "authorization" not in request.headers:
            return await self.external.by_session(request)
        match credentials_of(request):
            case Bearer(token) if claimed_issuer(token) not in ("", ISSUER) and not self._of_platform(token):
                return await self.external.by_token(token)
        return await self.principal(request)

    async def data_caller(self, request: Request) -> RowCaller:
        """Return the sender of a request for rows. An identity of this engine is looked up with the rows. Raises Unauthorized,
        Forbidden for the platform; answers 429 to an address that guesses."""
        if "authorization" in request.headers:
            match credentials_of(request):
                case Basic(username, password) if not is_engine_admin(username):
                    address = address_of(request)
                    self.throttle.check(self.uid, username, address)
                    return KnownPassword(username, password, partial(self._by_password, username, password, address))
                case Bearer(token) if claimed_issuer(token) == ISSUER and not self._of_platform(token):
                    return await self._holder(token)
        principal = await self.caller(request)
        if principal.operator:
            raise Forbidden("the platform has no access to the rows of apps")
        return principal

    def remembered(self, authorization: bytes) -> TokenHolder | None:
        """Return the holder of a token whose signature was verified a short time ago; None if `data_caller` has to decide.

        authorization: the header, as it was sent.
        """
        found = self._holders.get(authorization)
        if found is not None and holds(found[0], time.time()):
            return found[1]
        scheme, _, token = authorization.decode("latin-1").partition(" ")
        if self.key is None or scheme.lower() != "bearer":
            return None
        claims = self.verified.at_hand(token, self.key, ISSUER, self._audience)
        # The password of `admin` may have to be taken over first.
        if claims is None or is_engine_admin(str(claims.get("name"))) or self._of_platform(token):
            return None
        holder = TokenHolder(str(claims["sub"]), str(claims.get("stamp")))
        if len(self._holders) >= MOST_HOLDERS:
            self._holders.clear()
        self._holders[authorization] = claims, holder
        return holder

    @property
    def reads_now(self) -> bool:
        """Return True if the engine's rows may be read in the event loop, as Remembering."""
        return self.engine.rows.reads_now

    def remembered_sender(self, scope: Scope, authorization: bytes) -> Sender | None:
        """Return the engine and the holder of a token that was verified a short time ago, as Remembering."""
        holder = self.remembered(authorization)
        if holder is None:
            return None
        try:
            self.quota.admit()
        except QuotaReached as refusal:
            scope[_COUNTED] = refusal
            return None
        scope[_COUNTED] = None
        return self.engine, holder

    @property
    def external(self) -> ExternalSignIn:
        """Sign-in through external identity providers."""
        return ExternalSignIn(self.engine, self.foreign, self._own_key, self.uid, self.public_url)

    async def sign_in(self, username: str, password: str, address: str) -> tuple[EngineIdentity, str]:
        """Return the identity with that password, and its stamp. Raises Unauthorized; answers 429 to an address that guesses."""
        async with self.throttle.attempt(self.uid, username, address):
            if is_engine_admin(username):
                await self.refresh_admin()
            return await self.engine.authenticate(username, password)

    async def issue(self, identity: EngineIdentity, stamp: str) -> str:
        """Return a token of this engine for an identity. stamp: of the password that signed in; another one ends the token."""
        claims = {"iss": ISSUER, "aud": self._audience, "sub": identity.id, "name": identity.username, "stamp": stamp}
        return sign(await self._own_key(), claims, TOKEN_TTL)

    @property
    def _audience(self) -> str:
        return f"engine:{self.uid}"

    async def _by_password(self, username: str, password: str, address: str) -> Principal:
        identity, _ = await self.sign_in(username, password, address)
        return _principal(identity)

    async def _bearer(self, token: str) -> Principal:
        if self.platform and self._of_platform(token):
            claims = self.platform.verify(token, self._audience)
            return Principal(str(claims["sub"]), "operator", operator=True)
        holder = await self._holder(token)
        try:
            identity, stamp = await self.engine.identity(holder.id)
        except NotFound:
            raise IdentityGone from None
        holder.require(stamp)
        return _principal(identity)

    async def _holder(self, token: str) -> TokenHolder:
        """Return the holder of a token that this engine issued. Raises Unauthorized."""
        key = await self._own_key()
        claims = self.verified.claims(token, key, ISSUER, self._audience)
        if is_engine_admin(str(claims.get("name"))):
            await self.refresh_admin()
        return TokenHolder(str(claims["sub"]), str(claims.get("stamp")))

    def _of_platform(self, token: str) -> bool:
        try:
            return self.platform is not None and self.platform.holds(key_id(token))
        except Unauthorized:  # it names no key
            return False

    async def _own_key(self) -> OKPKey:
        async with self._keying:  # two that make one at once would end the tokens of the first
            if self.key is None:
                self.key = await asyncio.to_thread(_load_or_create, self.key_file)
            return self.key


def _principal(identity: EngineIdentity) -> Principal:
    return Principal(identity.id, identity.username, roles=identity.roles)


class KeyAtHand:
    """The key of an engine's own tokens, read beside other work of a thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.key: OKPKey | None = None
        self.is_named_by_itself = False
        """True if its `kid` is its thumbprint, so that no other key has the same one."""

    def read(self) -> None:
        """Read it, if it is there. Who needs a damaged one gets the reason. Blocks."""
        try:
            key = read_key(self._path)
        except (OSError, ValueError):
            return
        self.key, self.is_named_by_itself = key, key.kid == key.thumbprint()


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
    if principal.operator:
        request.scope[BY_OPERATOR] = True
    else:
        served.quota.admit()
    if served.facade_url and not principal.operator and request.method not in READS:
        raise invalid("", f"this engine is managed; make the change at {served.facade_url}")
    return served.engine


async def operator_of(served: Served, request: Request) -> EngineAdmin:
    """The engine, for the operator, or for `admin` where no operator manages it. Raises Unauthorized, Forbidden."""
    principal = await served.principal(request)
    if principal.operator:
        request.scope[BY_OPERATOR] = True
    if principal.operator or (principal.administers and not served.facade_url):
        return served.engine
    raise Forbidden("only the platform's operator may ask this")


async def data_caller_of(served: Served, request: Request) -> tuple[ServedEngine, RowCaller]:
    """The engine, and who asks for rows. Raises Unauthorized, Forbidden for the platform, whose rows they are not."""
    if _COUNTED not in request.scope:
        served.quota.admit()
    elif (refusal := request.scope[_COUNTED]) is not None:
        raise refusal
    return served.engine, await served.data_caller(request)
