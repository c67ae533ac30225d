"""The objects of an API server in memory, for tests of what a deployer writes."""

from __future__ import annotations

import copy
import itertools
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from tenantry.adapters.kubernetes.client.http import JSON, Client
from tenantry.model.resource import Document
from tenantry.model.verdicts import AlreadyExists, Conflict, Forbidden, NotFound


@dataclass
class FakeApi:
    """Plain objects by path. A namespace that is deleted stays until `finish` empties it. refuse: messages of 403 by path."""

    held: dict[str, Document] = field(default_factory=dict)
    refuse: dict[str, str] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)
    after: Callable[[str, str], object] = lambda method, path: None
    """Called with each request that was answered: what others do in between."""
    versions: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    @property
    def client(self) -> Client:
        return cast(Client, self)

    async def request(
        self, method: str, path: str, *, query: Mapping[str, str] | None = None, body: Any = None, content_type: str = JSON
    ) -> Document:
        self.asked.append((method, path))
        answer = self._answer(method, path, body)
        self.after(method, path)
        return answer

    def _answer(self, method: str, path: str, body: Any) -> Document:
        if method != "GET" and path in self.refuse:
            raise Forbidden(self.refuse[path])
        if method == "POST":
            return self._stored(f"{path}/{body['metadata']['name']}", body, made=True)
        if method == "GET" and not self._is_object(path):
            items = [each for place, each in self.held.items() if place.rpartition("/")[0] == path]
            return {"items": copy.deepcopy(items), "metadata": {"resourceVersion": "1"}}
        if path not in self.held and method != "PATCH":
            raise NotFound(f"{path} does not exist")
        self._check_version(method, path, body)
        if method == "DELETE":
            self._delete(path)
        elif method == "PUT":
            return self._stored(path, body)
        elif method == "PATCH":
            return self._stored(path, merged(self.held.get(path, {}), body))
        return copy.deepcopy(self.held[path]) if path in self.held else {}

    def put(self, path: str, document: Document) -> Document:
        """Store an object as somebody else does."""
        return self._stored(path, document, made=True)

    def relabel(self, path: str, labels: Mapping[str, str | None]) -> None:
        """Change labels as `kubectl label` does. None takes one off."""
        metadata = self.held[path]["metadata"]
        metadata["labels"] = merged(metadata.get("labels") or {}, labels)

    def finish(self, namespace: str) -> None:
        """End a namespace that is being deleted, as its controller does."""
        inside = f"/namespaces/{namespace}"
        assert "deletionTimestamp" in self.held[f"/api/v1{inside}"]["metadata"]
        self.held = {path: each for path, each in self.held.items() if f"{inside}/" not in f"{path}/"}

    def _stored(self, path: str, body: Document, made: bool = False) -> Document:
        if made and path in self.held:
            raise AlreadyExists(f"{path} exists")
        version = str(next(self.versions))
        before = self.held.get(path, {}).get("metadata", {})
        fixed = {"uid": before.get("uid", f"uid-{version}"), "resourceVersion": version}
        metadata = {"creationTimestamp": "2026-11-27T10:00:00Z", **body["metadata"], **fixed}
        clear = {key: b64encode(value.encode()).decode() for key, value in body.get("stringData", {}).items()}
        document = {key: value for key, value in body.items() if key != "stringData"} | ({"data": clear} if clear else {})
        self.held[path] = copy.deepcopy({**document, "metadata": metadata})
        return copy.deepcopy(self.held[path])

    def _check_version(self, method: str, path: str, body: Any) -> None:
        """A body that names a version is written over that version only."""
        wanted = body["metadata"].get("resourceVersion") if method in ("PUT", "PATCH") and "metadata" in body else None
        if wanted is not None and wanted != self.held.get(path, {}).get("metadata", {}).get("resourceVersion"):
            raise Conflict(f"{path} has changed")

    def _delete(self, path: str) -> None:
        if self.held[path]["kind"] == "Namespace":
            self.held[path]["metadata"]["deletionTimestamp"] = "2026-11-27T11:00:00Z"
        else:
            del self.held[path]

    def _is_object(self, path: str) -> bool:
        parts = path.strip("/").split("/")
        parts = parts[2:] if parts[0] == "api" else parts[3:]
        return len(parts) % 2 == 0


def merged(real: Any, patch: Any) -> Any:
    """Merge as a JSON merge patch does."""
    if not isinstance(patch, Mapping):
        return patch
    kept = dict(real) if isinstance(real, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            kept.pop(key, None)
        else:
            kept[key] = merged(kept.get(key), value)
    return kept
