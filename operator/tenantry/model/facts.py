"""Facts that adapters see: engines, their apps and identities, packages, secrets. Only values."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Literal, NamedTuple

from tenantry.model.resource import Document, Ref


@dataclass(frozen=True)
class EngineRef:
    """Identifies the engine of one environment: by namespace and name, and by the environment's id, which must match.

    tenant_uid: of the Tenant whose it is, `""` where that is not known; the engine of another Tenant is never taken. tenant: the
    name of that Tenant, for people.
    A pool of engines is deployed as an engine is: its namespace is `""`, and its name is that of its Region.
    """

    namespace: str
    name: str
    id: str
    tenant_slug: str = ""
    slug: str = ""
    tenant_uid: str = field(default="", compare=False)
    tenant: str = field(default="", compare=False)

    @property
    def about(self) -> dict[str, str]:
        """Return the fields of log lines about the environment."""
        fields = {"kind": "Environment", "namespace": self.namespace, "name": self.name, "uid": self.id, "tenant": self.tenant}
        return {name: value for name, value in fields.items() if value}

    @property
    def is_pool(self) -> bool:
        return not self.namespace

    @property
    def route(self) -> EngineRoute:
        return EngineRoute(self.slug, self.tenant_slug)


class EngineRoute(NamedTuple):
    """The slugs by which people reach an engine: of the environment and of its tenant."""

    slug: str
    tenant_slug: str


@dataclass(frozen=True)
class EngineSpec:
    """The engine that an environment wants. database_secret: the Secret with its database's URL, `""` for its own SQLite.

    restoring: the mark of the backup that it comes from, until it has all of it. database_limit: bytes of its database;
    request_limit: requests per second; 0: no limit. pool: the id of the pool that holds it, `""` for a pod of its own.
    capacity: of a pool, the number of engines that it takes; 0 for an engine. replicas: of a pool on a server, else 0; with
    max_replicas the fewest, and an autoscaler sets the number by cpu_target, in percent of what a pod can use.
    asleep: since when it sleeps, `""` for one that is to run. on_request: it sleeps, and a request to its URL wakes it.
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
    database_limit: int = 0
    request_limit: int = 0
    pool: str = ""
    capacity: int = 0
    replicas: int = 0
    max_replicas: int = 0
    cpu_target: int = 0
    asleep: str = ""
    on_request: bool = False

    @property
    def limits(self) -> tuple[int, int]:
        return self.database_limit, self.request_limit

    @property
    def most_replicas(self) -> int:
        """The number of pods of a pool at most; 0 of an engine and of a pool on a volume."""
        return max(self.replicas, self.max_replicas)

    @property
    def has_volume(self) -> bool:
        """Return False for a pool on a server: all that its replicas have there are copies."""
        return not (self.capacity and self.database_secret)


DefaultPool = Literal["true", "false", "new"]
"""The Regions that have the pool `default` if they declare no pools: all, none, or those that are new. Users write these words
in the values of the chart."""

MOVING_MARK = "moving"
"""Instead of the mark of a backup: the engine comes out of another place."""
MoveStep = Literal["Reserve", "Prepare", "Switch", "Point", "Leave", "Cancel"]
MOVE_STEPS = {
    "Reserve": "keep a place there, copy the data, then refuse writes for the seconds of the last copy",
    "Prepare": "copy the data while it serves",
    "Switch": "copy the rest without writes, and serve it there",
    "Point": "send its host there",
    "Leave": "remove it from where it was",
    "Cancel": "give it up",
}


def awaits_archive(mark: str) -> bool:
    """Must an archive be brought to the engine of an Environment with that mark, before it runs for the first time?"""
    return mark != "" and not volume_of(mark)


def volume_of(mark: str) -> str:
    """Return the name of the kept volume that a restore takes, by the mark on its Environment; `""` for an archive."""
    return mark.split("@")[2] if mark.count("@") == 2 else ""


@dataclass(frozen=True)
class RegionFacts:
    """A Region as a tenant that may use it sees it. Sizes and versions: None allows all."""

    name: str
    display_name: str
    sizes: tuple[str, ...] | None = None
    versions: tuple[str, ...] | None = None


DataPlace = Literal["", "Folder", "Server"]
"""The place of an engine's data: nowhere yet, in its folder or volume, or in the database on a server."""


@dataclass(frozen=True)
class EngineFacts:
    """The engine as the deployer sees it. status: PENDING, RUNNING, SLEEPING, FAILED, DELETING.

    credential: the fingerprint of the admin password that it has; `""` where it takes the Secret's by itself. altered: what of it
    somebody else has changed, as phrases; spec is None then. missing: what of its data is gone, `""` when nothing is.
    archived: an archive of what is missing was made before. version: of the platform's release that it runs; next: the one
    that a restart would give it, `""` where it has what it is to have.
    place: where its data is. route: the slugs whose host leads to it, None where no host does. pool, asleep: as EngineSpec.
    coming: it moves to this place and is not served yet: `Reserved`, or `Copied` once a copy of it is there.
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
    archived: bool = False
    version: str = ""
    next: str = ""
    place: DataPlace = ""
    route: EngineRoute | None = None
    pool: str = ""
    asleep: str = ""
    coming: str = ""


@dataclass(frozen=True)
class BackupFacts:
    """A backup of an environment. taken, kept_until (`""`: nobody removes it): RFC 3339; size in bytes; path: absolute.

    signer: the public key of who signed it, `""` for nobody.
    """

    id: str
    namespace: str
    name: str
    taken: str
    size: int
    kept_until: str
    path: str
    signer: str = ""


@dataclass(frozen=True)
class Trust:
    """The public keys of those whose archives are restored, beside the place's own. unprotected: anybody's are."""

    keys: tuple[str, ...] = ()
    unprotected: bool = False

    def with_key(self, key: str) -> Trust:
        """One more key, `""` for none."""
        return replace(self, keys=(*self.keys, key)) if key else self


@dataclass(frozen=True)
class EngineEndpoint:
    """The address and the credential of an engine's interface. `admin_secret` and its key only for a foreign engine."""

    environment_id: str
    url: str
    admin_secret: Ref | None = None
    admin_key: str = "password"


@dataclass(frozen=True)
class EngineApp:
    """One app as the engine reports it. versions: the stored ones, in upload order."""

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

    def answers_to(self, named: str) -> bool:
        """Return True for its name, in whatever case, and for `""`."""
        return not named or self.username.casefold() == named.casefold()


@dataclass(frozen=True)
class IdentityProviderSettings:
    """The declaration of an external identity provider, without its secret. scopes: space-separated.

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
    """An external identity provider as the engine reports it."""

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
        rows = "1 row" if self.rows == 1 else f"{self.rows} rows"
        return self.text if self.kind == "safe" else f"{self.text} ({self.kind}, {rows})"

    def within(self, listed: MigrationStep) -> bool:
        """Return True if it is the same step and harms no more rows."""
        return (self.text, self.kind) == (listed.text, listed.kind) and self.rows <= listed.rows


def list_of(steps: Sequence[MigrationStep]) -> str:
    """Return all steps with their class, in the words of a refusal."""
    return "; ".join(f"{step} (safe)" if step.kind == "safe" else str(step) for step in steps)


def losses_of(steps: Sequence[MigrationStep]) -> str:
    """Twelve hexadecimal digits that name what they lose: other steps, or as many rows less or more, have others."""
    # Not in the words of a refusal, which may change: people declare these digits, and they name the same steps in each release.
    losing = "\n".join(sorted(f"{step.text} ({step.kind}, {step.rows} rows)" for step in steps if step.loses_data))
    return hashlib.sha256(losing.encode()).hexdigest()[:12]


@dataclass(frozen=True)
class Password:
    """A password on its way to an engine: clear text or an argon2id hash, never both. Its repr hides it."""

    clear: str = field(default="", repr=False)
    hash: str = field(default="", repr=False)
    fingerprint: str = ""


@dataclass(frozen=True)
class PackageFacts:
    """Facts of a stored package. size in bytes; blake2b: of its bytes, the signed digest, as hex."""

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


class Download(NamedTuple):
    """A file to serve. size in bytes; sha256 as hex."""

    path: Path
    filename: str
    size: int
    sha256: str


@dataclass(frozen=True)
class SecretFacts:
    """Facts of a secret's key without its value. state: Present, Missing, NoKey, NotLabelled; remedy: what a person does then.

    fault: what is wrong with the password of a User, such as `must have 8 to 1024 characters`; `""` for every other Secret.
    """

    state: str
    fingerprint: str = ""
    remedy: str = ""
    fault: str = ""


@dataclass(frozen=True)
class TenantAccess:
    """The groups of people that a tenant's namespace is open to."""

    admins: tuple[str, ...] = ()
    viewers: tuple[str, ...] = ()

    @property
    def mark(self) -> str:
        """Return a digest of the access, written on the namespace once it is granted. A new form of the roles takes a new
        number."""
        groups = "\n".join((*sorted(self.admins), "", *sorted(self.viewers)))
        return f"2-{hashlib.sha256(groups.encode()).hexdigest()[:12]}"


@dataclass(frozen=True)
class Caller:
    """On whose behalf a request is made. tenant: a Tenant's name, `""` for a SUPERUSER."""

    subject: str
    username: str
    role: str
    tenant: str = ""


@dataclass(frozen=True)
class Backup:
    """The description of an archive, in its own words. documents: the Environment comes first; database: sqlite or postgresql.

    signer: the public key of who says to have signed it, `""` for nobody.
    """

    ref: EngineRef
    taken: datetime
    documents: tuple[Document, ...]
    database: str = "sqlite"
    signer: str = field(default="", compare=False)


@dataclass(frozen=True)
class Applied:
    """The result of one document."""

    ref: Ref
    outcome: Literal["created", "changed", "unchanged"]
