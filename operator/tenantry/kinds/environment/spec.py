"""Environment: one engine of a tenant, in a region."""

from __future__ import annotations

from typing import ClassVar, Literal
from urllib.parse import urlsplit

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

WAKES_ON_REQUEST = "wakes=OnRequest"
"""The index key of environments whose engines wake on request."""


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
        " An engine that runs moves to the place that is declared, and stays where it is if none is.",
    )
    pool: ObjectName | None = Field(
        default=None, description="The pool of the region; default: its first one. An engine that runs moves to another one."
    )
    unmanaged: Literal["Keep", "Remove"] = Field(
        default="Keep", description="The treatment of undeclared apps and identities of the engine."
    )
    external: ExternalEngine | None = None


TIME_OF_DAY = worded(r"^([01][0-9]|2[0-3]):[0-5][0-9]$", "must be a time of day from 00:00 to 23:59, such as 22:00")
_ZONE = worded(
    r"^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+){0,2}$", "must be a name of the IANA time zone database, such as Europe/Berlin"
)
_AFTER = worded(r"^([1-9][0-9]*[smhd])+$", "must be a duration: write 90s, 15m, 1h or 30d")


class SleepTime(Value):
    """A time at which the engine sleeps, on the clock of a time zone."""

    start: str = Field(
        min_length=5, max_length=5, pattern=TIME_OF_DAY, description="The time of day at which it begins, such as `20:00`."
    )
    end: str = Field(
        min_length=5,
        max_length=5,
        pattern=TIME_OF_DAY,
        description="The time of day at which it ends. If it is not later than `start`, it is one of the next day.",
    )
    days: list[Literal["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]] | None = Field(
        default=None, min_length=1, max_length=7, description="The days on which it begins; default: every day."
    )
    time_zone: str = Field(
        default="UTC", min_length=1, max_length=64, pattern=_ZONE, description="The time zone, such as `Europe/Berlin`."
    )


class Hibernation(Value):
    """The times at which a dedicated engine sleeps: it has no pod, and keeps its volume."""

    model_config = {
        "json_schema_extra": {
            "x-kubernetes-validations": [
                {
                    "rule": "has(self.after) || has(self.schedule)",
                    "message": "is required, or schedule: they say when the engine sleeps",
                    "fieldPath": ".after",
                }
            ]
        }
    }

    after: str | None = Field(
        default=None,
        min_length=2,
        max_length=7,
        pattern=_AFTER,
        description="It falls asleep when nobody has used it for so long, such as `30m`; default: never because of that.",
    )
    schedule: list[SleepTime] | None = Field(
        default=None, min_length=1, max_length=20, description="It sleeps at these times, used or not; default: at none."
    )
    wake: Literal["Manual", "OnRequest"] = Field(
        default="Manual",
        description="What wakes it. `Manual`: a person, or a change that needs the engine. `OnRequest`: also a request to its"
        " URL, which waits until the engine runs. Without effect for an engine in a remote cluster.",
    )


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
    hibernation: Hibernation | None = None
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
    status: Literal["PENDING", "RUNNING", "SLEEPING", "FAILED", "DELETING"] = Field(
        default="PENDING", description="The state of the engine."
    )
    url: str = Field(default="", description="The address at which people and programs reach the engine.")
    external_id: str = Field(default="", description="The engine at its provider, below the environment's.")
    created_at: Time | None = Field(default=None, description="When the engine was created.")
    version: str = Field(default="", description="The version of the platform's release that it runs.")
    next: str = Field(default="", description="The version for which it waits to be restarted; empty when it waits for none.")
    pool: str | None = Field(default=None, description="The id of the pool that holds it; absent for a pod of its own.")
    sleeping_since: Time | None = Field(default=None, description="Since when it sleeps; absent once it runs.")
    woken_at: Time | None = Field(default=None, description="When it ran for the first time after its last sleep.")


class MoveStatus(Value):
    """The move of an engine to another place."""

    from_pool: str | None = Field(default=None, description="The id of the pool that it leaves; absent for a pod of its own.")
    to_pool: str | None = Field(default=None, description="The id of the pool to which it goes; absent for a pod of its own.")
    step: Literal["Copying", "Removing"] = Field(
        default="Copying",
        description="`Copying`: it runs where it was. `Removing`: it runs in its new place, and the old one is removed.",
    )
    started_at: Time = Field(description="When its copy was ready.")


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
    move: MoveStatus | None = Field(default=None, description="The move of the engine to another place, while there is one.")
    last_handled_accept_empty_at: str | None = Field(
        default=None, description="The value of the annotation tenantry.dev/accept-empty-requested-at that was last handled."
    )
    last_handled_wake_at: str | None = Field(
        default=None, description="The value of the annotation tenantry.dev/wake-requested-at that was last handled."
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
    def took_id(self) -> bool:
        """Return True if its engine has its id."""
        return self.status.engine is not None and self.status.engine.id is not None

    @property
    def wakes_on_request(self) -> bool:
        """Return True if requests to its URL wake its engine, should it sleep in a pod of its own."""
        return self.spec.hibernation is not None and self.spec.hibernation.wake == "OnRequest"

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
        if self.wakes_on_request and not self.deleting:
            keys |= {WAKES_ON_REQUEST} | self._wakes_at()
        if place := self._rollout_place():
            keys.add(f"rollout={self.spec.region}/{place}")
        return frozenset(keys)

    def _wakes_at(self) -> frozenset[str]:
        """The host at which requests wake its engine."""
        engine = self.status.engine
        ours = engine is not None and not engine.pool and self.spec.engine.external is None and not self.lost_host
        host = urlsplit(engine.url).hostname if engine is not None and ours else None
        return frozenset({f"wakes-at={host}"}) if host else frozenset()

    def _rollout_place(self) -> str:
        """Return the progress of its engine's restart: `turn`, or the reason of its wait; `""` in nearly all, so that a
        Region finds few."""
        engine, turn = self.status.engine, self.metadata.annotations.get(TURN)
        if engine is None or self.deleting or self.suspended or engine.status == "SLEEPING":
            return ""
        if not engine.next:
            return "turn" if turn and engine.status != "RUNNING" else ""
        if turn == engine.next:
            return "turn"
        if engine.status != "RUNNING":
            return "down"
        return "protected" if self.spec.deletion_protection else "early"
