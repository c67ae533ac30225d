"""Every effect that a decision can want: one closed union of frozen values.

`str(change)` is its line in plan, Operation and log. It never holds a secret: passwords travel as references.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tenantry.model.facts import (
    MOVE_STEPS,
    EngineEndpoint,
    EngineRef,
    EngineSpec,
    IdentityProviderSettings,
    MigrationStep,
    MoveStep,
    RegionFacts,
    TenantAccess,
)
from tenantry.model.resource import Ref
from tenantry.model.syncing import FollowSource, LeaveSource, StopSource

NO_GROUPS = TenantAccess()


@dataclass(frozen=True)
class EnsureNamespace:
    """Makes the tenant's namespace, or adopts one that carries the tenant's label, and opens it to the tenant's people.

    exists: it is the tenant's already, only who may come in changes. Once it is made that makes no other change of it.
    """

    namespace: str
    tenant: str
    tenant_uid: str
    access: TenantAccess = NO_GROUPS
    exists: bool = field(default=False, compare=False)

    def __str__(self) -> str:
        return f"namespace {self.namespace}: {'set access' if self.exists else 'create'}"


@dataclass(frozen=True)
class PublishRegions:
    """Shows the tenant's people the Regions that the tenant may use, where they can read them."""

    namespace: str
    tenant: str
    regions: tuple[RegionFacts, ...]

    def __str__(self) -> str:
        return f"tenant {self.tenant}: publish its regions"


@dataclass(frozen=True)
class RemoveNamespace:
    """Deletes the namespace that Tenantry made; releases one that it adopted."""

    namespace: str
    uid: str

    def __str__(self) -> str:
        return f"namespace {self.namespace}: remove"


@dataclass(frozen=True)
class DeleteObject:
    """Deletes a declared object, as its owner's deletion asks."""

    ref: Ref
    uid: str

    def __str__(self) -> str:
        return f"{self.ref.kind.lower()} {self.ref.name}: delete"


@dataclass(frozen=True)
class EnsureAdminSecret:
    """Makes the Secret of an engine's `admin` with a random password, unless it is there."""

    ref: Ref
    environment: str

    def __str__(self) -> str:
        return f"secret {self.ref.name}: create the engine's admin password"


@dataclass(frozen=True)
class DeleteSecret:
    """Deletes a Secret that Tenantry made."""

    ref: Ref

    def __str__(self) -> str:
        return f"secret {self.ref.name}: delete"


@dataclass(frozen=True)
class DeployEngine:
    """Makes the engine run as its spec says.

    version: what it is restarted for, as its turn has come. keeps_pod: its turn has not come; only what needs no restart is put
    right.
    """

    spec: EngineSpec
    admin_secret: Ref
    version: str = ""
    keeps_pod: bool = False

    def __str__(self) -> str:
        way = "; a request to its URL wakes it" if self.spec.on_request else ""
        asleep = f" asleep: its pod goes, its volume stays{way}" if self.spec.asleep else ""
        return f"environment {self.spec.ref.name}: deploy{self.version and f' version {self.version}'}{asleep}"


@dataclass(frozen=True)
class DeployPool:
    """Makes a pool of engines run as its spec says."""

    spec: EngineSpec

    def __str__(self) -> str:
        return f"region {self.spec.ref.name}: deploy pool {self.spec.ref.slug}"


@dataclass(frozen=True)
class UndeployPool:
    """Removes a pool that holds no engine."""

    ref: EngineRef

    def __str__(self) -> str:
        return f"region {self.ref.name}: remove pool {self.ref.slug}"


@dataclass(frozen=True)
class GrantTurn:
    """Lets an Environment restart its engine now, for the version that it waits for."""

    environment: Ref

    def __str__(self) -> str:
        return f"environment {self.environment.name}: its engine may restart"


@dataclass(frozen=True)
class SnapshotEngine:
    """Writes a restorable archive of the engine's data."""

    ref: EngineRef

    def __str__(self) -> str:
        return f"environment {self.ref.name}: archive its data"


@dataclass(frozen=True)
class UndeployEngine:
    """Removes the engine and all that it holds."""

    ref: EngineRef

    def __str__(self) -> str:
        return f"environment {self.ref.name}: remove the engine"


@dataclass(frozen=True)
class WithdrawHost:
    """Takes the host from an engine whose environment lost it or goes. The engine and its data stay."""

    ref: EngineRef

    def __str__(self) -> str:
        return f"environment {self.ref.name}: withdraw its host"


@dataclass(frozen=True)
class MoveEngine:
    """One step of a move. spec: of the engine in its new place; source: the pool that it leaves, `""` for a pod of its own."""

    step: MoveStep
    spec: EngineSpec
    source: str
    admin_secret: Ref
    told: str = field(default="", compare=False)

    def __str__(self) -> str:
        return f"environment {self.spec.ref.name}: move {self.told}: {MOVE_STEPS[self.step]}"


@dataclass(frozen=True)
class UploadPackage:
    """Stores a package version in the engine."""

    engine: EngineEndpoint
    tenant: str
    app: str
    version: str
    sha256: str

    def __str__(self) -> str:
        return f"{self.app}: upload {self.version}"


@dataclass(frozen=True)
class InstallApp:
    """Install a stored version. steps: all its steps that may be shown; only those may lose data."""

    engine: EngineEndpoint
    app: str
    version: str
    allow_drops: bool = False
    steps: tuple[MigrationStep, ...] = ()

    def __str__(self) -> str:
        told = "".join(f", {step}" for step in self.steps)
        return f"{self.app}: install {self.version}{told}"


@dataclass(frozen=True)
class UninstallApp:
    """Deactivates the installed version; its data stays."""

    engine: EngineEndpoint
    app: str

    def __str__(self) -> str:
        return f"{self.app}: uninstall"


@dataclass(frozen=True)
class DeleteAppVersion:
    """Removes a stored version from the engine."""

    engine: EngineEndpoint
    app: str
    version: str

    def __str__(self) -> str:
        return f"{self.app}: delete version {self.version}"


@dataclass(frozen=True)
class DropAppData:
    """Drops the tables of an app that is not installed."""

    engine: EngineEndpoint
    app: str

    def __str__(self) -> str:
        return f"{self.app}: drop all its data"


@dataclass(frozen=True)
class PutIdentity:
    """Creates the identity or brings its password and roles to what is declared."""

    engine: EngineEndpoint
    username: str
    secret: Ref
    key: str
    roles: tuple[tuple[str, str], ...] = ()
    change: str = "create"

    def __str__(self) -> str:
        return f"identity {self.username}: {self.change}"


@dataclass(frozen=True)
class DeleteIdentity:
    """Removes an identity."""

    engine: EngineEndpoint
    username: str

    def __str__(self) -> str:
        return f"identity {self.username}: delete"


@dataclass(frozen=True)
class PutIdentityProvider:
    """Creates the provider, or edits the one with `id`."""

    engine: EngineEndpoint
    settings: IdentityProviderSettings
    secret: Ref | None
    key: str
    id: str = ""

    def __str__(self) -> str:
        return f"identity provider {self.settings.name}: {'edit' if self.id else 'create'}"


@dataclass(frozen=True)
class DeleteIdentityProvider:
    """Removes an identity provider."""

    engine: EngineEndpoint
    id: str
    name: str

    def __str__(self) -> str:
        return f"identity provider {self.name}: delete"


@dataclass(frozen=True)
class RemovePackage:
    """Removes the stored bytes of a package."""

    tenant: str
    sha256: str

    def __str__(self) -> str:
        return f"package {self.sha256[:12]}: remove its bytes"


@dataclass(frozen=True)
class ForgetPackages:
    """Removes the stored bytes of all packages of a tenant, also of those that nothing declares."""

    tenant: str

    def __str__(self) -> str:
        return f"tenant {self.tenant}: remove the bytes of its packages"


@dataclass(frozen=True)
class FetchPackage:
    """Fetches the bytes of a package and stores them. location: a URL, or `oci://` and a reference in a registry.

    Only the start of it: the bytes come in passing, and the package is looked at again once they are there, or not to be had.
    """

    package: Ref
    tenant: str
    sha256: str
    location: str

    def __str__(self) -> str:
        # A query may hold a signature, by which anybody could fetch.
        return f"package {self.package.name}: fetch from {self.location.partition('?')[0]}"


Change = (
    EnsureNamespace
    | PublishRegions
    | RemoveNamespace
    | DeleteObject
    | EnsureAdminSecret
    | DeleteSecret
    | DeployEngine
    | DeployPool
    | UndeployPool
    | GrantTurn
    | SnapshotEngine
    | UndeployEngine
    | WithdrawHost
    | MoveEngine
    | UploadPackage
    | InstallApp
    | UninstallApp
    | DeleteAppVersion
    | DropAppData
    | PutIdentity
    | DeleteIdentity
    | PutIdentityProvider
    | DeleteIdentityProvider
    | RemovePackage
    | ForgetPackages
    | FetchPackage
    | FollowSource
    | LeaveSource
    | StopSource
)

CLUSTER_PROVIDERS = frozenset({"Kubernetes"})


def opens_first(change: Change) -> bool:
    """True for an effect that may wait or touches data: its Operation must be RUNNING before it starts."""
    match change:
        case InstallApp() | DropAppData() | SnapshotEngine() | UndeployEngine() | DeleteObject() | MoveEngine():
            return True
        case DeployEngine(spec=spec):
            return spec.provider in CLUSTER_PROVIDERS
        case _:
            return False


def loses_data(change: Change) -> bool:
    """True for an effect after which an engine holds less of what its people wrote."""
    match change:
        case InstallApp(steps=steps):
            return any(step.loses_data for step in steps)
        case DropAppData() | UndeployEngine():
            return True
        case _:
            return False
