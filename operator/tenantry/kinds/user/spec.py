"""User: a person or program that uses the platform's REST interface."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from tenantry.model.fields import DeclaredId, DisplayName, ObjectName, Role, Username
from tenantry.model.resource import (
    MANAGED_BY_LABEL,
    MANAGER,
    OF_TENANT,
    SOURCE,
    BoundTenant,
    Resource,
    SecretKeyRef,
    Status,
    Time,
    Value,
)


class UserSpec(Value):
    """The declaration of a User."""

    model_config = {
        "json_schema_extra": {
            "x-kubernetes-validations": [
                {
                    "rule": "(self.role == 'SUPERUSER') != has(self.tenant)",
                    "message": "must be set for ADMIN and VIEWER, and must not be set for SUPERUSER",
                    "fieldPath": ".tenant",
                },
                {"rule": "self.username == oldSelf.username", "message": "is immutable", "fieldPath": ".username"},
                {"rule": "has(self.id) == has(oldSelf.id)", "message": "is immutable", "fieldPath": ".id"},
            ]
        }
    }

    id: DeclaredId | None = None
    display_name: DisplayName | None = None
    username: Username = Field(description="The name at sign-in, unique on the platform in upper and lower case. Immutable.")
    role: Role = Field(
        description="`SUPERUSER` may do everything, `ADMIN` everything within one tenant, `VIEWER` reads within one tenant."
    )
    tenant: ObjectName | None = Field(default=None, description="A Tenant's name; none for a SUPERUSER.")
    password_secret_ref: SecretKeyRef


class UserIdentity(Value):
    """The credential of a User."""

    id: str = Field(description="The id of the identity in REST.")
    identity_id: str = Field(description="The id of its credential in REST.")
    user_id: str = Field(description="The id of the User in REST.")
    created_at: Time | None = Field(default=None, description="When the User was created.")


class Replaced(Value):
    """A later Tenant of the same name, and the User's generation when that was first seen."""

    uid: str = Field(description="The metadata.uid of the later Tenant.")
    generation: int = Field(description="The metadata.generation of the User when the later Tenant was first seen.")


class UserTenant(BoundTenant):
    """The Tenant that a User belongs to. replaced: its name is another Tenant's by now."""

    replaced: Replaced | None = None


class UserStatus(Status):
    """The observed state of a User."""

    id: str | None = Field(default=None, description="The id in REST.")
    identities: tuple[UserIdentity, ...] = Field(default=(), description="The credentials of the User, as REST shows them.")
    credential: str | None = Field(default=None, description="Keyed fingerprint of the credential: changes with it.")
    updated_at: Time | None = Field(default=None, description="When the spec last changed.")
    claimed: bool = Field(default=False, description="If true, this is the User that counts for its username.")
    tenant: UserTenant | None = Field(default=None, description="The Tenant that it belongs to, by its uid.")


class User(Resource[UserSpec, UserStatus]):
    """A user of the platform."""

    KIND: ClassVar[str] = "User"
    PLURAL: ClassVar[str] = "users"
    SHORT: ClassVar[str] = "usr"
    EXPORTED_TO: ClassVar[str] = "20-users"
    FINALIZED: ClassVar[bool] = False
    LETS_IN: ClassVar[bool] = True
    PRINTER_COLUMNS: ClassVar[tuple[tuple[str, str, str, int], ...]] = (
        ("Username", "string", ".spec.username", 0),
        ("Role", "string", ".spec.role", 0),
        ("Tenant", "string", ".spec.tenant", 1),
    )

    spec: UserSpec
    status: UserStatus = Field(default_factory=UserStatus)

    @property
    def claim(self) -> str:
        """Usernames are unique on the platform, compared case-folded."""
        return self.spec.username.casefold()

    @property
    def made_over_rest(self) -> bool:
        """True for one that goes with its Tenant; False for one that people declare in a file or by kubectl."""
        return self.metadata.labels.get(MANAGED_BY_LABEL) == MANAGER and SOURCE not in self.metadata.labels

    @property
    def given_uid(self) -> str:
        """The uid of the Tenant that REST gave it; `""` where `spec.tenant` names another by now, and for one that a source
        declares."""
        name, _, uid = self.metadata.annotations.get(OF_TENANT, "").partition("/")
        return uid if name == self.spec.tenant and SOURCE not in self.metadata.labels else ""

    @property
    def tenant_uid(self) -> str:
        """The uid of the Tenant that it belongs to; `""` while that is not known, and for a SUPERUSER."""
        bound = self.status.tenant
        held = bound.uid if bound is not None and bound.name == self.spec.tenant else ""
        return self.given_uid or held

    @property
    def claims(self) -> frozenset[str]:
        return frozenset({f"User {self.claim}"})

    def index_keys(self) -> frozenset[str]:
        keys = {f"claim={self.claim}"}
        if self.spec.tenant:
            keys.add(f"tenant={self.spec.tenant}")
        return frozenset(keys)
