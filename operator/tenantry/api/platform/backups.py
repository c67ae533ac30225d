"""Backups for the console: of environments that run, and of removed ones that come back. Only a SUPERUSER handles them."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import structlog
from starlette.requests import Request
from starlette.responses import Response

from tenantry.api.auth.authentication import SignedInUser
from tenantry.api.facade_context import FacadeContext
from tenantry.api.writing.writes import WriteContext, signature
from tenantry.kinds.environment.spec import Environment
from tenantry.kinds.tenancy import endpoint_of
from tenantry.model.facts import Applied, Backup, BackupFacts, Download, EngineRef, Trust
from tenantry.model.resource import Document, Ref
from tenantry.model.verdicts import NotFound
from tenantry.rest.bodies import invalid
from tenantry.rest.files import file_response
from tenantry.runtime.reconcile.applied import born
from tenantry.runtime.reconcile.revising import revise
from tenantry.runtime.undeleting import Undelete

STRICT = Trust()
"""Only what the platform itself has signed comes back from a page."""

log = structlog.get_logger(__name__)


def backup_refusal(environment: Environment, *, superuser: bool, here: bool) -> str:
    """Return the reason for which an environment is not backed up now, else `""`. here: this host keeps backups."""
    name = f"{environment.metadata.namespace}/{environment.metadata.name}"
    if not superuser:
        return "only a SUPERUSER may do this"
    if not here:
        return f"backups of this host are made by `tenantry --context CLUSTER backup {name} -o FILE`"
    if environment.spec.engine.external is not None:
        return f"the engine of {name} is run by others: back it up there"
    if environment.deleting or endpoint_of(environment) is None:
        return f"the engine of {name} does not run, so there is nothing to back up"
    return ""


class EnvironmentBackups:
    """Writes backups, lists those of removed environments, and brings these back."""

    def __init__(self, context: FacadeContext) -> None:
        self._context = context
        self._archives = context.facade.archives

    @property
    def here(self) -> bool:
        """Return True if this host keeps backups."""
        return self._archives is not None

    async def write(self, request: Request, *, found: Environment) -> Response:
        """Answer with a signed backup of an environment that runs, as `tenantry backup` writes one. Raises PlanAnswered, Halt."""
        principal = await self._context.enter(request)
        if refusal := backup_refusal(found, superuser=principal.superuser, here=self.here):
            raise invalid("", refusal)
        await self._context.answer_plan(request, principal, _nothing)
        assert self._archives is not None
        ref = EngineRef(found.metadata.namespace, found.metadata.name, found.id)
        target = await asyncio.to_thread(_new_file, self._context.facade.uploads.folder)
        try:
            log.info("backup downloaded", object=str(found.ref), by=principal.caller.username)
            facts = await self._archives.write(ref, target, ())
            named = f"{ref.namespace}-{ref.name}.tar"
            return await file_response(request, Download(target, named, facts.size, facts.taken), "application/x-tar")
        finally:  # the answer holds the file open
            await asyncio.to_thread(target.unlink, missing_ok=True)

    async def kept(self) -> Sequence[tuple[BackupFacts, bool]]:
        """Return the newest backups of removed environments, each with True if the environment is there again."""
        living = {one.id for one in self._context.cache.resources(Environment.KIND) if isinstance(one, Environment)}
        return [(one, one.id in living) for one in await self._archived()]

    async def read(self, id_: str) -> tuple[BackupFacts, Backup]:
        """The newest backup of the environment with that id. A path of this machine is no id. Raises NotFound, Invalid."""
        facts = next((one for one in await self._archived() if one.id == id_), None)
        if facts is None or self._archives is None:
            raise NotFound(f"no removed environment with id {id_}")
        return facts, await self._archives.read(await self._archives.find(id_, STRICT))

    async def _archived(self) -> Sequence[BackupFacts]:
        return await self._archives.kept() if self._archives is not None else ()

    async def restore(self, principal: SignedInUser, id_: str) -> Sequence[Applied]:
        """Bring an environment back under its own name and id. The Environment is the first result."""
        store, cache, marks = self._context.facade.store, self._context.cache, signature(principal.caller)

        async def listed(kind: str) -> Sequence[Document]:
            return [entry.document() for _, entry in cache.entries(kind)]

        async def create(document: Document) -> None:
            await store.create(born(document, marks))

        async def patch(ref: Ref, given: Document) -> Document:
            notes = given["metadata"]["annotations"]
            _, after = await revise(store, ref, lambda current: _noted(current, notes))
            return after

        assert self._archives is not None
        undelete: Undelete[Any] = Undelete(self._archives, listed, store.get, create, patch)
        return await undelete.restore(id_, "", "", STRICT)


async def _nothing(writes: WriteContext) -> None:
    """The write of a backup: it changes no object."""


def _new_file(folder: Path) -> Path:
    descriptor, name = tempfile.mkstemp(".tar", "backup-", folder)
    os.close(descriptor)
    return Path(name)


def _noted(current: Document, notes: Mapping[str, str | None]) -> Document:
    """The document with those annotations, without those that are None."""
    annotations = {**(current["metadata"].get("annotations") or {}), **notes}
    kept = {name: value for name, value in annotations.items() if value is not None}
    return {**current, "metadata": {**current["metadata"], "annotations": kept}}
