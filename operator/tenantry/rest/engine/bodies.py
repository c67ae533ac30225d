"""The bodies of the engine management interface, field by field, and how the engine's facts become them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Any

from pydantic import Field

from tenantry.model.facts import (
    EngineApp,
    EngineIdentity,
    EngineIdentityProvider,
    IdentityProviderSettings,
    MigrationStep,
    Password,
)
from tenantry.model.wording import worded
from tenantry.rest.bodies import AnswerBody, Body, EditBody, invalid, time_text

NonEmpty = Annotated[str, Field(min_length=1)]
_ISSUER = worded(r"^https?://[^\s/]+[^\s]*$", "must be the URL of an issuer, such as https://login.example.com")
_SCOPES = worded(r"^[\x21-\x7e]+( [\x21-\x7e]+)*$", "must be scopes with one space between them, such as openid profile email")
IssuerUrl = Annotated[
    str,
    Field(max_length=2048, pattern=_ISSUER, description="The URL of the issuer.", examples=["https://login.example.com"]),
]
Scopes = Annotated[
    str, Field(pattern=_SCOPES, description="The scopes to request, separated by spaces.", examples=["openid profile email"])
]
ProviderName = Annotated[
    str, Field(min_length=1, description="The name that people read, unique in the engine.", examples=["Company sign-in"])
]
ClientId = Annotated[str, Field(min_length=1, description="The id of the engine at the issuer.", examples=["tenantry"])]
ClientSecret = Annotated[
    str, Field(description="The secret of the engine at the issuer. It is never shown.", examples=["s3cret"])
]
AutoProvision = Annotated[bool, Field(description="True if a first sign-in makes a user.", examples=[False])]
IsActive = Annotated[bool, Field(description="True if people may sign in through it.", examples=[True])]
Username = Annotated[str, Field(min_length=1, description="The username, unique in the engine.", examples=["mia"])]
ClearPassword = Annotated[str, Field(min_length=1, description="8 to 1,024 characters.", examples=["correct horse battery"])]
Fingerprint = Annotated[str, Field(description="The operator's mark of the secret, kept and shown as it is.", examples=["5f2c"])]


class AppListResponse(AnswerBody):
    """An application."""

    id: str = Field(description="The id of the app.", examples=["crm"])
    name: str = Field(description="The name that people read.", examples=["CRM"])
    author: str = Field(description="The author, as the package says.", examples=["Example Ltd"])
    version: str = Field(description="The installed version, empty if none is installed.", examples=["1.1.0"])
    availableVersions: str = Field(  # noqa: N815 - the interface\'s own name
        description="The stored versions in the order of their uploads, joined by commas.", examples=["1.0.0,1.1.0"]
    )
    installed: bool = Field(description="True if a version is installed.", examples=[True])
    persisted: bool = Field(description="True if the database holds tables of the app.", examples=[True])


class AppListWrapper(AnswerBody):
    """The applications."""

    data: list[AppListResponse] = Field(description="The applications.")


class IdentityResponse(AnswerBody):
    """A local user."""

    id: str = Field(description="The id of the user.", examples=["c8a1b6de-7a0f-4b3e-9f39-2c1d5f0a8e11"])
    username: str = Field(description="The username.", examples=["mia"])
    created_at: str = Field(description="The time of creation.", examples=["2026-11-24T09:30:00Z"])


class IdentityListWrapper(AnswerBody):
    """The local users."""

    data: list[IdentityResponse] = Field(description="The local users.")


class ExternalIdpResponse(AnswerBody):
    """An external identity provider, without its secret."""

    id: str = Field(description="The id of the provider.", examples=["c8a1b6de-7a0f-4b3e-9f39-2c1d5f0a8e11"])
    name: str = Field(description="The name that people read.", examples=["Company sign-in"])
    issuer_url: str = Field(description="The URL of the issuer.", examples=["https://login.example.com"])
    client_id: str = Field(description="The id of the engine at the issuer.", examples=["tenantry"])
    scopes: str = Field(description="The requested scopes, separated by spaces.", examples=["openid profile email"])
    auto_provision: bool = Field(description="True if a first sign-in makes a user.", examples=[False])
    is_active: bool = Field(description="True if people may sign in through it.", examples=[True])
    created_at: str = Field(description="The time of creation.", examples=["2026-11-24T09:30:00Z"])


class ExternalIdpListWrapper(AnswerBody):
    """The external identity providers."""

    data: list[ExternalIdpResponse] = Field(description="The external identity providers.")


class SuccessResponse(AnswerBody):
    """The answer to a change."""

    message: str = Field(description="A sentence for people.", examples=["App crm is uninstalled"])
    success: bool = Field(description="Always true: failures have an error.", examples=[True])


class ErrorResponse(AnswerBody):
    """The answer to a refusal or a failure. traceId: of its trace, if the platform records traces."""

    error: str = Field(description="What is wrong, and where: `field: reason`.", examples=["slug: must not be empty"])
    traceId: str | None = Field(  # noqa: N815 - as REST shows it
        None, description="The trace of the request.", examples=["4bf92f3577b34da6a3ce929d0e0e4736"]
    )


class Grant(Body):
    """A role of an app."""

    app: NonEmpty = Field(description="The id of the app.", examples=["crm"])
    role: NonEmpty = Field(description="A role that its package declares.", examples=["editor"])


class IdentityAddRequest(Body):
    """A new local user."""

    username: Username
    password: ClearPassword
    roles: list[Grant] = Field(default_factory=list, max_length=100, description="The roles of the user.")


class IdentityEditRequest(Body):
    """A new password."""

    password: ClearPassword


class ExternalIdpAddRequest(Body):
    """A new external identity provider."""

    name: ProviderName
    issuer_url: IssuerUrl
    client_id: ClientId
    client_secret: ClientSecret | None = None
    scopes: Scopes | None = None
    auto_provision: AutoProvision | None = None
    is_active: IsActive | None = None

    def settings(self) -> IdentityProviderSettings:
        """Return the declaration, with the defaults."""
        return IdentityProviderSettings(**_given(self))


class ExternalIdpEditRequest(EditBody):
    """Changes of an external identity provider; a field that is left out stays."""

    name: ProviderName | None = None
    issuer_url: IssuerUrl | None = None
    client_id: ClientId | None = None
    client_secret: ClientSecret | None = None
    scopes: Scopes | None = None
    auto_provision: AutoProvision | None = None
    is_active: IsActive | None = None

    def over(self, current: IdentityProviderSettings) -> IdentityProviderSettings:
        """The current settings with what this edit carries."""
        return IdentityProviderSettings(**{**vars(current), **_given(self)})


def _given(body: Body) -> dict[str, Any]:
    return {k: v for k, v in body.model_dump().items() if v is not None and k != "client_secret"}


class PasswordFields(Body):
    """The extension's password: clear text or an argon2id hash, and the operator's own mark of it."""

    password: str | None = Field(None, description="8 to 1,024 characters.", examples=["correct horse battery"])
    password_hash: str | None = Field(
        None,
        description="The argon2id hash, in the PHC string format.",
        examples=["$argon2id$v=19$m=65536,t=3,p=4$c2FsdA$aGFzaA"],
    )
    fingerprint: Fingerprint = ""

    def secret(self) -> Password | None:
        """The password, or None when there is none. Raises Invalid when both forms are given."""
        if self.password and self.password_hash:
            raise invalid("password_hash", "must not be given together with password")
        if not (self.password or self.password_hash):
            return None
        return Password(self.password or "", self.password_hash or "", self.fingerprint)


class ExtendedIdentityAdd(PasswordFields):
    """The extension's new local user."""

    username: Username
    roles: list[Grant] = Field(default_factory=list, max_length=100, description="The roles of the user.")


class ExtendedIdentityEdit(PasswordFields, EditBody):
    """The extension's edit of a local user: password, roles, or both."""

    roles: list[Grant] | None = Field(default=None, max_length=100, description="The roles of the user.")


class ListedStep(Body):
    """A migration step from an earlier answer to the caller."""

    text: str = Field(description="The step in words.", examples=["adds column Customer.Phone"])
    loses_data: bool = Field(description="True if it can destroy data.")
    rows: int = Field(description="The rows that it concerns.")
    impossible: bool = Field(description="True if rows forbid it.")


class ExtendedInstall(Body):
    """The extension's install. listed: what may lose data with `allow_drops`, and nothing else."""

    allow_drops: bool = Field(False, description="True if the listed steps may lose data.")
    listed: list[ListedStep] = Field(max_length=200_000, description="The steps of the answer to the preview.")

    def steps(self) -> tuple[MigrationStep, ...]:
        return tuple(MigrationStep(one.text, one.loses_data, one.rows, one.impossible) for one in self.listed)


class ExtendedIdp(Body):
    """The extension's identity provider, whole."""

    name: ProviderName
    issuer_url: IssuerUrl
    client_id: ClientId
    scopes: Scopes = "openid profile email"
    auto_provision: AutoProvision = False
    is_active: IsActive = True
    default_roles: dict[str, str] = Field(default_factory=dict, max_length=100, description="The role of a new user in each app.")
    roles_claim: str = Field("", max_length=128, description="The claim that holds roles, empty for none.", examples=["roles"])
    client_secret: ClientSecret | None = None
    fingerprint: Fingerprint = ""

    def settings(self) -> IdentityProviderSettings:
        """Return the declaration."""
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
