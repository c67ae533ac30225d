"""What adapters see of the world: engines, their apps and identities, packages, secrets. Values only."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from tenantry.model.resource import Ref


@dataclass(frozen=True)
class EngineRef:
    """Identifies the engine of one environment: by namespace and name, and by the environment's id, which must match.

    tenant_uid: of the Tenant whose it is, `""` where that is not known; the engine of another Tenant is never taken.
    """

    namespace: str
    name: str
    id: str
    tenant_slug: str = ""
    slug: str = ""
    tenant_uid: str = field(default="", compare=False)


@dataclass(frozen=True)
class EngineSpec:
    """The engine that an environment wants. database_secret: the Secret with its database's URL, `""` for its own SQLite.

    restoring: the mark of the backup that it comes from, until it has all of it.
    """

    ref: EngineRef
    region: str
    provider: str
    version: str = ""
    size: str = ""
    storage: str = ""
    database_secret: str = ""
    database_key: str = ""
    restoring: str = ""


def awaits_archive(mark: str) -> bool:
    """Must an archive be brought to the engine of an Environment with that mark, before it runs for the first time?"""
    return mark != "" and not volume_of(mark)


def volume_of(mark: str) -> str:
    """What tells of the kept volume that a restore takes up, by the mark on its Environment; `""` for one from an archive."""
    return mark.split("@")[2] if mark.count("@") == 2 else ""


@dataclass(frozen=True)
class EngineFacts:
    """The engine as the deployer sees it. status: PENDING, RUNNING, FAILED, DELETING.

    credential: the fingerprint of the admin password that it has; `""` where it takes the Secret's by itself. altered: what of it
    somebody else has changed, as phrases; spec is None then. missing: what of its data is gone, `""` when nothing is. version: of
    the platform's release that it runs; next: the one that a restart would give it, `""` where it has what it is to have.
    """

    id: str
    name: str
    status: str
    url: str
    external_id: str
    environment_external_id: str
    created_at: datetime | None = None
    message: str = ""
    spec: EngineSpec | None = None
    credential: str = ""
    altered: tuple[str, ...] = ()
    missing: str = ""
    version: str = ""
    next: str = ""


@dataclass(frozen=True)
class BackupFacts:
    """A backup of an environment. taken, kept_until (`""`: nobody removes it): RFC 3339; size in bytes; path: absolute."""

    id: str
    namespace: str
    name: str
    taken: str
    size: int
    kept_until: str
    path: str


@dataclass(frozen=True)
class EngineEndpoint:
    """Where an engine's interface is reached and as whom. `admin_secret` and its key only for a foreign engine."""

    environment_id: str
    url: str
    admin_secret: Ref | None = None
    admin_key: str = "password"


@dataclass(frozen=True)
class EngineApp:
    """One app as the engine tells it. versions: the stored ones, in upload order."""

    id: str
    name: str = ""
    author: str = ""
    version: str = ""
    versions: tuple[str, ...] = ()
    persisted: bool = False

    @property
    def installed(self) -> bool:
        return self.version != ""


@dataclass(frozen=True)
class EngineIdentity:
    """A local user of an engine. fingerprint: the caller's own mark of the password it set, `""` when unknown."""

    id: str
    username: str
    created_at: datetime
    fingerprint: str = ""
    roles: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class IdentityProviderSettings:
    """What is declared of an external identity provider, without its secret. scopes: space-separated.

    default_roles: by app. roles_claim: the claim of a token that names further roles, `""` for none.
    """

    name: str
    issuer_url: str
    client_id: str
    scopes: str = "openid profile email"
    auto_provision: bool = False
    is_active: bool = True
    default_roles: Mapping[str, str] = field(default_factory=dict)
    roles_claim: str = ""


@dataclass(frozen=True)
class EngineIdentityProvider:
    """An external identity provider as the engine tells it."""

    id: str
    settings: IdentityProviderSettings
    created_at: datetime
    fingerprint: str = ""


@dataclass(frozen=True)
class MigrationStep:
    """One step of an install, e.g. `drops column contacts.fax`. rows: how many it harms.

    Neither losing nor impossible: safe. An impossible one is refused, whatever is allowed.
    """

    text: str
    loses_data: bool = False
    rows: int = 0
    impossible: bool = False

    @property
    def kind(self) -> str:
        """`safe`, `losing` or `impossible`."""
        return "impossible" if self.impossible else "losing" if self.loses_data else "safe"

    def __str__(self) -> str:
        return self.text if self.kind == "safe" else f"{self.text} ({self.kind}, {self.rows} rows)"

    def within(self, listed: MigrationStep) -> bool:
        """Is it the same step, and harms no more rows?"""
        return (self.text, self.kind) == (listed.text, listed.kind) and self.rows <= listed.rows


def list_of(steps: Sequence[MigrationStep]) -> str:
    """All of them with their class, as a refusal tells them."""
    return "; ".join(f"{step} (safe)" if step.kind == "safe" else str(step) for step in steps)


def losses_of(steps: Sequence[MigrationStep]) -> str:
    """Twelve hexadecimal digits that name what they lose: other steps, or as many rows less or more, have others."""
    losing = "\n".join(sorted(str(step) for step in steps if step.loses_data))
    return hashlib.sha256(losing.encode()).hexdigest()[:12]


@dataclass(frozen=True)
class Password:
    """A password on its way to an engine: clear text or an argon2id hash, never both. Its repr hides it."""

    clear: str = field(default="", repr=False)
    hash: str = field(default="", repr=False)
    fingerprint: str = ""


@dataclass(frozen=True)
class PackageFacts:
    """What a stored package says of itself. size in bytes; blake2b: of its bytes, what signatures sign, as hex."""

    app: str
    version: str
    name: str
    author: str
    sha256: str
    size: int
    tables: int
    symbols: bool
    roles: tuple[str, ...] = ()
    blake2b: str = ""


@dataclass(frozen=True)
class SecretFacts:
    """What may be known of a secret's key without its value. state: Present, Missing, NoKey, NotLabelled."""

    state: str
    fingerprint: str = ""


@dataclass(frozen=True)
class TenantAccess:
    """The groups of people that a tenant's namespace is open to."""

    admins: tuple[str, ...] = ()
    viewers: tuple[str, ...] = ()

    @property
    def mark(self) -> str:
        """Tells one access from another; on the namespace once it is given. A new form of the roles takes a new number."""
        groups = "\n".join((*sorted(self.admins), "", *sorted(self.viewers)))
        return f"2-{hashlib.sha256(groups.encode()).hexdigest()[:12]}"


@dataclass(frozen=True)
class Caller:
    """On whose behalf a request is made. tenant: a Tenant's name, `""` for a SUPERUSER."""

    subject: str
    username: str
    role: str
    tenant: str = ""
