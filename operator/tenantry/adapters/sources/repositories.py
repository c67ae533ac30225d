"""Repositories of Sources, opened by the Source's spec with the rights of the namespace's owner."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path

from tenantry.adapters.sources.git.applied import AppliedCommitInMemory
from tenantry.adapters.sources.git.command import GitLimits
from tenantry.adapters.sources.git.commits import Commits
from tenantry.adapters.sources.git.declarations import GitDeclarations, WritingSettings
from tenantry.adapters.sources.git.entering import RemoteAccess, key_of, unsigned
from tenantry.adapters.sources.git.refusals import Means
from tenantry.adapters.sources.git.source import GitSettings, GitSource
from tenantry.adapters.sources.git.url import GitUrl, git_url
from tenantry.adapters.sources.packages import Build, PackageFiles, PackageStore
from tenantry.adapters.sources.sops import Sops
from tenantry.kinds.admission import Admission
from tenantry.kinds.source.observe import PURPOSE
from tenantry.kinds.source_admission import admission_of
from tenantry.model.resource import Document, Ref
from tenantry.model.syncing import RepositoryAccess, SyncOrder
from tenantry.model.tree import Tree
from tenantry.model.verdicts import Invalid, Problem
from tenantry.ports import Declarations, Secrets
from tenantry.rest.outbound import Rules, checked_url

TENANT_PART = 8
"""A tenant's fetch brings at most that part of what one of the platform's may."""
TENANT_YAML = 2**20
TENANT_ENTRIES = 20_000
"""The largest tree of a tenant. The platform's process reads it, in memory that all tenants share."""

MEANS = Means(*("the Secret of spec.credentials.secretRef",) * 2, "spec.credentials.knownHosts")
"""Names of the means that open the remote of a Source."""


class BoundPackages(PackageFiles):
    """Packages of a Source, with the platform's answer to who owns a namespace."""

    def __init__(self, packages: PackageStore, build: Build, work: Path, tenants: Callable[[], Mapping[str, str]]) -> None:
        super().__init__(packages, build, work)
        self._tenants = tenants

    async def made(self, package: Document, target: Path, tenants: Mapping[str, str]) -> Document:
        return await super().made(package, target, {**tenants, **self._tenants()})


@dataclass(frozen=True)
class RepositorySettings:
    """Limits and means for the repositories of Sources. A tenant has TENANT_PART of `limits.bytes`.

    write_s: how long a write may take; rules: the addresses that a tenant's Source may name; sops: opens what is sealed,
    of the platform's own Sources.
    """

    limits: GitLimits
    write_s: float
    rules: Rules
    sops: Sops


@dataclass(frozen=True)
class OpenedRepository:
    """runtime.following.Opened."""

    read: Callable[[], Awaitable[Tree]]
    changes: Callable[[], AsyncIterator[None]]
    applied: Callable[[Tree], Awaitable[None]]
    declarations: Declarations | None
    history: Callable[[Tree], Awaitable[tuple[str, ...]]]


@dataclass(frozen=True)
class SourceRepositories:
    """runtime.following.Repositories. folder: its own, all in it can be fetched again; work: where packages are built.

    tenants: the names of the Tenants, by the namespace that each is bound to.
    """

    folder: Path
    work: Path
    settings: RepositorySettings
    admission: Admission
    packages: PackageStore
    build: Build
    secrets: Secrets
    tenants: Callable[[], Mapping[str, str]]
    now: Callable[[], datetime]

    async def open(self, order: SyncOrder) -> OpenedRepository:
        entry = await self._entry(order)
        files = BoundPackages(self.packages, self.build, self.work, self.tenants)
        settings = await asyncio.to_thread(self._settings, order, entry)
        git = GitSource(
            url=entry.remote,
            folder=self._own(order.uid),
            admit=admission_of(order, self.admission),
            packages=files,
            now=self.now,
            settings=settings,
        )
        read = partial(self._read, git, order) if order.tenant else git.read
        declarations = await self._declarations(git, order, settings.sops)
        return OpenedRepository(read, git.changes, git.applied, declarations, git.history)

    async def discard(self, uid: str) -> None:
        await asyncio.to_thread(shutil.rmtree, self._own(uid), ignore_errors=True)

    async def is_overgrown(self, order: SyncOrder) -> bool:
        """Return True if many fetches together brought more than is kept."""
        return await asyncio.to_thread(_size, self._own(order.uid)) > 2 * self._most(order)

    async def _declarations(self, git: GitSource, order: SyncOrder, sops: Sops) -> Declarations | None:
        """Raises a Waiting Halt (the Secret)."""
        writing = order.writing
        if writing is None:
            return None
        signer = partial(key_of, await self._secret(writing.signer, writing.key)) if writing.signer else unsigned
        commits = Commits(git.repository, self.settings.limits.fetch_s, signer)
        how = WritingSettings(writing.path, writing.review, self.settings.write_s)
        return GitDeclarations(source=git, commits=commits, admit=admission_of(order, self.admission), sops=sops, settings=how)

    def _own(self, uid: str) -> Path:
        return self.folder / hashlib.sha256(uid.encode()).hexdigest()[:32]

    async def _read(self, git: GitSource, order: SyncOrder) -> Tree:
        """Read the source. The total of many fetches is bounded too."""
        tree = await git.read()
        if await self.is_overgrown(order):
            await git.repository.discard()
        return tree

    def _most(self, order: SyncOrder) -> int:
        """Bytes of one fetch."""
        return self.settings.limits.bytes // TENANT_PART if order.tenant else self.settings.limits.bytes

    async def _entry(self, order: SyncOrder) -> RemoteAccess:
        """Raises Invalid (the URL), a Waiting Halt (the Secret)."""
        url, access = _url(order), order.access
        rules = self.settings.rules if order.tenant else None
        if rules is not None:
            _check(url, access, rules)
        return RemoteAccess(url, await self._secret(access.secret, access.key), access.known_hosts, rules)

    async def _secret(self, ref: Ref | None, key: str) -> str:
        """Raises a Waiting Halt."""
        return (await self.secrets.reveal(ref.namespace, ref.name, key, PURPOSE)).clear if ref is not None else ""

    def _settings(self, order: SyncOrder, entry: RemoteAccess) -> GitSettings:
        """Blocks."""
        limits = replace(self.settings.limits, bytes=self._most(order))
        if order.tenant:
            limits = replace(limits, entries=TENANT_ENTRIES, yaml=TENANT_YAML, packages=2 * limits.bytes)
        # The platform's keys open nothing for a tenant: it may have copied what they seal from elsewhere.
        sops = Sops() if order.tenant else self.settings.sops
        settings = GitSettings(
            interval_s=order.interval_s,
            limits=limits,
            sops=sops,
            applied=AppliedCommitInMemory(order.settled),
            enter=entry.enter,
            means=MEANS,
            ignore=order.ignore,
            strict=order.strict,
        )
        if not order.access.signers:
            return settings
        signers = self._own(order.uid) / "signers"
        signers.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        signers.write_text(order.access.signers, "utf-8")
        return replace(settings, signers=signers, signers_shown="spec.verify.keys")


def _url(order: SyncOrder) -> GitUrl:
    try:
        return git_url(order.url, order.revision, order.path)
    except ValueError as error:
        raise Invalid((Problem("spec.url", str(error)),)) from None


def _check(url: GitUrl, access: RepositoryAccess, rules: Rules) -> None:
    """Check the rules for a tenant's URL. Raises Invalid."""
    if url.scheme == "ssh":
        if access.secret is None or not access.known_hosts:
            reason = "an ssh URL needs secretRef with a private key, and knownHosts: the platform's own are not used"
            raise Invalid((Problem("spec.credentials", reason),))
    elif url.scheme == "file":
        raise Invalid((Problem("spec.url", "file:// is for the platform's own Sources"),))
    else:
        checked_url(url.url, rules, "spec.url")


def _size(folder: Path) -> int:
    """Bytes. Blocks."""
    total = 0
    for at, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                total += (Path(at) / name).lstat().st_size
    return total
