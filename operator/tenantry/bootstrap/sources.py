"""Sources of a platform of this process: a folder of YAML, or a Git repository."""

from __future__ import annotations

import asyncio
import hashlib
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tenantry.adapters.sources.directory import Directory
from tenantry.adapters.sources.documents import Admit
from tenantry.adapters.sources.git.applied import AppliedCommit, AppliedCommitInMemory
from tenantry.adapters.sources.git.command import GitLimits
from tenantry.adapters.sources.git.commits import Commits
from tenantry.adapters.sources.git.declarations import GitDeclarations, WritingSettings, checked_pattern
from tenantry.adapters.sources.git.entering import RemoteAccess, key_at, unsigned
from tenantry.adapters.sources.git.source import GitSettings, GitSource
from tenantry.adapters.sources.git.url import GitUrl
from tenantry.adapters.sources.packages import PackageFiles
from tenantry.adapters.sources.sops import Sops
from tenantry.adapters.sources.watch import changes
from tenantry.model.tree import Tree
from tenantry.model.verdicts import Invalid, Problem
from tenantry.ports import Declarations
from tenantry.runtime.clock import now
from tenantry.runtime.sources.pruning import Budget
from tenantry.settings import GitRepositorySettings, Settings, variable

if TYPE_CHECKING:
    from tenantry.api.webhooks import Webhook


@dataclass(frozen=True)
class SourceSettings:
    """The settings for reading sources."""

    git: GitRepositorySettings
    sops: Sops

    @classmethod
    def of(cls, settings: Settings) -> SourceSettings:
        return cls(settings.git, Sops(settings.sops.key_file))


@dataclass(frozen=True)
class Readable:
    """A source, ready to be read. applied: receives each applied tree, if set; declarations: the place for writes."""

    location: str
    read: Callable[[], Awaitable[Tree]]
    changes: Callable[[], AsyncIterator[None]]
    applied: Callable[[Tree], Awaitable[None]] | None = None
    declarations: Declarations | None = None
    webhook: Callable[[Callable[[], None]], Webhook] | None = None
    history: Callable[[Tree], Awaitable[tuple[str, ...]]] | None = None
    """The commits that lead to what a tree shows, newest first; None for a folder."""


def open_source(
    source: Path | GitUrl,
    folder: Path,
    admit: Admit,
    packages: PackageFiles,
    settings: SourceSettings,
    applied: AppliedCommit | None = None,
) -> Readable:
    """A source. folder: where a repository is kept, one at a time; applied: remembers what of it was applied, None for nothing.

    Nothing is read yet. Raises OSError, Invalid (settings).
    """
    if isinstance(source, Path):
        directory = Directory(source, admit, packages, settings.sops)
        return Readable(str(source), directory.read, lambda: changes(source, asyncio.Event(), lambda: directory.read_at))
    own = folder / hashlib.sha256(str(source).encode()).hexdigest()[:16]
    for other in folder.iterdir() if folder.is_dir() else ():
        if other != own:
            shutil.rmtree(other)
    git = GitSource(
        url=source,
        folder=own,
        admit=admit,
        packages=packages,
        now=now,
        settings=replace(_git(settings, source), applied=applied or AppliedCommitInMemory()),
    )
    return Readable(
        location=str(source),
        read=git.read,
        changes=git.changes,
        applied=git.applied,
        declarations=_declarations(git, admit, settings),
        webhook=_webhook(source, settings.git),
        history=git.history,
    )


def _declarations(source: GitSource, admit: Admit, settings: SourceSettings) -> Declarations | None:
    git = settings.git
    if git.write_back == "off":
        return None
    if git.verify is not None and git.signing_key is None:
        reason = "is required where commits are verified: what is written back would be refused"
        raise Invalid((Problem(variable("git", "signing_key"), reason),))
    push_s, whole_s = git.timeout.total_seconds(), git.write_timeout.total_seconds()
    writing = WritingSettings(_pattern(git.write_path), git.write_back == "review", whole_s)
    signer = partial(key_at, git.signing_key) if git.signing_key else unsigned
    return GitDeclarations(
        source=source, commits=Commits(source.repository, push_s, signer), admit=admit, sops=settings.sops, settings=writing
    )


def _pattern(path: str) -> str:
    try:
        return checked_pattern(path)
    except ValueError as error:
        raise Invalid((Problem(variable("git", "write_path"), str(error)),)) from None


def _webhook(url: GitUrl, settings: GitRepositorySettings) -> Callable[[Callable[[], None]], Webhook] | None:
    """Makes the webhook of who is to be asked. Raises OSError, Invalid (its secret)."""
    if settings.webhook_secret is None:
        return None
    from tenantry.api.webhooks import SHORTEST_SECRET, Webhook  # with the facade, which `up` imports after its first answer

    secret = settings.webhook_secret.read_bytes().strip()
    if len(secret) < SHORTEST_SECRET:
        reason = f"{settings.webhook_secret} must hold a secret of at least {SHORTEST_SECRET} bytes"
        raise Invalid((Problem(variable("git", "webhook_secret"), reason),))
    return lambda ask: Webhook(secret, url.url, url.revision, partial(_asked, ask))


async def _asked(ask: Callable[[], None]) -> None:
    ask()


def _git(settings: SourceSettings, url: GitUrl) -> GitSettings:
    git = settings.git
    limits = GitLimits(git.timeout.total_seconds(), git.size, git.depth)
    secret = git.credentials.read_text() if git.credentials is not None and url.scheme == "https" else ""
    return GitSettings(git.interval.total_seconds(), limits, settings.sops, git.verify, enter=RemoteAccess(url, secret).enter)


def budget_of(settings: Settings) -> Budget:
    """Return the budget of one sync's pruning."""
    return Budget(settings.prune.objects, settings.prune.share)
