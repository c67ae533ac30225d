"""What the facade needs of the rest of the platform; bootstrap composes it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

from tenantry.api.trusted import Trusted
from tenantry.api.webhooks import Webhook
from tenantry.model.facts import Caller, PackageFacts
from tenantry.ports import EngineViews, OperationLogs, Packages, Secrets
from tenantry.rest.tokens import Claims
from tenantry.rest.uploads import Uploads
from tenantry.runtime.cache import Cache
from tenantry.runtime.plan import Edit
from tenantry.runtime.planned import Planned
from tenantry.runtime.writers import SourceWriters
from tenantry.runtime.writing import WritingStore


class Keys(Protocol):
    """The platform's signing keys."""

    def sign(self, claims: Mapping[str, Any], ttl: timedelta) -> str:
        """A token with those claims."""

    def verify(self, token: str, audience: str) -> Claims:
        """The claims of a token for that audience. Raises Unauthorized."""

    def jwks(self) -> dict[str, Any]:
        """The public keys, as a JSON Web Key Set."""


@dataclass(frozen=True)
class Facade:
    """The facade's dependencies.

    preview: the URL of an engine by region, tenant slug and environment slug; provider: `Local` or `Kubernetes`, what `Host`
    means here; plan: what an edit would do, as far as members of that Tenant (`""`: everybody) may read; plan_bundle: what a
    client's source (rest.plan_bundle) would do, with its caller's rights, in one namespace or (`""`) in all; inspect: checks a
    package file and blocks; mark_key: keys the hashes of requests; ready: are reads complete?
    trusted: verifies the tokens of other issuers than the platform; writers: the sources that take what callers write;
    webhook: of the source that is to be told of pushes.
    """

    store: WritingStore
    writers: SourceWriters
    cache: Cache
    packages: Packages
    secrets: Secrets
    keys: Keys
    engines: EngineViews
    logs: OperationLogs
    uploads: Uploads
    preview: Callable[[str, str, str], str]
    provider: str
    inspect: Callable[[Path], PackageFacts]
    plan: Callable[[Edit, str], Awaitable[Planned]]
    plan_bundle: Callable[[Path, Caller, str], Awaitable[Planned]]
    mark_key: bytes
    now: Callable[[], datetime]
    trusted: Trusted | None = None
    webhook: Webhook | None = None
    ready: Callable[[], bool] = lambda: True
    engine_wait: timedelta = timedelta(seconds=30)
    token_ttl: timedelta = timedelta(hours=1)
