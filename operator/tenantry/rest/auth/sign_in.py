"""The credentials of a request: bearer token or HTTP Basic, and the password grant of OAuth 2."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field
from datetime import timedelta
from urllib.parse import parse_qsl

from pydantic import Field
from starlette.requests import Request

from tenantry.model.verdicts import Invalid, Problem, Unauthorized
from tenantry.rest.bodies import AnswerBody, invalid, read_bytes

TOKEN_TTL = timedelta(hours=1)
PASSWORD_GRANT = {
    "content": {
        "application/x-www-form-urlencoded": {
            "schema": {
                "title": "PasswordGrant",
                "type": "object",
                "required": ["username", "password"],
                "properties": {
                    "grant_type": {"type": "string", "enum": ["password"], "description": "May be absent."},
                    "username": {"type": "string", "description": "The username.", "examples": ["mia@acme.example"]},
                    "password": {"type": "string", "format": "password", "description": "The password."},
                },
            }
        }
    },
    "required": True,
}
"""The request body of a password grant, for the described interface."""


@dataclass(frozen=True)
class Basic:
    """A username with its password, which the repr hides."""

    username: str
    password: str = field(repr=False)


@dataclass(frozen=True)
class Bearer:
    """A token, which the repr hides."""

    token: str = field(repr=False)


class TokenResponse(AnswerBody):
    """The answer to a password grant. expires_in in seconds."""

    access_token: str = Field(
        description="The token, for the header `Authorization: Bearer`.", examples=["eyJhbGciOiJFZERTQSJ9.e30.c2ln"]
    )
    token_type: str = Field("Bearer", description="Always Bearer.", examples=["Bearer"])
    expires_in: int = Field(int(TOKEN_TTL.total_seconds()), description="Seconds for which it is valid.")


def credentials_of(request: Request) -> Basic | Bearer:
    """Return the credentials of the Authorization header. Raises Unauthorized when it is absent or malformed."""
    scheme, _, value = request.headers.get("authorization", "").partition(" ")
    match scheme.lower():
        case "bearer" if value.strip():
            return Bearer(value.strip())
        case "basic":
            return _basic(value.strip())
        case "":
            raise Unauthorized("sign in first: the Authorization header is missing")
        case _:
            raise Unauthorized("the Authorization header must be Bearer or Basic")


def _basic(value: str) -> Basic:
    try:
        username, colon, password = base64.b64decode(value, validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        colon = ""
    if not colon:
        raise Unauthorized("the Authorization header is malformed")
    return Basic(username, password)


async def password_grant(request: Request) -> Basic:
    """username and password of a token request, a form. Raises Invalid; grant_type may be absent, else it is `password`."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/x-www-form-urlencoded":
        raise invalid("body", "must be application/x-www-form-urlencoded")
    try:
        form = dict(parse_qsl((await read_bytes(request)).decode(), keep_blank_values=True, errors="strict", max_num_fields=50))
    except ValueError:
        raise invalid("body", "is not a form") from None
    if form.get("grant_type", "password") != "password":
        raise invalid("grant_type", "must be password")
    missing = tuple(Problem(name, "is required") for name in ("username", "password") if not form.get(name))
    if missing:
        raise Invalid(missing)
    return Basic(form["username"], form["password"])
