"""The facade's dependencies on the rest of the platform; bootstrap composes them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

from prometheus_client.registry import Collector

from tenantry.api.auth.trusted_issuers import Trusted
from tenantry.api.webhooks import Webhook
from tenantry.kinds.source.spec import Source
from tenantry.model.facts import Caller, EngineEndpoint, PackageFacts
from tenantry.model.measures import FacadeMeasures, LoopMeasures
from tenantry.model.tree import Tree
from tenantry.ports import EngineViews, OperationLogs, Packages, Secrets
from tenantry.rest.auth.tokens import Claims
from tenantry.rest.engine.viewed import ViewedRows, ViewedTable
from tenantry.rest.fairness.gate import Gate
from tenantry.rest.uploads import Uploads
from tenantry.runtime.cache import Cache
from tenantry.runtime.health import PlatformMeasures
from tenantry.runtime.planning.plan import Edit
from tenantry.runtime.planning.planned import Planned
from tenantry.runtime.quotas import TenantQuotas
from tenantry.runtime.reconcile.writing_store import WritingStore
from tenantry.runtime.sources.writers import SourceWriters
from tenantry.runtime.undeleting import Archives


class Keys(Protocol):
    """The platform's signing keys."""

    def sign(self, claims: Mapping[str, Any], ttl: timedelta) -> str:
        """A token with those claims."""

    def verify(self, token: str, audience: str) -> Claims:
        """The claims of a token for that audience. Raises Unauthorized."""

    def jwks(self) -> dict[str, Any]:
        """The public keys, as a JSON Web Key Set."""


class RowView(Protocol):
    """The rows of one engine, for reading."""

    async def tables(self, app: str) -> tuple[ViewedTable, ...]:
        """Return the tables of an installed app. Raises NotFound where it is not installed, Halt."""

    async def rows(self, app: str, table: str, query: Sequence[tuple[str, str]]) -> ViewedRows:
        """Return a page of rows. query: as of the data API. Raises NotFound, Invalid (the query), Halt."""


@dataclass(frozen=True)
class Facade:
    """The facade's dependencies.

    preview: the URL of an engine by region, tenant slug and environment slug; provider: `Local` or `Kubernetes`, the meaning of
    `Host` here; ready: returns True when reads are complete.

    plan: the effects of an edit, as far as members of that Tenant (`""`: everybody) may read; plan_bundle: the effects of a
    client's source (rest.plan_bundle), with its caller's rights, in one namespace or (`""`) in all. branch: reads a branch of a
    Source and writes it to a file as such a bundle, unless the tree has problems.

    read_text: reads the declarations of a YAML text, by its name and bytes. It blocks.

    interrupted: the time since which changes of the store do not reach the cache, None while they do.

    inspect: checks a package file and blocks; mark_key: keys the hashes of requests; trusted: verifies the tokens of other
    issuers; writers: the sources that take callers' writes; webhook: of the source that reacts to pushes.

    requests: counts of answers; collectors: further numbers of this process, for its address of metrics; measures: those of the
    console's health page; loop: the numbers of the reconcile loop, where it is another process's.

    rows: the rows of an engine, for who administers it. Raises Invalid for an engine of others.

    archives: the backups of a host whose process can bring removed environments back.
    """

    store: WritingStore
    writers: SourceWriters
    cache: Cache
    packages: Packages
    secrets: Secrets
    keys: Keys
    engines: EngineViews
    rows: Callable[[EngineEndpoint], RowView]
    logs: OperationLogs
    uploads: Uploads
    preview: Callable[[str, str, str], str]
    provider: str
    inspect: Callable[[Path, str], Awaitable[PackageFacts]]
    plan: Callable[[Edit, str], Coroutine[Any, Any, Planned]]
    plan_bundle: Callable[[Path, Caller, str], Coroutine[Any, Any, Planned]]
    branch: Callable[[Source, str, Path], Coroutine[Any, Any, Tree]]
    read_text: Callable[[str, bytes], Tree]
    mark_key: bytes
    now: Callable[[], datetime]
    quotas: TenantQuotas
    trusted: Trusted | None = None
    webhook: Webhook | None = None
    ready: Callable[[], bool] = lambda: True
    interrupted: Callable[[], datetime | None] = lambda: None
    requests: FacadeMeasures = field(default_factory=FacadeMeasures)
    collectors: tuple[Collector, ...] = ()
    measures: PlatformMeasures | None = None
    loop: Callable[[], Awaitable[LoopMeasures | None]] | None = None
    archives: Archives[Any] | None = None
    gate: Gate = field(default_factory=Gate)
    engine_wait: timedelta = timedelta(seconds=30)
    token_ttl: timedelta = timedelta(hours=1)
