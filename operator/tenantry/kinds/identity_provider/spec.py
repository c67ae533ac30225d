"""IdentityProvider: an external issuer that signs people in to an environment's engine."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from tenantry.model.fields import DeclaredId, DisplayName, EnvironmentName, RoleGrant, Url
from tenantry.model.resource import Resource, SecretKeyRef, Status, Time, Value
from tenantry.model.wording import worded

_SCOPE = worded(r"^[\x21\x23-\x5b\x5d-\x7e]+$", "must be one scope without spaces or quotes, such as openid")
Scope = Annotated[str, Field(min_length=1, max_length=128, pattern=_SCOPE)]


class IdentityProviderSpec(Value):
    """The declaration of an IdentityProvider."""

    model_config = {
        "json_schema_extra": {
            "x-kubernetes-validations": [
                {
                    "rule": "self.environment == oldSelf.environment",
                    "message": "is immutable",
                    "fieldPath": ".environment",
                },
                {"rule": "has(self.id) == has(oldSelf.id)", "message": "is immutable", "fieldPath": ".id"},
            ]
        }
    }

    id: DeclaredId | None = None
    environment: EnvironmentName
    display_name: DisplayName | None = None
    issuer_url: Url = Field(description="The issuer, an http or https URL without credentials.")
    client_id: str = Field(min_length=1, max_length=256, description="The client id of the engine at the issuer.")
    client_secret_ref: SecretKeyRef | None = None
    scopes: list[Scope] = Field(
        default_factory=lambda: ["openid", "profile", "email"],
        min_length=1,
        max_length=30,
        description="The scopes that a sign-in asks for. Default: openid, profile and email.",
    )
    auto_provision: bool = Field(
        default=False, description="If true, a new person gets a user of the engine at the first sign-in. Default: false."
    )
    active: bool = Field(default=True, description="If false, nobody signs in through it. Default: true.")
    default_roles: list[RoleGrant] = Field(
        default_factory=list, max_length=100, description="The roles of every user that it signs in."
    )
    roles_claim: str | None = Field(
        default=None,
        min_length=1,
        max_length=128,
        pattern=worded(r"^[\x21-\x7e]+$", "must be the name of a claim without spaces, such as groups"),
        description="The claim whose values, such as crm:editor, are roles; they count before defaultRoles.",
    )


class IdentityProviderStatus(Status):
    """The observed state of an IdentityProvider."""

    id: str | None = Field(default=None, description="The id of the provider in the engine.")
    created_at: Time | None = Field(default=None, description="When the engine stored the provider.")
    claimed: bool = Field(default=False, description="If true, this is the IdentityProvider that counts for its name.")
    name: str | None = Field(default=None, description="The name in use; the previous one while the declared name is taken.")
    credential: str | None = Field(default=None, description="Keyed fingerprint of the delivered credential.")


class IdentityProvider(Resource[IdentityProviderSpec, IdentityProviderStatus]):
    """An external issuer of an engine's users."""

    KIND: ClassVar[str] = "IdentityProvider"
    PLURAL: ClassVar[str] = "identityproviders"
    SHORT: ClassVar[str] = "idp"
    TENANT_DECLARES: ClassVar[bool] = True
    IN_ENVIRONMENT: ClassVar[bool] = True
    LETS_IN: ClassVar[bool] = True
    EXPORTED_TO: ClassVar[str] = "70-identity-providers"
    PRINTER_COLUMNS: ClassVar[tuple[tuple[str, str, str, int], ...]] = (
        ("Issuer", "string", ".spec.issuerUrl", 0),
        ("Environment", "string", ".spec.environment", 1),
    )
    SELECTABLE: ClassVar[tuple[str, ...]] = (".spec.environment",)

    spec: IdentityProviderSpec
    status: IdentityProviderStatus = Field(default_factory=IdentityProviderStatus)

    @property
    def name(self) -> str:
        """Its name in the engine."""
        return self.spec.display_name or self.metadata.name

    @property
    def claim(self) -> str:
        """Names are unique within an environment."""
        return f"{self.spec.environment}/{self.name}"

    @property
    def holds_name(self) -> bool:
        """True where it holds the name that it wants. One that was given another name holds the one before."""
        return self.status.claimed and self.status.name in (None, self.name)

    @property
    def claims(self) -> frozenset[str]:
        return frozenset({f"IdentityProvider {self.metadata.namespace} {self.claim}"})

    def index_keys(self) -> frozenset[str]:
        return frozenset({f"environment={self.spec.environment}", f"claim={self.claim}"})
