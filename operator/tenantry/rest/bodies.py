"""Bodies: JSON read leniently and within bounds, JSON answered as prepared bytes."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Iterator, Mapping
from datetime import datetime
from itertools import accumulate
from typing import Any, TypeVar, cast

import orjson
from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from tenantry.model.resource import format_time
from tenantry.model.verdicts import Invalid, Problem
from tenantry.model.wording import fields_at, nearest
from tenantry.rest.fairness.json_steps import JSON_TEXT, beyond_64_bits
from tenantry.rest.problems import problems_of

JSON_LIMIT = 256 * 1024
"""Bytes of a JSON or form body."""
DEEPEST_JSON = 1024
"""Levels that orjson reads at most."""
PATIENCE_SECONDS = 10.0
SLOWEST_BYTES_PER_SECOND = 16 * 1024
_JSON_LEVEL = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_NO_LEVEL = bytes({*range(256)} - {*_JSON_LEVEL})


class AnswerBody(BaseModel):
    """A JSON answer, as OpenAPI describes it. Its validator is made when it is first used, because most never are."""

    model_config = ConfigDict(defer_build=True)


class Body(BaseModel):
    """A JSON body: unknown fields are ignored, types are not converted. Its validator is made when it is first used."""

    model_config = ConfigDict(defer_build=True, frozen=True, strict=True, extra="ignore")


class EditBody(Body):
    """A JSON body of an edit: it carries at least one of its fields whose default is None."""

    @classmethod
    def carried(cls) -> dict[str, str]:
        """The fields of which one must be given, each with its name in JSON."""
        return {name: field.alias or name for name, field in cls.model_fields.items() if field.default is None}


M = TypeVar("M", bound=Body)


def invalid(field: str, reason: str) -> Invalid:
    """A refusal that names one field."""
    return Invalid((Problem(field, reason),))


def too_large(field: str, limit: int) -> HTTPException:
    """413, naming the limit in bytes."""
    return HTTPException(413, f"{field}: larger than {limit} bytes")


async def body_chunks(request: Request, limit: int, field: str = "body", allowance: int = 0) -> AsyncIterator[bytes]:
    """The body as it arrives, of at most `limit` bytes for `field` and `allowance` beside it.

    Answers 413 above that, 415 for a body that is compressed, and 400 for a sender that after its first 10 s is slower than
    16 KiB/s, or stops for 10 s.
    """
    _refuse_encoded(request, field)
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > limit + allowance:
        raise too_large(field, limit)
    started = asyncio.get_running_loop().time()
    received = 0
    stream = request.stream()
    while True:
        try:
            deadline = started + PATIENCE_SECONDS + received / SLOWEST_BYTES_PER_SECOND
            async with asyncio.timeout_at(min(deadline, asyncio.get_running_loop().time() + PATIENCE_SECONDS)):
                chunk = await anext(stream, None)
        except TimeoutError:
            raise HTTPException(400, f"{field}: arrives too slowly", {"Connection": "close"}) from None
        if chunk is None:
            return
        received += len(chunk)
        if received > limit + allowance:
            raise too_large(field, limit)
        yield chunk


def _refuse_encoded(request: Request, field: str) -> None:
    """A small compressed body can become a large one. Answers 415, as RFC 9110, 15.5.16."""
    encoding = request.headers.get("content-encoding", "").strip().lower()
    if encoding not in ("", "identity"):
        reason = f"{field}: the encoding {encoding[:40]!r} is not accepted; send the body as it is, without Content-Encoding"
        raise HTTPException(415, reason, {"Accept-Encoding": "identity"})


async def read_bytes(request: Request, limit: int = JSON_LIMIT) -> bytes:
    """The whole body, of at most `limit` bytes."""
    return b"".join([chunk async for chunk in body_chunks(request, limit)])


async def read_json(request: Request, model: type[M]) -> M:
    """The body as `model`. Raises Invalid naming field and reason."""
    return parse_json(await read_bytes(request), model)


def parse_json(raw: bytes, model: type[M]) -> M:
    """A JSON object as `model`. Raises Invalid naming field and reason."""
    value = load_json(raw)
    if not isinstance(value, dict):
        raise invalid("body", "must be a JSON object")
    if b"\\u0000" in raw and (field := next(_with_nul(value), "")):
        raise invalid(field, "must not hold a NUL character")
    try:
        body = model.model_validate(value)
    except ValidationError as error:
        found = list(error.errors(include_url=False, include_input=False))
        hints = [_misspelt(each["loc"], value, model) if each["type"] == "missing" else "" for each in found]
        raise Invalid(tuple(Problem(p.field, p.reason + h) for p, h in zip(problems_of(found), hints, strict=True))) from None
    if isinstance(body, EditBody) and all(getattr(body, name) is None for name in body.carried()):
        known = body.carried().values()
        hint = "".join(f"; {name} is not a known field" for name in value if nearest(name, known) not in ("", name))
        raise invalid("body", f"must carry at least one of {', '.join(known)}{hint}")
    return body


def _with_nul(value: Any, field: str = "") -> Iterator[str]:
    """Yield the fields whose name or text holds a NUL: PostgreSQL, C programs and terminals do not take one."""
    if isinstance(value, str) and "\0" in value:
        yield field
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, part in parts:
        path = f"{field}.{name}" if field else str(name)
        if "\0" in str(name):
            yield field or "body"
        yield from _with_nul(part, path)


def _misspelt(location: tuple[str | int, ...], value: Any, model: type[Body]) -> str:
    """Return a hint at the unknown field that was probably meant for a missing one, or `""`."""
    for step in location[:-1]:
        value = value[step]
    known = fields_at(model, location[:-1])
    near = nearest(str(location[-1]), [name for name in value if name not in known])
    return f"; {near} is not a known field" if near else ""


def load_json(raw: bytes, field: str = "body") -> Any:
    """Return the value of a JSON body, or of a part of it. Raises Invalid."""
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        deep = _levels(raw) > DEEPEST_JSON
        raise invalid(field, f"is nested deeper than {DEEPEST_JSON} levels" if deep else f"is not JSON: {error}") from None
    if beyond_64_bits(raw):
        raise invalid(field, "holds a whole number beyond 64 bits; send it as a text")
    return value


def _levels(raw: bytes) -> int:
    """Return how deep JSON is nested, also where it is broken."""
    return max(accumulate(map(_JSON_LEVEL.__getitem__, JSON_TEXT.sub(b"", raw).translate(None, _NO_LEVEL))), default=0)


def json_response(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A JSON answer, as prepared bytes."""
    return Response(orjson.dumps(value), status, headers, "application/json")


def tagged_response(request: Request, value: Any, headers: Mapping[str, str] | None = None) -> Response:
    """A JSON answer with an ETag of its bytes; 304 when If-None-Match names it."""
    raw = orjson.dumps(value)
    tag = f'"{hashlib.blake2b(raw, digest_size=16).hexdigest()}"'
    all_headers = {**(headers or {}), "ETag": tag}
    if names_tag(request.headers.get("if-none-match"), tag):
        return Response(None, 304, all_headers)
    return Response(raw, 200, all_headers, "application/json")


def header_of(request: Request, name: bytes) -> str | None:
    """Return the first value of a header, by its name in lower case. Starlette's mapping takes several times as long."""
    for key, value in request.scope["headers"]:
        if key == name:
            return cast(bytes, value).decode("latin-1")
    return None


def names_tag(header: str | None, tag: str) -> bool:
    """Return True if an If-None-Match header names this ETag (weak comparison)."""
    if header is None:
        return False
    return header.strip() == "*" or tag in {part.strip().removeprefix("W/") for part in header.split(",")}


def time_text(moment: datetime | None) -> str:
    """RFC 3339, UTC, `Z`; `""` when absent."""
    return format_time(moment) if moment else ""
