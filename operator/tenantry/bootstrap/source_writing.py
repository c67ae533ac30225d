"""Repositories of Sources for the facade: writes by a process that does not follow them, and branches read for a plan."""

from __future__ import annotations

import asyncio
import tempfile
import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from tenantry.adapters.blobs import FolderBlobs
from tenantry.adapters.sources.bundled import KeptPackages
from tenantry.bootstrap.fetching import repositories_of
from tenantry.bootstrap.pass_ports import Ports
from tenantry.kinds.admission import Admission
from tenantry.kinds.source.spec import Source
from tenantry.model.syncing import source_label
from tenantry.model.tree import Tree
from tenantry.packages.check import inspect
from tenantry.ports import Secrets
from tenantry.rest.plan_bundle import write_bundle
from tenantry.runtime.cache import Cache
from tenantry.runtime.clock import now
from tenantry.runtime.following.clones import SourceClones
from tenantry.runtime.following.current_order import Refresh, current_order, order_now
from tenantry.runtime.reconcile.request_reconcile import ask_to_look
from tenantry.runtime.sources.write_back import WriteBack
from tenantry.runtime.sources.writers import SourceWriters
from tenantry.settings import Settings


@dataclass(frozen=True)
class SourceWriting:
    """The writers, and the copies of repositories that they need, which are to be swept."""

    writers: SourceWriters
    clones: SourceClones

    @classmethod
    def of(
        cls, settings: Settings, ports: Ports, cache: Cache, secrets: Secrets, refresh: Refresh, scratch: Path
    ) -> SourceWriting:
        """scratch: a folder for copies of repositories, and for packages while they are built."""
        clones = SourceClones(
            repositories=repositories_of(
                settings, packages=ports.packages, secrets=secrets, cache=cache, folder=scratch, work=scratch
            ),
            order_of=partial(current_order, ports, cache, refresh),
            ask=lambda source: ask_to_look(ports.store, source, now()),
            time=time.monotonic,
            within_s=settings.git.write_timeout.total_seconds(),
        )
        admission = Admission()

        def write_back(source: Source) -> WriteBack:
            return WriteBack(source_label(source.ref), partial(clones.turn, source), admission.admit, source.commits_to)

        return cls(SourceWriters(cache, write_back), clones)


@dataclass(frozen=True)
class SourceBranches:
    """Facade.branch. refresh: see current_order."""

    settings: Settings
    ports: Ports
    cache: Cache
    secrets: Secrets
    refresh: Refresh

    async def __call__(self, source: Source, branch: str, file: Path) -> Tree:
        """Read a branch, and write it to a file as a bundle under the name of the Source. Raises a Halt."""
        order = await order_now(self.ports, self.cache, self.refresh, source)
        order = replace(order, revision=f"refs/heads/{branch}", writing=None)
        with tempfile.TemporaryDirectory(prefix="branch-", dir=file.parent) as folder:
            work = Path(folder)
            packages = KeptPackages(await asyncio.to_thread(FolderBlobs, work / "packages", inspect))
            repositories = repositories_of(
                self.settings, packages=packages, secrets=self.secrets, cache=self.cache, folder=work, work=work
            )
            opened = await repositories.open(order)
            tree = await opened.read()
            if not (tree.problems or tree.held or tree.away):
                history = await opened.history(tree)
                await asyncio.to_thread(write_bundle, file, tree, order.owner, packages.files, history)
        return tree
