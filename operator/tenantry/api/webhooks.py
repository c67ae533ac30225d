"""The webhook of Git sources: a signed word that a repository has changed. It brings nothing but the wish to look at once."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Awaitable, Callable, Container, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import orjson
import structlog
from starlette.requests import Request
from starlette.responses import Response

from tenantry.kinds.source.observe import PURPOSE
from tenantry.kinds.source.spec import LISTENING, Source
from tenantry.model.resource import Ref
from tenantry.model.verdicts import Halt, NotFound, Unauthorized
from tenantry.ports import Secrets, Store
from tenantry.rest.apps.plain import PlainApp
from tenantry.rest.bodies import invalid, json_response, read_bytes
from tenantry.runtime.cache import Cache
from tenantry.runtime.reconcile.request_reconcile import ask_to_look

PATH = "/api/v1/webhooks/git"
SHORTEST_SECRET = 16
LARGEST = 4 * 2**20
"""Limit of a payload in bytes; a push of many commits lists all of them."""
_URLS = ("clone_url", "ssh_url", "html_url", "git_url", "git_http_url", "git_ssh_url", "web_url", "url", "homepage")
_PUSHES = ("push", "Push Hook", "Tag Push Hook")
_EVENTS = ("x-github-event", "x-gitlab-event", "x-gitea-event", "x-gogs-event")

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Webhook:
    """The webhook of a source. repository: its URL; revision: `""` for its default branch; ask: requests a sync soon."""

    secret: bytes
    repository: str
    revision: str
    ask: Callable[[], Awaitable[None]]


class Webhooks:
    """POST of GitHub, GitLab, Gitea and Forgejo. A replay is but another look at the repository."""

    def __init__(self, own: Webhook | None, declared: DeclaredWebhooks) -> None:
        """own: of the source that `up` was given; declared: of Sources."""
        self._own = (own,) if own is not None else ()
        self._declared = declared

    async def receive(self, request: Request) -> Response:
        """202 when a source is looked at, 204 for what is none of its business. Raises NotFound (nobody listens), Unauthorized,
        Invalid."""
        if not self._own and not self._declared.exist:
            raise NotFound("no source listens to webhooks here")
        raw = await read_bytes(request, LARGEST)
        payload = _read(raw)
        paths = set(filter(None, _repositories(payload or {})))
        signed = [each for each in (*self._own, *await self._declared.of(paths)) if is_signed(request.headers, raw, each.secret)]
        if not signed:
            raise Unauthorized("the signature of the webhook is missing or wrong")
        if payload is None:
            raise invalid("body", "must be a JSON object; set the webhook's content type to application/json")
        event = next((request.headers[name] for name in _EVENTS if name in request.headers), "push")
        if event in _PUSHES and not paths:
            raise invalid("repository", "must hold the repository's URL, such as clone_url")
        concerned = [each for each in signed if event in _PUSHES and _concerns(each, payload, paths)]
        for each in concerned:
            await each.ask()
        return json_response({"message": "the source is being checked"}, 202) if concerned else Response(status_code=204)


def _concerns(webhook: Webhook, payload: Mapping[str, Any], paths: Container[str]) -> bool:
    """Return True if the push is of the source's repository and branch."""
    ref, revision = str(payload.get("ref", "")), webhook.revision
    known = not revision or ref in (f"refs/heads/{revision}", f"refs/tags/{revision}")
    return known and repository_path(webhook.repository) in paths


def is_signed(headers: Mapping[str, str], raw: bytes, secret: bytes) -> bool:
    """Return True if the secret signed the body (GitHub, Gitea), or came with it (GitLab). In constant time."""
    signature = hmac.new(secret, raw, hashlib.sha256).hexdigest().encode()
    github = headers.get("x-hub-signature-256", "").removeprefix("sha256=")
    gitea = headers.get("x-gitea-signature", "") or headers.get("x-gogs-signature", "")
    signed = [hmac.compare_digest(given.encode(), signature) for given in (github, gitea)]
    return any([*signed, hmac.compare_digest(headers.get("x-gitlab-token", "").encode(), secret)])


def repository_path(url: str) -> str:
    """`owner/name` of a repository's URL: one repository has several of them, and mirrors of its host have other names.

    `""` for what is not a URL.
    """
    if "://" not in url and ":" in url:
        url = f"ssh://{url.replace(':', '/', 1)}"  # as scp writes it
    try:
        return urlsplit(url).path.strip("/").removesuffix(".git").casefold()
    except ValueError:  # such as of an address in brackets that do not close
        return ""


def _read(raw: bytes) -> Mapping[str, Any] | None:
    """None for what is not a JSON object."""
    try:
        payload = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return None
    return payload if isinstance(payload, dict) else None


def _repositories(payload: Mapping[str, Any]) -> Iterator[str]:
    for part in ("repository", "project"):
        told = payload.get(part)
        urls = [told.get(name) for name in _URLS] if isinstance(told, dict) else []
        yield from (repository_path(url) for url in urls if isinstance(url, str))


class DeclaredWebhooks:
    """The webhooks of Sources: a push has one looked at as a person's `tenantry reconcile` does."""

    def __init__(self, cache: Cache, store: Store, secrets: Secrets, now: Callable[[], datetime]) -> None:
        self._cache = cache
        self._store = store
        self._secrets = secrets
        self._now = now

    @property
    def exist(self) -> bool:
        """Return True if any Source listens."""
        return any(self._cache.names(Source.KIND, by=LISTENING))

    async def of(self, paths: Container[str]) -> list[Webhook]:
        """Those of the repositories of these paths. One whose secret is missing, or too short, listens to nobody."""
        found = []
        listening = [each for each in self._cache.resources(Source.KIND, by=LISTENING) if isinstance(each, Source)]
        for source in listening:
            if repository_path(source.spec.url) in paths and (secret := await self._secret(source)):
                ask = partial(self._ask, source.ref)
                found.append(Webhook(secret, source.spec.url, source.spec.branch or source.spec.tag or "", ask))
        return found

    async def _secret(self, source: Source) -> bytes:
        assert source.spec.webhook is not None, "it is indexed as listening"
        ref = source.spec.webhook.secret_ref
        try:
            revealed = await self._secrets.reveal(source.metadata.namespace, ref.name, ref.key, PURPOSE)
        except Halt as halt:
            log.warning("a webhook's secret cannot be read", source=str(source.ref), error=str(halt))
            return b""
        secret = revealed.clear.strip().encode()
        return secret if len(secret) >= SHORTEST_SECRET else b""

    async def _ask(self, source: Ref) -> None:
        """Raises Conflict when it is written all the time, NotFound."""
        await ask_to_look(self._store, source, self._now())


def add_webhook(app: PlainApp, webhooks: Webhooks) -> None:
    """Adds the route."""
    app.serve("POST", PATH, webhooks.receive)
