"""Who sends a request: bearer tokens of the platform's key, resolved to the living User each time, or of trusted issuers."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, cast, get_args

from starlette.requests import Request

from tenantry.api.facade import Keys
from tenantry.api.owners import Owners
from tenantry.api.trusted import Trusted, Vouched
from tenantry.engine.passwords import verify_password
from tenantry.kinds.tenant.spec import Tenant
from tenantry.kinds.user.spec import User
from tenantry.model.facts import Caller, Password
from tenantry.model.fields import Role
from tenantry.model.resource import SYSTEM_NAMESPACE
from tenantry.model.verdicts import Forbidden, Halt, Unauthorized
from tenantry.ports import Secrets
from tenantry.rest.sign_in import Basic
from tenantry.rest.throttle import Throttle
from tenantry.rest.tokens import LEEWAY
from tenantry.runtime.cache import Cache, Seen

AUDIENCE = "tenantry"
ROLES = frozenset(get_args(Role))
TOKENS_KEPT = 10_000
_LISTENED = frozenset({User.KIND, Tenant.KIND, "Secret"})


@dataclass(frozen=True)
class Principal:
    """A signed-in user. tenant_id, tenant_uid, namespace: of its tenant, `""` for a SUPERUSER; namespace also while it is not
    bound."""

    caller: Caller
    tenant_id: str = ""
    namespace: str = ""
    tenant_uid: str = ""

    @property
    def superuser(self) -> bool:
        return self.caller.role == "SUPERUSER"

    def require_superuser(self) -> None:
        """Raises Forbidden."""
        if not self.superuser:
            raise Forbidden("only a SUPERUSER may do this")

    def require_writer(self) -> None:
        """Raises Forbidden for a VIEWER."""
        if self.caller.role not in ("SUPERUSER", "ADMIN"):
            raise Forbidden(f"a {self.caller.role} may only read")


@dataclass(frozen=True)
class _Verified:
    """What a token said, until it ends (seconds since the epoch)."""

    user_id: str
    stamp: str
    ends: float


class Authenticator:
    """Signs users in, and tells who they are. A token ends with its user, and with any change of role, tenant or password."""

    def __init__(
        self, keys: Keys, cache: Cache, secrets: Secrets, now: Callable[[], datetime], trusted: Trusted | None = None
    ) -> None:
        self._keys = keys
        self._cache = cache
        self._owners = Owners(cache)
        self._secrets = secrets
        self._now = now
        self._trusted = trusted
        self._throttle = Throttle()
        self._verified: dict[bytes, _Verified] = {}
        self._living: dict[str, tuple[str, Principal]] = {}
        cache.listen(self._seen)

    async def principal(self, request: Request) -> Principal:
        """Who sends the request. Raises Unauthorized, and Unreachable for a trusted issuer that cannot be asked."""
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            raise Unauthorized("sign in first: a bearer token is required")
        if self._trusted is not None and self._trusted.issued(token):
            return self._vouched_for(await self._trusted.user(token))
        return self._of_platform(token)

    def _of_platform(self, token: str) -> Principal:
        verified = self._verify(token)
        living = self._living.get(verified.user_id)
        if living is None:
            living = self._living[verified.user_id] = self._resolve(verified.user_id)
        stamp, principal = living
        if not hmac.compare_digest(stamp, verified.stamp):
            raise Unauthorized("the token has ended: its user has changed")
        return principal

    async def sign_in(self, credentials: Basic, address: str) -> User:
        """The user with that name and password, in a time that does not tell which was wrong. Raises Unauthorized.

        Answers 429 to an address that guesses.
        """
        async with self._throttle.attempt("", credentials.username, address):
            return await self._signed_in(credentials)

    async def _signed_in(self, credentials: Basic) -> User:
        user = self._named(credentials.username)
        held = await self._password(user)
        matches = await verify_password(held.hash or None, credentials.password)
        if held.clear:
            matches = hmac.compare_digest(held.clear.encode(), credentials.password.encode(errors="surrogatepass"))
        if user is None or not matches:
            raise Unauthorized("wrong username or password")
        self._principal_of(user)
        return user

    def issue(self, user: User, ttl: timedelta) -> str:
        """A token for a user. Raises Unauthorized for one that may not sign in."""
        self._principal_of(user)
        return self._keys.sign({"sub": self._owners.id_of(user), "aud": AUDIENCE, "stamp": self._stamp(user)}, ttl)

    def _verify(self, token: str) -> _Verified:
        digest = hashlib.sha256(token.encode(errors="surrogatepass")).digest()
        held = self._verified.get(digest)
        if held is not None and held.ends > self._now().timestamp():
            return held
        claims = self._keys.verify(token, AUDIENCE)
        ends = float(claims["exp"]) + LEEWAY.total_seconds()
        held = _Verified(str(claims["sub"]), _text(claims, "stamp"), ends)
        if len(self._verified) >= TOKENS_KEPT:
            self._verified.clear()
        self._verified[digest] = held
        return held

    def _resolve(self, user_id: str) -> tuple[str, Principal]:
        for found in self._cache.resources(User.KIND, SYSTEM_NAMESPACE, f"id={user_id}"):
            user = cast(User, found)
            if self._owners.id_of(user) == user_id:
                return self._stamp(user), self._principal_of(user)
        raise Unauthorized("the token has ended: its user is gone")

    def _principal_of(self, user: User) -> Principal:
        spec = user.spec
        if spec.role not in ROLES:
            raise Unauthorized(f"the user's role {spec.role!r} is unknown")
        caller = Caller(self._owners.id_of(user), spec.username, spec.role, spec.tenant or "")
        if not spec.tenant:
            return Principal(caller)
        tenant = self._owners.named(spec.tenant)
        if tenant is None:
            raise Unauthorized("the user's tenant does not exist")
        if user.tenant_uid != tenant.metadata.uid:
            # Unless it was replaced, the next pass binds the user: that a name is the same lets nobody in.
            raise Unauthorized("the user does not belong to the tenant that now has this name")
        return self._within(tenant, caller)

    def _vouched_for(self, user: Vouched) -> Principal:
        """A SUPERUSER names no tenant, everybody else a living one."""
        if user.role not in ROLES:
            raise Unauthorized(f"the token's role {user.role[:40]!r} is unknown")
        if user.role == "SUPERUSER":
            if user.tenant_id:
                raise Unauthorized("a SUPERUSER has no tenant, but the token names one")
            return Principal(Caller(user.id, user.username, user.role))
        tenant = self._owners.with_id(user.tenant_id)
        if tenant is None:
            raise Unauthorized("the token's tenant does not exist")
        return self._within(tenant, Caller(user.id, user.username, user.role, tenant.metadata.name))

    def _within(self, tenant: Tenant, caller: Caller) -> Principal:
        bound = tenant.status.namespace
        return Principal(caller, self._owners.id_of(tenant), bound.name if bound else "", tenant.metadata.uid)

    def _stamp(self, user: User) -> str:
        """Changes with everything that ends a user's tokens."""
        secret = user.spec.password_secret_ref
        facts = self._secrets.look(SYSTEM_NAMESPACE, secret.name, secret.key, "user")
        about = (user.metadata.uid, user.spec.role, user.tenant_uid, facts.state, facts.fingerprint)
        return hashlib.sha256("\0".join(about).encode()).hexdigest()[:32]

    def _named(self, username: str) -> User | None:
        """Who holds the username; the older before its claim is settled."""
        by = f"claim={username.casefold()}"
        users = [cast(User, found) for found in self._cache.resources(User.KIND, SYSTEM_NAMESPACE, by)]
        ranked = sorted(users, key=lambda u: (not u.status.claimed, u.metadata.creation_timestamp, u.metadata.uid))
        return ranked[0] if ranked else None

    async def _password(self, user: User | None) -> Password:
        if user is None:
            return Password()
        secret = user.spec.password_secret_ref
        try:
            return await self._secrets.reveal(SYSTEM_NAMESPACE, secret.name, secret.key, "user")
        except Halt:
            return Password()  # it cannot sign in without one, which its condition says

    def _seen(self, seen: Seen) -> None:
        if seen.ref.kind in _LISTENED:
            self._living.clear()


def _text(claims: Mapping[str, Any], name: str) -> str:
    value = claims.get(name)
    if not isinstance(value, str):
        raise Unauthorized(f"the token carries no {name}")
    return value
