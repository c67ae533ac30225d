"""User: a person or program that uses the platform's REST interface."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from tenantry.model.fields import DeclaredId, DisplayName, ObjectName, Role, Username
from tenantry.model.resource import Resource, SecretKeyRef, Status, Time, Value


class UserSpec(Value):
    """What is declared of a User."""

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
    username: Username
    role: Role
    tenant: ObjectName | None = Field(default=None, description="A Tenant's name; none for a SUPERUSER.")
    password_secret_ref: SecretKeyRef


class UserIdentity(Value):
    """The credential of a User."""

    id: str
    identity_id: str
    user_id: str
    created_at: Time | None = None


class UserStatus(Status):
    """What is seen of a User."""

    id: str | None = None
    identities: tuple[UserIdentity, ...] = ()
    credential: str | None = Field(default=None, description="Keyed fingerprint of the credential: changes with it.")
    updated_at: Time | None = None
    claimed: bool = False


class User(Resource[UserSpec, UserStatus]):
    """A user of the platform."""

    KIND: ClassVar[str] = "User"
    PLURAL: ClassVar[str] = "users"
    SHORT: ClassVar[str] = "usr"
    FINALIZED: ClassVar[bool] = False
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

    def index_keys(self) -> frozenset[str]:
        keys = {f"claim={self.claim}"}
        if self.spec.tenant:
            keys.add(f"tenant={self.spec.tenant}")
        return frozenset(keys)
