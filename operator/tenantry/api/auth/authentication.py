"""Authentication of requests: bearer tokens of the platform's key, resolved to the living User each time, or of trusted
issuers."""

from __future__ import annotations

import base64
import hashlib
import hmac
import math
import secrets
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple, cast, get_args

from starlette.requests import Request

from tenantry.api.auth.issuer_sessions import RECORD, signed_out_of
from tenantry.api.auth.tenant_lookup import Owners
from tenantry.api.auth.trusted_issuers import Trusted, Vouched
from tenantry.api.facade import Keys
from tenantry.kinds.tenant.spec import Tenant
from tenantry.kinds.user.sessions import Session, SignedOut, signed_out
from tenantry.kinds.user.spec import User
from tenantry.model.facts import Caller, Password
from tenantry.model.fields import Role
from tenantry.model.resource import SYSTEM_NAMESPACE, Ref
from tenantry.model.verdicts import Forbidden, Halt, Unauthorized
from tenantry.ports import Secrets
from tenantry.rest.auth.passwords import verify_password
from tenantry.rest.auth.sign_in import Basic
from tenantry.rest.auth.throttle import Throttle
from tenantry.rest.auth.tokens import LEEWAY
from tenantry.rest.bodies import header_of, invalid
from tenantry.runtime.cache import Cache, Seen

AUDIENCE = "tenantry"
ROLES = frozenset(get_args(Role))
TOKENS_KEPT = 10_000
_LISTENED = frozenset({User.KIND, Tenant.KIND, "Secret"})


@dataclass(frozen=True)
class SignedInUser:
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
    """The claims of a token until its end, in seconds since the epoch. vouched: the person whom the issuer of that key signed
    in, None for a User."""

    user_id: str
    stamp: str
    session: str
    ends: float
    vouched: Vouched | None = None
    issuer: str = ""


class _Living(NamedTuple):
    """A user as it is now. ended: its sessions that were signed out."""

    user: Ref
    stamp: str
    ended: Collection[str]
    principal: SignedInUser


class Authenticator:
    """Sign users in and authenticate their requests. A token ends at its sign-out, with its user, and with any change of
    role, tenant or password."""

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
        self._living: dict[str, _Living] = {}
        self._ended: SignedOut | None = None
        cache.listen(self._seen)

    async def principal(self, request: Request) -> SignedInUser:
        """Return the sender of the request. Raises Unauthorized, and Unreachable for a trusted issuer that cannot be
        reached."""
        token = _token_of(request)
        if self._trusted is not None and self._trusted.issued(token):
            return self._vouched_for(await self._trusted.user(token))
        return self._of_platform(token)

    def session(self, request: Request) -> Session:
        """The session of a request's token. Raises Unauthorized, and Invalid for a token of a trusted issuer."""
        token = _token_of(request)
        if self._trusted is not None and self._trusted.issued(token):
            raise invalid("", "the token comes from another issuer: sign out there")
        verified = self._verify(token)
        if verified.vouched is not None:
            self._of_issuer(verified)
            return Session(RECORD, verified.session, math.ceil(verified.ends))
        return Session(self._lives(verified.user_id).user, verified.session, math.ceil(verified.ends))

    def _of_platform(self, token: str) -> SignedInUser:
        verified = self._verify(token)
        if verified.vouched is not None:
            return self._of_issuer(verified)
        living = self._lives(verified.user_id)
        if verified.session in living.ended:
            raise Unauthorized("the token is no longer valid: it was signed out")
        if not hmac.compare_digest(living.stamp, verified.stamp):
            raise Unauthorized("the token is no longer valid: its user was changed")
        return living.principal

    def _of_issuer(self, verified: _Verified) -> SignedInUser:
        """The person of a session that an issuer's sign-in began. It ends with the issuer, with the tenant, and by a sign-out."""
        assert verified.vouched is not None
        if self._trusted is None or verified.issuer not in self._trusted.sign_ins:
            raise Unauthorized("the session is no longer valid: its issuer no longer signs anybody in")
        if self._ended is None:
            self._ended = signed_out_of(self._cache)
        if verified.session in self._ended.sessions or verified.stamp != str(self._ended.round):
            raise Unauthorized("the token is no longer valid: it was signed out")
        return self._vouched_for(verified.vouched)

    def _lives(self, user_id: str) -> _Living:
        living = self._living.get(user_id)
        if living is None:
            living = self._living[user_id] = self._resolve(user_id)
        return living

    async def sign_in(self, credentials: Basic, address: str) -> User:
        """The user with that name and password, in a time that does not tell which was wrong. Raises Unauthorized.

        Answers 429 to an address that guesses.
        """
        async with self._throttle.attempt("", credentials.username, address):
            return await self._signed_in(credentials)

    async def _signed_in(self, credentials: Basic) -> User:
        user = self._named(credentials.username)
        stamp = self._stamp(user) if user is not None else ""
        held = await self._password(user)
        matches = await verify_password(held.hash or None, credentials.password)
        if held.clear:
            matches = hmac.compare_digest(held.clear.encode(), credentials.password.encode(errors="surrogatepass"))
        # If the password changed during the comparison, a token would outlive the change.
        if user is None or not matches or self._stamp(user) != stamp:
            raise Unauthorized("wrong username or password")
        self._principal_of(user)
        return user

    def issue(self, user: User, ttl: timedelta) -> str:
        """A token for a user. Raises Unauthorized for one that may not sign in."""
        self._principal_of(user)
        claims = {"sub": self._owners.id_of(user), "aud": AUDIENCE, "stamp": self._stamp(user)}
        return self._keys.sign(claims | {"jti": secrets.token_urlsafe(12)}, ttl)

    def issue_to(self, user: Vouched, issuer: str, ttl: timedelta) -> str:
        """A token for a person whom the issuer of that key signed in. Raises Unauthorized for one without rights here."""
        self._vouched_for(user)
        claims = {"sub": user.id, "aud": AUDIENCE, "stamp": str(signed_out_of(self._cache).round), "issuer": issuer}
        return self._keys.sign(claims | {"vouched": asdict(user), "jti": secrets.token_urlsafe(12)}, ttl)

    def _verify(self, token: str) -> _Verified:
        digest = hashlib.sha256(token.encode(errors="surrogatepass")).digest()
        held = self._verified.get(digest)
        if held is not None and held.ends > self._now().timestamp():
            return held
        claims = self._keys.verify(token, AUDIENCE)
        ends = float(claims["exp"]) + LEEWAY.total_seconds()
        vouched = Vouched(**claims["vouched"]) if "vouched" in claims else None
        held = _Verified(
            str(claims["sub"]), _text(claims, "stamp"), _session_of(token), ends, vouched, str(claims.get("issuer", ""))
        )
        if len(self._verified) >= TOKENS_KEPT:
            self._verified.clear()
        self._verified[digest] = held
        return held

    def _resolve(self, user_id: str) -> _Living:
        for found in self._cache.resources(User.KIND, SYSTEM_NAMESPACE, f"id={user_id}"):
            user = cast(User, found)
            if self._owners.id_of(user) == user_id:
                ended = signed_out(user.metadata.annotations).sessions
                return _Living(user.ref, self._stamp(user), ended, self._principal_of(user))
        raise Unauthorized("the token is no longer valid: its user was deleted")

    def _principal_of(self, user: User) -> SignedInUser:
        spec = user.spec
        if spec.role not in ROLES:
            raise Unauthorized(f"the user's role {spec.role!r} is unknown")
        caller = Caller(self._owners.id_of(user), spec.username, spec.role, spec.tenant or "")
        if not spec.tenant:
            return SignedInUser(caller)
        tenant = self._owners.named(spec.tenant)
        if tenant is None:
            raise Unauthorized("the user's tenant does not exist")
        if user.tenant_uid != tenant.metadata.uid:
            # Unless it was replaced, the next pass binds the user: that a name is the same lets nobody in.
            raise Unauthorized("the user does not belong to the tenant that now has this name")
        return self._within(tenant, caller)

    def _vouched_for(self, user: Vouched) -> SignedInUser:
        """A SUPERUSER names no tenant, everybody else a living one."""
        if user.role not in ROLES:
            raise Unauthorized(f"the token's role {user.role[:40]!r} is unknown")
        if user.role == "SUPERUSER":
            if user.tenant_id:
                raise Unauthorized("a SUPERUSER has no tenant, but the token names one")
            return SignedInUser(Caller(user.id, user.username, user.role))
        tenant = self._owners.with_id(user.tenant_id)
        if tenant is None:
            raise Unauthorized("the token's tenant does not exist")
        return self._within(tenant, Caller(user.id, user.username, user.role, tenant.metadata.name))

    def _within(self, tenant: Tenant, caller: Caller) -> SignedInUser:
        return SignedInUser(caller, self._owners.id_of(tenant), tenant.bound_namespace, tenant.metadata.uid)

    def _stamp(self, user: User) -> str:
        """Changes with everything that ends a user's tokens."""
        secret = user.spec.password_secret_ref
        facts = self._secrets.look(SYSTEM_NAMESPACE, secret.name, secret.key, "user")
        about = [user.metadata.uid, user.spec.role, user.tenant_uid, facts.state, facts.fingerprint]
        if ended_rounds := signed_out(user.metadata.annotations).round:
            about.append(str(ended_rounds))
        return hashlib.sha256("\0".join(about).encode()).hexdigest()[:32]

    def _named(self, username: str) -> User | None:
        """Return the holder of the username; the older one before its claim is settled."""
        by = f"claim={username.casefold()}"
        users = [cast(User, found) for found in self._cache.resources(User.KIND, SYSTEM_NAMESPACE, by)]
        ranked = sorted(users, key=lambda u: (not u.status.claimed, u.metadata.creation_timestamp, u.metadata.uid))
        return ranked[0] if ranked else None

    async def _password(self, user: User | None) -> Password:
        """The password that lets the user in. Empty where there is none that may, which the user's condition says."""
        if user is None:
            return Password()
        secret = user.spec.password_secret_ref
        if self._secrets.look(SYSTEM_NAMESPACE, secret.name, secret.key, "user").fault:
            return Password()
        try:
            return await self._secrets.reveal(SYSTEM_NAMESPACE, secret.name, secret.key, "user")
        except Halt:
            return Password()

    def _seen(self, seen: Seen) -> None:
        if seen.ref.kind in _LISTENED:
            self._living.clear()
            self._ended = None


def _token_of(request: Request) -> str:
    """Raises Unauthorized."""
    scheme, _, token = (header_of(request, b"authorization") or "").partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or not token:
        raise Unauthorized("sign in first: a bearer token is required")
    return token


def _session_of(token: str) -> str:
    """The id of a token's session, by the part that is signed: the text of a signature can be written in several ways."""
    digest = hashlib.sha256(token.rpartition(".")[0].encode()).digest()
    return base64.urlsafe_b64encode(digest[:12]).decode()


def _text(claims: Mapping[str, Any], name: str) -> str:
    value = claims.get(name)
    if not isinstance(value, str):
        raise Unauthorized(f"the token has no {name}")
    return value
