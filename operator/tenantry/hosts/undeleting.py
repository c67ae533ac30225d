"""Environments out of backups: the engine's files first, then the objects, with their ids. Begun again, it goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from tenantry.adapters.local.archives import Backup
from tenantry.hosts.console import Applied
from tenantry.model.facts import BackupFacts, EngineRef
from tenantry.model.resource import OF_TENANT, RESTORING, Document, Ref, ref_of
from tenantry.model.verdicts import AlreadyExists, Forbidden, NotFound

A = TypeVar("A")


class Archives(Protocol[A]):
    """The backups of a host. A: how it names one."""

    async def write(self, ref: EngineRef, target: Path) -> BackupFacts:
        """Backs an engine up while it runs. Raises NotFound, Halt, OSError."""

    async def kept(self) -> tuple[BackupFacts, ...]:
        """Those of removed engines, the newest first."""

    async def find(self, given: str) -> A:
        """The file of that path, or the newest of the environment with that id. Raises NotFound."""

    async def read(self, archive: A) -> Backup:
        """What it says of itself. Raises Invalid, OSError."""

    def mark(self, archive: A, backup: Backup) -> str:
        """What the Environment carries while it is restored from there; no two archives have the same."""

    async def stage(self, archive: A, ref: EngineRef) -> None:
        """What must be there before the Environment is made. Raises AlreadyExists, Invalid, Halt, OSError."""

    async def fill(self, archive: A, ref: EngineRef) -> None:
        """What can be done only when it is made; returns when the engine has its data. Idempotent. Raises Halt, OSError."""


@dataclass
class Undelete(Generic[A]):
    """Makes Environments again. create raises AlreadyExists; patch merges."""

    backups: Archives[A]
    list: Callable[[str], Awaitable[Sequence[Document]]]
    get: Callable[[Ref], Awaitable[Document]]
    create: Callable[[Document], Awaitable[None]]
    patch: Callable[[Ref, Document], Awaitable[Document]]
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def restore(self, archive: str, namespace: str, name: str) -> tuple[Applied, ...]:
        """From a file, or the newest archive of the environment with that id; under its own name where none is given.

        Raises NotFound (the archive, the namespace), AlreadyExists (its id or a name is living), Forbidden (its namespace is
        another Tenant's by now), Invalid, OSError.
        """
        found = await self.backups.find(archive)
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
        """What is named by its id alone goes back to the Tenant whose it was. A person may name another place, or a file."""
        told = (backup.documents[0]["metadata"].get("annotations") or {}).get(OF_TENANT, "")
        name, _, uid = told.partition("/")
        for tenant in await self.list("Tenant") if uid else ():
            bound = tenant.get("status", {}).get("namespace") or {}
            if bound.get("name") == backup.ref.namespace and tenant["metadata"]["uid"] != uid:
                raise Forbidden(
                    f"environment {backup.ref.name} was of a Tenant {name} that is deleted, and namespace {backup.ref.namespace} "
                    "is another Tenant's by now; say by --as NAMESPACE/NAME who is to have it"
                )

    async def _begun(self, ref: EngineRef, mark: str) -> bool:
        """Was it this restore that made the Environment, and did it not end? Raises AlreadyExists for another's."""
        for document in await self.list("Environment"):
            metadata = document["metadata"]
            named = (metadata["namespace"], metadata["name"]) == (ref.namespace, ref.name)
            same = (document["spec"].get("id") or metadata["uid"]) == ref.id
            if named and same and (metadata.get("annotations") or {}).get(RESTORING) == mark:
                return True
            if same:
                raise AlreadyExists(f"{ref_of(document)} has the id {ref.id}: what lives is not restored")
            if named:
                raise AlreadyExists(f"{ref_of(document)} is there already; give another name by --as NAMESPACE/NAME")
        return False

    async def _check_free(self, documents: Sequence[Document], ref: EngineRef) -> None:
        """Before anything is done: what would be in its way."""
        try:
            await self.get(Ref("Namespace", "", ref.namespace))
        except NotFound:
            raise NotFound(f"there is no namespace {ref.namespace}; give another by --as NAMESPACE/NAME") from None
        for document in documents[1:]:
            with suppress(NotFound):
                await self.get(ref_of(document))
                raise AlreadyExists(f"{ref_of(document)} is there already: delete it first")

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
