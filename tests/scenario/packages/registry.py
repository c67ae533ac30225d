"""An OCI registry: what the distribution specification says of pulling, of artifacts that tests push into it."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Mapping
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from tenantry.adapters.fetching.registry import MANIFEST, PACKAGE


def digest_of(content: bytes) -> str:
    """As the specification writes digests."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


class Registry:
    """Holds manifests by repository and reference, blobs by digest. Anonymous pulls need a token unless it is `open`."""

    def __init__(self) -> None:
        self.manifests: dict[tuple[str, str], bytes] = {}
        self.blobs: dict[str, bytes] = {}
        self.open = False
        self.realm = ""
        """The server of tokens; `""`: this one."""
        self.blobs_at = ""
        """Another host that has the blobs; `""`: they are served here."""
        self.tokens: dict[str, str] = {}
        """Tokens that were given, and the scope of each."""
        self.asked: list[tuple[str, Mapping[str, str]]] = []
        """Path and headers of each request."""
        self.http = Starlette(
            routes=[
                Route("/token", self._token),
                Route("/v2/{name:path}/manifests/{reference}", self._manifest),
                Route("/v2/{name:path}/blobs/{digest}", self._blob),
            ]
        )

    def push(self, repository: str, tag: str, *contents: bytes, media_type: str = PACKAGE) -> str:
        """An artifact with these layers. Returns the digest of its manifest."""
        empty = b"{}"
        layers = [self._stored(content, media_type) for content in contents]
        manifest: dict[str, Any] = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "artifactType": PACKAGE,
            "config": self._stored(empty, "application/vnd.oci.empty.v1+json"),
            "layers": layers,
        }
        raw = json.dumps(manifest).encode()
        for reference in (tag, digest_of(raw)):
            self.manifests[repository, reference] = raw
        return digest_of(raw)

    def _stored(self, content: bytes, media_type: str) -> dict[str, Any]:
        self.blobs[digest_of(content)] = content
        return {"mediaType": media_type, "digest": digest_of(content), "size": len(content)}

    async def _token(self, request: Request) -> Response:
        self._saw(request)
        if request.query_params.get("service") != "registry.test":
            return JSONResponse({"errors": [{"code": "DENIED"}]}, 400)
        token = secrets.token_urlsafe()
        self.tokens[token] = request.query_params.get("scope", "")
        return JSONResponse({"token": token, "expires_in": 300})

    async def _manifest(self, request: Request) -> Response:
        return self._refusal(request) or self._found(
            self.manifests.get((request.path_params["name"], request.path_params["reference"])), MANIFEST
        )

    async def _blob(self, request: Request) -> Response:
        refusal = self._refusal(request)
        if refusal is None and self.blobs_at:
            return RedirectResponse(f"{self.blobs_at}/{request.path_params['digest']}", 307)
        return refusal or self._found(self.blobs.get(request.path_params["digest"]), "application/octet-stream")

    def _found(self, content: bytes | None, media_type: str) -> Response:
        if content is None:
            return JSONResponse({"errors": [{"code": "MANIFEST_UNKNOWN"}]}, 404)
        return Response(content, media_type=media_type)

    def _refusal(self, request: Request) -> Response | None:
        self._saw(request)
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if self.open or self.tokens.get(token) == f"repository:{request.path_params['name']}:pull":
            return None
        realm = self.realm or f"{request.base_url}token"
        challenge = f'Bearer realm="{realm}",service="registry.test",scope="repository:any:pull"'
        return JSONResponse({"errors": [{"code": "UNAUTHORIZED"}]}, 401, {"WWW-Authenticate": challenge})

    def _saw(self, request: Request) -> None:
        self.asked.append((request.url.path, dict(request.headers)))
