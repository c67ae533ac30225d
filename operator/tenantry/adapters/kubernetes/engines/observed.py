"""The objects in the namespaces of engines: read from the API server, or from a watch of each kind."""

from __future__ import annotations

import asyncio
import sys
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import NamedTuple, Protocol

import orjson
import structlog

from tenantry.adapters.kubernetes.client.http import Client
from tenantry.adapters.kubernetes.client.objects import CLUSTER_WIDE, path_of, reference
from tenantry.adapters.kubernetes.client.watching import PAGE, PAUSE_S, pages, watch_query
from tenantry.adapters.kubernetes.client.wire import refusal
from tenantry.adapters.kubernetes.engines.workload import AUTOSCALER, MANAGED_BY, POD, ref_of_labels
from tenantry.model.facts import EngineRef
from tenantry.model.resource import Document, kept_json
from tenantry.model.verdicts import Expired, Halt, NotFound

log = structlog.get_logger(__name__)

SELECTOR = ",".join(f"{key}={value}" for key, value in MANAGED_BY.items())
FOLLOWED = (
    ("v1", "Namespace"),
    ("v1", "ServiceAccount"),
    ("v1", "ResourceQuota"),
    ("networking.k8s.io/v1", "NetworkPolicy"),
    ("v1", "Secret"),
    ("v1", "ConfigMap"),
    ("v1", "PersistentVolumeClaim"),
    ("v1", "Service"),
    ("apps/v1", "StatefulSet"),
    AUTOSCALER,
    ("networking.k8s.io/v1", "Ingress"),
    ("v1", "Pod"),
)


class EngineObjects(Protocol):
    """The objects of the engines of one cluster."""

    async def find(self, named: Document) -> Document | None:
        """The object of that kind, namespace and name, or None."""

    async def pods(self, namespace: str) -> Sequence[Document]:
        """The pods of a namespace that are an engine's."""

    def absorb(self, stored: Document) -> None:
        """Takes in what was just written."""


class ReadObjects:
    """Asked for, each time."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def find(self, named: Document) -> Document | None:
        try:
            return await self._client.request("GET", reference(named))
        except NotFound:
            return None

    async def pods(self, namespace: str) -> Sequence[Document]:
        # By its name: a right to list pods anywhere would show those of everybody.
        pod = await self.find({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": POD, "namespace": namespace}})
        return [pod] if pod is not None and MANAGED_BY.items() <= _labels(pod).items() else []

    def absorb(self, stored: Document) -> None:
        """Nothing is kept."""


class _Held(NamedTuple):
    version: int
    raw: bytes


class FollowedObjects:
    """Kept abreast by `changes`; own writes are seen at once. What does not carry an engine's labels is not known here."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._held: dict[str, dict[tuple[str, str], _Held]] = defaultdict(dict)
        self._seen: dict[str, int] = {}
        """The version, by kind, up to which its watch is complete."""
        self._complete = asyncio.Event()
        self._listing = asyncio.Lock()
        """One kind at a time: pages of all of them at once would be the most that the process ever holds."""

    @property
    def complete(self) -> bool:
        """Return True if every kind has been listed."""
        return self._complete.is_set()

    async def completed(self) -> None:
        """Returns once it is complete."""
        await self._complete.wait()

    async def changes(self) -> AsyncIterator[EngineRef]:
        """Engines of which anything changed, without end; at the start all that there are. Without slugs."""
        changed: asyncio.Queue[EngineRef] = asyncio.Queue()
        watches = [asyncio.create_task(self._watch(*kind, changed)) for kind in FOLLOWED]
        try:
            while True:
                yield await changed.get()
        finally:
            self._complete.clear()
            for watch in watches:
                watch.cancel()

    async def find(self, named: Document) -> Document | None:
        held = self._held.get(_place(named), {}).get((named["kind"], named["metadata"]["name"]))
        return _document(held) if held is not None else None

    async def pods(self, namespace: str) -> Sequence[Document]:
        inside = self._held.get(namespace, {})
        return [_document(held) for (kind, _), held in inside.items() if kind == "Pod"]

    def absorb(self, stored: Document) -> None:
        # The watch may have seen this version already, and later ones such as the removal.
        if self.complete and _version(stored) > self._seen.get(stored["kind"], 0):
            self._take(stored)

    def _forget(self, removed: Document) -> None:
        inside = self._held.get(_place(removed))
        if inside is not None:
            inside.pop((removed["kind"], removed["metadata"]["name"]), None)
            if not inside:
                del self._held[_place(removed)]

    async def _watch(self, api_version: str, kind: str, changed: asyncio.Queue[EngineRef]) -> None:
        """Goes on from where a watch ended; where it cannot, the kind is listed anew."""
        path = path_of(api_version, kind)
        while True:
            try:
                if kind not in self._seen:
                    async with self._listing:
                        await self._list(api_version, kind, changed)
                async for change in self._client.stream(path, watch_query(SELECTOR, self._seen[kind])):
                    if change["type"] == "ERROR":
                        raise refusal(change["object"].get("code", 500), change["object"])
                    self._see(api_version, kind, change, changed)
            except Expired:
                self._seen.pop(kind, None)
            except Halt as halt:
                log.warning("watch of engines interrupted", path=path, error=str(halt))
            except Exception:
                log.exception("watch of engines failed", path=path)
                self._seen.pop(kind, None)  # what it has not taken in is listed
            await asyncio.sleep(PAUSE_S)

    async def _list(self, api_version: str, kind: str, changed: asyncio.Queue[EngineRef]) -> None:
        """One consistent state, in pages; what is not in it goes. What was written meanwhile stays."""
        query = {"labelSelector": SELECTOR, "limit": str(PAGE)}
        there: set[tuple[str, str]] = set()
        version = 0
        async for answer in pages(self._client, path_of(api_version, kind), query):
            for item in answer["items"]:
                document = {"apiVersion": api_version, "kind": kind, **item}
                there.add((_place(document), document["metadata"]["name"]))
                self._take(document, changed)
            version = int(answer["metadata"]["resourceVersion"])
        self._sweep(kind, there, version, changed)
        self._seen[kind] = version
        if len(self._seen) == len(FOLLOWED):
            self._complete.set()

    def _sweep(self, kind: str, there: set[tuple[str, str]], version: int, changed: asyncio.Queue[EngineRef]) -> None:
        for place, inside in tuple(self._held.items()):
            for (held_kind, name), held in tuple(inside.items()):
                if held_kind == kind and (place, name) not in there and held.version <= version:
                    gone = _document(held)
                    self._forget(gone)
                    _tell(gone, changed)

    def _see(self, api_version: str, kind: str, change: Document, changed: asyncio.Queue[EngineRef]) -> None:
        document = {**change["object"], "apiVersion": api_version, "kind": kind}
        if change["type"] == "DELETED":
            held = self._held.get(_place(document), {}).get((kind, document["metadata"]["name"]))
            self._forget(document)
            _tell(_document(held) if held is not None else document, changed)
        elif change["type"] != "BOOKMARK":
            self._take(document, changed)
        self._seen[kind] = _version(document)

    def _take(self, document: Document, changed: asyncio.Queue[EngineRef] | None = None) -> None:
        version = _version(document)
        inside, name = self._held[_place(document)], (sys.intern(document["kind"]), sys.intern(document["metadata"]["name"]))
        held = inside.get(name)
        if held is not None and version <= held.version:
            return
        metadata = {key: value for key, value in document["metadata"].items() if key != "managedFields"}
        inside[name] = _Held(version, kept_json({**document, "metadata": metadata}))
        if changed is not None:
            # Whose labels somebody took off or changed is still the engine's that it was.
            if held is not None and document["kind"] == "Namespace" and _labels(before := _document(held)) != _labels(document):
                _tell(before, changed)
            _tell(document, changed)


def _document(held: _Held) -> Document:
    document: Document = orjson.loads(held.raw)
    return document


def _place(document: Document) -> str:
    """The namespace that it stands in; a namespace stands in itself."""
    metadata = document["metadata"]
    return str(metadata["name"] if document["kind"] in CLUSTER_WIDE else metadata["namespace"])


def _version(document: Document) -> int:
    return int(document["metadata"]["resourceVersion"])


def _labels(document: Document) -> Mapping[str, str]:
    return document["metadata"].get("labels") or {}


def _tell(item: Document, changed: asyncio.Queue[EngineRef]) -> None:
    ref = ref_of_labels(_labels(item))
    if ref is not None:
        changed.put_nowait(ref)
