"""Environments out of backups: the engine's files first, then the objects, with their ids. Begun again, it goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from tenantry.model.documents import bound_namespace
from tenantry.model.facts import Applied, Backup, BackupFacts, EngineRef, Trust
from tenantry.model.resource import OF_TENANT, RESTORING, Document, Ref, ref_of
from tenantry.model.verdicts import AlreadyExists, Forbidden, NotFound

A = TypeVar("A")


class Archives(Protocol[A]):
    """The backups of a host. A: how it names one."""

    async def write(self, ref: EngineRef, target: Path, recipients: Sequence[str]) -> BackupFacts:
        """Backs an engine up while it runs, in clear or for these public keys of age. Raises NotFound, Invalid, Halt, OSError."""

    async def kept(self) -> tuple[BackupFacts, ...]:
        """Those of removed engines, the newest first."""

    async def find(self, given: str, trust: Trust) -> A:
        """The file of that path, or the newest of the environment with that id. Raises NotFound, Invalid (it is not what was
        written, or by nobody who is trusted), OSError."""

    async def read(self, archive: A) -> Backup:
        """Read its description. Raises Invalid, OSError."""

    def mark(self, archive: A, backup: Backup) -> str:
        """Return the Environment's mark during the restore of this archive; no two archives have the same."""

    async def stage(self, archive: A, ref: EngineRef) -> None:
        """Prepare the data that must exist before the Environment is created. Raises AlreadyExists, Invalid, Halt, OSError."""

    async def fill(self, archive: A, ref: EngineRef) -> None:
        """Finish the work that needs the Environment; returns when the engine has its data. Idempotent. Raises Halt, OSError."""


@dataclass
class Undelete(Generic[A]):
    """Makes Environments again. create raises AlreadyExists; patch merges."""

    backups: Archives[A]
    list: Callable[[str], Awaitable[Sequence[Document]]]
    get: Callable[[Ref], Awaitable[Document]]
    create: Callable[[Document], Awaitable[None]]
    patch: Callable[[Ref, Document], Awaitable[Document]]
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def restore(self, archive: str, namespace: str, name: str, trust: Trust) -> tuple[Applied, ...]:
        """From a file, or the newest archive of the environment with that id; under its own name where none is given.

        Raises NotFound (the archive, the namespace), AlreadyExists (its id or a name is living), Forbidden (its namespace is
        another Tenant's by now), Invalid, OSError.
        """
        found = await self.backups.find(archive, trust)
        backup = await self.backups.read(found)
        if not namespace and not await asyncio.to_thread(Path(archive).is_file):
            await self._check_tenant(backup)
        ref = EngineRef(namespace or backup.ref.namespace, name or backup.ref.name, backup.ref.id)
        mark = self.backups.mark(found, backup)
        documents = _moved(backup, ref, mark)
        async with self._turn:
            if not await self._begun(ref, mark):
                await self._check_free(documents, ref)
                await self.backups.stage(found, ref)
            environment = await self._made(documents[0])
            await self.backups.fill(found, ref)
            applied = (environment, *[await self._made(document) for document in documents[1:]])
            await self.patch(applied[0].ref, {"metadata": {"annotations": {RESTORING: None}}})
        return applied

    async def _check_tenant(self, backup: Backup) -> None:
        """Check that an archive named only by its id goes back to its former Tenant. A person may name another place, or a
        file."""
        told = (backup.documents[0]["metadata"].get("annotations") or {}).get(OF_TENANT, "")
        name, _, uid = told.partition("/")
        for tenant in await self.list("Tenant") if uid else ():
            if bound_namespace(tenant) == backup.ref.namespace and tenant["metadata"]["uid"] != uid:
                raise Forbidden(
                    f"environment {backup.ref.name} was of a Tenant {name} that is deleted, and namespace {backup.ref.namespace} "
                    "now belongs to another Tenant; name the new owner with --as NAMESPACE/NAME"
                )

    async def _begun(self, ref: EngineRef, mark: str) -> bool:
        """Return True if this restore created the Environment and did not end. Raises AlreadyExists for another's."""
        for document in await self.list("Environment"):
            metadata = document["metadata"]
            named = (metadata["namespace"], metadata["name"]) == (ref.namespace, ref.name)
            same = (document["spec"].get("id") or metadata["uid"]) == ref.id
            if named and same and (metadata.get("annotations") or {}).get(RESTORING) == mark:
                return True
            if same:
                raise AlreadyExists(f"{ref_of(document)} has the id {ref.id}: what lives is not restored; delete it first")
            if named:
                raise AlreadyExists(f"{ref_of(document)} already exists; choose another name with --as NAMESPACE/NAME")
        return False

    async def _check_free(self, documents: Sequence[Document], ref: EngineRef) -> None:
        """Before anything is done: what would be in its way."""
        try:
            await self.get(Ref("Namespace", "", ref.namespace))
        except NotFound:
            raise NotFound(f"there is no namespace {ref.namespace}; choose another with --as NAMESPACE/NAME") from None
        for document in documents[1:]:
            with suppress(NotFound):
                await self.get(ref_of(document))
                raise AlreadyExists(f"{ref_of(document)} already exists: delete it first")

    async def _made(self, document: Document) -> Applied:
        try:
            await self.create(document)
        except AlreadyExists:  # before an interruption
            return Applied(ref_of(document), "unchanged")
        return Applied(ref_of(document), "created")


def _moved(backup: Backup, ref: EngineRef, mark: str) -> list[Document]:
    """The documents as the environment is to be called."""
    environment, *contents = backup.documents
    metadata = dict(environment["metadata"])
    metadata |= {"namespace": ref.namespace, "name": ref.name}
    kept = {key: value for key, value in (metadata.get("annotations") or {}).items() if key != OF_TENANT}
    metadata["annotations"] = {**kept, RESTORING: mark}
    again: Document = {**environment, "metadata": metadata, "spec": {**environment["spec"], "id": ref.id}}
    return [again, *(_content(each, backup.ref.name, ref) for each in contents)]


def _content(document: Document, was: str, ref: EngineRef) -> dict[str, Any]:
    """An app, identity or provider of it. By convention their names begin with the environment's."""
    name = document["metadata"]["name"]
    if name.startswith(f"{was}."):
        name = f"{ref.name}.{name.removeprefix(f'{was}.')}"
    metadata = {**document["metadata"], "namespace": ref.namespace, "name": name}
    return {**document, "metadata": metadata, "spec": {**document["spec"], "environment": ref.name}}
