"""The headers If-Match, If-Plan and Idempotency-Key of a write."""

from __future__ import annotations

import hashlib
import hmac
import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request

from tenantry.model.resource import REQUEST_BODY, REQUEST_KEY, Document, Resource
from tenantry.model.verdicts import Conflict
from tenantry.rest.bodies import invalid
from tenantry.runtime.cache import Cache
from tenantry.runtime.planning.planned import Planned

KEPT = timedelta(hours=24)
LONGEST_KEY = 255
_DIGEST = re.compile(r"[0-9a-f]{64}")
_TAG = re.compile(r'(?:W/)?"([0-9]+)(?:\.[^"]*)?"')


def check_match(request: Request, document: Document) -> None:
    """Raises Conflict (412) unless If-Match, where given, names the document's generation."""
    header = request.headers.get("if-match")
    if header is None or header.strip() == "*":
        return
    generations = {found[1] for found in map(_TAG.fullmatch, (part.strip() for part in header.split(","))) if found}
    current = document["metadata"].get("generation", 0)
    if str(current) not in generations:
        raise Conflict(f"If-Match: the object now has generation {current}")


def wanted_plan(request: Request) -> str:
    """The digest that If-Plan names, `""` where absent. Raises Invalid."""
    header = request.headers.get("if-plan")
    if header is None:
        return ""
    digest = header.strip().strip('"')
    if _DIGEST.fullmatch(digest) is None:
        raise invalid("If-Plan", "must be the digest of a plan, as ?dryRun=true answers it")
    return digest


def check_plan(wanted: str, planned: Planned) -> None:
    """Raises Conflict (412) if the write would do something else than was planned. A write with nothing left to do may pass."""
    if wanted and planned.digest != wanted and not planned.empty:
        raise Conflict("If-Plan: the plan is out of date: its objects or its effects have changed; plan again")


@dataclass(frozen=True)
class Marks:
    """The keyed hashes of a request with an Idempotency-Key, as annotations carry them."""

    key: str
    body: str

    def annotations(self) -> dict[str, str]:
        return {REQUEST_KEY: self.key, REQUEST_BODY: self.body}


def marks_of(request: Request, caller: tuple[str, str], body: bytes, secret: bytes) -> Marks | None:
    """The request's marks, or None without the header. Raises Invalid for an ill-formed key.

    caller: its subject, and the uid of its tenant: an issuer's user keeps the subject in another tenant. secret: keys the hashes.
    """
    key = request.headers.get("idempotency-key")
    if key is None:
        return None
    if not 1 <= len(key) <= LONGEST_KEY or not key.isprintable():
        raise invalid("Idempotency-Key", f"must have 1 to {LONGEST_KEY} printable characters")
    query = urlencode([(name, value) for name, value in request.query_params.multi_items() if name != "dryRun"])
    target = f"{request.method} {request.url.path}?{query}".encode()
    return Marks(_mark(secret, *(part.encode() for part in caller), key.encode()), _mark(secret, target, body))


def made_by(cache: Cache, kind: str, marks: Marks | None, now: datetime) -> Resource[Any, Any] | None:
    """Return the object that the same request created within a day, or None. Raises Invalid for another body."""
    if marks is None:
        return None
    for found in cache.resources(kind, by=f"request={marks.key}"):
        created = found.metadata.creation_timestamp
        if created is not None and now - created < KEPT:
            if found.metadata.annotations.get(REQUEST_BODY) != marks.body:
                raise invalid("Idempotency-Key", "was used for another request")
            return found
    return None


def _mark(secret: bytes, *parts: bytes) -> str:
    mark = hmac.new(secret, digestmod=hashlib.sha256)
    for part in parts:
        mark.update(len(part).to_bytes(8, "big") + part)
    return mark.hexdigest()[:48]
