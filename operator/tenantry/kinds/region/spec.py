"""Region: where environments may run, and who may use it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field
from pydantic.config import JsonDict

from tenantry.kinds.signatures import PackageKey
from tenantry.model.facts import RegionFacts
from tenantry.model.fields import DisplayName, ObjectName
from tenantry.model.resource import BoundTenant, Resource, SecretKeyRef, Status, Value
from tenantry.model.wording import worded

OPEN = "open=true"
"""The index key of Regions that every tenant may use."""
Provider = Literal["Host", "Local", "Kubernetes"]
_OCTET, _GROUP = "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])", "[0-9a-fA-F]{1,4}"
_IPV4 = f"({_OCTET}[.]){{3}}{_OCTET}/(3[0-2]|[12]?[0-9])"
_SHORT = f"({_GROUP}(:{_GROUP}){{0,6}})?"
_IPV6 = f"(({_GROUP}:){{7}}{_GROUP}|{_SHORT}::{_SHORT})/(12[0-8]|1[01][0-9]|[1-9]?[0-9])"
_IS_NETWORK: JsonDict = {
    "rule": f"self.matches('^({_IPV4}|{_IPV6})$')",
    "message": "must be a network such as 10.1.0.0/16 or fd00::/8",
}
Network = Annotated[
    str,
    Field(
        min_length=4,
        max_length=43,
        pattern=worded(r"^[0-9a-fA-F:.]+/[0-9]{1,3}$", "must be a network such as 10.1.0.0/16 or fd00::/8"),
        description="A network such as 10.1.0.0/16 or fd00::/8.",
        json_schema_extra={"x-kubernetes-validations": [_IS_NETWORK]},
    ),
]
_SUBDOMAIN = worded(r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$", "must be the name of a host in lower case, such as eu.apps.example.com")
Subdomain = Annotated[str, Field(min_length=1, max_length=200, pattern=_SUBDOMAIN)]


class KubernetesSettings(Value):
    """Placement of engines on a cluster."""

    kubeconfig_secret_ref: SecretKeyRef | None = Field(
        default=None, description="A remote cluster's kubeconfig, in tenantry-system; default: this cluster."
    )
    ingress_class_name: str | None = Field(
        default=None,
        min_length=1,
        max_length=253,
        description="The class of the engines' Ingresses; default: the cluster's.",
    )
    tls: bool = Field(default=True, description="If true, engines are reached by https. Default: true.")
    storage_class_name: str | None = Field(
        default=None,
        min_length=1,
        max_length=253,
        description="The storage class of the engines' volumes; default: the cluster's.",
    )


class Window(Value):
    """The times at which running engines may be restarted, in UTC."""

    start: str = Field(
        min_length=5,
        max_length=5,
        pattern=worded(r"^([01][0-9]|2[0-3]):[0-5][0-9]$", "must be a time of day from 00:00 to 23:59, such as 22:00"),
        description="The time at which it opens, such as `22:00`, in UTC.",
    )
    hours: int = Field(ge=1, le=24, description="The hours that it stays open.")
    days: list[Literal["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]] | None = Field(
        default=None, min_length=1, max_length=7, description="The days on which it opens; default: every day."
    )


class RolloutRules(Value):
    """Rules for restarting engines when an upgrade of the platform changes their pods. Protected environments are the last."""

    at_once: int = Field(
        default=2,
        ge=1,
        le=20,
        description="The number of engines that restart at a time; two cores start more within the probe's time.",
    )
    last: list[ObjectName] | None = Field(
        default=None, max_length=100, description="Names of Environments that wait until all others run, such as `production`."
    )
    pause_on_failure: bool = Field(default=True, description="No other engine restarts while one does not start.")
    window: Window | None = Field(default=None, description="When engines may restart; default: at any time.")


class PoolStorage(Value):
    """The volume of a pool."""

    size: str = Field(
        default="10Gi",
        min_length=2,
        max_length=20,
        pattern=worded(r"^[1-9][0-9]*(Mi|Gi|Ti)$", "must be a size in Mi, Gi or Ti, such as 10Gi"),
        description="The size of the volume in Mi, Gi or Ti; on a server, of the copies of a pod. Default: 10Gi.",
    )


REPLICAS, CPU_TARGET = 2, 70
"""The defaults of a pool on a server: its pods, and the load at which it gets more."""


class PoolPostgres(Value):
    """The PostgreSQL server on which the engines of a pool have their databases."""

    model_config = {
        "json_schema_extra": {
            "x-kubernetes-validations": [
                {
                    "rule": "!has(self.maxReplicas) || self.maxReplicas >= self.replicas",
                    "message": f"must be at least replicas, whose default is {REPLICAS}",
                    "fieldPath": ".maxReplicas",
                },
                {
                    "rule": "!has(self.cpuTarget) || has(self.maxReplicas)",
                    "message": "needs maxReplicas: without it the number of pods does not change",
                    "fieldPath": ".cpuTarget",
                },
            ]
        }
    }

    admin_secret_ref: SecretKeyRef = Field(
        description="The Secret in tenantry-system with a URL such as `postgresql://admin:password@db.example.com/postgres`. Its"
        " role may create roles and databases. The label is `tenantry.dev/credential: region`."
    )
    replicas: int = Field(
        default=REPLICAS,
        ge=1,
        le=20,
        description="The number of its pods, each of which serves all its engines; with `maxReplicas` the fewest. Default: 2.",
    )
    max_replicas: int | None = Field(
        default=None,
        ge=1,
        le=20,
        description="If set, a HorizontalPodAutoscaler sets the number of pods, between `replicas` and this, by their CPU.",
    )
    cpu_target: int | None = Field(
        default=None,
        ge=1,
        le=100,
        description="With `maxReplicas`, the load of the pods above which there are more, in percent of one core or, if that is"
        " less, of their CPU limit. Default: 70.",
    )


class EnginePool(Value):
    """One pod with one volume that holds the engines of many environments, or pods without volumes and a server."""

    name: ObjectName = Field(description="The name of the pool, as `engine.pool` of an Environment takes it.")
    engines_per_replica: int = Field(default=300, ge=1, le=1000, description="The number of engines that it takes.")
    size: str | None = Field(
        default=None, min_length=1, max_length=40, description="The size of its pod, one that the platform offers."
    )
    storage: PoolStorage = Field(default_factory=PoolStorage, description="Its volume.")
    postgres: PoolPostgres | None = Field(
        default=None,
        description="If set, each engine has its rows in a database of its own on this server, and the pods keep nothing.",
    )


Placement = Literal["Pooled", "Dedicated"]
_OWN_NAMES: JsonDict = {
    "rule": "self.all(one, self.exists_one(other, other.name == one.name))",
    "message": "each pool needs a name of its own",
}


class EngineRules(Value):
    """The allowed values of environments of this region. Absent lists allow everything."""

    images: list[Annotated[str, Field(min_length=1, max_length=512)]] | None = Field(
        default=None, max_length=50, description="The values that `engine.version` of an Environment may have; default: all."
    )
    sizes: list[Annotated[str, Field(min_length=1, max_length=40)]] | None = Field(
        default=None, max_length=20, description="The values that `engine.size` of an Environment may have; default: all."
    )
    external: bool = Field(default=False, description="If true, environments may adopt engines that run elsewhere.")
    external_networks: list[Network] | None = Field(
        default=None,
        max_length=50,
        description="Networks that are not public but allowed for these engines, such as 10.1.0.0/16.",
    )
    placement: Placement | None = Field(
        default=None,
        description="Where engines run on a cluster: `Pooled` in a pool, `Dedicated` in a pod of their own; default: both.",
    )
    pools: list[EnginePool] | None = Field(
        default=None,
        min_length=1,
        max_length=10,
        description="Pools on a cluster, each of which holds many engines. The first takes those that name none.",
        json_schema_extra={"x-kubernetes-validations": [_OWN_NAMES]},
    )
    rollout: RolloutRules = Field(
        default_factory=RolloutRules, description="Rules for engine restarts when an upgrade of the platform changes their pods."
    )


class RegionSpec(Value):
    """The declaration of a Region."""

    model_config = {
        "json_schema_extra": {
            "x-kubernetes-validations": [
                {
                    "rule": "!has(self.engine) || !has(self.engine.pools)"
                    " || !has(self.kubernetes) || !has(self.kubernetes.kubeconfigSecretRef)",
                    "message": "run on this cluster only: leave out kubernetes.kubeconfigSecretRef, or the pools",
                    "fieldPath": ".engine.pools",
                },
                {
                    "rule": "!has(self.engine) || !has(self.engine.placement)"
                    " || self.engine.placement != 'Pooled' || has(self.engine.pools)",
                    "message": "needs a pool: declare one in pools",
                    "fieldPath": ".engine.placement",
                },
            ]
        }
    }

    display_name: DisplayName | None = None
    tenants: list[ObjectName] | None = Field(
        default=None,
        max_length=1000,
        description="The Tenants that may use it; default: all. Each name means the Tenant that first had it.",
    )
    engine: EngineRules = Field(default_factory=EngineRules)
    package_keys: list[PackageKey] | None = Field(
        default=None,
        min_length=1,
        max_length=20,
        description="One of them must have signed every package that is installed here.",
    )
    provider: Provider = Field(default="Host", description="`Host` is the deployer of the host that runs Tenantry.")
    subdomain: Subdomain | None = Field(default=None, description="The domain below which engines on a cluster are reached.")
    kubernetes: KubernetesSettings | None = None


class RolloutStatus(Value):
    """An upgrade of engines that is under way."""

    waiting: int = Field(default=0, description="The number of Environments that wait for their turn.")
    restarting: list[str] = Field(default_factory=list, description="The Environments that restart now, as namespace/name.")
    held: str | None = Field(default=None, description="The reason why no engine restarts now.")


class PoolStatus(Value):
    """The observed state of a pool."""

    name: str = Field(description="The name of the pool.")
    id: str = Field(description="The id of the pool. It belongs to this Region: a later one of the same name has another.")
    status: str = Field(default="PENDING", description="The state of its pod: PENDING, RUNNING, FAILED or DELETING.")
    engines: int = Field(default=0, description="The number of Environments whose engines it holds.")
    message: str | None = Field(default=None, description="Why it does not run.")
    admin_secret_ref: SecretKeyRef | None = Field(
        default=None, description="The Secret with the URL of its server, as it was declared last."
    )


class RegionStatus(Status):
    """The observed state of a Region."""

    provider: Literal["Local", "Kubernetes"] | None = Field(default=None, description="The provider in effect.")
    environments: int = Field(
        default=0, description="The number of environments in the region; a DELETE is refused unless it is 0."
    )
    tenants: tuple[BoundTenant, ...] = Field(
        default=(), description="The Tenants of `spec.tenants` by uid: a later one of the same name may not use the region."
    )
    rollout: RolloutStatus | None = Field(default=None, description="Present while engines wait for a restart.")
    pools: tuple[PoolStatus, ...] = Field(default=(), description="The pools that exist, also those no longer declared.")


class Region(Resource[RegionSpec, RegionStatus]):
    """A place where environments run."""

    KIND: ClassVar[str] = "Region"
    PLURAL: ClassVar[str] = "regions"
    SHORT: ClassVar[str] = "rgn"
    NAMESPACED: ClassVar[bool] = False
    WRITTEN_BACK: ClassVar[bool] = False
    EXPORTED_TO: ClassVar[str] = "00-regions"
    KEPT_BY: ClassVar[Mapping[str, tuple[str, str]]] = {
        "environments": (
            "environment still uses this region: delete it first",
            "environments still use this region: delete them first",
        ),
    }
    UNFOLLOWED: ClassVar[frozenset[str]] = Resource.UNFOLLOWED | {"environments", "rollout", "pools"}
    PRINTER_COLUMNS: ClassVar[tuple[tuple[str, str, str, int], ...]] = (
        ("Provider", "string", ".status.provider", 0),
        ("Environments", "integer", ".status.environments", 1),
        ("Waiting", "integer", ".status.rollout.waiting", 1),
        ("Held", "string", ".status.rollout.held", 1),
    )

    spec: RegionSpec = Field(default_factory=RegionSpec)
    status: RegionStatus = Field(default_factory=RegionStatus)

    @property
    def id(self) -> str:
        """A Region's REST id is its name."""
        return self.metadata.name

    @property
    def remote(self) -> bool:
        """Return True if its engines run in another cluster than the platform."""
        return self.spec.kubernetes is not None and self.spec.kubernetes.kubeconfig_secret_ref is not None

    @property
    def facts(self) -> RegionFacts:
        """The Region as a tenant that may use it sees it."""
        rules = self.spec.engine
        sizes = None if rules.sizes is None else tuple(rules.sizes)
        versions = None if rules.images is None else tuple(rules.images)
        return RegionFacts(self.metadata.name, self.spec.display_name or self.metadata.name, sizes, versions)

    def index_keys(self) -> frozenset[str]:
        return frozenset({OPEN} if self.spec.tenants is None else {f"tenant={name}" for name in self.spec.tenants})

    def allows(self, tenant: str, uid: str) -> bool:
        """May the Tenant of that name and uid place environments here? One that was never seen is bound by the next pass."""
        if self.spec.tenants is None:
            return True
        bound = next((each.uid for each in self.status.tenants if each.name == tenant), uid)
        return tenant in self.spec.tenants and bound == uid
