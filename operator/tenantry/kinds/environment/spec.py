"""Environment: one engine of a tenant, in a region."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from tenantry.kinds.signatures import PackageKey
from tenantry.model.fields import (
    EFFECTIVE_SLUG,
    DeclaredId,
    DeletionProtection,
    DisplayName,
    ObjectName,
    ObjectRule,
    Slug,
    Suspend,
    Url,
)
from tenantry.model.resource import TURN, Resource, SecretKeyRef, Status, Time, Value
from tenantry.model.wording import worded

PROTECTED = "protected=true"
"""The index key of environments that cannot be deleted."""


class DatabaseReference(Value):
    """The database of the engine: a Secret's key that holds a PostgreSQL URL."""

    secret_ref: SecretKeyRef


class ExternalEngine(Value):
    """An engine that Tenantry did not start."""

    url: Url = Field(description="The URL of the engine, without /api/v1. https, unless the platform allows more.")
    admin_secret_ref: SecretKeyRef = Field(description="The password of its `admin`, in clear text.")


class DeclaredEngine(Value):
    """The engine that the environment wants. `{}` is the region's default."""

    model_config = {
        "json_schema_extra": {
            "x-kubernetes-validations": [
                {
                    "rule": "!has(self.external) || !["
                    "has(self.version), has(self.size), has(self.storage), has(self.database), "
                    "has(self.placement), has(self.pool)].exists(x, x)",
                    "message": "is not ours to shape: version, size, storage, database, placement and pool must be absent",
                    "fieldPath": ".external",
                },
                {
                    "rule": "!has(self.pool) || !has(self.placement) || self.placement == 'Pooled'",
                    "message": "must be absent where placement is Dedicated",
                    "fieldPath": ".pool",
                },
                {
                    "rule": "has(self.external) == has(oldSelf.external)",
                    "message": "cannot be added or removed: an environment keeps its engine",
                    "fieldPath": ".external",
                },
            ]
        }
    }

    version: str | None = Field(
        default=None, min_length=1, max_length=128, description="The version of the engine; default: the platform's."
    )
    size: str | None = Field(
        default=None,
        min_length=1,
        max_length=40,
        description="One of the sizes that the platform offers; default: the platform's.",
    )
    storage: str | None = Field(
        default=None,
        min_length=2,
        max_length=20,
        pattern=worded(r"^[1-9][0-9]*(Mi|Gi|Ti)$", "must be a size in Mi, Gi or Ti, such as 10Gi"),
        description="The size of the engine's volume in Mi, Gi or Ti; default: the platform's. Only on a cluster.",
    )
    database: DatabaseReference | None = None
    placement: Literal["Pooled", "Dedicated"] | None = Field(
        default=None,
        description="Where the engine runs on a cluster: `Pooled` in a pool of the region, `Dedicated` in a pod of its own."
        " Default: Pooled if the region has a pool, and the engine needs nothing that a pool lacks."
        " A new engine takes it; one that runs stays where it is.",
    )
    pool: ObjectName | None = Field(default=None, description="The pool of the region; default: its first one.")
    unmanaged: Literal["Keep", "Remove"] = Field(
        default="Keep", description="The treatment of undeclared apps and identities of the engine."
    )
    external: ExternalEngine | None = None


class EnvironmentSpec(Value):
    """The declaration of an Environment."""

    model_config = {
        "json_schema_extra": {
            "x-kubernetes-validations": [
                {"rule": "self.region == oldSelf.region", "message": "is immutable", "fieldPath": ".region"},
                {"rule": "has(self.id) == has(oldSelf.id)", "message": "is immutable", "fieldPath": ".id"},
            ]
        }
    }

    id: DeclaredId | None = None
    display_name: DisplayName | None = None
    slug: Slug | None = None
    region: ObjectName = Field(description="The Region of the environment.")
    deletion_protection: DeletionProtection = False
    deletion_policy: Literal["Snapshot", "Delete", "Retain"] = Field(
        default="Snapshot", description="`Snapshot`: where there is data, a restorable archive first."
    )
    suspend: Suspend = False
    drift_policy: Literal["Correct", "Warn"] = Field(
        default="Correct",
        description="The reaction when the engine differs from the declarations. `Correct` (default): it is corrected."
        " `Warn`: the condition `Drifted` shows it.",
    )
    engine: DeclaredEngine = Field(default_factory=DeclaredEngine)
    package_keys: list[PackageKey] | None = Field(
        default=None,
        min_length=1,
        max_length=20,
        description="One of them must have signed every package, and one of the region's too.",
    )


def host_label(slug: str, tenant_slug: str) -> str:
    """Return the first label of the host that serves an engine on a cluster."""
    return f"{slug}--{tenant_slug}"


class EngineStatus(Value):
    """The engine as REST shows it."""

    id: str = Field(default="", description="The id of the engine in REST.")
    name: str = Field(default="", description="The name of the engine in REST.")
    status: Literal["PENDING", "RUNNING", "FAILED", "DELETING"] = Field(default="PENDING", description="The state of the engine.")
    url: str = Field(default="", description="The address at which people and programs reach the engine.")
    external_id: str = Field(default="", description="The engine at its provider, below the environment's.")
    created_at: Time | None = Field(default=None, description="When the engine was created.")
    version: str = Field(default="", description="The version of the platform's release that it runs.")
    next: str = Field(default="", description="The version for which it waits to be restarted; empty when it waits for none.")
    pool: str | None = Field(default=None, description="The id of the pool that holds it; absent for a pod of its own.")


class EnvironmentStatus(Status):
    """The observed state of an Environment."""

    phase: Literal["PENDING", "READY", "DELETING"] | None = Field(
        default=None, description="The state as REST shows it; the conditions say why."
    )
    slug: str | None = Field(default=None, description="The slug in use; the previous one while the declared slug is taken.")
    tenant_slug: str | None = Field(default=None, description="The tenant's slug that the URL carries.")
    url: str | None = Field(default=None, description="The address at which people and programs reach the environment.")
    external_id: str | None = Field(
        default=None, description="The environment at its provider: CLUSTER/NAMESPACE, or local/FOLDER."
    )
    engine: EngineStatus | None = None
    last_handled_accept_empty_at: str | None = Field(
        default=None, description="The value of the annotation tenantry.dev/accept-empty-requested-at that was last handled."
    )


class Environment(Resource[EnvironmentSpec, EnvironmentStatus]):
    """A running engine with its apps, identities and identity providers."""

    KIND: ClassVar[str] = "Environment"
    PLURAL: ClassVar[str] = "environments"
    SHORT: ClassVar[str] = "tenv"
    TENANT_DECLARES: ClassVar[bool] = True
    VERSION_AT: ClassVar[tuple[str, ...]] = ("status", "engine", "version")
    EXPORTED_TO: ClassVar[str] = "30-environments"
    PRINTER_COLUMNS: ClassVar[tuple[tuple[str, str, str, int], ...]] = (
        ("URL", "string", ".status.url", 1),
        ("Region", "string", ".spec.region", 1),
        ("Phase", "string", ".status.phase", 1),
        ("Version", "string", ".status.engine.version", 0),
        ("Waits For", "string", ".status.engine.next", 0),
    )
    SELECTABLE: ClassVar[tuple[str, ...]] = (".spec.region",)

    CEL: ClassVar[tuple[ObjectRule, ...]] = EFFECTIVE_SLUG

    spec: EnvironmentSpec
    status: EnvironmentStatus = Field(default_factory=EnvironmentStatus)

    @property
    def wanted_slug(self) -> str:
        return self.spec.slug or self.metadata.name

    @property
    def lost_host(self) -> bool:
        """Return True if it was Ready, and another environment has taken its host since."""
        return self.status.phase == "READY" and self.status.slug is None and self.spec.engine.external is None

    @property
    def claims(self) -> frozenset[str]:
        return frozenset({f"Environment {self.metadata.namespace} {self.wanted_slug}"})

    def index_keys(self) -> frozenset[str]:
        keys = {f"slug={self.wanted_slug}", f"region={self.spec.region}"}
        if self.status.slug:
            keys.add(f"slug={self.status.slug}")
            keys.add(f"host={host_label(self.status.slug, self.status.tenant_slug or '')}")
        if self.spec.deletion_protection and not self.deleting:
            keys.add(PROTECTED)
        if self.status.engine is not None and self.status.engine.pool:
            keys.add(f"pool={self.status.engine.pool}")
        if place := self._rollout_place():
            keys.add(f"rollout={self.spec.region}/{place}")
        return frozenset(keys)

    def _rollout_place(self) -> str:
        """Return the progress of its engine's restart: `turn`, or the reason of its wait; `""` in nearly all, so that a
        Region finds few."""
        engine, turn = self.status.engine, self.metadata.annotations.get(TURN)
        if engine is None or self.deleting or self.suspended:
            return ""
        if not engine.next:
            return "turn" if turn and engine.status != "RUNNING" else ""
        if turn == engine.next:
            return "turn"
        if engine.status != "RUNNING":
            return "down"
        return "protected" if self.spec.deletion_protection else "early"
