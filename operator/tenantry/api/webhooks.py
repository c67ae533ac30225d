"""The webhook of a Git source: a signed word that the repository has changed. It brings nothing but the wish to look at once."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import orjson
from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response

from tenantry.model.verdicts import Unauthorized
from tenantry.rest.bodies import invalid, json_response, read_bytes

PATH = "/api/v1/webhooks/git"
LARGEST = 4 * 2**20
"""Bytes of a payload; a push of many commits tells of all of them."""
_URLS = ("clone_url", "ssh_url", "html_url", "git_url", "git_http_url", "git_ssh_url", "web_url", "url", "homepage")
_PUSHES = ("push", "Push Hook", "Tag Push Hook")
_EVENTS = ("x-github-event", "x-gitlab-event", "x-gitea-event", "x-gogs-event")


@dataclass(frozen=True)
class Webhook:
    """What the source listens to. repository: its URL; revision: `""` for its default branch; ask: for a look at it, soon."""

    secret: bytes
    repository: str
    revision: str
    ask: Callable[[], None]


class Webhooks:
    """POST of GitHub, GitLab, Gitea and Forgejo. A replay is but another look at the repository."""

    def __init__(self, webhook: Webhook) -> None:
        self._webhook = webhook
        self._path = repository_path(webhook.repository)

    async def receive(self, request: Request) -> Response:
        """202 when the source is looked at, 204 for what is none of its business. Raises Unauthorized, Invalid."""
        raw = await read_bytes(request, LARGEST)
        if not is_signed(request.headers, raw, self._webhook.secret):
            raise Unauthorized("the signature of the webhook is missing or wrong")
        event = next((request.headers[name] for name in _EVENTS if name in request.headers), "push")
        payload = _payload(raw)
        if event not in _PUSHES or not self._concerns(payload):
            return Response(status_code=204)
        self._webhook.ask()
        return json_response({"message": "the source is looked at"}, 202)

    def _concerns(self, payload: Mapping[str, Any]) -> bool:
        """Is it of the source's repository and branch?"""
        ref, revision = str(payload.get("ref", "")), self._webhook.revision
        known = not revision or ref in (f"refs/heads/{revision}", f"refs/tags/{revision}")
        return known and self._path in set(_repositories(payload))


def is_signed(headers: Mapping[str, str], raw: bytes, secret: bytes) -> bool:
    """Is the body signed by the secret (GitHub, Gitea), or does the secret come with it (GitLab)? In constant time."""
    signature = hmac.new(secret, raw, hashlib.sha256).hexdigest().encode()
    github = headers.get("x-hub-signature-256", "").removeprefix("sha256=")
    gitea = headers.get("x-gitea-signature", "") or headers.get("x-gogs-signature", "")
    signed = [hmac.compare_digest(given.encode(), signature) for given in (github, gitea)]
    return any([*signed, hmac.compare_digest(headers.get("x-gitlab-token", "").encode(), secret)])


def repository_path(url: str) -> str:
    """`owner/name` of a repository's URL: one repository has several of them, and mirrors of its host have other names."""
    if "://" not in url and ":" in url:
        url = f"ssh://{url.replace(':', '/', 1)}"  # as scp writes it
    return urlsplit(url).path.strip("/").removesuffix(".git").casefold()


def _payload(raw: bytes) -> Mapping[str, Any]:
    try:
        payload = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise invalid("body", f"is not JSON: {error}; set the webhook's content type to application/json") from None
    if not isinstance(payload, dict):
        raise invalid("body", "must be a JSON object")
    return payload


def _repositories(payload: Mapping[str, Any]) -> Iterator[str]:
    for part in ("repository", "project"):
        told = payload.get(part)
        urls = [told.get(name) for name in _URLS] if isinstance(told, dict) else []
        yield from (repository_path(url) for url in urls if isinstance(url, str))


def add_webhook(app: FastAPI, webhook: Webhook | None) -> None:
    """Adds the route, where there is a secret: without one nobody could be told from anybody."""
    if webhook is not None:
        receive = Webhooks(webhook).receive
        app.add_api_route(PATH, receive, methods=["POST"], include_in_schema=False, response_model=None)
