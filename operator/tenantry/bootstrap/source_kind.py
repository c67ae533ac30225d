"""How the repositories of Sources are opened: as the Source says, with the rights of whose namespace it is in."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from tenantry.adapters.sources.documents import Admit
from tenantry.adapters.sources.git.applied import Remembered
from tenantry.adapters.sources.git.command import GitLimits
from tenantry.adapters.sources.git.commits import Commits
from tenantry.adapters.sources.git.declarations import GitDeclarations, WritingSettings
from tenantry.adapters.sources.git.entering import Entry, key_of, unsigned
from tenantry.adapters.sources.git.refusals import Means
from tenantry.adapters.sources.git.source import GitSettings, GitSource
from tenantry.adapters.sources.git.url import GitUrl, git_url
from tenantry.adapters.sources.packages import PackageFiles
from tenantry.adapters.sources.sops import Sops
from tenantry.bootstrap.foreign import rules_of
from tenantry.bootstrap.packages import Checking, bound_tenants
from tenantry.bootstrap.seat import now
from tenantry.engine.outbound import Rules, checked_url
from tenantry.hosts.source_following import Opened
from tenantry.kinds.admission import Admission
from tenantry.kinds.source.observe import PURPOSE
from tenantry.model.resource import CREDENTIAL_LABEL, RESTORING, Document, Ref
from tenantry.model.syncing import Access, SyncOrder
from tenantry.model.tree import Tree
from tenantry.model.verdicts import Invalid, Problem
from tenantry.ports import Declarations, Packages, Secrets
from tenantry.runtime.cache import Cache
from tenantry.settings import Settings

TENANT_KINDS = frozenset({"Secret", "Environment", "Package", "App", "Identity", "IdentityProvider", "Source"})
"""What a tenant's ADMIN may declare in its namespace."""
TENANT_PART = 8
"""A tenant's fetch brings at most that part of what one of the platform's may."""
TENANT_YAML = 2**20
TENANT_ENTRIES = 20_000
"""What the platform's own process reads of a tenant's tree takes its memory, which is everybody's."""

MEANS = Means(*("the Secret of spec.credentials.secretRef",) * 2, "spec.credentials.knownHosts")
"""What opens the remote of a Source."""


class BoundPackages(PackageFiles):
    """Packages of a Source: whose a namespace is, the platform tells."""

    def __init__(self, packages: Packages, checking: Checking, work: Path, cache: Cache) -> None:
        super().__init__(packages, checking.build, work)
        self._cache = cache

    async def made(self, package: Document, target: Path, tenants: Mapping[str, str]) -> Document:
        return await super().made(package, target, {**tenants, **bound_tenants(self._cache)})


@dataclass(frozen=True)
class SourceRepositories:
    """hosts.source_following.Repositories. folder: its own, all in it can be fetched again; work: where packages are built."""

    folder: Path
    work: Path
    settings: Settings
    admission: Admission
    packages: Packages
    secrets: Secrets
    cache: Cache

    async def open(self, order: SyncOrder) -> Opened:
        entry = await self._entry(order)
        files = BoundPackages(self.packages, Checking.of(self.settings), self.work, self.cache)
        settings = await asyncio.to_thread(self._settings, order, entry)
        git = GitSource(entry.remote, self._own(order.uid), self._admit(order), files, now, settings)
        read = partial(self._read, git, order) if order.tenant else git.read
        return Opened(read, git.changes, git.applied, await self._declarations(git, order, settings.sops))

    async def discard(self, uid: str) -> None:
        await asyncio.to_thread(shutil.rmtree, self._own(uid), ignore_errors=True)

    async def is_overgrown(self, order: SyncOrder) -> bool:
        """Have many fetches brought more together than is kept?"""
        return await asyncio.to_thread(_size, self._own(order.uid)) > 2 * self._most(order)

    async def _declarations(self, git: GitSource, order: SyncOrder, sops: Sops) -> Declarations | None:
        """Raises a Waiting Halt (the Secret)."""
        writing, settings = order.writing, self.settings.git
        if writing is None:
            return None
        signer = partial(key_of, await self._secret(writing.signer, writing.key)) if writing.signer else unsigned
        commits = Commits(git.repository, settings.timeout.total_seconds(), signer)
        how = WritingSettings(writing.path, writing.review, settings.write_timeout.total_seconds())
        return GitDeclarations(git, commits, self._admit(order), sops, how)

    def _own(self, uid: str) -> Path:
        return self.folder / hashlib.sha256(uid.encode()).hexdigest()[:32]

    async def _read(self, git: GitSource, order: SyncOrder) -> Tree:
        """What many fetches have brought together is bounded, too."""
        tree = await git.read()
        if await self.is_overgrown(order):
            await git.repository.discard()
        return tree

    def _most(self, order: SyncOrder) -> int:
        """Bytes of one fetch."""
        return self.settings.git.size // TENANT_PART if order.tenant else self.settings.git.size

    async def _entry(self, order: SyncOrder) -> Entry:
        """Raises Invalid (the URL), a Waiting Halt (the Secret)."""
        url, access = _url(order), order.access
        rules = rules_of(self.settings.outbound) if order.tenant else None
        if rules is not None:
            _check(url, access, rules)
        return Entry(url, await self._secret(access.secret, access.key), access.known_hosts, rules)

    async def _secret(self, ref: Ref | None, key: str) -> str:
        """Raises a Waiting Halt."""
        return (await self.secrets.reveal(ref.namespace, ref.name, key, PURPOSE)).clear if ref is not None else ""

    def _settings(self, order: SyncOrder, entry: Entry) -> GitSettings:
        """Blocks."""
        git = self.settings.git
        limits = GitLimits(git.timeout.total_seconds(), self._most(order), git.depth)
        if order.tenant:
            limits = replace(limits, entries=TENANT_ENTRIES, yaml=TENANT_YAML, packages=2 * limits.bytes)
        # The platform's keys open nothing for a tenant: it may have copied what they seal from elsewhere.
        sops = Sops() if order.tenant else Sops(self.settings.sops.key_file)
        settings = GitSettings(
            order.interval_s, limits, sops=sops, applied=Remembered(order.settled), enter=entry.enter, means=MEANS
        )
        if not order.access.signers:
            return settings
        signers = self._own(order.uid) / "signers"
        signers.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        signers.write_text(order.access.signers, "utf-8")
        return replace(settings, signers=signers, signers_shown="spec.verify.keys")

    def _admit(self, order: SyncOrder) -> Admit:
        def admit(document: Document) -> Document:
            admitted = self.admission.admit(document, None)
            problem = _not_labelled(admitted) or (_foreign(admitted, order.source.namespace) if order.tenant else None)
            if problem is not None:
                raise Invalid((problem,))
            return admitted

        return admit


def _url(order: SyncOrder) -> GitUrl:
    try:
        return git_url(order.url, order.revision, order.path)
    except ValueError as error:
        raise Invalid((Problem("spec.url", str(error)),)) from None


def _check(url: GitUrl, access: Access, rules: Rules) -> None:
    """What a tenant's URL must be. Raises Invalid."""
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


def _not_labelled(document: Document) -> Problem | None:
    """Secrets that are nobody's credential are none of our business: they could neither be found again nor pruned."""
    if document["kind"] != "Secret" or CREDENTIAL_LABEL in (document["metadata"].get("labels") or {}):
        return None
    return Problem("metadata.labels", f"a Secret of a Source carries the label {CREDENTIAL_LABEL}")


def _foreign(document: Document, namespace: str) -> Problem | None:
    """Why a tenant's Source may not declare it: so that it is told by its file, and told on one machine, too."""
    kind = document["kind"]
    if kind not in TENANT_KINDS:
        return Problem("kind", f"a Source in a tenant's namespace declares no {kind}: only what the tenant's ADMIN may")
    if document["metadata"].get("namespace") != namespace:
        return Problem("metadata.namespace", f"a Source in {namespace} applies there only")
    if RESTORING in (document["metadata"].get("annotations") or {}):
        return Problem("metadata.annotations", f"only who may create Tenants restores environments, by {RESTORING}")
    if kind == "Package" and document["spec"].get("shared"):
        return Problem("spec.shared", "is for the platform's own Sources")
    return None
