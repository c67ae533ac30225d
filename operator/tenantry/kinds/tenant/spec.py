"""Tenant: a customer of the platform, and the owner of one namespace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from tenantry.model.facts import RegionFacts, TenantAccess
from tenantry.model.fields import (
    EFFECTIVE_SLUG,
    IMMUTABLE,
    DeclaredId,
    DeletionProtection,
    DisplayName,
    Group,
    NamespaceName,
    ObjectRule,
    Slug,
    Suspend,
)
from tenantry.model.quotas import STORAGE_PATTERN, Quotas, bytes_of
from tenantry.model.resource import Resource, Status, Value


class Access(Value):
    """Groups of people, as the cluster's or the issuer's sign-in names them."""

    admins: list[Group] = Field(
        default_factory=list, max_length=50, description="Groups that administer the tenant's namespace; none by default."
    )
    viewers: list[Group] = Field(
        default_factory=list, max_length=50, description="Groups that read the tenant's namespace; none by default."
    )

    @property
    def facts(self) -> TenantAccess:
        return TenantAccess(tuple(self.admins), tuple(self.viewers))


Storage = Annotated[str, Field(min_length=3, max_length=12, pattern=STORAGE_PATTERN)]
_OR_DEFAULT = "Default: the platform's own default, which is no limit."


class Quota(Value):
    """Limits of the tenant."""

    environments: int | None = Field(
        default=None, ge=0, le=10_000, description="The number of environments that the tenant may have; default: no limit."
    )
    package_storage: Storage | None = Field(
        default=None, description=f"Bytes of all its packages, in Ki, Mi, Gi or Ti; {_OR_DEFAULT}"
    )
    database_storage: Storage | None = Field(
        default=None, description=f"Bytes of the database of each of its environments, in Ki, Mi, Gi or Ti; {_OR_DEFAULT}"
    )
    archive_storage: Storage | None = Field(
        default=None, description=f"Bytes of all archives of its removed environments, in Ki, Mi, Gi or Ti; {_OR_DEFAULT}"
    )
    operations: int | None = Field(
        default=None,
        ge=1,
        le=10_000,
        description="The number of finished Operations that are kept; default: the platform's.",
    )
    requests_per_second: int | None = Field(
        default=None,
        ge=1,
        le=100_000,
        description=f"Requests a second, of its users at the platform and at each of its environments; {_OR_DEFAULT}",
    )

    @property
    def limits(self) -> Quotas:
        """The declared limits, in bytes and numbers."""
        storage = (self.package_storage, self.database_storage, self.archive_storage)
        package, database, archive = (None if each is None else bytes_of(each) for each in storage)
        return Quotas(package, database, archive, self.operations, self.requests_per_second)


class TenantSpec(Value):
    """The declaration of a Tenant."""

    model_config = {
        "json_schema_extra": {
            "x-kubernetes-validations": [
                {
                    "rule": "has(self.namespace) == has(oldSelf.namespace)",
                    "message": "is immutable",
                    "fieldPath": ".namespace",
                },
                {"rule": "has(self.id) == has(oldSelf.id)", "message": "is immutable", "fieldPath": ".id"},
            ]
        }
    }

    id: DeclaredId | None = None
    display_name: DisplayName | None = None
    slug: Slug | None = None
    namespace: NamespaceName | None = Field(
        default=None,
        description="The namespace that the tenant owns; default: `tenant-<name>`.",
        json_schema_extra={"x-kubernetes-validations": [IMMUTABLE]},
    )
    access: Access = Field(default_factory=Access)
    deletion_protection: DeletionProtection = False
    quota: Quota = Field(default_factory=Quota)
    suspend: Suspend = False


class BoundNamespace(Value):
    """The binding of a tenant to its namespace: the label on the namespace is only consent."""

    name: str = Field(description="The metadata.name of the namespace.")
    uid: str = Field(description="The metadata.uid of the namespace: another one of the same name is not the tenant's.")


class UsableRegion(Value):
    """A Region that the tenant may use."""

    name: str = Field(description="The metadata.name of the Region, for `spec.region` of an Environment.")
    display_name: str = Field(description="The name of the Region for people.")
    sizes: tuple[str, ...] | None = Field(
        default=None, description="The values that `engine.size` of an Environment may have there. Default: all."
    )
    versions: tuple[str, ...] | None = Field(
        default=None, description="The values that `engine.version` of an Environment may have there. Default: all."
    )

    @property
    def facts(self) -> RegionFacts:
        return RegionFacts(self.name, self.display_name, self.sizes, self.versions)


class TenantStatus(Status):
    """The observed state of a Tenant."""

    phase: Literal["READY", "DELETING"] | None = Field(
        default=None, description="The state as REST shows it; the conditions say why."
    )
    slug: str | None = Field(default=None, description="The slug in use; the previous one while the declared slug is taken.")
    namespace: BoundNamespace | None = None
    protected_environments: int = Field(default=0, description="How many of its environments have deletionProtection.")
    regions: tuple[UsableRegion, ...] = Field(default=(), description="The Regions that the tenant may use, by name.")


class Tenant(Resource[TenantSpec, TenantStatus]):
    """A customer of the platform."""

    KIND: ClassVar[str] = "Tenant"
    PLURAL: ClassVar[str] = "tenants"
    SHORT: ClassVar[str] = "tn"
    NAMESPACED: ClassVar[bool] = False
    EXPORTED_TO: ClassVar[str] = "10-tenant"
    KEPT_BY: ClassVar[Mapping[str, tuple[str, str]]] = {
        "protectedEnvironments": (
            "environment of this tenant is protected: set its spec.deletionProtection to false first",
            "environments of this tenant are protected: set their spec.deletionProtection to false first",
        ),
    }
    UNFOLLOWED: ClassVar[frozenset[str]] = Resource.UNFOLLOWED | {"protectedEnvironments", "regions"}
    PRINTER_COLUMNS: ClassVar[tuple[tuple[str, str, str, int], ...]] = (
        ("Slug", "string", ".status.slug", 0),
        ("Namespace", "string", ".status.namespace.name", 1),
    )

    CEL: ClassVar[tuple[ObjectRule, ...]] = EFFECTIVE_SLUG

    spec: TenantSpec = Field(default_factory=TenantSpec)
    status: TenantStatus = Field(default_factory=TenantStatus)

    @property
    def wanted_slug(self) -> str:
        return self.spec.slug or self.metadata.name

    @property
    def namespace(self) -> str:
        """The name of the namespace that it owns or wants."""
        return self.spec.namespace or f"tenant-{self.metadata.name}"

    @property
    def bound_namespace(self) -> str:
        """The name of the namespace that it owns; `""` before it has one."""
        return self.status.namespace.name if self.status.namespace is not None else ""

    @property
    def claims(self) -> frozenset[str]:
        return frozenset({f"Tenant slug {self.wanted_slug}", f"Tenant namespace {self.namespace}"})

    def index_keys(self) -> frozenset[str]:
        slugs = {f"slug={self.wanted_slug}"}
        if self.status.slug:
            slugs.add(f"slug={self.status.slug}")
        return frozenset(slugs | {f"namespace={self.namespace}"})
