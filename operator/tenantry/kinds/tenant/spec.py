"""Tenant: a customer of the platform, and the owner of one namespace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import Field

from tenantry.model.facts import TenantAccess
from tenantry.model.fields import (
    EFFECTIVE_SLUG,
    IMMUTABLE,
    DeclaredId,
    DeletionProtection,
    DisplayName,
    Group,
    NamespaceName,
    Slug,
    Suspend,
)
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


class Quota(Value):
    """What the tenant may have at most."""

    environments: int | None = Field(
        default=None, ge=0, le=10_000, description="The number of environments that the tenant may have; no limit where absent."
    )


class TenantSpec(Value):
    """What is declared of a Tenant."""

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
        description="The namespace that the tenant owns; `tenant-<name>` where absent.",
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


class TenantStatus(Status):
    """What is seen of a Tenant."""

    phase: Literal["READY", "DELETING"] | None = Field(
        default=None, description="The state as REST shows it; the conditions say why."
    )
    slug: str | None = Field(
        default=None, description="The slug that the tenant holds; the one before while a wanted slug is taken."
    )
    namespace: BoundNamespace | None = None
    protected_environments: int = Field(default=0, description="How many of its environments have deletionProtection.")


class Tenant(Resource[TenantSpec, TenantStatus]):
    """A customer of the platform."""

    KIND: ClassVar[str] = "Tenant"
    PLURAL: ClassVar[str] = "tenants"
    SHORT: ClassVar[str] = "tn"
    NAMESPACED: ClassVar[bool] = False
    KEPT_BY: ClassVar[Mapping[str, str]] = {
        "protectedEnvironments": "environments of this tenant are protected: set their spec.deletionProtection to false first",
    }
    UNFOLLOWED: ClassVar[frozenset[str]] = Resource.UNFOLLOWED | {"protectedEnvironments"}
    PRINTER_COLUMNS: ClassVar[tuple[tuple[str, str, str, int], ...]] = (
        ("Slug", "string", ".status.slug", 0),
        ("Namespace", "string", ".status.namespace.name", 1),
    )

    CEL: ClassVar[tuple[tuple[str, str, str], ...]] = EFFECTIVE_SLUG

    spec: TenantSpec = Field(default_factory=TenantSpec)
    status: TenantStatus = Field(default_factory=TenantStatus)

    @property
    def wanted_slug(self) -> str:
        return self.spec.slug or self.metadata.name

    @property
    def namespace(self) -> str:
        """The name of the namespace that it owns or wants."""
        return self.spec.namespace or f"tenant-{self.metadata.name}"

    def index_keys(self) -> frozenset[str]:
        slugs = {f"slug={self.wanted_slug}"}
        if self.status.slug:
            slugs.add(f"slug={self.status.slug}")
        return frozenset(slugs | {f"namespace={self.namespace}"})
