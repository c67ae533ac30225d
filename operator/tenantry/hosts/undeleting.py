"""Environments out of backups: the engine's files first, then the objects, with their ids. Begun again, it goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from tenantry.adapters.local.archives import Backup
from tenantry.adapters.local.backups import Backups
from tenantry.hosts.console import Applied
from tenantry.model.facts import EngineRef
from tenantry.model.resource import RESTORING, Document, Ref, format_time, ref_of
from tenantry.model.verdicts import AlreadyExists, NotFound


@dataclass
class Undelete:
    """Makes Environments again. create raises AlreadyExists; patch merges."""

    backups: Backups
    list: Callable[[str], Awaitable[Sequence[Document]]]
    get: Callable[[Ref], Awaitable[Document]]
    create: Callable[[Document], Awaitable[None]]
    patch: Callable[[Ref, Document], Awaitable[Document]]
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def restore(self, archive: str, namespace: str, name: str) -> tuple[Applied, ...]:
        """From a file, or the newest archive of the environment with that id; under its own name where none is given.

        Raises NotFound (the archive, the namespace), AlreadyExists (its id or a name is living), Invalid, OSError.
        """
        path = await self.backups.find(archive)
        backup = await self.backups.read(path)
        ref = EngineRef(namespace or backup.ref.namespace, name or backup.ref.name, backup.ref.id)
        mark = f"{ref.id}@{format_time(backup.taken)}"
        documents = _moved(backup, ref, mark)
        async with self._turn:
            if not await self._begun(ref, mark):
                await self._check_free(documents, ref)
                await self.backups.stage(path, ref)
            applied = tuple([await self._made(document) for document in documents])
            await self.patch(applied[0].ref, {"metadata": {"annotations": {RESTORING: None}}})
        return applied

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
    metadata["annotations"] = {**(metadata.get("annotations") or {}), RESTORING: mark}
    again: Document = {**environment, "metadata": metadata, "spec": {**environment["spec"], "id": ref.id}}
    return [again, *(_content(each, backup.ref.name, ref) for each in contents)]


def _content(document: Document, was: str, ref: EngineRef) -> dict[str, Any]:
    """An app, identity or provider of it. By convention their names begin with the environment's."""
    name = document["metadata"]["name"]
    if name.startswith(f"{was}."):
        name = f"{ref.name}.{name.removeprefix(f'{was}.')}"
    metadata = {**document["metadata"], "namespace": ref.namespace, "name": name}
    return {**document, "metadata": metadata, "spec": {**document["spec"], "environment": ref.name}}
