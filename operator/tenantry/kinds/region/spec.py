"""Region: where environments may run, and who may use it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field
from pydantic.config import JsonDict

from tenantry.kinds.signatures import PackageKey
from tenantry.model.fields import DisplayName, ObjectName
from tenantry.model.resource import BoundTenant, Resource, SecretKeyRef, Status, Value

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
        pattern=r"^[0-9a-fA-F:.]+/[0-9]{1,3}$",
        description="A network such as 10.1.0.0/16 or fd00::/8.",
        json_schema_extra={"x-kubernetes-validations": [_IS_NETWORK]},
    ),
]
Subdomain = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$")]


class KubernetesSettings(Value):
    """How engines are placed on a cluster."""

    kubeconfig_secret_ref: SecretKeyRef | None = Field(
        default=None, description="A remote cluster's kubeconfig, in tenantry-system; this cluster where absent."
    )
    ingress_class_name: str | None = Field(
        default=None,
        min_length=1,
        max_length=253,
        description="The class of the engines' Ingresses; the cluster's default where absent.",
    )
    tls: bool = Field(default=True, description="If true, engines are reached by https. Default: true.")
    storage_class_name: str | None = Field(
        default=None,
        min_length=1,
        max_length=253,
        description="The storage class of the engines' volumes; the cluster's default where absent.",
    )


class Window(Value):
    """When engines that run may be restarted, in UTC."""

    start: str = Field(
        min_length=5, max_length=5, pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]$", description="Such as `22:00`, UTC."
    )
    hours: int = Field(ge=1, le=24, description="How long it is open.")
    days: list[Literal["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]] | None = Field(
        default=None, min_length=1, max_length=7, description="On which it opens; every day where absent."
    )


class RolloutRules(Value):
    """How engines are restarted when an upgrade of the platform gives them another pod. Protected environments are the last."""

    at_once: int = Field(
        default=2,
        ge=1,
        le=20,
        description="How many engines restart at a time; what two cores start within the probe's time is more.",
    )
    last: list[ObjectName] | None = Field(
        default=None, max_length=100, description="Names of Environments that wait until all others run, such as `production`."
    )
    pause_on_failure: bool = Field(default=True, description="No other engine restarts while one does not start.")
    window: Window | None = Field(default=None, description="When engines may restart; at any time where absent.")


class EngineRules(Value):
    """What environments of this region may ask for. Absent lists allow everything."""

    images: list[Annotated[str, Field(min_length=1, max_length=512)]] | None = Field(
        default=None, max_length=50, description="The values that `engine.version` of an Environment may have; all where absent."
    )
    sizes: list[Annotated[str, Field(min_length=1, max_length=40)]] | None = Field(
        default=None, max_length=20, description="The values that `engine.size` of an Environment may have; all where absent."
    )
    external: bool = Field(default=False, description="May environments adopt engines that run elsewhere?")
    external_networks: list[Network] | None = Field(
        default=None,
        max_length=50,
        description="Networks in which these may be although they are not public, such as 10.1.0.0/16.",
    )
    rollout: RolloutRules = Field(
        default_factory=RolloutRules, description="How engines restart when an upgrade of the platform gives them another pod."
    )


class RegionSpec(Value):
    """What is declared of a Region."""

    display_name: DisplayName | None = None
    tenants: list[ObjectName] | None = Field(
        default=None,
        max_length=1000,
        description="The Tenants that may use it; all where absent. Each name means the Tenant that first had it.",
    )
    engine: EngineRules = Field(default_factory=EngineRules)
    package_keys: list[PackageKey] | None = Field(
        default=None, min_length=1, max_length=20, description="One of them has signed every package that is installed here."
    )
    provider: Provider = Field(default="Host", description="`Host` is the deployer of the host that runs Tenantry.")
    subdomain: Subdomain | None = Field(default=None, description="The domain below which engines on a cluster are reached.")
    kubernetes: KubernetesSettings | None = None


class RolloutStatus(Value):
    """An upgrade of engines that is under way."""

    waiting: int = Field(default=0, description="How many Environments wait for their turn.")
    restarting: list[str] = Field(default_factory=list, description="Whose turn it is, as namespace/name.")
    held: str | None = Field(default=None, description="Why nobody's turn comes now.")


class RegionStatus(Status):
    """What is seen of a Region."""

    provider: Literal["Local", "Kubernetes"] | None = Field(default=None, description="The provider in effect.")
    environments: int = Field(
        default=0, description="The number of environments in the region; a DELETE is refused unless it is 0."
    )
    tenants: tuple[BoundTenant, ...] = Field(
        default=(), description="The Tenants of `spec.tenants` by uid: a later one of the same name may not use the region."
    )
    rollout: RolloutStatus | None = Field(default=None, description="Present while engines wait for a restart.")


class Region(Resource[RegionSpec, RegionStatus]):
    """A place where environments run."""

    KIND: ClassVar[str] = "Region"
    PLURAL: ClassVar[str] = "regions"
    SHORT: ClassVar[str] = "rgn"
    NAMESPACED: ClassVar[bool] = False
    KEPT_BY: ClassVar[Mapping[str, str]] = {
        "environments": "environments still use this region: delete them first",
    }
    UNFOLLOWED: ClassVar[frozenset[str]] = Resource.UNFOLLOWED | {"environments", "rollout"}
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

    def allows(self, tenant: str, uid: str) -> bool:
        """May the Tenant of that name and uid place environments here? One that was never seen is bound by the next pass."""
        if self.spec.tenants is None:
            return True
        bound = next((each.uid for each in self.status.tenants if each.name == tenant), uid)
        return tenant in self.spec.tenants and bound == uid
