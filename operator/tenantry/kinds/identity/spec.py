"""Identity: a local user of an environment's engine."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from tenantry.model.fields import ENGINE_ADMIN, DeclaredId, EnvironmentName, RoleGrant, Username
from tenantry.model.resource import Resource, SecretKeyRef, Status, Time, Value


class IdentitySpec(Value):
    """The declaration of an Identity."""

    model_config = {
        "json_schema_extra": {
            "x-kubernetes-validations": [
                {
                    "rule": "self.environment == oldSelf.environment",
                    "message": "is immutable",
                    "fieldPath": ".environment",
                },
                {"rule": "self.username == oldSelf.username", "message": "is immutable", "fieldPath": ".username"},
                {
                    "rule": f"!self.username.matches('(?i)^{ENGINE_ADMIN}$')",
                    "message": "is the engine's own user, in upper or lower case",
                    "fieldPath": ".username",
                },
                {"rule": "has(self.id) == has(oldSelf.id)", "message": "is immutable", "fieldPath": ".id"},
            ]
        }
    }

    id: DeclaredId | None = None
    environment: EnvironmentName
    username: Username = Field(description="The name at sign-in, unique in the engine in upper and lower case. Immutable.")
    password_secret_ref: SecretKeyRef
    roles: list[RoleGrant] = Field(
        default_factory=list, max_length=100, description="The roles of apps that the user has; none by default."
    )


class IdentityStatus(Status):
    """The observed state of an Identity."""

    id: str | None = Field(default=None, description="The id of the user in the engine.")
    created_at: Time | None = Field(default=None, description="When the engine created the user.")
    claimed: bool = Field(default=False, description="If true, this is the Identity that counts for its username.")
    credential: str | None = Field(default=None, description="Keyed fingerprint of the delivered credential.")


class Identity(Resource[IdentitySpec, IdentityStatus]):
    """A local user of an engine."""

    KIND: ClassVar[str] = "Identity"
    PLURAL: ClassVar[str] = "identities"
    SHORT: ClassVar[str] = "idn"
    TENANT_DECLARES: ClassVar[bool] = True
    IN_ENVIRONMENT: ClassVar[bool] = True
    LETS_IN: ClassVar[bool] = True
    EXPORTED_TO: ClassVar[str] = "60-identities"
    PRINTER_COLUMNS: ClassVar[tuple[tuple[str, str, str, int], ...]] = (
        ("Username", "string", ".spec.username", 0),
        ("Environment", "string", ".spec.environment", 1),
    )
    SELECTABLE: ClassVar[tuple[str, ...]] = (".spec.environment",)

    spec: IdentitySpec
    status: IdentityStatus = Field(default_factory=IdentityStatus)

    @property
    def claim(self) -> str:
        """Usernames are unique within an environment, compared case-folded."""
        return f"{self.spec.environment}/{self.spec.username.casefold()}"

    @property
    def claims(self) -> frozenset[str]:
        return frozenset({f"Identity {self.metadata.namespace} {self.claim}"})

    def shows_request(self, cause: str) -> bool:
        delivered = self.status.credential is not None and cause == password_request(self.status.credential)
        return delivered or super().shows_request(cause)

    def index_keys(self) -> frozenset[str]:
        return frozenset({f"environment={self.spec.environment}", f"claim={self.claim}"})


def password_request(fingerprint: str) -> str:
    """Return the cause of the Operation that delivers the password of that fingerprint."""
    return f"password-{fingerprint[:12]}"
