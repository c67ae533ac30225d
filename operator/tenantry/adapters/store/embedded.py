"""The shared part of the memory and the SQLite store: the verbs of Store, one write under Kubernetes' semantics, and Feed."""

from __future__ import annotations

import os
import uuid
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Protocol

import orjson

from tenantry.adapters.store.event_log import EventLog, LoggedEvent
from tenantry.adapters.store.rights import caller_tenant, check_read, check_write
from tenantry.adapters.store.semantics import (
    CORE_API_VERSION,
    Create,
    Delete,
    Outcome,
    Replace,
    Request,
    SetFinalizers,
    SetStatus,
    Stamp,
    StoreAdmission,
    carry_out,
    placed,
)
from tenantry.model.facts import Caller
from tenantry.model.resource import SYSTEM_NAMESPACE, Document, Held, Ref, format_time, kept_json, ref_of
from tenantry.model.verdicts import Expired, Forbidden, Invalid, NotFound, Problem
from tenantry.model.wording import and_more
from tenantry.ports import Event, Store

Clock = Callable[[], datetime]
EVENTS_KEPT = 1024
"""Changes of each kind that a watcher may lag behind."""
PAGE = 500
"""Objects that are parsed at once of a list."""
MAX_BYTES = 1_500_000
"""Of one object; about what a Kubernetes API server takes."""
UID_BYTES, UIDS_AT_ONCE = 16, 256


def system_clock() -> datetime:
    """The present, in UTC."""
    return datetime.now(UTC)


class Codec(Protocol):
    """A document as the bytes that are stored, and back."""

    def encode(self, document: Document) -> bytes: ...

    def decode(self, body: bytes) -> dict[str, Any]: ...


class JsonCodec:
    """Plain JSON. `encode` raises Invalid for what JSON cannot hold, such as a lone surrogate."""

    def encode(self, document: Document) -> bytes:
        try:
            return kept_json(document)
        except orjson.JSONEncodeError as error:
            raise Invalid((Problem("", f"cannot be written as JSON: {error}"),)) from error

    def decode(self, body: bytes) -> dict[str, Any]:
        document: dict[str, Any] = orjson.loads(body)
        return document


class ObjectRows(Protocol):
    """Objects as bytes, synchronously, by whoever holds the write transaction."""

    def get(self, ref: Ref) -> bytes | None: ...

    def put(self, ref: Ref, body: bytes) -> None: ...

    def remove(self, ref: Ref) -> None: ...

    def inside(self, namespace: str) -> list[Ref]:
        """Return the objects of a namespace."""


class Uids:
    """Random uids. Not thread-safe.

    The system is asked for many at once: each time, a thread gives the interpreter away, and waits until it has it again.
    """

    def __init__(self) -> None:
        self._random = memoryview(b"")

    def take(self) -> str:
        """Return one that nobody has."""
        if not self._random:
            self._random = memoryview(os.urandom(UID_BYTES * UIDS_AT_ONCE))
        taken, self._random = self._random[:UID_BYTES], self._random[UID_BYTES:]
        return str(uuid.UUID(bytes=bytes(taken), version=4))


class Ledger:
    """Carries out batches of writes on rows, numbering them. Not thread-safe: one writer owns it."""

    def __init__(self, rows: ObjectRows, codec: Codec, admission: StoreAdmission, clock: Clock, version: int) -> None:
        self.version = version
        self._rows = rows
        self._codec = codec
        self._admission = admission
        self._clock = clock
        self._now = ""
        self._uids = Uids()
        self._namespaces: dict[str, Document | None] = {}

    def begin(self, version: int) -> None:
        """Starts a batch: its writes are of one time, and numbered after `version`, that of the newest committed write."""
        self.version = version
        self._now = format_time(self._clock().replace(microsecond=0))
        self._namespaces.clear()

    def perform(self, request: Request, caller: Caller | None) -> tuple[Document, LoggedEvent | None]:
        """The stored document, and the change to publish once it is committed. Raises what the semantics raise."""
        request = placed(request, self._admission)
        if caller is not None:
            check_write(caller, request, self._read(caller_tenant(caller)))
        uid, namespace = "", None
        if isinstance(request, Create):
            uid, namespace = self._uids.take(), self._namespace(request.ref.namespace)
        stamp = Stamp(self._now, uid, str(self.version + 1))
        outcome = carry_out(request, self._read(request.ref), namespace, self._admission, stamp)
        return outcome.document, self._store(request.ref, outcome)

    def found(self) -> None:
        """Creates the namespace that the platform itself lives in, where it is missing, as a cluster's installation does."""
        ref = Ref("Namespace", "", SYSTEM_NAMESPACE)
        if self._rows.get(ref) is None:
            document = {"apiVersion": CORE_API_VERSION, "kind": ref.kind, "metadata": {"name": ref.name}}
            self.perform(Create(ref, document), None)

    def _namespace(self, name: str) -> Document | None:
        """Read once a batch: most writes of a batch are into few namespaces."""
        if name not in self._namespaces:
            self._namespaces[name] = self._read(Ref("Namespace", "", name))
        return self._namespaces[name]

    def _read(self, ref: Ref | None) -> Document | None:
        body = self._rows.get(ref) if ref else None
        return None if body is None else self._codec.decode(body)

    def _store(self, ref: Ref, outcome: Outcome) -> LoggedEvent | None:
        if outcome.event == "":
            return None
        body = self._codec.encode(outcome.document)
        if len(body) > MAX_BYTES:
            raise Invalid((Problem("", f"is too large: {len(body)} bytes of JSON, at most {MAX_BYTES} are stored"),))
        if ref.kind == "Namespace":
            self._namespaces.pop(ref.name, None)
        if outcome.event == "DELETED":
            if ref.kind == "Namespace" and (held := self._rows.inside(ref.name)):
                raise Forbidden(f"namespace {ref.name} still holds {and_more([*map(str, held)])}: delete what it holds first")
            self._rows.remove(ref)
        else:
            self._rows.put(ref, body)
        self.version += 1
        return LoggedEvent(self.version, ref, outcome.event, body)


class Verbs(ABC):
    """The writing half of Store, over one function that carries a request out."""

    @abstractmethod
    async def _perform(self, request: Request) -> Document: ...

    def dry_run(self) -> Store | None:
        return None

    async def create(self, document: Document) -> Document:
        return await self._perform(Create(_ref(document), document))

    async def replace(self, document: Document, version: str) -> Document:
        return await self._perform(Replace(_ref(document), document, version))

    async def set_status(self, held: Held, status: Document) -> Document:
        return await self._perform(SetStatus(held.ref, held, status))

    async def set_finalizers(self, held: Held, names: tuple[str, ...]) -> Document:
        return await self._perform(SetFinalizers(held.ref, held, names))

    async def delete(self, held: Held) -> Document:
        return await self._perform(Delete(held.ref, held))


class EmbeddedStore(Verbs):
    """Store and Feed of the embedded host, over how requests are committed and rows are read."""

    _codec: Codec
    _log: EventLog

    @property
    @abstractmethod
    def version(self) -> str:
        """Of the newest committed write, of whatever kind."""

    @abstractmethod
    async def submit(self, request: Request, caller: Caller | None) -> Document:
        """Carries the request out, durably, with that caller's rights (None: the platform's own)."""

    @abstractmethod
    async def _row(self, ref: Ref) -> bytes | None: ...

    @abstractmethod
    async def _rows_of(self, kind: str) -> tuple[list[bytes], int]: ...

    @abstractmethod
    async def inside(self, namespace: str) -> list[Ref]:
        """Return the objects of a namespace, of any kind."""

    @abstractmethod
    async def close(self) -> None:
        """Ends it; writes already asked for are finished first."""

    async def get(self, ref: Ref) -> Document:
        body = await self._row(ref)
        if body is None:
            raise NotFound(f"{ref} does not exist")
        return self._codec.decode(body)

    def as_(self, caller: Caller) -> Store:
        return StoreAs(self, caller)

    async def list(self, kind: str) -> tuple[Sequence[Document], str]:
        bodies, version = await self._rows_of(kind)
        return [self._codec.decode(body) for body in bodies], str(version)

    async def pages(self, kind: str) -> AsyncIterator[tuple[Sequence[Document], str]]:
        bodies, version = await self._rows_of(kind)
        for start in range(0, max(len(bodies), 1), PAGE):
            yield [self._codec.decode(body) for body in bodies[start : start + PAGE]], str(version)

    def watch(self, kind: str, version: str) -> AsyncIterator[Event]:
        if not version.isdecimal():
            raise Expired(f"{version!r} is not a version of this store")
        return self._log.watch(kind, int(version))

    async def _perform(self, request: Request) -> Document:
        return await self.submit(request, None)


class StoreAs(Verbs):
    """An embedded store with one caller's rights."""

    def __init__(self, store: EmbeddedStore, caller: Caller) -> None:
        self._store = store
        self._caller = caller

    async def get(self, ref: Ref) -> Document:
        tenant = caller_tenant(self._caller)
        check_read(self._caller, ref, await self._find(tenant) if tenant else None)
        return await self._store.get(ref)

    def as_(self, caller: Caller) -> Store:
        return StoreAs(self._store, caller)

    async def _perform(self, request: Request) -> Document:
        return await self._store.submit(request, self._caller)

    async def _find(self, ref: Ref) -> Document | None:
        try:
            return await self._store.get(ref)
        except NotFound:
            return None


def _ref(document: Document) -> Ref:
    """The reference of a document that may be anything. Raises Invalid."""
    kind, metadata = document.get("kind"), document.get("metadata")
    if not isinstance(kind, str) or not kind:
        raise Invalid((Problem("kind", "is required"),))
    if not isinstance(metadata, Mapping) or not isinstance(metadata.get("name"), str) or not metadata["name"]:
        raise Invalid((Problem("metadata.name", "is required"),))
    if not isinstance(metadata.get("namespace", ""), str):
        raise Invalid((Problem("metadata.namespace", "must be a string"),))
    return ref_of(document)
