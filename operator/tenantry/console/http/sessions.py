"""Sessions of browsers: a token of the platform in a cookie that only the console reads."""

from __future__ import annotations

import hashlib
import hmac
import re
from base64 import b64encode
from collections.abc import AsyncGenerator
from datetime import timedelta
from urllib.parse import parse_qsl

from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request
from starlette.responses import Response

from tenantry.api.auth.authentication import SignedInUser
from tenantry.api.facade_context import FacadeContext
from tenantry.console.http.origins import check_origin, safe
from tenantry.model.verdicts import Forbidden, Unauthorized
from tenantry.rest.auth.destinations import climbs
from tenantry.rest.bodies import JSON_LIMIT, invalid, read_bytes

BASE = "/console"
LIFE = timedelta(hours=8)
CSRF = "csrf"
FIELDS = 50
"""Fields of a form, at most."""
SESSION, ATTEMPT = "console", "sign-in"
_NEXT = re.compile(r"/console/[A-Za-z0-9._~?=&%+-]*(?:/[A-Za-z0-9._~?=&%+-]+)*/?")


class Sessions:
    """Opens and reads sessions. REST knows nothing of them: it takes no cookies."""

    def __init__(self, context: FacadeContext) -> None:
        self._context = context
        self._key = hmac.digest(context.facade.mark_key, b"console csrf", "sha256")

    def signed(self, request: Request) -> Request:
        """The request as REST would get it: with the session's token as its bearer token. Raises Unauthorized."""
        token = request.cookies.get(_cookie(request), "") if safe(request) else ""
        if not token:
            raise Unauthorized("sign in first")
        kept = [each for each in request.scope["headers"] if each[0] != b"authorization"]
        headers = [*kept, (b"authorization", b"Bearer " + token.encode("latin-1"))]
        return Request({**request.scope, "headers": headers}, request.receive)

    async def principal(self, request: Request) -> SignedInUser:
        """The signed-in user, as FacadeContext.enter has it. Raises Unauthorized, QuotaReached."""
        return await self._context.enter(self.signed(request))

    def csrf(self, request: Request) -> str:
        """The token that each form of this session carries."""
        token = request.cookies.get(_cookie(request), "")
        return hmac.new(self._key, token.encode("latin-1", "replace"), hashlib.sha256).hexdigest()

    async def form(self, request: Request, limit: int = JSON_LIMIT) -> dict[str, str]:
        """The fields of a form of this session, a file in base64. limit: of bytes. Raises Unauthorized, Forbidden, Invalid."""
        check_origin(request)
        self.signed(request)
        raw = await read_bytes(request, limit)
        try:
            if request.headers.get("content-type", "").startswith("multipart/form-data"):
                fields = await _parts(request, raw, limit)
            else:
                fields = dict(parse_qsl(raw.decode(), keep_blank_values=True, errors="strict", max_num_fields=FIELDS))
        except (ValueError, MultiPartException):
            raise invalid("body", "is not a form") from None
        if not hmac.compare_digest(fields.pop(CSRF, "").encode(), self.csrf(request).encode()):
            raise Forbidden("the form is not of this session; open the page again")
        return fields

    def open(self, request: Request, answer: Response, token: str, life: timedelta = LIFE) -> None:
        """Give the browser its session."""
        _set(request, answer, _cookie(request), token, life)

    def close(self, request: Request, answer: Response) -> None:
        """Take the browser's session away."""
        _clear(request, answer, _cookie(request))

    def begin(self, request: Request, answer: Response, attempt: str, life: timedelta) -> None:
        """Give the browser its sign-in under way."""
        _set(request, answer, _cookie(request, ATTEMPT), attempt, life)

    def attempt(self, request: Request) -> str:
        """The sign-in that the browser began. Raises Unauthorized."""
        found = request.cookies.get(_cookie(request, ATTEMPT), "")
        if not found:
            raise Unauthorized("no sign-in is under way in this browser, or it took longer than 10 minutes; begin again")
        return found

    def ended(self, request: Request, answer: Response) -> None:
        """Take the sign-in under way away."""
        _clear(request, answer, _cookie(request, ATTEMPT))


async def _parts(request: Request, raw: bytes, limit: int) -> dict[str, str]:
    """The parts of a form with a file. Raises MultiPartException."""

    async def body() -> AsyncGenerator[bytes, None]:
        yield raw

    form = await MultiPartParser(request.headers, body(), max_files=1, max_fields=FIELDS, max_part_size=limit).parse()
    held = form.multi_items()
    return {name: value if isinstance(value, str) else b64encode(await value.read()).decode() for name, value in held}


def _set(request: Request, answer: Response, name: str, value: str, life: timedelta) -> None:
    secure, seconds = request.url.scheme == "https", int(life.total_seconds())
    answer.set_cookie(name, value, path=_path(request), max_age=seconds, secure=secure, httponly=True, samesite="lax")


def _clear(request: Request, answer: Response, name: str) -> None:
    answer.delete_cookie(name, path=_path(request), secure=request.url.scheme == "https", httponly=True, samesite="lax")


def following(request: Request) -> str:
    """The page to go to after a sign-in: one of ours, whatever the address says."""
    wanted = request.query_params.get("next", "")
    ours = _NEXT.fullmatch(wanted) and "//" not in wanted and not climbs(wanted)
    return wanted if ours else f"{BASE}/"


def _cookie(request: Request, name: str = SESSION) -> str:
    """Without TLS a browser refuses the prefix, and sends a cookie to every port of a host."""
    return f"__Host-tenantry-{name}" if request.url.scheme == "https" else f"tenantry-{name}-{request.url.port or 80}"


def _path(request: Request) -> str:
    return "/" if request.url.scheme == "https" else BASE
