"""The bodies of the engine management interface, field by field, and how the engine's facts become them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, Field

from tenantry.model.facts import (
    EngineApp,
    EngineIdentity,
    EngineIdentityProvider,
    IdentityProviderSettings,
    MigrationStep,
    Password,
)
from tenantry.rest.bodies import Body, EditBody, invalid, time_text

NonEmpty = Annotated[str, Field(min_length=1)]
IssuerUrl = Annotated[str, Field(max_length=2048, pattern=r"^https?://[^\s/]+[^\s]*$")]
Scopes = Annotated[str, Field(pattern=r"^[\x21-\x7e]+( [\x21-\x7e]+)*$")]


class AppListResponse(BaseModel):
    """An application."""

    id: str
    name: str
    author: str
    version: str
    availableVersions: str  # noqa: N815 - the interface's own name
    installed: bool
    persisted: bool


class AppListWrapper(BaseModel):
    """The applications."""

    data: list[AppListResponse]


class IdentityResponse(BaseModel):
    """A local user."""

    id: str
    username: str
    created_at: str


class IdentityListWrapper(BaseModel):
    """The local users."""

    data: list[IdentityResponse]


class ExternalIdpResponse(BaseModel):
    """An external identity provider, without its secret."""

    id: str
    name: str
    issuer_url: str
    client_id: str
    scopes: str
    auto_provision: bool
    is_active: bool
    created_at: str


class ExternalIdpListWrapper(BaseModel):
    """The external identity providers."""

    data: list[ExternalIdpResponse]


class SuccessResponse(BaseModel):
    """The answer to a change."""

    message: str
    success: bool


class ErrorResponse(BaseModel):
    """The answer to a refusal or a failure."""

    error: str


class Grant(Body):
    """A role of an app."""

    app: NonEmpty
    role: NonEmpty


class IdentityAddRequest(Body):
    """A new local user."""

    username: NonEmpty
    password: NonEmpty
    roles: list[Grant] = Field(default_factory=list, max_length=100)


class IdentityEditRequest(Body):
    """A new password."""

    password: NonEmpty


class ExternalIdpAddRequest(Body):
    """A new external identity provider."""

    name: NonEmpty
    issuer_url: IssuerUrl
    client_id: NonEmpty
    client_secret: str | None = None
    scopes: Scopes | None = None
    auto_provision: bool | None = None
    is_active: bool | None = None

    def settings(self) -> IdentityProviderSettings:
        """What is declared, with the defaults."""
        return IdentityProviderSettings(**_given(self))


class ExternalIdpEditRequest(EditBody):
    """What changes of an external identity provider; a field that is left out stays."""

    name: NonEmpty | None = None
    issuer_url: IssuerUrl | None = None
    client_id: NonEmpty | None = None
    client_secret: str | None = None
    scopes: Scopes | None = None
    auto_provision: bool | None = None
    is_active: bool | None = None

    def over(self, current: IdentityProviderSettings) -> IdentityProviderSettings:
        """The current settings with what this edit carries."""
        return IdentityProviderSettings(**{**vars(current), **_given(self)})


def _given(body: BaseModel) -> dict[str, Any]:
    return {k: v for k, v in body.model_dump().items() if v is not None and k != "client_secret"}


class PasswordFields(Body):
    """The extension's password: clear text or an argon2id hash, and the operator's own mark of it."""

    password: str | None = None
    password_hash: str | None = None
    fingerprint: str = ""

    def secret(self) -> Password | None:
        """The password, or None when there is none. Raises Invalid when both forms are given."""
        if self.password and self.password_hash:
            raise invalid("password_hash", "must not be given together with password")
        if not (self.password or self.password_hash):
            return None
        return Password(self.password or "", self.password_hash or "", self.fingerprint)


class ExtendedIdentityAdd(PasswordFields):
    """The extension's new local user."""

    username: NonEmpty
    roles: list[Grant] = Field(default_factory=list, max_length=100)


class ExtendedIdentityEdit(PasswordFields, EditBody):
    """The extension's edit of a local user: password, roles, or both."""

    roles: list[Grant] | None = Field(default=None, max_length=100)


class ListedStep(Body):
    """A migration step that a caller was told of."""

    text: str
    loses_data: bool
    rows: int
    impossible: bool


class ExtendedInstall(Body):
    """The extension's install. listed: what may lose data with `allow_drops`, and nothing else."""

    allow_drops: bool = False
    listed: list[ListedStep] = Field(max_length=200_000)

    def steps(self) -> tuple[MigrationStep, ...]:
        return tuple(MigrationStep(one.text, one.loses_data, one.rows, one.impossible) for one in self.listed)


class ExtendedIdp(Body):
    """The extension's identity provider, whole."""

    name: NonEmpty
    issuer_url: IssuerUrl
    client_id: NonEmpty
    scopes: Scopes = "openid profile email"
    auto_provision: bool = False
    is_active: bool = True
    default_roles: dict[str, str] = Field(default_factory=dict, max_length=100)
    roles_claim: str = Field("", max_length=128)
    client_secret: str | None = None
    fingerprint: str = ""

    def settings(self) -> IdentityProviderSettings:
        """What is declared."""
        return IdentityProviderSettings(**self.model_dump(exclude={"client_secret", "fingerprint"}))

    def secret(self) -> Password | None:
        """The client secret, or None where it stays."""
        return None if self.client_secret is None else Password(self.client_secret, fingerprint=self.fingerprint)


def app_body(app: EngineApp) -> dict[str, Any]:
    """AppListResponse."""
    return {
        "id": app.id,
        "name": app.name,
        "author": app.author,
        "version": app.version,
        "availableVersions": ",".join(app.versions),
        "installed": app.installed,
        "persisted": app.persisted,
    }


def identity_body(identity: EngineIdentity) -> dict[str, Any]:
    """IdentityResponse."""
    return {"id": identity.id, "username": identity.username, "created_at": time_text(identity.created_at)}


def extended_identity_body(identity: EngineIdentity) -> dict[str, Any]:
    """IdentityResponse with the operator's mark of the password, and the roles."""
    return {**identity_body(identity), "fingerprint": identity.fingerprint, "roles": grants_body(identity.roles.items())}


def provider_body(provider: EngineIdentityProvider) -> dict[str, Any]:
    """ExternalIdpResponse."""
    settings = provider.settings
    return {
        "id": provider.id,
        "name": settings.name,
        "issuer_url": settings.issuer_url,
        "client_id": settings.client_id,
        "scopes": settings.scopes,
        "auto_provision": settings.auto_provision,
        "is_active": settings.is_active,
        "created_at": time_text(provider.created_at),
    }


def extended_provider_body(provider: EngineIdentityProvider) -> dict[str, Any]:
    """ExternalIdpResponse with the operator's mark of the secret, and what gives roles."""
    settings = provider.settings
    roles = {"default_roles": dict(settings.default_roles), "roles_claim": settings.roles_claim}
    return {**provider_body(provider), "fingerprint": provider.fingerprint, **roles}


def step_body(step: MigrationStep) -> dict[str, Any]:
    """A migration step of the extension."""
    return {"text": step.text, "loses_data": step.loses_data, "rows": step.rows, "impossible": step.impossible}


def grants_body(grants: Iterable[tuple[str, str]]) -> list[dict[str, str]]:
    """(app, role) pairs as the interface writes them."""
    return [{"app": app, "role": role} for app, role in grants]


def grants_of(grants: Sequence[Grant]) -> tuple[tuple[str, str], ...]:
    """The reverse of `grants_body`."""
    return tuple((grant.app, grant.role) for grant in grants)
