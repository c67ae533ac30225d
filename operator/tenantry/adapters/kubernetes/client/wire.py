"""Translation to and from the API server: paths of kinds, documents, refusals as Halts, watch lines. Pure."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import orjson

from tenantry.adapters.store.semantics import CORE_API_VERSION
from tenantry.kinds.crds import KINDS, has_status_subresource
from tenantry.model.resource import API_VERSION, CREDENTIAL_LABEL, Document, Ref
from tenantry.model.verdicts import (
    AlreadyExists,
    Conflict,
    Expired,
    Forbidden,
    Halt,
    Invalid,
    NotFound,
    Problem,
    QuotaExceeded,
    Stalled,
    Transient,
    Unauthorized,
)
from tenantry.model.wording import broken_rule

_STRICT = re.compile(r'(?:unknown|duplicate) field "((?:[^"\\]|\\.)*)"')
_DECODING = re.compile(r"json: cannot unmarshal (\w+) into Go struct field (\w*)\.([\w.]+) of type ([\w.]+)")
_OTHER_VERSION = re.compile(r'^the API version in the data|in version "(?!v1"|v1alpha1")[^"]*" cannot be handled')
_PATTERN = re.compile(r"(?:\S+ in body )?should match '(.*)'$")
_NO_ROOM = re.compile(r"\b(?:exceeded|failed|status unknown for) quota: ")
"""The API server's words where a ResourceQuota refuses. The refusal has no code or cause of its own."""
_NOT_CHECKED = "some validation rules were not checked"


@dataclass(frozen=True)
class Endpoint:
    """The API endpoint of a kind.

    declared: the field with the author's declaration; selector: the labels of its lists and watches.
    """

    kind: str
    api_version: str
    plural: str
    namespaced: bool
    has_status: bool
    declared: str = "spec"
    selector: str = ""

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The collection's path, or an object's. Without a namespace: the collection of all namespaces."""
        parts = ["apis" if "/" in self.api_version else "api", self.api_version]
        if self.namespaced and namespace:
            parts += ["namespaces", quote(namespace, safe="")]
        parts += [self.plural, *(quote(part, safe="") for part in (name, subresource) if part)]
        return "/" + "/".join(parts)


_CORE = (
    Endpoint("Namespace", CORE_API_VERSION, "namespaces", namespaced=False, has_status=True, declared=""),
    # Only Secrets that are labelled as credentials are listed and watched.
    Endpoint("Secret", CORE_API_VERSION, "secrets", True, False, declared="data", selector=CREDENTIAL_LABEL),
)
_OURS = (Endpoint(kind.KIND, API_VERSION, kind.PLURAL, kind.NAMESPACED, has_status_subresource(kind)) for kind in KINDS)
ENDPOINTS: Mapping[str, Endpoint] = {each.kind: each for each in (*_CORE, *_OURS)}


def endpoint(kind: str) -> Endpoint:
    """Raises Invalid for a kind that Tenantry does not store."""
    if kind not in ENDPOINTS:
        raise Invalid((Problem("kind", f"unknown kind {kind!r}; known are {', '.join(ENDPOINTS)}"),))
    return ENDPOINTS[kind]


def object_path(ref: Ref, subresource: str = "") -> str:
    """The path of one object. Raises Invalid for an unknown kind, or a namespace or name that is missing."""
    at = endpoint(ref.kind)
    for field, missing in (("name", not ref.name), ("namespace", at.namespaced and not ref.namespace)):
        if missing:
            raise Invalid((Problem(f"metadata.{field}", "Required value"),))
    return at.path(ref.namespace, ref.name, subresource)


def received(item: Mapping[str, Any], kind: str) -> Document:
    """A document as the store serves it: with its kind (items of core lists have none), without managedFields."""
    metadata = {key: value for key, value in item["metadata"].items() if key != "managedFields"}
    return {**item, "apiVersion": endpoint(kind).api_version, "kind": kind, "metadata": metadata}


def refusal(status: int, said: Mapping[str, Any]) -> Halt:
    """The Halt of an answer of 400 and above. said: its Status object."""
    reason, message = said.get("reason") or f"HTTP{status}", said.get("message") or f"the API server answered {status}"
    causes = (said.get("details") or {}).get("causes") or ()
    if any(cause.get("reason") == "ResourceVersionTooLarge" for cause in causes):
        # The server's data is older than what we saw, as after a restored backup: only a new list helps.
        return Expired(message)
    match status:
        case 401:
            return Unauthorized(message)
        case 403:
            return QuotaExceeded(message) if _NO_ROOM.search(message) else Forbidden(message)
        case 404:
            return NotFound(message)
        case 409:
            return AlreadyExists(message) if reason == "AlreadyExists" else Conflict(message)
        case 410:
            return Expired(message)
        case 422 if not causes:
            # A refused object has its causes. What has none is a JSON patch that did not apply: a `test` of ours failed.
            return Conflict("the object was changed or replaced since it was read; read it again")
        case 400 | 413 | 422:
            return Invalid(_problems(message, causes))
    if status == 429 or status >= 500:
        return Halt(Transient(reason, message))
    return Halt(Stalled(reason, message, "Operator"))


def told(body: bytes) -> Mapping[str, Any]:
    """The Status object of a refusal; proxies on the way answer with pages instead."""
    try:
        said = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {"message": body[:200].decode(errors="replace").strip()}
    return said if isinstance(said, Mapping) else {}


async def lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Whole lines of a stream. A line may be as long as the largest object; what is cut off at the end is dropped."""
    held: list[bytes] = []
    async for chunk in chunks:
        *whole, rest = chunk.split(b"\n")
        for line in whole:
            yield b"".join((*held, line))
            held.clear()
        if rest:
            held.append(rest)


def _unknown(field: str) -> Problem:
    return Problem(field, f'unknown field "{field}"')


def _problems(message: str, causes: Any) -> tuple[Problem, ...]:
    """Return the fields that a refusal names. A body that cannot be decoded has no causes, only the message."""
    named = tuple(Problem(_field(cause.get("field", "")), _plain(cause.get("message", message))) for cause in causes)
    # A patch that makes an unknown field has one cause: the patch itself.
    unknown = tuple(_unknown(field) for each in named if each.field == "patch" for field in _STRICT.findall(each.reason))
    if unknown:
        return unknown
    if named:
        # "Rules were not checked" only follows from the other problems: it is shown only if it is the only one.
        return tuple(dict.fromkeys(each for each in named if _NOT_CHECKED not in each.reason)) or named
    if _OTHER_VERSION.search(message):
        return (Problem("apiVersion", message),)
    strict = _STRICT.findall(message)
    if strict:
        return tuple(_unknown(field) for field in strict)
    decoding = _DECODING.search(message)
    if decoding:
        got, struct, field, wanted = decoding.groups()
        inside = "metadata." if struct == "ObjectMeta" and not field.startswith("metadata.") else ""
        return (Problem(inside + field, f"Invalid value: must be of type {wanted}, not {got}"),)
    return (Problem("", message),)


def _plain(reason: str) -> str:
    """The API server's reason, with our sentence in the place of a pattern."""
    return _PATTERN.sub(lambda found: broken_rule("pattern", found[1]), reason)


def _field(field: str) -> str:
    return "" if field == "<nil>" else field
