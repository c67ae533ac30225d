"""The cookies of browsers that sign in: signed by the engine, of no use as bearer tokens, and never enough for a foreign page."""

from __future__ import annotations

import secrets
from datetime import timedelta
from typing import Any

from joserfc.jwk import OKPKey
from starlette.requests import Request
from starlette.responses import Response

from tenantry.model.verdicts import Forbidden, Unauthorized
from tenantry.oidc.flow import Attempt
from tenantry.rest.auth.tokens import LEEWAY, Claims, sign, verify

SESSION, LOGIN = "tenantry_session", "tenantry_login"
SESSION_TTL, LOGIN_TTL = timedelta(hours=8), timedelta(minutes=10)
ISSUER = "tenantry-engine"
SAFE = frozenset({"GET", "HEAD"})


def root_of(request: Request) -> str:
    """The path below which this engine is, `""` at the server's root."""
    return str(request.scope.get("root_path", "")).rstrip("/")


def base_url_of(request: Request) -> str:
    """The engine's URL as the browser sees it, without a final slash."""
    return f"{request.url.scheme}://{request.url.netloc}{root_of(request)}"


def set_attempt(response: Response, request: Request, attempt: Attempt, key: OKPKey, uid: str, *, secure: bool) -> None:
    """Gives the browser its sign-in under way."""
    claims = {"sub": attempt.provider, **{name: value for name, value in vars(attempt).items() if name != "provider"}}
    _set(response, request, LOGIN, f"login:{uid}", claims, LOGIN_TTL, key, secure=secure)


def attempt_of(request: Request, key: OKPKey, uid: str) -> Attempt:
    """The sign-in that this browser began. Raises Unauthorized."""
    claims = _read(request, LOGIN, f"login:{uid}", key)
    return Attempt(claims["sub"], claims["state"], claims["nonce"], claims["verifier"], claims["next"])


def set_session(
    response: Response, request: Request, identity: str, provider: str, key: OKPKey, uid: str, *, secure: bool
) -> None:
    """Signs the browser in, and ends the attempt."""
    claims = {"sub": identity, "provider": provider, "jti": secrets.token_urlsafe(24)}
    _set(response, request, SESSION, f"session:{uid}", claims, SESSION_TTL, key, secure=secure)
    clear(response, request, LOGIN, secure=secure)


def session_of(request: Request, key: OKPKey, uid: str, *, secure: bool) -> Claims:
    """The session of this browser: `sub`, `provider`, `jti`. Raises Unauthorized, Forbidden for a write from a foreign page.

    secure: as of `check_origin`."""
    claims = _read(request, SESSION, f"session:{uid}", key)
    if not isinstance(claims.get("jti"), str):
        raise Unauthorized("the session was made by an older version: sign in again")
    if request.method not in SAFE:
        check_origin(request, secure=secure)
    return claims


def end_of(session: Claims) -> int:
    """Return the end of a session's cookie, in seconds since the epoch."""
    return int(session["exp"] + LEEWAY.total_seconds()) + 1


def check_origin(request: Request, *, secure: bool) -> None:
    """Raises Forbidden unless a page of this very origin sends the request. secure: browsers reach the engine by https."""
    origin = request.headers.get("origin", "")
    own = request.url.netloc
    # A proxy may end TLS before us; a page without TLS may not write to an engine with it.
    if origin != f"https://{own}" and (secure or origin != f"http://{own}"):
        raise Forbidden("a write by cookie must come from a page of this engine: its Origin is another")


def clear(response: Response, request: Request, name: str, *, secure: bool) -> None:
    """Takes a cookie away."""
    response.delete_cookie(name, path=f"{root_of(request)}/", secure=secure, httponly=True, samesite="lax")


def _set(
    response: Response, request: Request, name: str, audience: str, claims: Any, ttl: timedelta, key: OKPKey, *, secure: bool
) -> None:
    response.set_cookie(
        name,
        sign(key, {"iss": ISSUER, "aud": audience, **claims}, ttl),
        max_age=int(ttl.total_seconds()),
        path=f"{root_of(request)}/",
        secure=secure,
        httponly=True,
        samesite="lax",
    )


def _read(request: Request, name: str, audience: str, key: OKPKey) -> Claims:
    cookie = request.cookies.get(name)
    if not cookie:
        raise Unauthorized("sign in first")
    return verify(cookie, {str(key.kid): key}, ISSUER, audience)
